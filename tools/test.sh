#!/bin/bash
# Sets up, builds and runs every test: C++ tests and examples (release), the same under AddressSanitizer and
# UndefinedBehaviorSanitizer, the threading tests under ThreadSanitizer, the portable archive's promises, and pytest against
# the installed wheel. Ends with what each step took, what was skipped and why, what failed, and the count.
set -euo pipefail
cd "$(dirname "$0")/.."
results=$PWD/build/test_results
rm -rf "$results"
mkdir -p "$results"

step() {  # name, command...: says how long the command took
  local status=0 start=$SECONDS
  printf '\n== %s\n' "$1"
  "${@:2}" || status=$?
  printf '%s\t%d\n' "$1" $((SECONDS - start)) >> "$results/seconds.tsv"
  return $status
}
record() {  # name, failures: one test in a report of its own
  printf '<testsuite tests="1" failures="%d"><testcase name="%s">%s</testcase></testsuite>\n' "$2" "$1" \
    "$([ "$2" = 0 ] || echo '<failure message="see above"/>')" > "$results/$1.xml"
}
check() {  # name, command...: the command is one test
  if step "$@"; then record "$1" 0; else record "$1" 1; return 1; fi
}
run_tests() {  # name, command...: the command writes the report <name>.xml; one that dies without it is a failed test
  if ! step "$@" && [ ! -s "$results/$1.xml" ]; then record "$1" 1; fi
}
run_ctest() {  # preset, ctest arguments...
  export GTEST_OUTPUT=xml:$results/gtest_$1/
  run_tests "ctest_$1" ctest --test-dir "build/$1" --output-on-failure --parallel 2 --timeout 600 --no-tests=error \
    --output-junit "$results/ctest_$1.xml" "${@:2}"
  unset GTEST_OUTPUT
}

check setup tools/setup.sh || true
if check build_release tools/build.sh release; then
  VIRTUAL_ENV=$PWD/.venv run_ctest release  # with NVRTC, which needs no GPU
fi

# The leak checker takes what it intercepts for thread-local memory of libraries that were opened, and reads where there is none: it
# died as a process with an OpenCL device ended. Stacks of functions that returned are looked at by tools/nightly.sh: with
# them tests take 2.3 times as long.
export ASAN_OPTIONS=detect_stack_use_after_return=0:malloc_context_size=5:allocator_may_return_null=1:intercept_tls_get_addr=0
export UBSAN_OPTIONS=print_stacktrace=1
if check build_asan tools/build.sh asan; then run_ctest asan -E '^(check_includes|install_consumer)$'; fi

export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp"
if check build_tsan tools/build.sh tsan threads; then run_ctest tsan -L threads; fi

if check package tools/package.sh && check wheel env CINN_LIKE_BUILD_DIR="$PWD/build/portable" tools/install_wheel.sh; then
  VIRTUAL_ENV=$PWD/.venv run_tests pytest .venv/bin/python -m pytest -q -n 2 --dist loadfile \
    --junitxml "$results/pytest.xml" tests/python
fi
python3 tools/summarize_tests.py "$results"
