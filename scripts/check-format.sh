#!/usr/bin/env bash
# Checks that the C++ sources are formatted as .clang-format says; --fix formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  "") readonly mode=(--dry-run -Werror) ;;
  --fix) readonly mode=(-i) ;;
  *)
    echo "check-format: unknown argument '$1': --fix, or nothing to check only" >&2
    exit 1
    ;;
esac
if ! command -v clang-format >/dev/null; then
  echo "==> format: clang-format is not installed (apt-get install clang-format): nothing done"
  exit 0
fi

# What git knows, and new files that it does not ignore; a file deleted and not yet committed is still listed.
# (Not read from a process substitution: a git that fails must fail the check, not empty the list.)
# A checkout that another user owns, as in some containers, is fine to list.
listed=$(git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.cuh')
sources=()
while IFS= read -r source; do
  [[ ! -f "$source" ]] || sources+=("$source")
done <<<"$listed"
if ((${#sources[@]} == 0)); then
  echo "==> format: no sources"
  exit 0
fi
if ! clang-format --style=file "${mode[@]}" "${sources[@]}"; then
  echo "==> format: the places above are not as .clang-format says; 'make format' puts them right" >&2
  exit 1
fi
echo "==> format: ${#sources[@]} files in order"
