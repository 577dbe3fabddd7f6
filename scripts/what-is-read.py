#!/usr/bin/env python3
"""Writes docs/what-is-read.md from the tables of facts in the sources (src/files/file_kind.h).

    scripts/what-is-read.py            writes the page
    scripts/what-is-read.py --check    fails if the page is not what the tables say now

Every `constexpr FileFact kFacts[]` below src is taken, so no table can be missing. A cell of a table is a text, a
constant of text of the same header, or `kTreatments[i]`.
"""
import argparse
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "what-is-read.md"
TREATMENTS = ["applied", "refused", "ignored"]
TOKEN = re.compile(r'\s+|//[^\n]*|(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_]\w*(?:::\w+)*(?:\[\d+\])?)|(?P<mark>[{},;=])|(?P<other>.)', re.S)
TABLE = re.compile(r"constexpr FileFact kFacts\[\] =")
# The order of the page: sections, and how the names of their formats begin. The first that fits counts.
SECTIONS = [
    ("Texts, tables and lists", ["text", "table", "list of ", "folder of pictures"]),
    ("Arrays and series", [".npy", ".npz", ".ts", "vectors of labels"]),
    ("Volumes", ["NIfTI", "mask of a series"]),
    ("Pictures, videos and sound", ["PNG", "JPEG", "picture", "video", "sound", "media"]),
    ("Tokenizers", ["tokenizer", "special_tokens_map.json", "generation_config.json", "GGUF (tokenizer)", "rank file", "token file"]),
    ("Configurations and weights", ["config.json", "preprocessor_config.json", "safetensors", "model.safetensors", "folder of weights", "GGUF"]),
    ("Other formats", [""]),
]


def tokens(text, place):
    for found in TOKEN.finditer(text):
        if found.lastgroup == "other":
            raise SystemExit(f"{place}: {found.group()!r} is not known in a table of facts")
        if found.lastgroup:
            yield found.lastgroup, found.group()


def unquoted(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def constants(text):
    """Constants of text that a header defines: its name, and the text, another constant, or kTreatments[i]."""
    known = {f"kTreatments[{i}]": word for i, word in enumerate(TREATMENTS)}
    for begin in re.finditer(r"constexpr std::string_view ", text):
        name, cells = None, []
        for kind, token in tokens(text[begin.end():], "a constant"):
            if kind == "mark" and token in ",;":
                known[name] = "".join(cells)
                name, cells = None, []
                if token == ";":
                    break
            elif kind == "name" and name is None:
                name = token
            elif kind != "mark":
                cells.append(unquoted(token) if kind == "text" else known[token])
    return known


def rows_of(path):
    """The rows of all tables of a header."""
    text = path.read_text(encoding="utf-8")
    rows = []
    place = path.relative_to(ROOT)
    for table in TABLE.finditer(text):
        # Constants of an earlier namespace of the header are replaced by those of this one.
        known = constants(text[:table.start()])
        row, cell, depth = [], None, 0
        for kind, token in tokens(text[table.end():], place):
            if token == "{":
                depth += 1
            elif token == ",":
                if depth == 2:
                    row.append(cell)
                    cell = None
            elif token == "}":
                depth -= 1
                if depth == 0:
                    break
                row.append(cell)
                if len(row) != 4 or None in row or row[2] not in TREATMENTS:
                    raise SystemExit(f"{place}: {row} is no row of a format, a field, a treatment and a note")
                rows.append(row)
                row, cell = [], None
            elif kind in ("text", "name"):
                if kind == "name" and token not in known:
                    raise SystemExit(f"{place}: {token} is no constant of this header")
                cell = (cell or "") + (unquoted(token) if kind == "text" else known[token])
    return rows


def cell(text):
    return re.sub(r"([\\|*_<>\[\]`])", r"\\\1", text)


def page():
    formats = {}
    for path in sorted(ROOT.glob("src/**/*.h")):
        for row in rows_of(path):
            formats.setdefault(row[0], []).append(row[1:])
    lines = ["# What is read of each file", "",
             "<!-- Written by scripts/what-is-read.py from the tables of facts in src; do not edit. -->", "",
             "This page lists the fields of every format that Plimsoll reads ([the rule](../CONTRIBUTING.md#facts-in-files)). A field that",
             "changes the result is applied as its format says, or a file with it, or with the values of the note, is refused by name.",
             "The note of an ignored field says why it cannot change the result.", ""]
    for heading, begins in SECTIONS:
        own = [name for name in formats if any(name.startswith(begin) for begin in begins)]
        if not own:
            continue
        lines += [f"## {heading}", ""]
        for name in own:
            lines += [f"### {name}", ""]
            rows = formats.pop(name)
            for treatment in TREATMENTS:
                fields = {}  # of each note, in the order of the table
                for field, other, note in rows:
                    if other == treatment:
                        fields.setdefault(note, []).append(cell(field))
                facts = [f"**{', '.join(own)}**: {cell(note)}" for note, own in fields.items()]
                if len(facts) == 1:
                    lines += [f"{treatment.capitalize()}: {facts[0]}", ""]
                elif facts:
                    lines += [f"{treatment.capitalize()}:", "", *(f"- {fact}" for fact in facts), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page()
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if old != text:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(PAGE.relative_to(ROOT)), "the tables"))
        sys.exit("docs/what-is-read.md is stale: run scripts/what-is-read.py")


if __name__ == "__main__":
    main()
