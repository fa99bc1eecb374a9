#!/bin/bash
# What takes too long for the suite: one function a part. nightly.sh [part...]; without names all parts run, and the first
# that fails ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Random programs x random schedule steps, for a CPU and for a GPU: the interpreter before and after.
schedules() {
  tools/build.sh release ir_schedule_random_test
  CINN_TEST_ROUNDS=${CINN_TEST_ROUNDS:-10000} build/release/tests/ir_schedule_random_test
}

# Ten minutes of damaged texts through the compiler under AddressSanitizer: none ends the process.
fuzz() {
  tools/build.sh asan driver_fuzz_test
  mkdir -p build/fuzz_failures
  ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:detect_leaks=0 \
    CINN_FUZZ_SECONDS=600 CINN_FUZZ_FAILURES=$PWD/build/fuzz_failures build/asan/tests/driver_fuzz_test
}

parts=(schedules fuzz)

for part in "${@:-${parts[@]}}"; do
  if [[ " ${parts[*]} " != *" $part "* ]]; then
    echo "nightly: no part '$part'; there are ${parts[*]}"
    exit 1
  fi
  printf '\n== %s\n' "$part"
  "$part"
done
