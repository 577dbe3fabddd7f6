#!/usr/bin/env bash
# Tests the Python package of a build: types, style, training beside eager PyTorch, errors, the rest of the process.
#
#     scripts/test-python.sh [BUILD]     BUILD: build (default). PLIMSOLL_TEST_SEED draws which architectures are
#                                        trained; not set: the committed tree does, so that a commit has one result on any day.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
python=$PWD/.venv-python/bin
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$build/python/cache OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1
tree=$(git rev-parse --short=6 'HEAD^{tree}' 2>/dev/null || echo 0)
export PLIMSOLL_TEST_SEED=${PLIMSOLL_TEST_SEED:-$((16#${tree:0:6}))}
scripts/check-python.sh
(cd python && "$python/mypy" plimsoll)
cd python/tests
for part in training process blocks values attention written_attention cross_entropy loss_rows layout norms random state errors citizen notebook operators architectures dry_cuda; do
  echo "==> python: $part"
  "$python/python" -m unittest "test_$part"
done
echo "==> python: all tests passed"
