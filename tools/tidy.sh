#!/bin/bash
# Lints files (all of ours by default) with .clang-tidy, with the flags of build/dev.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy-19 > /dev/null || { echo "tidy: apt-get install clang-tidy-19"; exit 1; }
cmake --preset dev > /dev/null
if [ $# = 0 ]; then mapfile -t files < <(git ls-files '*.cc'); else files=("$@"); fi
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build/dev --quiet --warnings-as-errors='*'
