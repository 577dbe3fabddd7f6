#!/usr/bin/env python3
"""Checks the links of the documents: every relative link, every anchor and every picture must exist.

    scripts/check-docs.py            checks README.md, CONTRIBUTING.md, CHANGELOG.md, docs/**/*.md and examples/**/*.md
    scripts/check-docs.py FILE ...   checks these documents only

Anchors are those that GitHub makes of headings. Names of documents in comments and help texts (docs/NAME.md) are checked
too. Addresses that begin with a scheme (https:) are not: no network is needed. Prints one line for each broken link,
FILE:LINE: TARGET: REASON, and exits with 1 if there is one.
"""
import functools
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
FOLDERS = ["docs", "examples"]
SOURCES = ["include", "src", "scripts", "tests", "bench", "examples", "cmake", "Makefile", "CMakeLists.txt"]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]]+\]:\s+(\S+)")
NAMED = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|svg)")


def lines_of(path):
    """(number, text) of each line outside code blocks, without inline code."""
    fence = None
    blank, indented = True, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if fence:
            if mark and mark.group(1).startswith(fence):
                fence = None
            continue
        if mark:
            fence = mark.group(1)
            continue
        indented = line.startswith("    ") and (blank or indented)
        blank = not line.strip()
        if not indented:
            yield number, line


def without_code(line):
    return re.sub(r"(`+)(?:(?!\1).)+\1", "", line)


@functools.cache
def anchors(path):
    """The anchors of a document's headings, as GitHub makes them, and those of its own <a id=...>."""
    found, seen = set(), {}
    for _, line in lines_of(path):
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
        heading = re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*$", line)
        if not heading:
            continue
        text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", heading.group(1))
        text = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen.get(text, 0)
        seen[text] = count + 1
        found.add(f"{text}-{count}" if count else text)
    return found


def fault_of(document, target):
    """What is wrong with a link; empty if it resolves."""
    address, _, anchor = urllib.parse.unquote(target).partition("#")
    if re.match(r"[a-z][a-z0-9+.-]*:", address):
        return ""
    path = (document.parent / address).resolve() if address else document
    if not path.is_relative_to(ROOT):
        return "leaves the repository"
    if not path.exists():
        return "no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"no such heading in {path.relative_to(ROOT)}"
    return ""


def faults_of_links(document):
    for number, line in lines_of(document):
        text = without_code(line)
        definition = DEFINITION.match(text)
        for target in LINK.findall(text) + ([definition.group(1)] if definition else []):
            fault = fault_of(document, target)
            if fault:
                yield f"{document.relative_to(ROOT)}:{number}: {target}: {fault}"


def faults_of_names():
    """Names of documents in sources that do not exist."""
    for place in SOURCES:
        paths = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*"))
        for path in paths:
            if not path.is_file() or path.suffix not in {".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".md", ""}:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                for name in NAMED.findall(line):
                    if "NAME" not in name and not (ROOT / name).exists():
                        yield f"{path.relative_to(ROOT)}:{number}: {name}: no such file"


def documents():
    names = [ROOT / name for name in DOCUMENTS]
    for folder in FOLDERS:
        names += sorted((ROOT / folder).rglob("*.md"))
    ignored = subprocess.run(["git", "-C", str(ROOT), "check-ignore", *map(str, names)], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
    return [name for name in names if str(name) not in ignored]


def main():
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    faults = [fault for document in chosen or documents() for fault in faults_of_links(document)]
    if not chosen:
        faults += faults_of_names()
    print("\n".join(faults), end="\n" if faults else "")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
