#!/usr/bin/env python3
"""Checks the words of the sources: comments begin with a subject or a verb, and words that the glossary retired stay away.

    scripts/check-words.py                checks include and src; one line if all is well
    scripts/check-words.py --count        prints the uses of each fragment, retired word and retired identifier; exits with 0
    scripts/check-words.py --root DIR     checks another tree

CONTRIBUTING.md ("Style") has the rules. The faults are:

  - a header whose first comment line opens with a fragment: "Of ...", "What ...", "Whether ..." (FRAGMENTS)
  - a doc comment (/// and ///<) whose first line does, unless ALLOWED has its text with a reason
  - a word of RETIRED_WORDS in a comment. Text in backticks or double quotes is a name or a message, not prose
  - a name of RETIRED_IDENTIFIERS as a whole word, in code, and in comments if it is of several words
    (CamelCase, with_underscores) or in backticks. String literals, JSON keys among them, are not checked

To retire a name or a word, add a line to its table.

Prints one line for each fault, FILE:LINE: WORD: write X instead, and exits with 1 if there is one.
"""
import argparse
import bisect
import collections
import pathlib
import re
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

# WORD | what to write instead. WORD is a regular expression of whole words; a space also matches a hyphen or a line's end.
RETIRED_WORDS = r"""
beside                           | "next to", "in addition to", "compared with", "overlapping with" or "outside the arena"
elsewhere                        | "offloaded", "in host memory", "on disk" or the name of the place
anew                             | "again", or "recompute", "re-plan", "place again"
at once                          | "immediately", "at the same time" or "without offload"
side by side                     | "contiguous", "adjacent" or "next to each other"
(takes?|taken|taking|took) apart | "dequantize", "dequantized"
put into blocks                  | "quantized in blocks"
who(m|ever|mever)                | "the caller", or the op, buffer or thread
nobody|no one                    | "no op", "no caller"
somebody|someone                 | "another op", "another buffer", "another process"
everybody|everyone               | "all ops", "all ranks"
himself|herself                  | the name of the op, buffer or thread
hears? of                        | "receives", "is called for"
is told                          | "receives"
comes? and go(es)?               | "is copied in and out"
hardly                           | "rarely" with the number, or "at most"
likewise                         | the noun again
so many                          | "N" or the noun
a while                          | the time with its unit
in moments                       | the time with its unit
all else                         | "the rest"
but for                          | "except"
in the place of                  | "instead of"
in words                         | "as text"
for people                       | "human-readable"
as (the |an? )?\w+ has it        | "as in X", "in the format of X"
lies                             | "is", "is stored at", "is placed at"
wants?                           | "needs", "requests"
asks? for                        | "requests", "needs"
is wanted                        | "is needed"
lean(er|est)?                    | "low-precision", "minimum-memory", "less memory"
mend(s|ed|ing)?                  | "fix", "correct"
made up(?! of)                   | "fake"
twos|threes                      | "pairs", "triples"
made again|rebuilt               | "recomputed"
greatest                         | "largest", "maximum"
work(s|ed|ing)? out              | "compute"
notably                          | the bound with its unit
"""

# OLD NEW [@ PATH,...]: a name that was renamed, its new name, and the paths (prefixes) to which this is confined.
RETIRED_IDENTIFIERS = """
"""

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<include>^[ \t]*#[ \t]*include[^\n]*)"
    r'|(?P<string>R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\')',
    re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")
SEVERAL_WORDS = re.compile(r"\w_\w|[a-z0-9][A-Z]")
NO_PROSE = re.compile(r'`[^`\n]*`|"[^"\n]*"')


class Word:
    """A row of RETIRED_WORDS."""

    def __init__(self, row):
        self.name, self.remedy = (part.strip() for part in row.split(" | "))
        self.regex = re.compile(r"(?<![\w-])(?:" + self.name.replace(" ", r"[\s-]+") + r")(?![\w(]|::)", re.IGNORECASE)


class Identifier:
    """A row of RETIRED_IDENTIFIERS."""

    def __init__(self, row):
        names, _, paths = row.partition("@")
        self.name, self.new = names.split()
        self.paths = tuple(path.strip() for path in paths.split(",") if path.strip())

    def covers(self, file):
        return not self.paths or file.startswith(self.paths)


def rows_of(table):
    return [line for line in table.splitlines() if line.strip() and not line.startswith("#")]


class Block:
    """Comment lines that follow each other, as one text, so that a phrase may go over a line's end."""

    def __init__(self, kind, line, text):
        self.kind = kind  # "//", "///", "///<" or "/*"
        self.texts = [text]
        self.line = line  # of the first text

    def prose(self):
        """The text without names and messages; each of them becomes as many dots."""
        return NO_PROSE.sub(lambda found: "." * len(found[0]), "\n".join(self.texts))


class Source:
    """A file: its blocks of comments, its code without strings, and the faults of both."""

    def __init__(self, file, text):
        self.file = file
        self.ends = [found.start() for found in re.finditer("\n", text)]
        self.blocks = []
        code, at = [], 0
        for token in TOKEN.finditer(text):
            code.append(text[at:token.start()])
            code.append("\n" * token[0].count("\n") or " ")
            at = token.end()
            if token["comment"]:
                self.add_comment(text, token)
        self.code = "".join(code) + text[at:]

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

    def words(self, words):
        """(line, text, Word) of each retired word in comments."""
        for block in self.blocks:
            prose = block.prose()
            for word in words:
                for found in word.regex.finditer(prose):
                    yield block.line + prose.count("\n", 0, found.start()), " ".join(found[0].split()), word

    def identifiers(self, identifiers):
        """(line, Identifier) of each retired name."""
        known = {each.name: each for each in identifiers if each.covers(self.file)}
        for number, line in enumerate(self.code.split("\n"), 1):
            for name in NAME.findall(line):
                if name in known:
                    yield number, known[name]
        for block in self.blocks:
            for offset, text in enumerate(block.texts):
                quoted = " ".join(re.findall(r"`[^`]*`", text))
                for found in NAME.finditer(NO_PROSE.sub("", text)):
                    if found[0] in known and SEVERAL_WORDS.search(found[0]):
                        yield block.line + offset, known[found[0]]
                for name in NAME.findall(quoted):
                    if name in known:
                        yield block.line + offset, known[name]


class Words:
    """The sources of a tree and their faults."""

    def __init__(self, root):
        self.words = [Word(row) for row in rows_of(RETIRED_WORDS)]
        self.identifiers = [Identifier(row) for row in rows_of(RETIRED_IDENTIFIERS)]
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
            found += [(source.file, line, text, word.remedy) for line, text, word in source.words(self.words)]
            found += [(source.file, line, each.name, each.new) for line, each in source.identifiers(self.identifiers)]
        lines = [f"{file}:{line}: {word}: write {remedy} instead" for file, line, word, remedy in sorted(found)]
        lines += [f"scripts/check-words.py:1: {text!r}: remove it from ALLOWED; no comment opens with it" for text in sorted(unused)]
        if len(ALLOWED) >= MAX_ALLOWED:
            lines.append(f"scripts/check-words.py:1: ALLOWED has {len(ALLOWED)} rows; allowed: fewer than {MAX_ALLOWED}")
        return lines

    def print_counts(self):
        kinds, openings, words, names = (collections.Counter() for _ in range(4))
        for source in self.sources:
            for kind, _, opening, text in source.fragments():
                kinds[kind] += 1
                kinds["allowed"] += kind == "doc comment" and text in ALLOWED
                openings[opening.capitalize()] += 1
            words.update(word.name for _, _, word in source.words(self.words))
            names.update(each.name for _, each in source.identifiers(self.identifiers))
        headers = sum(pathlib.PurePath(source.file).suffix in HEADERS for source in self.sources)
        doc_comments = sum(block.kind in ("///", "///<") for source in self.sources for block in source.blocks)
        print(f"{kinds['header']:6} of {headers} headers open with a fragment")
        print(f"{kinds['doc comment']:6} of {doc_comments} doc comments do, {kinds['allowed']} of them allowed")
        for opening, count in openings.most_common():
            print(f"{count:6}   {opening}")
        print(f"{words.total():6} uses of {len(self.words)} retired words in comments")
        for word in self.words:
            print(f"{words[word.name]:6}   {word.name}")
        print(f"{names.total():6} uses of {len(self.identifiers)} retired identifiers")
        for name, count in names.most_common():
            print(f"{count:6}   {name}")


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
    for text in faults:
        print(text)
    count = {0: "no fault", 1: "1 fault"}.get(len(faults), f"{len(faults)} faults")
    print(f"words: {len(words.sources)} files, {count}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
