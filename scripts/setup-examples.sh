#!/usr/bin/env bash
# Makes .venv-examples: a Python with numpy, for the baselines of the examples (examples/baselines/baselines.py).
set -euo pipefail
cd "$(dirname "$0")/.."
readonly requirements=scripts/requirements/examples.txt stamp=.venv-examples/.requirements
if cmp -s "$requirements" "$stamp"; then
  exit 0
fi
echo "==> Examples' environment: installing numpy into .venv-examples"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
rm -rf .venv-examples
"$python" -m venv .venv-examples
scripts/wheels.sh install .venv-examples/bin/python "$requirements"
cp "$requirements" "$stamp"
