#!/usr/bin/env python3
"""Compiles changed sources, each alone and without writing anything: a file that includes too little is found.

    scripts/check-alone.py              the C++ sources of src and tests that changed since the commit's parent
    scripts/check-alone.py FILE ...     these sources, or those that include these headers

The release build compiles up to 8 files of a folder together (cmake/Unity.cmake), so a file can use what its neighbors include.
The commands are those of the preset `dev`, which is configured and not built, with -fsyntax-only.

PLIMSOLL_CHECK_BASE names another commit or branch: the changes since the merge base with it count. A clone without the parent
(a shallow one) has a fixed sample of 12 files instead. For a changed header, the sources of its folder that include it are
compiled, or else one that includes it. After --seconds (default 180) no further file is begun, and the rest is named.

Prints the compiler's messages of each file that does not compile, and exits with 1 if there is one.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLE = 12


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split("\n") if done.returncode == 0 else None


def changed_files(root, base=""):
    """The files of src, include and tests that the last commits and the working tree changed; None: the parent is not there."""
    since = (git(root, "merge-base", base, "HEAD") or [""])[0] if base else "HEAD~1"
    if base and not since:
        sys.exit(f"alone: PLIMSOLL_CHECK_BASE is {base}, which has no common commit with HEAD")
    names = git(root, "diff", "--name-only", "--diff-filter=d", since, "--", "src", "include", "tests")
    return None if names is None else [name for name in names if name]


def commands_of(build):
    """The command of each C++ source, without sanitizers."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith(".cpp") and "-fsanitize=" not in entry["command"]:
            found.setdefault(entry["file"], (entry["directory"], shlex.split(entry["command"])))
    return found


def sources_of(root, names, sources):
    """The sources to compile for changed files: the sources among them first, then those that include changed headers."""
    sources = sorted(sources)
    chosen = [str(root / name) for name in names if str(root / name) in sources]
    headers = [name for name in names if name.endswith(".h")]
    texts = {source: pathlib.Path(source).read_text(encoding="utf-8") for source in sources} if headers else {}
    for header in headers:
        include = re.compile(r'#include "' + re.escape(re.sub(r"^(src|include|tests)/", "", header)) + '"')
        including = [source for source in sources if include.search(texts[source])]
        own = [source for source in including if pathlib.Path(source).parent == (root / header).parent]
        chosen += own or including[:1]
    return list(dict.fromkeys(chosen))


def sample(root, sources):
    """The same files for every commit, spread over the rooms."""
    return sorted(sources, key=lambda source: hashlib.sha256(os.path.relpath(source, root).encode()).hexdigest())[:SAMPLE]


def syntax_only(command):
    """The command without its output. Headers that a build writes are in the folder of the release build."""
    words = iter(command)
    kept = []
    for word in words:
        if word == "-o":
            next(words)
        elif word != "-c":
            kept.append(word)
            if word.startswith("-I") and "/build-dev" in word:
                kept.append(word.replace("/build-dev", "/build"))
    return kept + ["-fsyntax-only"]


def check(chosen, commands, seconds, jobs):
    """(faults, sources that were not begun)"""
    end = time.monotonic() + seconds
    faults, left = [], []

    def one(source):
        if time.monotonic() > end:
            left.append(source)
            return
        directory, command = commands[source]
        done = subprocess.run(syntax_only(command), cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            faults.append((source, done.stdout))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, chosen))
    return sorted(faults), left


def configured(root):
    subprocess.run([str(root / "scripts/configure.sh"), "dev"], check=True)
    # CMake again if a CMakeLists.txt is newer; nothing is compiled.
    subprocess.run(["cmake", "--build", "build-dev", "--target", "build.ninja"], cwd=root, stdout=subprocess.DEVNULL, check=True)
    return root / "build-dev"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count() or 1))
    options = parser.parse_args()
    begin = time.monotonic()
    commands = commands_of(configured(ROOT))
    names = [os.path.relpath(file, ROOT) for file in options.files] or changed_files(ROOT, os.environ.get("PLIMSOLL_CHECK_BASE", ""))
    chosen = sample(ROOT, commands) if names is None else sources_of(ROOT, names, commands)
    faults, left = check(chosen, commands, options.seconds, options.jobs)
    for source, text in faults:
        print(f"alone: {os.path.relpath(source, ROOT)} does not compile by itself:\n{text}")
    if left:
        print("alone: no time was left for " + ", ".join(os.path.relpath(source, ROOT) for source in left[:10]) + ", …" * (len(left) > 10))
    print(f"==> alone: {len(chosen) - len(left)} of {len(chosen)} sources, {len(faults)} with a fault, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
