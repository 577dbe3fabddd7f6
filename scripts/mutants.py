"""The mutants of the sources (scripts/mutate.py runs them): where they are drawn, what each changes, which tests are near it."""

import functools
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Mutants are drawn from these folders of src, the same number from each.
FOLDERS = {
    "plan": ["plan", "cost"],
    "record": ["record", "trace"],
    "device": ["device"],
    "collectives": ["collectives"],
    "run": ["run", "fine_tuning"],
    "train": ["train"],
    "job": ["job"],
    "weights": ["weights"],
    "checkpoint": ["checkpoint"],
    "data": ["data", "files", "safetensors"],
    "ops": ["ops"],
}
# By folder of src: the test programs that run against its mutants, its own first, then those of the folders that use it, in
# the order of src/rooms.txt (ranks_tests has tests of run and train, and runs before train_tests).
PROGRAMS = {
    "trace": ["trace_tests", "plan_tests", "record_tests", "run_tests", "train_tests"],
    "cost": ["cost_tests", "catalogue_tests", "plan_tests", "run_tests", "train_tests", "cli_tests"],
    "plan": ["plan_tests", "run_tests", "train_tests", "cli_tests"],
    "ops": ["ops_tests", "record_tests", "fine_tuning_tests", "run_tests", "train_tests", "cli_tests"],
    "record": ["record_tests", "run_tests", "train_tests", "cli_tests"],
    "device": ["device_tests", "collectives_tests", "run_tests", "train_tests", "cli_tests"],
    "collectives": ["collectives_tests", "run_tests", "ranks_tests", "train_tests", "cli_tests"],
    "fine_tuning": ["fine_tuning_tests", "run_tests", "train_tests", "cli_tests"],
    "run": ["run_tests", "ranks_tests", "train_tests", "cli_tests"],
    "safetensors": ["safetensors_tests", "checkpoint_tests", "data_tests", "weights_tests", "train_tests", "cli_tests"],
    "checkpoint": ["checkpoint_tests", "weights_tests", "train_tests", "cli_tests"],
    "files": ["files_tests", "data_tests", "job_tests", "train_tests", "cli_tests"],
    "data": ["data_tests", "files_tests", "job_tests", "train_tests", "cli_tests"],
    "weights": ["weights_tests", "job_tests", "train_tests", "cli_tests"],
    "job": ["job_tests", "train_tests", "cli_tests"],
    "train": ["train_tests", "checkpoint_tests", "weights_tests", "ranks_tests", "cli_tests"],
}
# A header that more files include costs a long build for one mutant.
MAX_INCLUDERS = 8

# (name, pattern, replacement); a group named `at` is what the replacement replaces. Patterns see the line with the text of
# strings and comments blanked out.
OPERATORS = [
    ("comparison", r"(?<=\w|\)|\]) (?P<at><) (?=[\w(])", "<="),
    ("comparison", r" (?P<at><=) ", "<"),
    ("comparison", r"(?<=\w|\)|\]) (?P<at>>) (?=[\w(])", ">="),
    ("comparison", r" (?P<at>>=) ", ">"),
    ("equality", r" (?P<at>==) ", "!="),
    ("equality", r" (?P<at>!=) ", "=="),
    ("logic", r" (?P<at>&&) ", "||"),
    ("logic", r" (?P<at>\|\|) ", "&&"),
    ("negation", r"(?<=[( ])(?P<at>!)(?=[\w(])", ""),
    ("sign", r"(?<=[\w)\]]) (?P<at>\+) (?=[\w(])", "-"),
    ("sign", r"(?<=[\w)\]]) (?P<at>-) (?=[\w(])", "+"),
    ("off by one", r"(?<=[\w)\]])(?P<at> [+-] 1)\b(?![.\w])", ""),
    ("factor", r"(?<=[\w)\]]) (?P<at>\*) (?=[\w(])", "+"),
    ("factor", r"(?<=[\w)\]]) (?P<at>/) (?=[\w(])", "*"),
    ("factor", r"(?<=[\w)\]]) (?P<at>%) (?=[\w(])", "/"),
    ("bound", r"\b(?P<at>std::min)\b", "std::max"),
    ("bound", r"\b(?P<at>std::max)\b", "std::min"),
    ("boolean", r"\b(?P<at>true)\b", "false"),
    ("boolean", r"\b(?P<at>false)\b", "true"),
    ("sum", r" (?P<at>\+=) ", "-="),
    ("sum", r" (?P<at>-=) ", "+="),
    ("number", r"(?<![\w.'])(?P<at>[1-9]\d?)(?![\w.'])", lambda text: str(int(text) + 1)),
    ("number", r"(?<=[=(,:?] )(?P<at>0)(?![\w.'])", "1"),
    ("condition", r"^\s*(?:\} else )?if \((?P<at>[^;{}]+)\)(?: \{| return\b.*;| continue;| break;)$", "false"),
    ("statement", r"^\s+(?P<at>(?!return\b|using\b|case\b|default\b|throw\b|const\b|auto\b|delete\b|static\b|struct\b|check\()"
                  r"(?:[\w.\->\[\]():*&+]+)(?: [-+*/|&]?= .*|\(.*\));)$", ";"),
    ("jump", r"\b(?P<at>break);", "continue"),
    ("jump", r"\b(?P<at>continue);", "break"),
]
# No mutant is drawn from these lines: what they say is for people or for the compiler.
PASSED_OVER = re.compile(r"^\s*(#|//|using |namespace |template|static_assert|enum |struct |class |friend )|fmt::format|\bthrow\b"
                         r"|UserError|refuse|\bcheck\(|TORCH_|m\.def|PLIMSOLL_INLINE|DType::|operator|\boverride\b|registry")
# What begins a loop, and what ends like a statement although one follows: a condition, a label.
LOOP = re.compile(r"\b(for|while)\s*\(|\bdo\s*$")
HEAD = re.compile(r"(\} )?(else )?(if|for|while|switch)\b.*\)|else|do")
# What is left of the "/" of a path.
FOLDER = re.compile(r"(folder|path|directory|root|home|temp)\w*(\(\))? $")
LABEL = re.compile(r"(case\b.*|default|public|protected|private):")


def blanked(line):
    """The line with the text of strings, characters and comments replaced by spaces of the same length."""
    spaces = lambda match: match[0][0] + " " * (len(match[0]) - 2) + match[0][-1]
    line = re.sub(r'"(?:\\.|[^"\\])*"', spaces, line)
    line = re.sub(r"'(?:\\.|[^'\\])'", spaces, line)
    return re.sub(r"//.*", lambda match: " " * len(match[0]), line)


def places_in(lines):
    """For each line of a source: (whether it begins a statement, whether it is in a loop)."""
    places, outer, pending, depth, macro = [], [], "", 0, False
    for line in map(blanked, lines):
        directive = macro or line.lstrip().startswith("#")
        macro = directive and line.endswith("\\")
        if directive:
            places.append((False, False))
            continue
        text = pending.strip()
        begins = depth == 0 and (not text or HEAD.fullmatch(text) is not None)
        places.append((begins, bool(LOOP.search(pending) or any(LOOP.search(head) for head, _ in outer))))
        for c in line + "\n":
            pending += " " if c == "\n" else c
            if c in "([":
                depth += 1
            elif c in ")]":
                depth = max(0, depth - 1)
            elif c == "{":  # a block, a lambda in a call, or values
                outer.append((pending[:-1], depth))
                pending, depth = "", 0
            elif c == "}" and outer:
                before, depth = outer.pop()
                pending = before if depth else ""
            elif depth == 0 and (c == ";" or c == ":" and LABEL.fullmatch(pending.strip())):
                pending = ""
    return places


def is_balanced(text):
    depth = 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return False
    return depth == 0


def fits(operator, match, place, is_header):
    """Whether the operator makes a program of the line that can compile, as far as its text tells."""
    text, line = match["at"], match.string
    begins, in_loop = place
    if operator == "statement":
        # In a header, NAME(...); with a capital declares a constructor.
        return begins and is_balanced(text) and not (is_header and re.match(r"\s*[A-Z]\w*\(", text))
    if operator == "jump" and text == "break":
        return in_loop or LOOP.search(line) is not None
    if text == "/":  # of a path
        return FOLDER.search(line, 0, match.start("at")) is None
    return True


@functools.cache
def includers(root):
    """By header: how many sources include it."""
    headers = {}
    for source in root.glob("src/**/*"):
        if source.suffix in (".h", ".cpp", ".cu", ".cuh"):
            for name in re.findall(r'#include "([^"]+)"', source.read_text(errors="replace")):
                headers[name] = headers.get(name, 0) + 1
    return headers


def sources_of(folder):
    headers = includers(ROOT)
    for top in FOLDERS[folder]:
        for source in sorted((ROOT / "src" / top).rglob("*")):
            cuda = "cuda" in source.stem or source.parent.name == "cuda"
            if source.suffix == ".cpp" and not cuda:
                yield source
            elif source.suffix == ".h" and not cuda and headers.get(str(source.relative_to(ROOT / "src")), 0) <= MAX_INCLUDERS:
                yield source


def candidates_of(folder):
    """By line: (file, line number, line, mutants of the line as (operator, column, mutated line))."""
    lines = []
    for source in sources_of(folder):
        texts = source.read_text().split("\n")
        for number, (line, place) in enumerate(zip(texts, places_in(texts)), 1):
            if PASSED_OVER.search(line):
                continue
            seen, mutants = blanked(line), []
            for name, pattern, replacement in OPERATORS:
                for match in re.finditer(pattern, seen):
                    if not fits(name, match, place, source.suffix == ".h"):
                        continue
                    begin, end = match.span("at")
                    new = replacement(match["at"]) if callable(replacement) else replacement
                    mutants.append((name, begin + 1, line[:begin] + new + line[end:]))
            if mutants:
                lines.append((str(source.relative_to(ROOT)), number, line, mutants))
    return lines


def key_of(mutant):
    return mutant["file"], mutant["before"], mutant["after"]


def shares(folders, count, counts):
    """By folder, how many mutants: as `counts` says, and the same number of what is left of `count` from each other folder."""
    others = [f for f in folders if f not in counts]
    rest = max(0, count - sum(counts.values()))
    return {f: counts[f] if f in counts else rest // len(others) + (others.index(f) < rest % len(others)) for f in folders}


def drawn(folders, count, seed, counts={}, known=()):
    """`count` mutants of the folders (shares()), at most one a line, in an order of their own. None has a key in `known`."""
    mutants = []
    for folder, share in shares(folders, count, counts).items():
        dice, known_here = random.Random(f"{seed} {folder}"), set(known)
        lines = candidates_of(folder)
        dice.shuffle(lines)
        for file, number, line, choices in lines:
            if share == 0:
                break
            operator, column, changed = dice.choice(choices)
            mutant = {"folder": folder, "file": file, "line": number, "operator": operator, "before": line.strip(),
                      "after": changed.strip(), "seed": seed,
                      "id": f"{file.removeprefix('src/')}:{number}:{column} {operator}"}
            if key_of(mutant) not in known_here:
                known_here.add(key_of(mutant))
                mutants.append(mutant)
                share -= 1
    random.Random(seed).shuffle(mutants)
    return mutants


def programs_of(mutant):
    """The test programs that run against it, its own first."""
    return PROGRAMS[Path(mutant["file"]).parts[1]]


def killed_by_own(result):
    """Whether a test of the program of the mutant's own folder failed, and not only one of a folder above."""
    return result["program"] == programs_of(result)[0]


def near_suites(file, program):
    """The test suites of a program that are about a source: those of tests named like it, or which include its header."""
    header = str(Path(file).relative_to("src").with_suffix(".h"))
    suites = set()
    for test in (ROOT / "tests" / program.removesuffix("_tests")).rglob("*.cpp"):
        text = test.read_text(errors="replace")
        if test.stem.startswith(Path(file).stem) or f'"{header}"' in text:
            suites.update(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),", text, re.M))
    return suites


def line_of(mutant, lines):
    """The index of the line that it changes: at its place, or the nearest with the same text; None if there is none."""
    same = [i for i, line in enumerate(lines) if line.strip() == mutant["before"]]
    return min(same, key=lambda i: abs(i + 1 - mutant["line"]), default=None)


def mutated(mutant, text):
    """The source with the change; None if the line that it changes is gone."""
    lines = text.split("\n")
    i = line_of(mutant, lines)
    if i is None:
        return None
    line = lines[i]
    lines[i] = line[:len(line) - len(line.lstrip())] + mutant["after"]
    return "\n".join(lines)
