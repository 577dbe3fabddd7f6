#!/usr/bin/env bash
# Checks the style of the Python package, in seconds and before anything is built: with the ruff of .venv-python, else with the
# same version in .venv-style, which this makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pinned=$(awk '/^ruff==/ { on = 1 } on { print } on && !/\\$/ { exit }' scripts/requirements/python.txt)
[[ "$pinned" == ruff==* ]] || { echo "check-python: scripts/requirements/python.txt names no ruff" >&2; exit 1; }
ruff=.venv-python/bin/ruff
if [[ ! -x "$ruff" ]]; then
  ruff=.venv-style/bin/ruff
  if [[ "$pinned" != "$(cat .venv-style/.pinned 2>/dev/null)" ]]; then
    rm -rf .venv-style
    python3 -m venv .venv-style
    scripts/wheels.sh install .venv-style/bin/python <(echo "$pinned")
    echo "$pinned" >.venv-style/.pinned
  fi
fi
"$ruff" check --quiet --config python/pyproject.toml python
echo "==> Python: style in order"
