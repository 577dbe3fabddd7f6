#!/usr/bin/env bash
# Packs what the first minutes on an NVIDIA GPU need into a folder of at most 64 MiB: the program, the tests of the device, its
# libraries except those of the torch wheel, the bench, and the script that runs them there.
#
#     scripts/gpu-check.sh [FOLDER]                 FOLDER: build/gpu-check (default); replaced
#     BUILD=build-dev scripts/gpu-check.sh          packs another build
#     python3 FOLDER/run.py [--seconds 600]         there: needs Python 3.9 and the torch wheel of this build, nothing else
#
# Builds first, unless GPU_CHECK_BUILD=0. The code of kernels must suit the device: PLIMSOLL_CUDA_ARCHITECTURES of the build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD:-build} folder=${1:-${BUILD:-build}/gpu-check}
max_bytes=$((64 << 20))
[[ -n "$folder" && "$folder" != / ]] || { echo "gpu-check: name a folder that may be replaced" >&2; exit 2; }
if [[ -e "$folder" && ! -e "$folder/run.py" ]]; then
  echo "gpu-check: $folder exists and is no folder of gpu-check; name another one" >&2
  exit 2
fi
targets=(plimsoll_cli plimsoll_cuda cuda_tests)
if [[ "${GPU_CHECK_BUILD:-1}" != 0 ]]; then
  if [[ -n "${BUILD:-}" ]]; then cmake --build "$BUILD" --target "${targets[@]}" >&2; else scripts/build.sh release "${targets[@]}" >&2; fi
fi
programs=(plimsoll cuda_tests)
libraries=(libplimsoll.so.0 libplimsoll_jobs.so.0 libplimsoll_cuda.so.0)
for file in "${programs[@]}" "${libraries[@]}"; do
  [[ -e "$build/$file" ]] || { echo "gpu-check: $build/$file is missing; build plimsoll_cli, plimsoll_cuda and cuda_tests" >&2; exit 1; }
done

rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/bench/jobs"
for file in "${programs[@]}" "${libraries[@]}"; do cp -L "$build/$file" "$folder/bin/"; done
strip --strip-debug "$folder"/bin/* 2>/dev/null || true
# Libraries of this system that another one may lack. Every Linux has those of the compiler; the wheel brings torch's and CUDA's.
for file in "$folder"/bin/*; do readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; done | sort -u |
  grep -vE '^(libplimsoll|libtorch|libc10|libcu|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp)\.so|ld-linux)' | while read -r name; do
    path=$(ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }')
    [[ -n "$path" ]] || { echo "gpu-check: this machine has no $name to pack" >&2; exit 1; }
    cp -L "$path" "$folder/bin/"
  done
cp bench/throughput.py bench/eager_decoder.py bench/eager_common.py "$folder/bench/"
cp bench/jobs/qwen2.5-*.yaml "$folder/bench/jobs/"
cp scripts/gpu-check-run.py "$folder/run.py"
git rev-parse HEAD >"$folder/commit" 2>/dev/null || echo "not in git" >"$folder/commit"

bytes=$(du -sb "$folder" | cut -f1)
if ((bytes > max_bytes)); then
  echo "gpu-check: $folder has $((bytes >> 20)) MiB; at most $((max_bytes >> 20)) MiB are allowed" >&2
  exit 1
fi
echo "==> $folder: $((bytes >> 20)) MiB; run there: python3 $(basename "$folder")/run.py"
