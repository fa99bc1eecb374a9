#!/bin/bash
# Builds the wheel into dist/ and installs it into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -f dist/*.whl
.venv/bin/python -m pip wheel -qq --disable-pip-version-check --no-build-isolation --no-deps -w dist .
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
