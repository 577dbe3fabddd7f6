#!/usr/bin/env bash
# Writes the sources of the last commit as dist/plimsoll-VERSION-source.tar.gz, and says where it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^project(plimsoll VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
git rev-parse --verify --quiet HEAD >/dev/null || {
  echo "source-archive: this folder is no git repository; the archive is made of its last commit" >&2
  exit 1
}
[[ -z "$(git status --porcelain --untracked-files=no)" ]] ||
  echo "==> sources: there are changes that are not committed; the archive is of the last commit"
mkdir -p dist
archive=dist/plimsoll-$version-source.tar.gz
git archive --format=tar.gz --prefix="plimsoll-$version/" --output="$archive.part" HEAD
mv "$archive.part" "$archive"
echo "==> sources: $PWD/$archive ($(git rev-parse --short HEAD))"
