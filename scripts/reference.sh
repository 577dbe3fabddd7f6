#!/usr/bin/env bash
# Writes the reference of the public headers (include/plimsoll) into build/docs as HTML.
# Fails if Doxygen warns, or if a type or a function has no comment. A field may do without one if its name says all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly settings=docs/reference/Doxyfile

mkdir -p build/docs
# A second reading without output lists everything that has no comment; the first one shows such members without a warning.
undocumented=$(doxygen - 2>&1 < <(cat "$settings"; printf '%s\n' 'EXTRACT_ALL = NO' 'GENERATE_HTML = NO' 'WARN_AS_ERROR = NO') |
  grep -E 'is not documented' | grep -v '(variable)' | sort -u || true)
if [[ -n "$undocumented" ]]; then
  echo "$undocumented" >&2
  echo "reference: these types and functions have no comment" >&2
  exit 1
fi
doxygen "$settings"
echo "==> docs: build/docs/index.html"
