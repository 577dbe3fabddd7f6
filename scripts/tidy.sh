#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy over the sources below src/.
#
#   scripts/tidy.sh [FOLDER_OR_FILE...]     default: src
#
# It has a build folder of its own, never built: clang cannot read GCC's precompiled headers, so the commands it follows
# must do without them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v run-clang-tidy >/dev/null; then
  echo "tidy: run-clang-tidy is not installed (apt-get install clang-tidy)" >&2
  exit 1
fi
scripts/configure.sh tidy
(($# > 0)) || set -- src
echo "==> tidy: $*"
# It counts what it hides in other people's headers, and repeats its command for every file: neither is a finding.
run-clang-tidy -quiet -p build-tidy -j "${JOBS:-$(nproc)}" "${@/#/^$PWD/}" 2>&1 |
  { grep -vP '^(\e\[[\d;]*m)*\d+ warnings?( and \d+ errors?)? generated\.$|^clang-tidy(-\d+)? .*-quiet ' || true; }
