#!/usr/bin/env bash
# Runs CMake for a preset where that is due: the first time, when the presets changed, when libtorch moved. What changes
# in CMakeLists.txt files is Ninja's to notice.
#
#   scripts/configure.sh PRESET
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# != 1)); then
  echo "configure: name one preset: scripts/configure.sh PRESET (cmake --list-presets shows them)" >&2
  exit 1
fi
readonly preset=$1
case "$preset" in
  release) readonly folder=build ;;
  *) readonly folder=build-$preset ;;
esac

# The torch folder to use. It differs from the one in the cache when PLIMSOLL_TORCH_DIR was set or unset since, or when
# .venv was made anew by another Python. PLIMSOLL_TORCH names another version that scripts/setup.sh has installed.
if [[ -n "${PLIMSOLL_TORCH_DIR:-}" ]]; then
  torch=$(realpath -ms "$PLIMSOLL_TORCH_DIR")
elif [[ -n "${PLIMSOLL_TORCH:-}" && -d ".venv-torch-$PLIMSOLL_TORCH" ]]; then
  torch=$(compgen -G "$PWD/.venv-torch-$PLIMSOLL_TORCH/lib/python3*/site-packages/torch" || true)
else
  torch=$(compgen -G "$PWD/.venv/lib/python3*/site-packages/torch" || true)
fi
# CUDA kernels for other devices than those of a release: PLIMSOLL_CUDA_ARCHITECTURES, as in cmake/Cuda.cmake.
# Without it, what an earlier run of .ci/run has left in the cache gives way to the default.
more=()
if [[ -z "${PLIMSOLL_CUDA_ARCHITECTURES:-}" ]] &&
  grep -qsxF -e 'PLIMSOLL_CUDA_ARCHITECTURES:STRING=75-virtual;90-virtual' "$folder/CMakeCache.txt"; then
  PLIMSOLL_CUDA_ARCHITECTURES='75-virtual;80;90'
fi
[[ -z "${PLIMSOLL_CUDA_ARCHITECTURES:-}" ]] || more+=("-DPLIMSOLL_CUDA_ARCHITECTURES:STRING=$PLIMSOLL_CUDA_ARCHITECTURES")
if [[ -f $folder/build.ninja && ! CMakePresets.json -nt $folder/build.ninja ]] &&
  grep -qxF -e "PLIMSOLL_TORCH_DIR:PATH=$torch" "$folder/CMakeCache.txt" &&
  { ((${#more[@]} == 0)) || grep -qxF -e "${more[0]#-D}" "$folder/CMakeCache.txt"; }; then
  exit 0
fi

echo "==> configure: preset $preset into $folder/"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" "-DPLIMSOLL_TORCH_DIR:PATH=$torch" "${more[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
