#!/bin/bash
# Configures and builds a preset of CMakePresets.json: build.sh [preset] [ninja arguments...]. Output goes to build/<preset>.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
mkdir -p "build/$preset"
if ! cmake --preset "$preset" > "build/$preset/configure.log" 2>&1; then
  cat "build/$preset/configure.log"
  exit 1
fi
ninja -C "build/$preset" "${@:2}"
