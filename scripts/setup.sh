#!/usr/bin/env bash
# Puts in place what a build needs: Debian packages, and libtorch from the torch wheel in .venv.
# A second run installs nothing and says so.
#
#   scripts/setup.sh            everything
#   scripts/setup.sh packages   only the Debian packages
#   scripts/setup.sh torch      only .venv
#   scripts/setup.sh fuzz      only clang with libFuzzer, and the packages that the fuzz targets need
#   scripts/setup.sh doxygen    only doxygen, which writes the reference of the public headers
#   scripts/setup.sh lists      the lists that apt-get downloads by, where a slim image left them out
#
# PLIMSOLL_TORCH_DIR=/path/to/site-packages/torch takes libtorch from there: no .venv is made. PLIMSOLL_TORCH=2.15 (make TORCH=2.15)
# installs that version beside .venv, into .venv-torch-2.15, without what a GPU needs and without the CUDA compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Versions and hashes of the wheels; scripts/pin-python.py writes the hashes. Without a GPU, torch.txt leaves out most of what the
# torch wheel asks for: that is of use to a GPU or to Python only, and is several times the size. PLIMSOLL_CUDA=off leaves out the
# compiler for NVIDIA devices, and with it the backend for these devices.
readonly requirements=scripts/requirements
version_in() { sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$requirements/$1"; } # file of scripts/requirements
series=${PLIMSOLL_TORCH:-}
[[ "$(version_in torch.txt)" != "$series".* ]] || series=""
readonly series torch_file=torch${series:+-$series}.txt
if [[ ! -f "$requirements/$torch_file" ]]; then
  allowed=$(for file in "$requirements"/torch.txt "$requirements"/torch-*[0-9].txt; do
    version_in "${file##*/}" | cut -d. -f1,2
  done | paste -sd,)
  echo "setup: PLIMSOLL_TORCH is '$series'; allowed: ${allowed//,/, }; set one of them, or set PLIMSOLL_TORCH_DIR to the torch folder" \
    "of an installed wheel" >&2
  exit 1
fi
torch_version=$(version_in "$torch_file")
readonly torch_version
readonly packages=(
  g++ cmake ninja-build ccache pkg-config python3 python3-venv git ca-certificates
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev libgmock-dev libbenchmark-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev libsentencepiece-dev
  libavformat-dev libavcodec-dev libavutil-dev libswscale-dev libswresample-dev
)
# clang with libFuzzer.
readonly fuzz_packages=(clang libclang-rt-dev)
readonly venv=.venv${series:+-torch-$series}
readonly stamp=$venv/.plimsoll-torch

say() { echo "==> $*"; }
die() {
  echo "setup: $*" >&2
  exit 1
}

# Runs a command whose output matters only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status != 0)); then
    tail -n 40 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

missing_packages() { # packages
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016  # the field is for dpkg-query to expand
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || echo "$package"
  done
}

need_root() { # what the user should have an administrator run
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "this takes root or sudo, and neither is here. Ask an administrator to run: $1"
    as_root=(sudo)
  fi
}

update_lists() {
  quietly "${as_root[@]}" apt-get update -q ||
    die "'apt-get update' failed (its output is above). Check the network and /etc/apt, then run this again."
}

# Fresh images often have every package and no lists; apt-get can download nothing then.
ensure_lists() {
  if ! command -v apt-cache >/dev/null || [[ -n "$(apt-cache search --names-only '^dict-gcide$' 2>/dev/null)" ]]; then
    say "Debian package lists: all there"
    return
  fi
  need_root "apt-get update"
  say "Debian package lists: updating"
  update_lists
}

install_packages() { # packages
  if ! command -v dpkg-query >/dev/null; then
    say "Debian packages: this is not Debian; install the equivalents yourself of: $*"
    return
  fi
  local missing=()
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all there"
    return
  fi
  say "Debian packages: installing ${missing[*]}"
  need_root "apt-get install ${missing[*]}"
  # A fresh machine has no package lists, an old one has stale ones: an update is due either way.
  update_lists
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" ||
    die "'apt-get install' failed (its output is above) for: ${missing[*]}"
}

has_nvidia_gpu() {
  [[ -e /dev/nvidia0 || -e /usr/lib/wsl/lib/libcuda.so.1 || "$(nvidia-smi -L 2>/dev/null)" == GPU\ * ]]
}

# A Python that can make virtual environments and for which torch has a wheel. Debian's own comes first: it stays in
# place when a version manager switches the one on PATH.
find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, venv, sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  die "no Python from 3.10 to 3.14 with the venv module was found (tried /usr/bin/python3 and python3)." \
    "On Debian: apt-get install python3 python3-venv"
}

torch_dir() { compgen -G "$venv/lib/python3*/site-packages/torch" || true; }

has_cuda_headers() { compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13/include/crt/host_defines.h" >/dev/null; }

check_disk() { # MiB needed
  local free
  free=$(df --output=avail -m . | tail -n 1)
  ((free >= $1)) || die "installing torch takes $1 MiB on the disk of $PWD (a third of it only meanwhile), and" \
    "$((free)) MiB are free. Free some, or set PLIMSOLL_TORCH_DIR to the torch folder of an installed torch $torch_version."
}

pip_install() { # files of scripts/requirements
  local attempt status
  # pip unpacks what it downloads under TMPDIR, and /tmp is often a small RAM disk; a cache would be a second copy.
  mkdir -p "$venv/tmp"
  for attempt in 1 2 3; do
    status=0
    TMPDIR="$PWD/$venv/tmp" scripts/wheels.sh install "$venv/bin/python" "${@/#/$requirements/}" || status=$?
    ((status != 0)) || break
    # A wheel with another hash stays one; the line above says all.
    ((status != 3)) || {
      rm -rf "$venv/tmp"
      exit 1
    }
    say "torch: attempt $attempt of 3 failed"
    sleep $((attempt * 5))
  done
  rm -rf "$venv/tmp"
  ((status == 0)) || die "the wheels of $* are not installed (the reason is above). Run this again when it is mended."
}

# What is there must load: a wheel for another machine, or a CUDA library missing, is better found now than by a linker.
check_loads() {
  [[ -n "$(torch_dir)" ]] || die "torch $torch_version has no wheel for the Python of $venv ($("$venv/bin/python" -V)); install a newer Python," \
    "remove $venv and run this again."
  "$venv/bin/python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$(torch_dir)/lib/libtorch_cpu.so" ||
    die "libtorch_cpu.so is in $venv and does not load (the reason is above). Remove $venv and run this again."
}

install_torch() {
  if [[ -n "${PLIMSOLL_TORCH_DIR:-}" ]]; then
    [[ -f "$PLIMSOLL_TORCH_DIR/lib/libtorch_cpu.so" ]] ||
      die "PLIMSOLL_TORCH_DIR is '$PLIMSOLL_TORCH_DIR', and there is no lib/libtorch_cpu.so in it. Set it to the torch" \
        "folder of an installed wheel (…/site-packages/torch), or unset it to have torch installed into $venv."
    say "torch: taken from PLIMSOLL_TORCH_DIR ($PLIMSOLL_TORCH_DIR)"
    return
  fi
  local flavor=cpu had=""
  [[ -n "$series" ]] || ! has_nvidia_gpu || flavor=gpu
  local compiler=()
  [[ -n "$series" || "${PLIMSOLL_CUDA:-}" == off ]] || compiler=(cuda-compiler.txt)
  [[ ! -f "$stamp" ]] || had=$(<"$stamp")
  # The GPU's set holds all that the CPU's does: it stays good when the GPU goes away.
  if [[ "$had" == "$torch_version $flavor" || "$had" == "$torch_version gpu" ]] &&
    [[ -f "$(torch_dir)/lib/libtorch_cpu.so" ]]; then
    # A .venv that was made before all of torch.txt was wanted. pip leaves alone what is there.
    if ! has_cuda_headers || ! compgen -G "$venv/lib/python3*/site-packages/typing_extensions.py" >/dev/null; then
      pip_install "$torch_file"
    fi
    say "torch: $torch_version already there"
    if ((${#compiler[@]} > 0)) && ! compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc" >/dev/null; then
      say "CUDA compiler: installing it beside torch (no device is needed; PLIMSOLL_CUDA=off leaves it out)"
      pip_install "${compiler[@]}"
    fi
    return
  fi
  local python
  python=$(find_python)
  # Another version comes without the CUDA compiler.
  if [[ "$flavor" == gpu ]]; then check_disk 8500; elif [[ -n "$series" ]]; then check_disk 2000; else check_disk 3000; fi
  say "torch: installing $torch_version into $venv (with what a ${flavor^^} needs; some minutes on a slow line)"
  rm -f "$stamp"
  # Anything half-done, or left by another Python, goes: one environment must hold exactly one torch.
  [[ -n "$had" && -x "$venv/bin/python" ]] || quietly "$python" -m venv --clear "$venv" ||
    die "'$python -m venv $venv' failed (its output is above)."
  local gpu=()
  [[ "$flavor" != gpu ]] || gpu=(torch-gpu.txt)
  pip_install "$torch_file" "${gpu[@]}" "${compiler[@]}"
  check_loads
  echo "$torch_version $flavor" >"$stamp"
}

case "${1:-all}" in
  all)
    install_packages "${packages[@]}"
    install_torch
    ;;
  packages) install_packages "${packages[@]}" ;;
  doxygen) install_packages doxygen ;;
  fuzz) install_packages "${packages[@]}" "${fuzz_packages[@]}" ;;
  lists) ensure_lists ;;
  torch) install_torch ;;
  *) die "unknown part '$1': packages, torch, fuzz, doxygen, lists, or nothing for the first two" ;;
esac
