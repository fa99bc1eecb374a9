#!/bin/sh
# Rewrites the expected part of every golden file with what the passes say now; look at `git diff` afterwards.
#   tools/bless.sh [build folder, default build/dev]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/dev}
for test in "$build"/tests/*golden_test; do
  BLESS=1 "$test"
done
git status --short tests/golden
