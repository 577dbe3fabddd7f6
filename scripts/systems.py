#!/usr/bin/env python3
"""The five systems' requests in their users' own words: runs each and checks what comes of it.

    scripts/systems.py                     all; fails where an answer is not the expected one, or docs/systems.md is stale
    scripts/systems.py gesture-ssm S07     some: systems, or single requests
    scripts/systems.py --write             the same for all, and writes docs/systems.md

examples/SYSTEM/user-requests has the blocks as their files have them and requests.json: for each request

    id, asks       what it is, in the system's own words
    run            the command as it is typed in that folder; in front of it variables of the environment may stand
    exit           0 unless said
    check          of the report that --json writes: "PATH OP VALUE", where OP is one of = != < <= > >= ~ (within 2 %) and
                   VALUE a word, a number, an amount (12 GiB, 4.5 GB) or "0.6 x beside", of the same field of `beside`
    beside         another command, for such checks
    says, quiet    pieces of text that stand in its output, or must not
    status         works | other figure | partly | missing, and `why` where it is not the first

A request works only if a field or a sentence shows it: an exit code alone is refused here. "other figure" is for what
their documents claim and no key asks for: the command answers, `check` holds the figure that is right here, and it is
not theirs.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "systems.md"
SYSTEMS = ["video-llm", "fmri-autoencoder", "gesture-ssm", "small-lm", "prompt-segmentation"]
STATUSES = ["works", "other figure", "partly", "missing"]
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 1e3, "MB": 1e6, "GB": 1e9, "%": 0.01}
LIMIT = 3600  # seconds a command: ends what hangs


class Report:
    """What a command did: its exit code, its text, and the JSON that it wrote (None: none)."""

    def __init__(self, code, text, fields):
        self.code, self.text, self.fields = code, text, fields

    def field(self, path):
        at = self.fields
        for name in path.split("."):
            try:
                at = at[int(name)] if isinstance(at, list) else at[name]
            except (KeyError, IndexError, TypeError, ValueError):
                raise LookupError(f"the report has no {path}") from None
        return at


def requests_of(system):
    requests = json.loads((ROOT / "examples" / system / "user-requests" / "requests.json").read_text())
    for each in requests:
        each["system"] = system
        each.setdefault("exit", 0)
        each.setdefault("status", "works")
        name = each["id"]
        assert each["status"] in STATUSES, f"{name}: no such status: {each['status']}"
        assert (each["status"] == "works") == ("why" not in each), f"{name}: why goes with what does not work"
        assert each.get("check") or each.get("says"), f"{name}: an exit code shows nothing"
        known = {"id", "asks", "run", "exit", "check", "beside", "says", "quiet", "status", "why", "system"}
        assert set(each) <= known, f"{name}: unknown: {set(each) - known}"
    return requests


class Runner:
    """Runs commands in copies of the examples' folders, each once."""

    def __init__(self, plimsoll, folder):
        self.plimsoll, self.folder = plimsoll, pathlib.Path(folder)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "plimsoll").symlink_to(self.plimsoll)  # for scripts, which call it by name
        for system in SYSTEMS:
            here = self.folder / "examples" / system
            shutil.copytree(ROOT / "examples" / system / "user-requests", here / "user-requests")
            for job in (ROOT / "examples" / system).glob("*.yaml"):
                shutil.copy(job, here)

    def __call__(self, key):
        system, line, number = key
        words = shlex.split(line)
        environment = dict(os.environ, OMP_NUM_THREADS="1", COLUMNS="100", PLIMSOLL_RUNTIME_DIR=str(self.folder))
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        written = self.folder / f"{number}.json"
        if words[0] == "plimsoll":
            words[0] = self.plimsoll
            if words[1] in ("plan", "train", "monitor") and "--help" not in words:
                words += ["--json", str(written)]
        elif words[0] == "sh":
            environment["PATH"] = f"{self.folder / 'bin'}:{environment['PATH']}"
        elif words[0] == "make":
            words[1:1] = ["-C", str(ROOT), "--no-print-directory"]
        try:
            done = subprocess.run(words, cwd=self.folder / "examples" / system / "user-requests", env=environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return Report(-1, f"nothing in {LIMIT} s", None)
        fields = json.loads(written.read_text()) if written.exists() else None
        return Report(done.returncode, done.stdout, fields)


def amount(text):
    """A number, with a unit or without; None where it is a word."""
    match = re.fullmatch(r"([-+0-9.e]+)\s*([A-Za-z%]*)", text)
    if not match or (match[2] and match[2] not in UNITS):
        return None
    try:
        return float(match[1]) * UNITS.get(match[2], 1)
    except ValueError:
        return None


def wrong(check, report, beside):
    """"" where the check holds, or what was found."""
    path, operator, value = check.split(" ", 2)
    found = report.field(path)
    factor = re.fullmatch(r"([0-9.]+) x beside", value)
    wanted = float(factor[1]) * beside.field(path) if factor else amount(value)
    if wanted is None or isinstance(found, (str, bool, dict, list)):
        same = (found if isinstance(found, str) else json.dumps(found)) == value
        holds = {"=": same, "!=": not same}[operator]
    else:
        holds = {"=": found == wanted, "!=": found != wanted, "<": found < wanted, "<=": found <= wanted,
                 ">": found > wanted, ">=": found >= wanted, "~": abs(found - wanted) <= 0.02 * abs(wanted)}[operator]
    return "" if holds else f"{check}: found {found}" + (f", wanted {wanted:g}" if factor else "")


def mistakes_of(request, report, beside):
    mistakes = []
    if report.code != request["exit"]:
        mistakes.append(f"exit code {report.code}, expected {request['exit']}")
    for check in request.get("check", []):
        try:
            if report.fields is None:
                raise LookupError("there is no report")
            if said := wrong(check, report, beside):
                mistakes.append(said)
        except LookupError as error:
            mistakes.append(f"{check}: {error}")
    text = " ".join(report.text.split())
    mistakes += [f"does not say '{piece}'" for piece in request.get("says", []) if piece not in text]
    mistakes += [f"says '{piece}'" for piece in request.get("quiet", []) if piece in text]
    return mistakes


def run_all(requests, plimsoll):
    """Lines about what is not as expected."""
    keys = {}
    for request in requests:
        for line in (request["run"], request.get("beside")):
            if line:
                keys.setdefault((request["system"], line), len(keys))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(plimsoll, folder)
        with concurrent.futures.ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 2))) as pool:
            done = dict(zip(keys, pool.map(runner, [(*key, number) for key, number in keys.items()])))
    lines = []
    for request in requests:
        report = done[request["system"], request["run"]]
        beside = done.get((request["system"], request.get("beside")))
        mistakes = mistakes_of(request, report, beside)
        if mistakes:
            lines.append(f"{request['id']} ({request['asks']}): {request['run']}")
            lines += ["    " + each for each in mistakes]
            lines.append("    it said: " + " ".join(report.text.split())[-600:])
    return lines


def named(requests, *statuses):
    return [f"- {each['id']}, {each['asks']}: *{each['status']}*, {each['why']} (`{each['run']}`)"
            for each in requests if each["status"] in statuses]


def page(requests):
    lines = ["# The five systems' requests", "",
             "Users of five systems ask for these things in words of their own. `requests.json` of a system has each request, the command that",
             "answers it, and what its report or its text must show; `scripts/systems.py` (ctest `user_requests`) checks all of them and writes this page.", "",
             "*other figure*: a claim of their documents; the figure here is another. *partly*, *missing*: the command shows what is answered",
             "today. Bytes on a card are planned by data sheets.", ""]
    lines += ["| system | requests | works | other figure | partly | missing |", "|---|---|---|---|---|---|"]
    counts = lambda some: [sum(each["status"] == status for each in some) for status in STATUSES]
    for system in SYSTEMS:
        some = [each for each in requests if each["system"] == system]
        lines.append(f"| [{system}](../examples/{system}/user-requests/requests.json) | {len(some)} | "
                     + " | ".join(map(str, counts(some))) + " |")
    lines.append(f"| all | {len(requests)} | " + " | ".join(map(str, counts(requests))) + " |")
    lines += ["", "## What does not work, and why", ""]
    lines += named(requests, "partly", "missing")
    lines += ["", "## Claims that do not hold here", ""]
    lines += named(requests, "other figure")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chosen", nargs="*", help="systems or requests; all without")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--write", action="store_true", help="write docs/systems.md")
    options = parser.parse_args()
    requests = [request for system in SYSTEMS for request in requests_of(system)]
    ids = [request["id"] for request in requests]
    assert len(ids) == len(set(ids)), "two requests of one name"
    chosen = [each for each in requests if not options.chosen or {each["system"], each["id"]} & set(options.chosen)]
    if not chosen:
        sys.exit("systems: no such request")
    mistakes = run_all(chosen, str(pathlib.Path(options.plimsoll).resolve()))
    if not options.chosen:
        if options.write and not mistakes:
            PAGE.write_text(page(requests))
        elif not PAGE.exists() or PAGE.read_text() != page(requests):
            mistakes.append("docs/systems.md is not what the requests say: scripts/systems.py --write")
    print("\n".join(mistakes) or f"systems: {len(chosen)} requests, "
          + ", ".join(f"{sum(each['status'] == status for each in chosen)} {status}" for status in STATUSES))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
