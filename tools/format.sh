#!/bin/bash
# Formats our C and C++ files in place; `format.sh --check` only says whether that would change anything.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run -Werror); fi
command -v clang-format-19 > /dev/null || { echo "format: apt-get install clang-format-19"; exit 1; }
git ls-files '*.h' '*.c' '*.cc' | xargs -r clang-format-19 "${mode[@]}"
