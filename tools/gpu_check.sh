#!/bin/bash
# What a build (the portable one by default) does on this machine's GPU: gpu_check, then gpu_bench and gpu_calls where
# python3 has PyTorch. Needs no packages: a driver, and NVRTC where it is found or as $1. $OUT: the folder for their files.
set -uo pipefail
cd "$(dirname "$0")/.."
program=$(ls -t build/portable/bin/gpu_check build/*/bin/gpu_check 2>/dev/null | head -1)
[ -n "$program" ] || { echo "build first: cmake --preset portable && cmake --build --preset portable" >&2; exit 1; }
nvrtc=${1:-$(python3 -c 'import glob, os, torch
site = os.path.dirname(os.path.dirname(torch.__file__))
found = glob.glob(site + "/nvidia/**/libnvrtc.so.1*", recursive=True) + glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1*")
print(next((f for f in sorted(found) if "alt" not in f), ""))' 2>/dev/null)}
status=0
"$program" ${nvrtc:+--cinn_nvrtc="$nvrtc"} --numerics=docs/numerics.md --loops=tests/backends/golden || status=$?
if python3 -c 'import torch' 2>/dev/null; then
  library=$(ls "$(dirname "$program")"/../lib/libcinn_like.so* | tail -1)
  export CINN_LIKE_LIBRARY=$library
  python3 tools/gpu_bench.py "${OUT:-build/gpu_bench}" || status=$?
  python3 tools/gpu_calls.py --out "${OUT:-build/gpu_bench}" || status=$?
fi
exit $status
