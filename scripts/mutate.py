#!/usr/bin/env python3
"""Puts small bugs into the sources, one at a time, and shows which of them no test notices.

    scripts/mutate.py                              120 mutants of all folders, seed 1; appends to build/mutants.jsonl
    scripts/mutate.py --count 12 --seed 7          other mutants
    scripts/mutate.py --folders plan run           mutants of some folders
    scripts/mutate.py --again                      runs the survivors in the results file once more
    scripts/mutate.py --list                       prints the drawn mutants and runs nothing
    scripts/mutate.py --table                      prints the table of the results file and runs nothing

A mutant is one change of one line: another comparison, another sign, a statement left out, and so on (OPERATORS below). Mutants
are drawn by the seed, the same number from each folder, at most one a line. Each is written into its source in place,
the library is built, and the test programs of its folder run, then those of the folders that use it, until one fails.
The source is restored afterwards, also on Ctrl-C. The script refuses to start if a source has uncommitted changes.

Results are one JSON object a line. A mutant whose line starts with the same text in the results file is not run again.
A person marks a survivor that changes no behaviour as equivalent, with the reason:

    scripts/mutate.py --equivalent ID "why no test can notice it"

"not reached" is a survivor in code that this machine's processor does not run; the table leaves it out of the share.
"""

import argparse
import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "mutants.jsonl"

# By folder: its sources, and the test programs that run, the cheapest and nearest first.
FOLDERS = {
    "plan": (["src/plan", "src/cost"], ["plan_tests", "run_tests", "train_tests", "cli_tests"]),
    "record": (["src/record", "src/trace"], ["record_tests", "plan_tests", "run_tests", "train_tests"]),
    "run": (["src/run", "src/fine_tuning"], ["run_tests", "train_tests", "cli_tests"]),
    "train": (["src/train"], ["train_tests", "cli_tests"]),
    "job": (["src/job"], ["job_tests", "train_tests", "cli_tests"]),
    "weights": (["src/weights", "src/checkpoint"], ["weights_tests", "checkpoint_tests", "train_tests", "cli_tests"]),
    "data": (["src/data", "src/files", "src/safetensors"],
             ["data_tests", "files_tests", "safetensors_tests", "job_tests", "train_tests", "cli_tests"]),
    "ops": (["src/ops"], ["ops_tests", "record_tests", "run_tests", "train_tests"]),
}
# A header that more files include costs a long build for one mutant.
MAX_INCLUDERS = 8
# A program that runs this many times as long as without a mutant hangs.
HANG_FACTOR, HANG_SECONDS = 5, 60
# Tests that take longer run last: most mutants are noticed by a quick one.
SLOW_TEST_SECONDS = 0.3

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


def say(text):
    print(text, flush=True)


def blanked(line):
    """The line with the text of strings, characters and comments replaced by spaces of the same length."""
    spaces = lambda match: match[0][0] + " " * (len(match[0]) - 2) + match[0][-1]
    line = re.sub(r'"(?:\\.|[^"\\])*"', spaces, line)
    line = re.sub(r"'(?:\\.|[^'\\])'", spaces, line)
    return re.sub(r"//.*", lambda match: " " * len(match[0]), line)


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
    for top in FOLDERS[folder][0]:
        for source in sorted((ROOT / top).rglob("*")):
            cuda = "cuda" in source.stem or source.parent.name == "cuda"
            if source.suffix == ".cpp" and not cuda:
                yield source
            elif source.suffix == ".h" and not cuda and headers.get(str(source.relative_to(ROOT / "src")), 0) <= MAX_INCLUDERS:
                yield source


def candidates_of(folder):
    """By line: (file, line number, mutants of the line as (operator, mutated line))."""
    lines = []
    for source in sources_of(folder):
        for number, line in enumerate(source.read_text().split("\n"), 1):
            if PASSED_OVER.search(line):
                continue
            seen, mutants = blanked(line), []
            for name, pattern, replacement in OPERATORS:
                for match in re.finditer(pattern, seen):
                    begin, end = match.span("at")
                    new = replacement(match["at"]) if callable(replacement) else replacement
                    mutants.append((name, line[:begin] + new + line[end:]))
            if mutants:
                lines.append((str(source.relative_to(ROOT)), number, line, mutants))
    return lines


def drawn(folders, count, seed):
    """`count` mutants, the same number of each folder (the first folders have the remainder), in an order of their own."""
    mutants = []
    for i, folder in enumerate(folders):
        dice = random.Random(f"{seed} {folder}")
        share = count // len(folders) + (i < count % len(folders))
        for file, number, line, choices in dice.sample(candidates_of(folder), share):
            operator, changed = dice.choice(choices)
            mutants.append({"folder": folder, "file": file, "line": number, "operator": operator, "before": line.strip(),
                            "after": changed.strip(), "changed": changed})
    random.Random(seed).shuffle(mutants)
    for mutant in mutants:
        mutant["id"] = f"{Path(mutant['file']).stem}:{mutant['line']} {mutant['operator']}"
    return mutants


def key_of(mutant):
    return mutant["file"], mutant["before"], mutant["after"]


def read_results(file):
    """The last line of a mutant counts."""
    results = {}
    if file.exists():
        for line in file.read_text().splitlines():
            result = json.loads(line)
            results[key_of(result)] = result
    return results


def build(build_folder, targets, log):
    """Whether the targets compile and link."""
    done = subprocess.run(["ninja", "-C", str(build_folder), "-j", os.environ.get("JOBS", "2"), *targets],
                          stdout=log, stderr=log)
    return done.returncode == 0


class Programs:
    """The test programs of a build, and how long each takes without a mutant."""

    def __init__(self, build_folder, shards, filters):
        self.build, self.shards, self.filters = build_folder, shards, filters
        self.seconds, self.slow = {}, {}

    def begin(self, program, pattern, shard, report):
        environment = os.environ | {"GTEST_TOTAL_SHARDS": str(self.shards), "GTEST_SHARD_INDEX": str(shard)}
        words = [str(self.build / program), "--gtest_fail_fast", f"--gtest_filter={pattern}"]
        if report:
            words.append(f"--gtest_output=json:{report}")
        return subprocess.Popen(words, env=environment, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True)

    def run_some(self, program, pattern, log, limit, reports=None):
        """None if these tests pass, else the name of a test that failed, "hangs" or "crashes"."""
        deadline = time.monotonic() + limit
        running = [self.begin(program, pattern, shard, reports and reports[shard]) for shard in range(self.shards)]
        try:
            for process in running:
                try:
                    text, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    return "hangs"
                log.write(text)
                if process.returncode != 0:
                    failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:,|$| \()", text, re.M)
                    last = re.findall(r"^\[ RUN      \] ([\w/.]+)", text, re.M)
                    return failed[0] if failed else f"crashes in {last[-1]}" if last else "crashes"
        finally:
            for process in running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return None

    def measure(self, program, log):
        """Runs all tests without a mutant: as run(). Sorts out the slow tests, which run() leaves to the end."""
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            reports = [Path(folder) / f"{shard}.json" for shard in range(self.shards)]
            failed = self.run_some(program, self.filters.get(program, "*"), log, 3600, reports)
            if failed:
                return failed
            for report in reports:
                for suite in json.loads(report.read_text())["testsuites"]:
                    for test in suite["testsuite"]:
                        if float(test.get("time", "0s")[:-1]) > SLOW_TEST_SECONDS:
                            self.slow.setdefault(program, []).append(f"{suite['name']}.{test['name']}")
        self.seconds[program] = time.monotonic() - start
        return None

    def run(self, program, log):
        """None if all tests pass, else the name of a test that failed, "hangs" or "crashes"."""
        limit = self.seconds[program] * HANG_FACTOR + HANG_SECONDS
        wanted, slow = self.filters.get(program, "*"), self.slow.get(program, [])
        if not slow:
            return self.run_some(program, wanted, log, limit)
        quick = wanted + (":" if "-" in wanted else "-") + ":".join(slow)
        return self.run_some(program, quick, log, limit) or self.run_some(program, ":".join(slow), log, limit)


def run_mutant(mutant, programs, options, log):
    """What became of it: (outcome, test program, test)."""
    file = ROOT / mutant["file"]
    original = file.read_text()
    lines = original.split("\n")
    if lines[mutant["line"] - 1].strip() != mutant["before"]:
        return "moved", None, None
    lines[mutant["line"] - 1] = mutant["changed"]
    file.write_text("\n".join(lines))
    wanted = [p for p in FOLDERS[mutant["folder"]][1] if p not in options.leave_out][:options.programs]
    try:
        if not build(options.build, ["plimsoll", "plimsoll_cli", wanted[0]], log):
            return "not compiling", None, None
        for program in wanted:
            if program != wanted[0] and not build(options.build, [program], log):
                return "not compiling", None, None
            test = programs.run(program, log)
            if test:
                return "killed", program, test
        return "survived", None, None
    finally:
        file.write_text(original)


def table(results):
    rows = {}
    for result in results:
        if result["outcome"] in ("killed", "survived", "equivalent", "not reached", "not compiling"):
            rows.setdefault(result["folder"], []).append(result)
    print(f"\n{'folder':<10}{'mutants':>9}{'compiling':>11}{'equivalent':>12}{'killed':>8}{'survived':>10}{'killed %':>10}")
    total = []
    for folder in [*[f for f in FOLDERS if f in rows], None]:
        all_of = rows[folder] if folder else total
        total = total if folder is None else total + all_of
        count = lambda outcome: sum(r["outcome"] == outcome for r in all_of)
        killed, survived, same = count("killed"), count("survived"), count("equivalent")
        share = f"{100 * killed / (killed + survived):.0f}" if killed + survived else "-"
        print(f"{folder or 'all':<10}{len(all_of):>9}{killed + survived + same:>11}{same:>12}{killed:>8}{survived:>10}{share:>10}")
    for outcome in ("survived", "not reached", "equivalent"):
        for result in results:
            if result["outcome"] == outcome:
                print(f"\n{outcome}: {result['file']}:{result['line']} ({result['operator']})\n  - {result['before']}\n"
                      f"  + {result['after']}" + (f"\n  {result['why']}" if "why" in result else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shards", type=int, default=2, help="processes of one test program at once")
    parser.add_argument("--programs", type=int, default=9, help="at most this many test programs a mutant, nearest first")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="PROGRAM")
    parser.add_argument("--filter", nargs="+", default=[], metavar="PROGRAM=FILTER", help="a gtest filter of a program")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts, to run parts side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after this many seconds")
    parser.add_argument("--again", action="store_true", help="run the survivors of the results file once more")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--equivalent", nargs=2, metavar=("ID", "WHY"))
    options = parser.parse_args()
    results = read_results(options.results)

    def keep(result):
        results[key_of(result)] = result
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as stream:
            stream.write(json.dumps(result) + "\n")

    if options.equivalent:
        found = [r for r in results.values() if r["id"] == options.equivalent[0] and r["outcome"] == "survived"]
        if not found:
            sys.exit(f"{options.results}: no survivor {options.equivalent[0]}")
        for result in found:
            keep(result | {"outcome": "equivalent", "why": options.equivalent[1]})
        return
    if options.table:
        return table(list(results.values()))
    if options.again:
        mutants = [r for r in results.values() if r["outcome"] == "survived"]
    else:
        mutants = [m for m in drawn(options.folders, options.count, options.seed) if key_of(m) not in results]
    part, parts = map(int, options.part.split("/"))
    mutants = mutants[part - 1::parts]
    say(f"seed {options.seed}: {len(mutants)} mutants to run")
    if options.list:
        for m in mutants:
            print(f"{m['file']}:{m['line']} ({m['operator']})\n  - {m['before']}\n  + {m['after']}")
        return
    dirty = subprocess.run(["git", "status", "--porcelain", "src", "include"], cwd=ROOT, text=True, capture_output=True).stdout
    if dirty:
        sys.exit(f"sources have uncommitted changes, which a mutant could be mixed up with; commit or stash them:\n{dirty}")

    begin = time.monotonic()
    with (options.build / "mutants.log").open("w") as log:
        programs = Programs(options.build, options.shards, dict(f.split("=", 1) for f in options.filter))
        needed = sorted({p for m in mutants for p in FOLDERS[m["folder"]][1][:options.programs] if p not in options.leave_out})
        if not build(options.build, ["plimsoll_cli", *needed], log):
            sys.exit(f"the sources do not build without a mutant; see {log.name}")
        for program in needed:
            test = programs.measure(program, log)
            if test:
                sys.exit(f"{program}: {test} without a mutant; see {log.name}")
            say(f"{program}: {programs.seconds[program]:.0f} s without a mutant")
        for i, mutant in enumerate(mutants, 1):
            if time.monotonic() - begin > options.seconds:
                say(f"{options.seconds:.0f} s are over; {len(mutants) - i + 1} mutants are left for another run")
                break
            start = time.monotonic()
            log.write(f"==== {mutant['id']}\n")
            log.flush()
            outcome, program, test = run_mutant(mutant, programs, options, log)
            took = round(time.monotonic() - start)
            keep({k: v for k, v in mutant.items() if k != "why"} |
                 {"outcome": outcome, "program": program, "test": test, "seconds": took})
            say(f"[{i}/{len(mutants)}] {took:4} s  {outcome:<14}{mutant['file']}:{mutant['line']} ({mutant['operator']})"
                + (f"  {program} {test}" if test else ""))
        build(options.build, ["plimsoll", "plimsoll_cli"], log)
    table(list(results.values()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # restores the source on the way out
    main()
