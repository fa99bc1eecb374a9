#!/bin/bash
# Runs gpu_check of a build (the portable one by default) on this machine's GPU. Needs no packages: a driver, and NVRTC
# where gpu_check finds it or as $1.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(ls -t build/portable/bin/gpu_check build/*/bin/gpu_check 2>/dev/null | head -1)
[ -n "$program" ] || { echo "build first: cmake --preset portable && cmake --build --preset portable" >&2; exit 1; }
exec "$program" ${1:+--cinn_nvrtc="$1"} --numerics=docs/numerics.md --loops=tests/backends/golden
