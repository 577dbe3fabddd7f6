#!/usr/bin/env python3
"""Checks the documents: every link must resolve, every command must exist, and excerpts must be in their files.

    scripts/check-docs.py            checks README.md, CONTRIBUTING.md, CHANGELOG.md, docs/**/*.md and examples/**/*.md
    scripts/check-docs.py FILE ...   checks these documents only

Links: every relative link, every anchor and every picture. Anchors are those that GitHub makes of headings. Names of
documents in comments and help texts (docs/NAME.md) are checked too. Addresses that begin with a scheme (https:) are not:
no network is needed.

Commands, in code blocks and inline code (not in CHANGELOG.md and docs/decisions, which tell of earlier times):
every `make TARGET` is in Makefile; every path below scripts/, bench/ and examples/ exists; every `plimsoll COMMAND` and
`--option` is in docs/command-line.md, which is generated from the help; every override `key=value` is a key of
docs/job-file.md or a name of src/job/keys/aliases.cpp. A command that is shown with the error it causes may be wrong.

Excerpts: a code block behind a line `<!-- excerpt of PATH -->` has lines of that file. Its parts, which are separated by
lines of `…`, must be in the file in this order, except for spaces at the beginning of a line.

docs/what-is-read.md is the page that scripts/what-is-read.py writes from the tables of facts in src.

Prints one line for each fault, FILE:LINE: TARGET: REASON, and exits with 1 if there is one.
"""
import ast
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
FOLDERS = ["docs", "examples"]
SOURCES = ["include", "src", "scripts", "tests", "bench", "examples", "cmake", "Makefile", "CMakeLists.txt"]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]]+\]:\s+(\S+)")
# Settings of other programs that the documents mention.
OTHERS = {"local_lock", "add_special_tokens"}
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


def code_of(path):
    """(number, text, answer) of each piece of code: a line of a code block with the line after it, or inline code with
    its line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    prose = dict(lines_of(path))
    for number, line in enumerate(lines, 1):
        if number not in prose and not re.match(r" {0,3}(```|~~~)", line):
            text, last = line.strip(), number
            while text.endswith("\\") and last < len(lines):  # a command of several lines
                text, last = text[:-1] + lines[last].strip(), last + 1
            yield number, text.removeprefix("$ "), lines[last].strip() if last < len(lines) else ""
    for number, line in prose.items():
        for _, code in re.findall(r"(?<!`)(`+)(?!`)((?:(?!\1).)+)\1", line):
            yield number, code.strip().replace("\\|", "|"), line


@functools.cache
def make_targets():
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@functools.cache
def options():
    """The options of each command of plimsoll, and of plimsoll itself (""), from the generated page."""
    found, command = {"": {"-h", "--help", "--version"}}, ""
    usual = []
    for line in (ROOT / "docs/command-line.md").read_text(encoding="utf-8").splitlines():
        heading = re.match(r"## (?:plimsoll )?(.*)", line)
        if heading:
            command = heading.group(1)
            found.setdefault(command, {"-h", "--help"})
        elif line.startswith("Also: "):
            found[command].update(re.findall(r"`(--[a-z-]+)", line))
            if "(#the-usual-flags)" in line:
                usual.append(command)
        elif line.startswith("| `-"):
            found[command].update(re.findall(r"(?<![\w-])--?[a-z][\w-]*", line.split("`")[1]))
    for taking in usual:
        found[taking] |= found["The usual flags"]
    return {name: known for name, known in found.items() if re.fullmatch(r"[a-z]*", name)}


@functools.cache
def keys():
    """Keys of the job file, and the names of other programs that stand for one; NAME.* stands for all below NAME."""
    own = set(re.findall(r"^\| `([a-z_][\w.]*)` \|", (ROOT / "docs/job-file.md").read_text(encoding="utf-8"), re.MULTILINE))
    other = set()
    for name in ["aliases.cpp", "distributed_keys.cpp"]:
        text = next(ROOT.glob(f"src/**/{name}")).read_text(encoding="utf-8")
        other.update(re.findall(r"[({]\"([a-z_][\w.*]*)\", *\"", text))
        for ending in re.findall(r"fmt::format\(\"\{\}(\w+)\"", text):
            other.update([ending, "data." + ending])
    at_top = {f"training.{name}" for name in own | other if "." not in name}
    # The page has a sentence for keys that equal those of another section.
    same = {name.replace(section, like, 1) for section, like in (("model.", "model.llm."), ("model.video.", "model.audio."),
                                                                ("model.video.", "model.text.")) for name in own if name.startswith(section)}
    return own | other | at_top | same


@functools.cache
def python_arguments():
    """The names of arguments of the Python package: optimizer=pl.AdamW(1e-3)."""
    names = set()
    for module in ("planning", "trainer"):
        tree = ast.parse((ROOT / "python" / "plimsoll" / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names |= {argument.arg for argument in node.args.args + node.args.kwonlyargs}
    return names


def is_key(name):
    return name in keys() | OTHERS | {"key.path"} or any(key.endswith(".*") and name.startswith(key[:-1]) for key in keys())


def words_of(command):
    """The words of a shell command up to its end: a comment, a pipe, a redirection."""
    words = []
    try:
        split = shlex.split(command, comments=True)
    except ValueError:  # an apostrophe in a remark
        split = command.split("#")[0].split()
    for word in split:
        if re.fullmatch(r"[|&;<>]+|\d?>+.*|—|→", word):
            break
        words.append(word.rstrip(",;:)"))
    return words


def faults_of_plimsoll(words):
    """Faults of `COMMAND ARGUMENT ...`."""
    known = options()
    command, options_taken = words[0], known.get(words[0])
    if options_taken is None:
        yield f"plimsoll {command}", "no such command"
        return
    for word in words[1:]:
        option = re.match(r"(--?[a-z][\w-]*)", word)
        if option and option.group(1) not in options_taken | known[""]:
            yield option.group(1), f"no such option of plimsoll {command}"
        override = re.match(r"([a-z_][\w.]*)=", word)
        if override and not is_key(override.group(1)):
            yield override.group(1), "no such key of the job file"


def faults_of_code(code, answer):
    if re.match(r"plimsoll: ", answer) or "exit code 2" in answer:
        return
    for target in re.findall(r"(?:^|[;&|(] *|\w+=\S* )make ([a-z][\w-]*)", code):
        if target not in make_targets():
            yield f"make {target}", "no such target in Makefile"
    for path in re.findall(r"(?<![\w/.~$}-])(?:scripts|bench|examples)/[\w.*/-]*", code):
        path = path.rstrip(".")
        if re.search(r"[A-Z]{4,}", path.replace("README", "")):  # a placeholder: examples/SYSTEM
            continue
        if not any(True for _ in ROOT.glob(path.rstrip("/"))):
            yield path, "no such file"
    if re.match(r"import plimsoll\b", code):
        return
    found = re.search(r"(?:^|[;&|(=] *|[ /])plimsoll (?=[a-z])(.*)", code)
    if found:
        yield from faults_of_plimsoll(words_of(found.group(1)))
    elif re.match(r"[a-z]+ (?:\S+ )*--[a-z]", code) and code.split()[0] in options():  # `plan --frontier`
        yield from faults_of_plimsoll(words_of(code))
    elif re.fullmatch(r"[a-z_]+(?:\.[a-z_]+)*=\S+", code) and not is_key(code.split("=")[0]) and code.split("=")[0] not in python_arguments():
        yield code, "no such key of the job file"


def faults_of_commands(document):
    name = document.relative_to(ROOT)
    if name.name == "CHANGELOG.md" or "decisions" in name.parts:
        return
    for number, code, answer in code_of(document):
        for target, fault in faults_of_code(code, answer):
            yield f"{name}:{number}: {target}: {fault}"


def faults_of_excerpts(document):
    """Excerpts of files that are not in these files."""
    lines = document.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        named = re.fullmatch(r"<!-- excerpt of (\S+) -->", line)
        if not named:
            continue
        place = f"{os.path.relpath(document, ROOT)}:{number}: {named[1]}"
        if not (ROOT / named[1]).is_file():
            yield f"{place}: no such file"
            continue
        end = next((i for i in range(number + 1, len(lines)) if lines[i] == "```"), None)
        if end is None or not lines[number].startswith("```"):
            yield f"{place}: no block of code with an end follows"
            continue
        source = "\n" + "\n".join(each.strip() for each in (ROOT / named[1]).read_text(encoding="utf-8").splitlines()) + "\n"
        block = "\n".join(each.strip() for each in lines[number + 1:end]) + "\n"
        start = 0
        for part in block.split("…\n"):
            found = source.find("\n" + part, start)
            if found < 0:
                yield f"{place}: the file has no such lines: {part.splitlines()[0]}"
                break
            start = found + len(part)  # of the newline at its end, which may begin the next part


def documents():
    names = [ROOT / name for name in DOCUMENTS]
    for folder in FOLDERS:
        names += sorted((ROOT / folder).rglob("*.md"))
    ignored = subprocess.run(["git", "-C", str(ROOT), "check-ignore", *map(str, names)], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
    return [name for name in names if str(name) not in ignored]


def main():
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    faults = [fault for document in chosen or documents() for faults_of in (faults_of_links, faults_of_commands, faults_of_excerpts)
              for fault in faults_of(document)]
    if not chosen:
        faults += faults_of_names()
        page = subprocess.run([sys.executable, str(ROOT / "scripts/what-is-read.py"), "--check"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        faults += page.stderr.splitlines()
    print("\n".join(faults), end="\n" if faults else "")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
