#!/bin/bash
# Sets up, builds and runs every test: C++ tests and examples (release), the same under AddressSanitizer and
# UndefinedBehaviorSanitizer, the threading tests under ThreadSanitizer, the portable archive's promises, and pytest against
# the installed wheel. The last line counts.
set -euo pipefail
cd "$(dirname "$0")/.."
results=build/test_results
rm -rf "$results"
mkdir -p "$results"


step() { printf '\n== %s (after %d s)\n' "$1" "$SECONDS"; }
record() {  # name, failures: one test in a report of its own
  printf '<testsuite tests="1" failures="%d"><testcase name="%s"/></testsuite>\n' "$2" "$1" > "$results/$1.xml"
}
check() {  # name, command...: the command is one test
  step "$1"
  if "${@:2}"; then record "$1" 0; else record "$1" 1; return 1; fi
}
run_tests() {  # report, command...: the command writes the report; one that dies without it is a failed test
  if ! "${@:2}" && [ ! -s "$results/$1.xml" ]; then record "$1" 1; fi
}
run_ctest() {  # preset, ctest arguments...
  run_tests "ctest_$1" ctest --test-dir "build/$1" --output-on-failure --parallel 2 --timeout 300 --no-tests=error \
    --output-junit "$PWD/$results/ctest_$1.xml" "${@:2}"
}

check setup tools/setup.sh || true
export VIRTUAL_ENV=$PWD/.venv  # where NVRTC is
if check build_release tools/build.sh release; then run_ctest release; fi

export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
if check build_asan tools/build.sh asan; then run_ctest asan -E '^(check_includes|install_consumer)$'; fi

export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp"
if check build_tsan tools/build.sh tsan threads; then run_ctest tsan -L threads; fi

if check package tools/package.sh && check wheel env CINN_LIKE_BUILD_DIR="$PWD/build/portable" tools/install_wheel.sh; then
  step pytest
  run_tests pytest .venv/bin/python -m pytest -q --junitxml "$results/pytest.xml" tests/python
fi

step done
python3 - "$results" <<'PY'
import pathlib, sys, xml.etree.ElementTree as tree
passed = failed = skipped = 0
for path in pathlib.Path(sys.argv[1]).glob("*.xml"):
    for suite in tree.parse(path).getroot().iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skip = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
        failed, skipped, passed = failed + bad, skipped + skip, passed + int(suite.get("tests")) - bad - skip
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or not passed else 0)
PY
