#!/usr/bin/env bash
# Makes .venv-python: a Python that imports torch, for the tests of the Python package, and the libraries whose models they train.
# The CUDA build of the torch wheel needs all of its dependencies to be imported, some 4 GB, even where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly requirements=(scripts/requirements/{torch,torch-gpu,python,notebook}.txt)
readonly stamp=.venv-python/.requirements
if cmp -s <(cat "${requirements[@]}") "$stamp"; then
  echo "==> Python environment: already there"
  exit 0
fi
echo "==> Python environment: installing torch with its dependencies, transformers, timm, diffusers, MONAI, torch_geometric and nbconvert into .venv-python"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
rm -rf .venv-python
"$python" -m venv .venv-python
scripts/wheels.sh install .venv-python/bin/python "${requirements[@]}"
cat "${requirements[@]}" >"$stamp"
echo "==> Python environment: done"
