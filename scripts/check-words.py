#!/usr/bin/env python3
"""Checks the words of the sources: comments begin with a subject or a verb, and the spelling is American.

    scripts/check-words.py                checks include and src, and the spelling of all files; one line if all is well
    scripts/check-words.py --count        prints the uses of each fragment; exits with 0
    scripts/check-words.py --root DIR     checks the comments of another tree

CONTRIBUTING.md ("Style") has the rules. The faults are:

  - a header whose first comment line opens with a fragment: "Of ...", "What ...", "Whether ..." (FRAGMENTS)
  - a doc comment (/// and ///<) whose first line does, unless ALLOWED has its text with a reason
  - a word that codespell (Debian's package) does not accept; .codespellrc has the exceptions. Without codespell a line says
    that the spelling was not checked

Prints one line for each fault, FILE:LINE: WORD: write X instead, and exits with 1 if there is one.
"""
import argparse
import bisect
import collections
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src"]
HEADERS = {".h", ".cuh"}
SOURCES = HEADERS | {".cpp", ".cu"}

# First words of clauses that are no sentence.
FRAGMENTS = set("of what that whether where as which how who whom whose whoever whatever whichever wherever so such those these "
                "than but nor because although".split())
FRAGMENT_REMEDY = 'a subject and a verb ("Declares ...", "Returns ...", "Number of ...")'
# Doc comments that may open with a fragment: their first line without the slashes, and the reason. Fewer than MAX_ALLOWED.
MAX_ALLOWED = 20
ALLOWED = {}

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\')',
    re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")


class Block:
    """Comment lines that follow each other, as one text."""

    def __init__(self, kind, line, text):
        self.kind = kind  # "//", "///", "///<" or "/*"
        self.texts = [text]
        self.line = line  # of the first text


class Source:
    """A file: its blocks of comments, and their faults."""

    def __init__(self, file, text):
        self.file = file
        self.ends = [found.start() for found in re.finditer("\n", text)]
        self.blocks = []
        for token in TOKEN.finditer(text):
            if token["comment"]:
                self.add_comment(text, token)

    def line_at(self, position):
        return bisect.bisect_left(self.ends, position) + 1

    def add_comment(self, text, token):
        line = self.line_at(token.start())
        kind = re.match(r"///<|///|//|/\*", token[0])[0]
        body = token[0][len(kind):]
        alone = not text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip()
        last = self.blocks[-1] if self.blocks else None
        # A "///<" alone in its line goes on with the one above.
        if last and last.kind == kind != "/*" and alone and last.line + len(last.texts) == line:
            last.texts.append(body)
        else:
            self.blocks.append(Block(kind, line, body))

    def fragments(self):
        """(kind of comment, line, word, text) of each header and doc comment that opens with a fragment."""
        for block in self.blocks:
            is_first = block is self.blocks[0] and pathlib.PurePath(self.file).suffix in HEADERS
            opening = NAME.match(block.texts[0].lstrip())
            if not opening or opening[0].lower() not in FRAGMENTS:
                continue
            if is_first:
                yield "header", block.line, opening[0], block.texts[0].strip()
            elif block.kind in ("///", "///<"):
                yield "doc comment", block.line, opening[0], block.texts[0].strip()


class Words:
    """The sources of a tree and their faults."""

    def __init__(self, root):
        self.sources = []
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SOURCES and path.is_file():
                    file = path.relative_to(root).as_posix()
                    self.sources.append(Source(file, path.read_text(encoding="utf-8", errors="replace")))

    def faults(self):
        found, unused = [], set(ALLOWED)
        for source in self.sources:
            for kind, line, word, text in source.fragments():
                unused.discard(text)
                if kind == "header" or text not in ALLOWED:
                    found.append((source.file, line, word, FRAGMENT_REMEDY))
        lines = [f"{file}:{line}: {word}: write {remedy} instead" for file, line, word, remedy in sorted(found)]
        lines += [f"scripts/check-words.py:1: {text!r}: remove it from ALLOWED; no comment opens with it" for text in sorted(unused)]
        if len(ALLOWED) >= MAX_ALLOWED:
            lines.append(f"scripts/check-words.py:1: ALLOWED has {len(ALLOWED)} rows; allowed: fewer than {MAX_ALLOWED}")
        return lines

    def print_counts(self):
        kinds, openings = collections.Counter(), collections.Counter()
        for source in self.sources:
            for kind, _, opening, text in source.fragments():
                kinds[kind] += 1
                kinds["allowed"] += kind == "doc comment" and text in ALLOWED
                openings[opening.capitalize()] += 1
        headers = sum(pathlib.PurePath(source.file).suffix in HEADERS for source in self.sources)
        doc_comments = sum(block.kind in ("///", "///<") for source in self.sources for block in source.blocks)
        print(f"{kinds['header']:6} of {headers} headers open with a fragment")
        print(f"{kinds['doc comment']:6} of {doc_comments} doc comments do, {kinds['allowed']} of them allowed")
        for opening, count in openings.most_common():
            print(f"{count:6}   {opening}")


def spelling_faults():
    """Faults of codespell in the files of the repository; None without codespell, or outside of a checkout."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    files = [name for name in listed.stdout.splitlines() if "tests/fuzz/corpus/" not in name and (ROOT / name).is_file()]
    if not files or not shutil.which("codespell"):
        return None
    run = subprocess.run(["codespell", *files], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [re.sub(r": (\S+) ==> (.*)", r": \1: write \2 instead", line.removeprefix("./")) for line in run.stdout.splitlines()]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print counts instead of faults")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, metavar="DIR",
                        help="the tree to check (default: this repository)")
    options = parser.parse_args(arguments)
    missing = [folder for folder in FOLDERS if not (options.root / folder).is_dir()]
    if missing:
        parser.error(f"--root: {options.root} has no folder {missing[0]}; use the root of the repository")
    words = Words(options.root)
    if options.count:
        words.print_counts()
        return 0
    faults = words.faults()
    if options.root == ROOT:
        spelling = spelling_faults()
        if spelling is None:
            print("words: the spelling was not checked: codespell or git is not installed (apt-get install codespell)")
        faults += spelling or []
    for text in faults:
        print(text)
    count = {0: "no fault", 1: "1 fault"}.get(len(faults), f"{len(faults)} faults")
    print(f"words: {len(words.sources)} files, {count}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
