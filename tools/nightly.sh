#!/bin/bash
# What takes too long for the suite: one function a part. nightly.sh [part...]; without names all parts run, and the first
# that fails ends it. Wants a release build (tools/build.sh release).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${CINN_NIGHTLY_BUILD:-build/release}

# Random programs x random schedule steps: the interpreter before and after.
schedules() {
  CINN_TEST_ROUNDS=${CINN_TEST_ROUNDS:-10000} "$build/tests/ir_schedule_random_test"
}

parts=(schedules)

for part in "${@:-${parts[@]}}"; do
  if [[ " ${parts[*]} " != *" $part "* ]]; then
    echo "nightly: no part '$part'; there are ${parts[*]}"
    exit 1
  fi
  echo "== $part"
  "$part"
done
