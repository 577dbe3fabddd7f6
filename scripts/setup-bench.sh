#!/usr/bin/env bash
# Makes .venv-bench: a Python that can run eager PyTorch 2.11.0, the peer that bench/step_time.py measures, and torchao and
# bitsandbytes, those of bench/lean_state.py. The CUDA build of the wheel needs all of its dependencies to be imported, some
# 4 GB, even where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
if .venv-bench/bin/python -c 'import torch, numpy, torchao, bitsandbytes' 2>/dev/null; then
  echo "==> Bench environment: already there"
  exit 0
fi
echo "==> Bench environment: installing torch 2.11.0 with its dependencies, torchao and bitsandbytes into .venv-bench"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
"$python" -m venv .venv-bench
scripts/wheels.sh install .venv-bench/bin/python scripts/requirements/{torch,torch-gpu,bench}.txt
echo "==> Bench environment: done"
