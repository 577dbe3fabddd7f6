#!/usr/bin/env bash
# Builds a preset. Ninja knows what is finished; a second run does nothing.
#
#   scripts/build.sh PRESET [TARGET...]
#
# JOBS=n sets how many compilers run at once; the default is what the cores and the free memory allow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly preset=${1:?name a preset: scripts/build.sh PRESET [TARGET...] (cmake --list-presets shows them)}
shift
scripts/configure.sh "$preset"

# A source that includes libtorch takes up to 2 GiB to compile: no more compilers at once than memory has room for.
jobs=${JOBS:-}
if [[ -z "$jobs" ]]; then
  cores=$(nproc)
  fit=$(($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) / (2 * 1024 * 1024)))
  jobs=$((fit < 1 ? 1 : fit < cores ? fit : cores))
fi

targets=()
if (($# > 0)); then
  targets=(--target "$@")
fi
echo "==> build: ${*:-everything}, preset $preset"
exec cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
