#!/usr/bin/env bash
# Says what training the small language model on a kind of GPU needs and what of it is not here. With all of it there it
# says nothing and exits 0; it installs and builds nothing.
#
#   scripts/train-small.sh rocm|mps
#
# PLIMSOLL_TORCH_DIR=/path/to/site-packages/torch names the libtorch to build with, as for setup.sh. For tests,
# PLIMSOLL_SYSTEM stands for what `uname -s` answers and PLIMSOLL_DEV for /dev.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kind=${1:-}
readonly system=${PLIMSOLL_SYSTEM:-$(uname -s)} dev=${PLIMSOLL_DEV:-/dev}
missing=()

torch_dir() {
  if [[ -n "${PLIMSOLL_TORCH_DIR:-}" ]]; then
    echo "$PLIMSOLL_TORCH_DIR"
  else
    compgen -G '.venv/lib/python3*/site-packages/torch' || true
  fi
}

case "$kind" in
  rocm)
    config=amd card=rx6750xt name="an AMD GPU"
    [[ "$system" == Linux ]] || missing+=("Linux: AMD's driver for training is for it alone (this is $system)")
    [[ -e "$dev/kfd" ]] ||
      missing+=("an AMD GPU that its driver shows to programs ($dev/kfd): the amdgpu driver of ROCm, and a user in the group 'render'")
    [[ -e "$(torch_dir)/lib/libtorch_hip.so" ]] ||
      missing+=("libtorch 2.11.0 built for ROCm: install PyTorch's wheel for ROCm and name its folder by PLIMSOLL_TORCH_DIR=/path/to/site-packages/torch (what 'make setup' installs is for CPU and NVIDIA)")
    ;;
  mps)
    config=apple card=m1-16gb name="an Apple GPU"
    [[ "$system" == Darwin ]] || missing+=("macOS on Apple silicon (this is $system): Metal is there alone")
    [[ -e "$(torch_dir)/lib/libtorch_cpu.dylib" ]] ||
      missing+=("libtorch 2.11.0 for macOS: install PyTorch's wheel and name its folder by PLIMSOLL_TORCH_DIR=/path/to/site-packages/torch")
    ;;
  *)
    echo "train-small: name a kind of GPU, rocm or mps; 'make train-small' trains on the CPU" >&2
    exit 2
    ;;
esac

((${#missing[@]} > 0)) || exit 0
{
  echo "train-small-$kind trains examples/small-lm/$config.yaml on $name. It needs what is not here:"
  printf '  - %s\n' "${missing[@]}"
  echo "What works on this machine:"
  printf '  %-66s %s\n' "make train-small" "a smaller model, on the CPU" \
    "build/plimsoll plan examples/small-lm/$config.yaml --gpu $card" "what that card would hold, and how fast"
} >&2
exit 1
