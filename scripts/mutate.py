#!/usr/bin/env python3
"""Puts small bugs into the sources, one at a time, and shows which of them no test notices.

    scripts/mutate.py                              120 mutants of all folders, seed 1; appends to build/mutants.jsonl
    scripts/mutate.py --count 12 --seed 7          other mutants
    scripts/mutate.py --folders plan run           mutants of some folders
    scripts/mutate.py --count 150 --counts run=20 record=20
                                                   20 of each of these folders, and the same number of each other folder
    scripts/mutate.py --again                      runs the survivors in the results file once more
    scripts/mutate.py --singly                     builds each mutant by itself
    scripts/mutate.py --list                       prints the drawn mutants and runs nothing
    scripts/mutate.py --table                      prints the tables of the results file and runs nothing
    scripts/mutate.py --table --markdown FILE      writes them to FILE as a page, too

A mutant is one change of one line: another comparison, another sign, a statement left out, and so on (OPERATORS in
scripts/mutants.py). Mutants are drawn by the seed, the same number from each folder, at most one a line. All of them are
written into their sources in place, as choices that an environment variable makes (scripts/mutant_choice.py), and are built
once. Mutants that cannot be such choices are built one at a time, at the end. The test program of the mutant's folder runs
first, then those of the folders that use it, until a test fails. In each program the tests that name the source run first, then
the quick tests, then the others. The sources are restored afterwards, also on Ctrl-C. The script refuses to start if a source
has uncommitted changes.

Results are one JSON object a line. A mutant whose line starts with the same text in the results file is not run again, and
another seed does not draw it. A person marks a survivor that changes no behavior as equivalent, with the reason:

    scripts/mutate.py --equivalent ID "why no test can notice it"

"not reached" is a survivor in code that this machine's processor does not run (--not-reached ID "why"); the table leaves it
out of the share.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutant_choice import ChosenMutants
from mutant_results import markdown, read_results, text_table
from mutants import FOLDERS, ROOT, drawn, key_of, killed_by_own, mutated, near_suites, programs_of

RESULTS = ROOT / "build" / "mutants.jsonl"
COMMITTED = ROOT / "bench" / "results" / "mutants.jsonl"
# Tests that run this many times as long as without a mutant hang.
HANG_FACTOR, HANG_SECONDS = 5, 60
# Tests that take longer run last: most mutants are noticed by a quick one.
SLOW_TEST_SECONDS = 0.3


def say(text):
    print(text, flush=True)


def build(build_folder, targets, log):
    """Whether the targets compile and link."""
    done = subprocess.run(["ninja", "-C", str(build_folder), "-j", os.environ.get("JOBS", "2"), *targets],
                          stdout=log, stderr=log)
    return done.returncode == 0


class Programs:
    """The test programs of a build, and how long each test takes without a mutant."""

    def __init__(self, build_folder, shards, filters):
        self.build, self.shards, self.filters = build_folder, shards, filters
        self.tests = {}  # by program: the seconds of each test
        self.chosen = 0  # the number of the mutant that runs; 0: none

    def begin(self, program, pattern, shard, report):
        environment = os.environ | {"GTEST_TOTAL_SHARDS": str(self.shards), "GTEST_SHARD_INDEX": str(shard),
                                    "PLIMSOLL_MUTANT": str(self.chosen)}
        words = [str(self.build / program), "--gtest_fail_fast", f"--gtest_filter={pattern}"]
        if report:
            words.append(f"--gtest_output=json:{report}")
        output = tempfile.TemporaryFile("w+", errors="replace")
        return subprocess.Popen(words, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
                                start_new_session=True), output

    def run_some(self, program, pattern, log, limit, reports=None):
        """None if these tests pass, else the name of a test that failed, "hangs" or "crashes"."""
        deadline = time.monotonic() + limit
        shards = [self.begin(program, pattern, shard, reports and reports[shard]) for shard in range(self.shards)]
        running = list(shards)
        try:
            while running:
                for shard in [s for s in running if s[0].poll() is not None]:
                    running.remove(shard)
                    shard[1].seek(0)
                    text = shard[1].read()
                    log.write(text)
                    if shard[0].returncode != 0:
                        failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:,|$| \()", text, re.M)
                        last = re.findall(r"^\[ RUN      \] ([\w/.]+)", text, re.M)
                        return failed[0] if failed else f"crashes in {last[-1]}" if last else "crashes"
                if time.monotonic() > deadline:
                    return "hangs"
                time.sleep(0.02)
        finally:
            for process, output in shards:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                output.close()
        return None

    def measure(self, program, log):
        """Runs all tests without a mutant, as run(), and notes how long each takes."""
        with tempfile.TemporaryDirectory() as folder:
            reports = [Path(folder) / f"{shard}.json" for shard in range(self.shards)]
            failed = self.run_some(program, self.filters.get(program, "*"), log, 3600, reports)
            if failed:
                return failed
            self.tests[program] = {
                f"{suite['name']}.{test['name']}": float(test.get("time", "0s")[:-1])
                for report in reports for suite in json.loads(report.read_text())["testsuites"]
                for test in suite["testsuite"] if test["status"] == "RUN"}
        return None

    def run(self, program, file, log):
        """As run_some(), with all tests: those that name the file first."""
        tests = self.tests[program]
        for names in in_order(tests, near_suites(file, program)):
            test = self.run_some(program, ":".join(names), log, sum(tests[n] for n in names) * HANG_FACTOR + HANG_SECONDS)
            if test:
                return test
        return None


def in_order(tests, near):
    """Parts of the tests (name: seconds) in the order in which they run: near ones, then others, each quick ones first."""
    def part_of(name):
        return not near.intersection(name.split(".")[0].split("/")), tests[name] > SLOW_TEST_SECONDS

    parts = [[n for n in tests if part_of(n) == part] for part in ((0, 0), (0, 1), (1, 0), (1, 1))]
    return [part for part in parts if part]


def wanted_programs(mutant, options):
    return [p for p in programs_of(mutant) if p not in options.leave_out][:options.programs]


def run_programs(mutant, programs, options, log, built):
    """What became of it: (outcome, test program, test). `built`: the programs are, with the mutant as a choice."""
    for program in wanted_programs(mutant, options):
        if not built and not build(options.build, [program], log):
            return "not compiling", None, None
        test = programs.run(program, mutant["file"], log)
        if test:
            return "killed", program, test
    return "survived", None, None


def run_mutant(mutant, programs, options, log, choices):
    """As run_programs(). The source is as before afterwards."""
    number = choices and choices.number_of(mutant)
    if number:
        programs.chosen = number
        try:
            return run_programs(mutant, programs, options, log, built=True)
        finally:
            programs.chosen = 0
    file = ROOT / mutant["file"]
    before = file.read_text() if file.exists() else ""
    changed = mutated(mutant, choices.originals[mutant["file"]] if choices else before)
    if changed is None:
        return "moved", None, None
    file.write_text(choices.text_of(mutant["file"], changed)[0] if choices else changed)
    try:
        return run_programs(mutant, programs, options, log, built=False)
    finally:
        file.write_text(before)


def build_choices(mutants, needed, options, log):
    """The mutants as choices in their sources, built into the programs."""
    choices = ChosenMutants(ROOT, mutants, options.build.resolve() / "mutant_choice.h")
    try:
        choices.write()
        while True:
            done = subprocess.run(["ninja", "-k", "0", "-C", str(options.build), "-j", os.environ.get("JOBS", "2"), *needed],
                                  capture_output=True, text=True, errors="replace")
            log.write(done.stdout + done.stderr)
            log.flush()
            if done.returncode == 0:
                return choices
            if not choices.take_out(done.stdout):
                raise SystemExit(f"the choices between mutants do not build; see {log.name}, or use --singly")
            say(f"{len(choices.left_out)} of {len(mutants)} mutants are no choices; building again")
    except BaseException:
        choices.restore()
        raise


def pair(text):
    folder, _, count = text.partition("=")
    if folder not in FOLDERS or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no FOLDER=COUNT; the folders are {', '.join(FOLDERS)}")
    return folder, int(count)


def run_all(mutants, needed, programs, options, log, choices, keep):
    """Runs the tests without a mutant, then with each; keep(result) takes the results."""
    begin = time.monotonic()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, text=True, capture_output=True).stdout.strip()
    for program in needed:
        start = time.monotonic()
        test = programs.measure(program, log)
        if test:
            sys.exit(f"{program}: {test} without a mutant; see {log.name}")
        say(f"{program}: {time.monotonic() - start:.0f} s without a mutant")
    for i, mutant in enumerate(sorted(mutants, key=lambda m: bool(choices and not choices.number_of(m))), 1):
        if time.monotonic() - begin > options.seconds:
            say(f"{options.seconds:.0f} s are over; {len(mutants) - i + 1} mutants are left for another run")
            break
        start = time.monotonic()
        log.write(f"==== {mutant['id']}\n")
        log.flush()
        outcome, program, test = run_mutant(mutant, programs, options, log, choices)
        took = round(time.monotonic() - start)
        by = "" if program is None else f"{'own' if killed_by_own({**mutant, 'program': program}) else 'above'}: {program} {test}"
        say(f"[{i}/{len(mutants)}] {took:4} s  {outcome:<14}{mutant['file']}:{mutant['line']} ({mutant['operator']})  {by}")
        if outcome != "moved":
            keep({k: v for k, v in mutant.items() if k not in ("why", "changed")} |
                 {"outcome": outcome, "program": program, "test": test, "seconds": took, "commit": commit})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", nargs="+", type=pair, default=[], metavar="FOLDER=COUNT",
                        help="mutants of these folders; the others share the rest of --count")
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shards", type=int, default=2, help="processes of one test program at once")
    parser.add_argument("--programs", type=int, default=9,
                        help="at most this many test programs a mutant: its own, then those above")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="PROGRAM")
    parser.add_argument("--filter", nargs="+", default=[], metavar="PROGRAM=FILTER", help="a gtest filter of a program")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts, to run parts side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after this many seconds")
    parser.add_argument("--again", action="store_true", help="run the survivors of the results file once more")
    parser.add_argument("--singly", action="store_true", help="build each mutant by itself")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="with --table: write the tables to FILE too")
    parser.add_argument("--equivalent", nargs=2, metavar=("ID", "WHY"))
    parser.add_argument("--not-reached", nargs=2, metavar=("ID", "WHY"))
    options = parser.parse_args()
    results = read_results(options.results)

    def keep(result):
        first = results.get(key_of(result), result)
        results[key_of(result)] = result | {"at_first": first.get("at_first", result["outcome"])}
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as stream:
            stream.write(json.dumps({k: v for k, v in result.items() if k != "at_first"}) + "\n")

    for outcome, mark in (("equivalent", options.equivalent), ("not reached", options.not_reached)):
        if mark:
            found = [r for r in results.values() if r["id"] == mark[0] and r["outcome"] == "survived"]
            if len(found) != 1:
                sys.exit(f"{options.results}: {len(found)} survivors have the id {mark[0]}")
            keep(found[0] | {"outcome": outcome, "why": mark[1]})
            return
    if options.table:
        if options.markdown:
            options.markdown.write_text(markdown(list(results.values())))
        return print(text_table(list(results.values())))
    part, parts = map(int, options.part.split("/"))
    if options.again:
        mutants = [r for r in results.values() if r["outcome"] == "survived"][part - 1::parts]
    else:
        other = [r for r in [*results.values(), *read_results(COMMITTED).values()] if r.get("seed") != options.seed]
        draw = drawn(options.folders, options.count, options.seed, dict(options.counts), set(map(key_of, other)))
        mutants = [m for m in draw[part - 1::parts] if key_of(m) not in results]
    say(f"seed {options.seed}: {len(mutants)} mutants to run")
    if options.list:
        for m in mutants:
            print(f"{m['file']}:{m['line']} ({m['operator']})\n  - {m['before']}\n  + {m['after']}")
        return
    dirty = subprocess.run(["git", "status", "--porcelain", "src", "include"], cwd=ROOT, text=True, capture_output=True).stdout
    if dirty:
        sys.exit(f"sources have uncommitted changes, which a mutant could be mixed up with; commit or stash them:\n{dirty}")

    with (options.build / "mutants.log").open("w") as log:
        programs = Programs(options.build, options.shards, dict(f.split("=", 1) for f in options.filter))
        needed = sorted({p for m in mutants for p in wanted_programs(m, options)})
        if options.singly and not build(options.build, needed, log):
            sys.exit(f"the sources do not build without a mutant; see {log.name}")
        choices = None if options.singly else build_choices(mutants, needed, options, log)
        try:
            run_all(mutants, needed, programs, options, log, choices, keep)
        finally:
            if choices:
                choices.restore()
        build(options.build, needed, log)
    print(text_table(list(results.values())))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # restores the source on the way out
    main()
