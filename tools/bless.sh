#!/bin/sh
# Rewrites the expected part of every golden file with what comes out now; look at `git diff` afterwards.
#   tools/bless.sh [build folder, default build/release]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
for test in $(grep -l golden_file.h tests/*/*_test.cc); do
  name=${test#tests/}
  BLESS=1 "$build/tests/$(echo "${name%.cc}" | tr / _)"
done
BLESS=1 CINN_TOOLS="$build/bin" .venv/bin/python -m pytest -q tests/python/test_tools.py
git status --short tests
