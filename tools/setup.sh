#!/bin/bash
# Installs what building, testing and the demo need. `setup.sh system`: Debian packages; `setup.sh python`: .venv in the
# checkout; without an argument both. `setup.sh nightly`: what tools/nightly.sh takes beside them. Does nothing where
# everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}

# Those that a file lists.
packages() {
  local missing=() package
  for package in $(grep -v '^#' "$1"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  echo "setup: apt-get install ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

python() {
  if cmp -s tools/requirements.txt .venv/requirements.txt; then return; fi
  echo "setup: pip install -r tools/requirements.txt (into .venv)"
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  .venv/bin/python -m pip install -qq --disable-pip-version-check -r tools/requirements.txt
  cp tools/requirements.txt .venv/requirements.txt
}

if [ "$what" != python ]; then packages tools/packages.txt; fi
if [ "$what" != system ]; then python; fi
if [ "$what" = nightly ]; then packages tools/nightly_packages.txt; fi
