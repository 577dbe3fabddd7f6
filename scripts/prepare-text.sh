#!/bin/sh
# Fetches real English text and GPT-2's vocabulary into .data/ (ignored by git), for tests, benches and examples.
#
#     .data/gcide.txt       40 MB of dictionary prose        Debian package dict-gcide (GPL-2+)
#     .data/gpt2.tiktoken   GPT-2's BPE ranks                PyPI package mlx-whisper (MIT)
#
# Installs nothing and needs no root. What is there already is checked against .data/SHA256SUMS and kept; each file is
# made aside and renamed, so a run that is cut short leaves no half file. PYTHON names the interpreter (python3).
set -eu

PYTHON=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
data=$root/.data
gcide=dict-gcide
whisper=mlx-whisper
ranks_sha256=306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930

say() { echo "prepare-text: $*"; }
fail() {
  say "$*" >&2
  exit 1
}

mkdir -p "$data"
work=$(mktemp -d "$data/.part-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Is $1 there, and as it was made? Says so when it is; stops when it is there and has changed.
have() {
  [ -f "$data/$1" ] || return 1
  line=$(grep "  $1\$" "$data/SHA256SUMS" 2>/dev/null || true)
  if [ -z "$line" ]; then
    say "$1 is there without a checksum: made again"
    return 1
  fi
  (cd "$data" && echo "$line" | sha256sum -c --status) ||
    fail ".data/$1 is not what .data/SHA256SUMS says; delete it and run this again"
  say "$1 is there"
}

# Gives $work/$1 its place in .data/, its checksum first: a file without one is made again.
keep() {
  { grep -v "  $1\$" "$data/SHA256SUMS" 2>/dev/null || true; } >"$work/sums"
  (cd "$work" && sha256sum "$1") >>"$work/sums"
  rm -f "$data/$1"
  mv "$work/sums" "$data/SHA256SUMS"
  mv "$work/$1" "$data/$1"
  say "$1 made, $(wc -c <"$data/$1") bytes"
}

if ! have gcide.txt; then
  say "downloading the Debian package $gcide"
  (cd "$work" && apt-get download "$gcide") >"$work/log" 2>&1 ||
    fail "cannot download $gcide with apt-get (no Debian, no network, or package lists missing): $(grep '^E:' "$work/log" | head -n 1)"
  dpkg-deb -x "$work/$gcide"_*.deb "$work/deb"
  say "unpacking and cleaning the text"
  # The header (everything before the first headword line, "0 \0\ adj.") is about the file. A few bytes are Windows-1252.
  gunzip -c <"$work/deb/usr/share/dictd/gcide.dict.dz" >"$work/raw" || fail "$gcide cannot be unpacked"
  "$PYTHON" -c '
import codecs, re, sys
codecs.register_error("cp1252", lambda e: (e.object[e.start:e.start + 1].decode("cp1252", "replace"), e.start + 1))
text = sys.stdin.buffer.read().decode("utf-8", "cp1252")
first = re.search(r"^\S.* \\\S.*\\", text, re.MULTILINE)
if first is None:
    sys.exit("no headword line found")
text = re.sub(r"[ \t]+$", "", text[first.start():], flags=re.MULTILINE)
sys.stdout.buffer.write((text.rstrip() + "\n").encode("utf-8"))
' <"$work/raw" >"$work/gcide.txt" || fail "$gcide holds no text as expected"
  keep gcide.txt
fi

if ! have gpt2.tiktoken; then
  say "downloading the PyPI package $whisper"
  "$root/scripts/wheels.sh" download "$PYTHON" "$work" "$root/scripts/requirements/text.txt" || exit 1
  "$PYTHON" -m zipfile -e "$work"/mlx_whisper-*.whl "$work/wheel" || fail "the wheel of $whisper cannot be unpacked"
  mv "$work/wheel/mlx_whisper/assets/gpt2.tiktoken" "$work/gpt2.tiktoken"
  echo "$ranks_sha256  $work/gpt2.tiktoken" | sha256sum -c --status || fail "gpt2.tiktoken of $whisper is not the known one"
  keep gpt2.tiktoken
fi

cat >"$work/README.txt" <<END
Made by scripts/prepare-text.sh; not part of Plimsoll, not to be committed. SHA256SUMS has the checksums.

gcide.txt      The Collaborative International Dictionary of English, version 0.48, from the Debian package $gcide.
               GNU General Public License, version 2 or later. Changed: header dropped, valid UTF-8, no trailing blanks.
gpt2.tiktoken  The byte-pair ranks of GPT-2, from the PyPI package $whisper, mlx_whisper/assets/gpt2.tiktoken. MIT license.
END
mv "$work/README.txt" "$data/README.txt"
say "done: .data/gcide.txt, .data/gpt2.tiktoken"
