#!/bin/bash
# What takes too long for every change: nightly.sh [part...], all parts without arguments. A part is a function below.
set -euo pipefail
cd "$(dirname "$0")/.."

# Ten minutes of damaged texts through the compiler under AddressSanitizer: none ends the process.
fuzz() {
  tools/build.sh asan driver_fuzz_test
  mkdir -p build/fuzz_failures
  ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:detect_leaks=0 \
    CINN_FUZZ_SECONDS=600 CINN_FUZZ_FAILURES=$PWD/build/fuzz_failures build/asan/tests/driver_fuzz_test
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(fuzz)
for part in "${parts[@]}"; do
  printf '\n== %s\n' "$part"
  "$part"
done
