#!/bin/bash
# What takes too long for the suite: one function a part. nightly.sh [part...]; without names all parts run, and the first
# that fails ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Random programs and kernels of graphs x random schedule steps: the interpreter before and after, for a CPU and for a
# GPU, and what runs on x86_64, as C, on OpenCL and on the dpu. Then those of tensor expressions in Python.
schedules() {
  tools/build.sh release cinn_like ir_schedule_random_test driver_schedules_test
  export CINN_TEST_ROUNDS=${CINN_TEST_ROUNDS:-10000}
  build/release/tests/ir_schedule_random_test
  build/release/tests/driver_schedules_test --gtest_filter='-*/opencl'
  opencl_schedules
  CINN_LIKE_BUILD_DIR=$PWD/build/release tools/install_wheel.sh
  CINN_TEST_ROUNDS=$((CINN_TEST_ROUNDS / 10)) .venv/bin/python -m pytest -q tests/python/test_te_random.py
}

# OpenCL's, by Intel's runtime for CPUs: PoCL 3.1 compiles a few of these kernels wrongly (docs/errors.md). In parts, because
# a process keeps what it has compiled.
opencl_schedules() {
  local runtime=$PWD/build/intel_opencl part=500 first
  python3 -m venv "$runtime"
  "$runtime/bin/pip" install -q --disable-pip-version-check intel-opencl-rt intel-cmplr-lib-rt
  echo "$runtime/lib/libintelocl.so" > "$runtime/intel.icd"
  for ((first = 0; first < CINN_TEST_ROUNDS; first += part)); do
    OCL_ICD_VENDORS=$runtime LD_LIBRARY_PATH=$runtime/lib CINN_TEST_ROUNDS=$part CINN_TEST_FIRST_ROUND=$first \
      build/release/tests/driver_schedules_test --gtest_filter='*/opencl' | tee "$runtime/part.log"
    grep -q 'PASSED  \] 1 test' "$runtime/part.log"  # not skipped
  done
}

# On a device of OpenCL (PoCL's is the CPU): every op's samples in every dtype, random graphs, and what PyTorch's ops and
# modules become.
opencl() {
  tools/build.sh release cinn_like driver_opencl_test
  CINN_TEST_ALL_SAMPLES=1 build/release/tests/driver_opencl_test
  CINN_LIKE_BUILD_DIR=$PWD/build/release tools/install_wheel.sh
  CINN_TEST_TARGET=opencl .venv/bin/python -m pytest -q \
    tests/python/test_{emit,gradients,modules,op_semantics,variants,views}.py
}

# Ten minutes of damaged texts through the compiler under AddressSanitizer: none ends the process.
fuzz() {
  tools/build.sh asan driver_fuzz_test
  mkdir -p build/fuzz_failures
  ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:detect_leaks=0 \
    CINN_FUZZ_SECONDS=600 CINN_FUZZ_FAILURES=$PWD/build/fuzz_failures build/asan/tests/driver_fuzz_test
}

# The suite under AddressSanitizer as in tools/test.sh, but with the stacks of functions that returned.
returned_stacks() {
  tools/build.sh asan
  ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:intercept_tls_get_addr=0 \
    ctest --test-dir build/asan --output-on-failure --parallel 2 --timeout 3600 --no-tests=error \
    -E '^(check_includes|install_consumer)$'
}

# The simplifier's rules by z3.
rules() {
  tools/setup.sh nightly
  tools/build.sh release ir_rules_z3_test
  build/release/tests/ir_rules_z3_test
}

# Ten minutes of libFuzzer for each of tests/fuzz: what breaks something is left in build/fuzz_failures (then it belongs
# into tests/fuzz/corpus), what was new in build/fuzz_corpus, where the next night begins.
libfuzzer() {
  tools/setup.sh nightly
  tools/build.sh fuzz fuzzers
  local name options
  for name in graph loops schedule library; do
    mkdir -p build/fuzz_failures "build/fuzz_corpus/$name"
    options=(-max_total_time="${CINN_FUZZ_SECONDS:-600}" -timeout=120 -rss_limit_mb=4096 -max_len=4096
             -artifact_prefix="build/fuzz_failures/$name-" -print_final_stats=1)
    if [ -e "tests/fuzz/$name.dict" ]; then options+=(-dict="tests/fuzz/$name.dict"); fi
    "build/fuzz/bin/${name}_fuzzer" "${options[@]}" "build/fuzz_corpus/$name" "tests/fuzz/corpus/$name"
  done
}

parts=(schedules rules opencl fuzz returned_stacks libfuzzer)

for part in "${@:-${parts[@]}}"; do
  if [[ " ${parts[*]} " != *" $part "* ]]; then
    echo "nightly: no part '$part'; there are ${parts[*]}"
    exit 1
  fi
  printf '\n== %s\n' "$part"
  "$part"
done
