#!/usr/bin/env bash
# Makes one wheel that works with several torches: a build for each, in a folder of its own, side by side in the wheel.
#
#     scripts/wheel-torches.sh 2.11 2.15     build/ and build-torch-2.15/ become dist/plimsoll-VERSION-….whl
#
# The version of .venv is built in build/, as by `make wheel`, the others in build-torch-VERSION/.
# The headers and the CMake package of the wheel are those of the first. `make wheel TORCH=2.11,2.15` runs this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($# > 0)) || { echo "wheel-torches: name the versions of torch, such as 2.11 2.15" >&2; exit 1; }

jobs=${JOBS:-$(nproc)} folders=() more=()
[[ -z "${PLIMSOLL_CUDA_ARCHITECTURES:-}" ]] || more+=("-DPLIMSOLL_CUDA_ARCHITECTURES:STRING=$PLIMSOLL_CUDA_ARCHITECTURES")
for series in "$@"; do
  PLIMSOLL_TORCH=$series scripts/setup.sh
  if [[ ! -d ".venv-torch-$series" ]]; then
    env -u PLIMSOLL_TORCH scripts/build.sh release plimsoll_installed
    folders+=(build)
    continue
  fi
  torch=$(compgen -G "$PWD/.venv-torch-$series/lib/python3*/site-packages/torch" || true)
  folder=build-torch-$series
  echo "==> configure: torch $series into $folder/"
  cmake --preset release -B "$folder" "-DPLIMSOLL_TORCH_DIR:PATH=$torch" "${more[@]}" >/dev/null
  echo "==> build: torch $series"
  cmake --build "$folder" --parallel "$jobs" --target plimsoll_installed
  folders+=("$folder")
done
scripts/wheel.py --build "${folders[@]}" ${WHEEL_ARGS:-}
