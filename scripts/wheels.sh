#!/usr/bin/env bash
# Installs or downloads the wheels that files of scripts/requirements list, by their sha256 hashes. No source archive is taken, so
# nothing but pip itself runs.
#
#   scripts/wheels.sh install PYTHON FILE...
#   scripts/wheels.sh download PYTHON FOLDER FILE...
#
# A failure prints one line on standard error and exits with 1; a hash that differs exits with 3, because another try is of no use.
set -euo pipefail

readonly options=(--quiet --disable-pip-version-check --no-input --retries 5
  --require-hashes --only-binary=:all: --no-deps)

fail() { # status, words of the message
  local status=$1
  shift
  echo "wheels: $*" >&2
  exit "$status"
}

(($# >= 3)) || fail 1 "usage: wheels.sh install PYTHON FILE... | download PYTHON FOLDER FILE..."
readonly action=$1 python=$2
shift 2
command=(install --progress-bar off --no-cache-dir)
if [[ "$action" == download ]]; then
  command=(download --progress-bar off --dest "$1")
  shift
elif [[ "$action" != install ]]; then
  fail 1 "the action is '$action'; allowed: install, download"
fi
files=()
for file in "$@"; do
  [[ -r "$file" ]] || fail 1 "$file cannot be read"
  files+=(-r "$file")
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Variables of the user's that would take packages from elsewhere than the environment at hand.
if ! env -u PIP_TARGET -u PIP_PREFIX -u PIP_NO_BINARY PIP_USER=0 PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}" \
  "$python" -m pip "${command[@]}" "${options[@]}" "${files[@]}" >"$log" 2>&1 </dev/null; then
  if grep -q 'DO NOT MATCH THE HASHES' "$log"; then
    # pip's lines are "NAME==VERSION from ADDRESS (from -r FILE (line N)):", "Expected sha256 HASH", "or HASH", "Got HASH".
    name=$(grep -A 1 'DO NOT MATCH THE HASHES' "$log" | sed -n '2s/^ *\([^ ]*\) .*/\1/p')
    got=$(sed -n 's/^ *Got *\([0-9a-f]*\).*/\1/p' "$log" | head -n 1)
    fail 3 "the wheel of $name has sha256 $got, which $* does not list; nothing was taken; find out who changed the wheel" \
      "(scripts/pin-python.py writes the hashes of a new version)"
  fi
  fail 1 "pip could not $action the wheels of $*: $({ grep -E '^ERROR' "$log" || cat "$log"; } | tail -n 1); check the network"
fi
