#!/usr/bin/env python3
"""Each saving that a system's authors claim, beside what is predicted at full size and measured at small size.

    scripts/claims.py                     all systems: plans, trains, writes the tables into examples/*/README.md
    scripts/claims.py gesture-ssm         some
    scripts/claims.py --no-train          plans anew, keeps what was measured
    scripts/claims.py --missing           only what has not been planned and measured with the settings that stand there
    scripts/claims.py --tables            only writes the tables out of bench/results/claims.json
    scripts/claims.py --check             fails where a table is not what --tables would write, or a claim has been planned otherwise

examples/SYSTEM/claims.json has the claims: for each the settings to go through, at full size and at small size. A
setting is a list of overrides of the job, in which @NAME stands for those under "sets"; {"gpu": NAME, "set": [...]} plans
for that card's memory, {"job": FILE, "set": [...]} trains another job; `least` among them asks for the least budget that
fits in place of all that a step would take. "tables" there has tables of bytes that they drew up (reference_tables.py).

Predicted is what `plimsoll plan` says of bytes and seconds, with memory without end on the device named. Measured is
what `plimsoll train` counts in its arena when it has run some steps, and the resident size of its process. Time is
processor time with one thread: that of a run less that of a run of SHORT steps, over the steps between, the settings taken
in turn, the median of ROUNDS.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import reference_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "claims.json"
SYSTEMS = ["video-llm", "fmri-autoencoder", "gesture-ssm", "small-lm", "prompt-segmentation"]
GIB, MIB = 2**30, 2**20
OPEN, ROOM = "4000GiB", "2GiB"  # what a step takes if it may take what it likes
ROUNDS, SHORT = 3, 2
FIGURES = {"peak": "peak", "parameters": "parameters", "gradients": "gradients", "optimizer_state": "optimizer's state",
           "activations": "activations", "inputs": "inputs"}
# Nothing but steps: no evaluation, no checkpoint, no log.
QUIET = ["threads=1", "checkpoint.every_n_steps=0", "eval_every_n_steps=0", "data.validation_fraction=0", 'checkpoint.directory=""',
         'log.metrics_file=""']


def call(command, accepted=(0,)):
    """The JSON that the command writes to a file, and the processor seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*command, "--json", answer], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in accepted:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr.strip()}")
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return json.loads(pathlib.Path(answer).read_text()), seconds


class System:
    def __init__(self, name, plimsoll):
        self.folder = ROOT / "examples" / name
        self.plimsoll = plimsoll
        self.claims = json.loads((self.folder / "claims.json").read_text())
        self.plans, self.runs = {}, {}
        for part in ("rows", "tables"):
            names = [each["what"] for each in self.claims.get(part, [])]
            assert len(names) == len(set(names)), f"{name}: two of the {part} have one name"

    def named(self, setting):
        """With what @NAME stands for in its place."""
        if isinstance(setting, dict):
            return {**setting, "set": self.named(setting["set"])}
        sets = self.claims.get("sets", {})
        return [one for each in setting for one in (sets[each[1:]] if each.startswith("@") else [each])]

    def overrides(self, size, settings):
        return [*self.claims[size].get("common", []), *[each for each in self.named(settings) if each != "least"]]

    def predicted(self, setting):
        """Of one setting at full size; cards are planned for as they are, all else as if memory had no end."""
        card = setting.get("gpu") if isinstance(setting, dict) else None
        settings = setting["set"] if isinstance(setting, dict) else setting
        full = self.claims["full"]
        command = [self.plimsoll, "plan", self.folder / full["job"], "--gpu", card or full["gpu"]]
        command += ["memory_budget=auto"] if card else ["--memory", OPEN]
        command += self.overrides("full", settings)
        answer = self.plan(command)
        choices = answer["choices"]
        steps = choices.get("gradient_accumulation_steps", 1)
        return {"card": card, "fits": answer["fits"], "budget_bytes": answer["budget_bytes"] if card else None,
                "bytes": {"peak": answer["minimum_budget_bytes" if "least" in settings else "peak_bytes"],
                          **{part: answer["breakdown"][part] for part in FIGURES if part != "peak"}},
                "minimum_budget_bytes": answer["minimum_budget_bytes"],
                "batches": [choices.get("micro_batch_size"), steps["0"] if isinstance(steps, dict) else steps],
                "step_seconds": answer["step_seconds"]}

    def plan(self, command):
        """The report of a plan, which is made once."""
        key = json.dumps([str(each) for each in command])
        if key not in self.plans:
            self.plans[key] = call(command, accepted=(0, 3))[0]
        answer = self.plans[key]
        return answer["gpus"][0] if "gpus" in answer else answer

    def table(self, table, kept, train):
        """A table of theirs, each figure beside ours."""
        full = self.claims["full"]
        place = ["--gpu", table.get("gpu", full["gpu"]), "--advice", "none", "--by", "module",
                 *(["memory_budget=auto"] if table.get("card") else ["--memory", OPEN])]
        reports = [self.plan([self.plimsoll, "plan", self.folder / full["job"], *place, *self.overrides("full", table[key])])
                   if key in table else None for key in ("set", "than")]
        if not table.get("train"):
            ran = None
        elif train or "ran" not in kept:
            report, _ = self.train({"job": full["job"], "set": table["set"]}, 1)
            ran = {"measured_peak_bytes": report["measured_peak_bytes"], "breakdown": {"measured": report["breakdown"]["measured"]}}
        else:
            ran = kept["ran"]
        made = {"settings": self.table_settings(table), "figures": reference_tables.compared(table, reports[0], ran, reports[1])}
        return {**made, "ran": ran} if ran else made

    def table_settings(self, table):
        """What a table's figures come from."""
        sets = {key: self.named(table[key]) for key in ("set", "than") if key in table}
        figures = [[each["of"], each["theirs"], each["unit"]] for each in table["figures"]]
        return [self.claims["full"], table.get("gpu"), table.get("card", False), table.get("train", False), sets, figures]

    def settings(self, claim):
        """What a row's figures come from, written beside them."""
        return {"full": [self.claims["full"], [self.named(setting) for setting in claim.get("full", [])]],
                "tiny": [self.claims["tiny"], [self.named(setting) for setting in claim.get("tiny", [])],
                         "step" in claim.get("show", [])]}

    def train(self, setting, steps):
        job, settings = self.claims["tiny"]["job"], setting
        if isinstance(setting, dict):
            job, settings = setting["job"], setting["set"]
        command = [self.plimsoll, "train", self.folder / job, *QUIET, f"memory_budget={ROOM}",
                   *self.overrides("tiny", settings)]
        if "least" in settings:
            answer, _ = call([self.plimsoll, "plan", *command[2:]])
            command.append(f"memory_budget={answer['minimum_budget_bytes']}")
        return call([*command, f"max_steps={steps}"])

    def measured(self, settings):
        key = json.dumps(settings)
        if key not in self.runs:
            report, _ = self.train(settings, SHORT)
            parts = report["breakdown"]["measured"]
            self.runs[key] = {"bytes": {"peak": report["measured_peak_bytes"], **{p: parts[p] for p in FIGURES if p != "peak"}},
                              "planned_peak_bytes": report["planned_peak_bytes"],
                              "resident_bytes": report.get("resident_bytes")}
        return dict(self.runs[key])

    def timed(self, all_settings):
        """Processor seconds of a step for each of the settings, taken in turn so that what the machine does besides
        meets all of them alike. Each has run once before: videos are decoded, texts are tokenized."""
        steps = self.claims["tiny"]["steps"]
        seconds = [[] for _ in all_settings]
        for _ in range(ROUNDS):
            for i, settings in enumerate(all_settings):
                short_run = self.train(settings, SHORT)[1]
                seconds[i].append((self.train(settings, SHORT + steps)[1] - short_run) / steps)
        return seconds

    def row(self, claim, kept, train, missing):
        made = {"settings": self.settings(claim)}
        known = kept.get("settings") if missing else None
        known = known if isinstance(known, dict) else {}
        if known.get("full") == made["settings"]["full"]:
            made["predicted"] = kept["predicted"]
        else:
            made["predicted"] = [self.predicted(setting) for setting in claim.get("full", [])]
        if not train or known.get("tiny") == made["settings"]["tiny"]:
            made["measured"] = kept.get("measured", [])
            return made
        made["measured"] = [self.measured(settings) for settings in claim.get("tiny", [])]
        if "step" in claim.get("show", []) and made["measured"]:
            for each, rounds in zip(made["measured"], self.timed(claim["tiny"])):
                each["step_processor_seconds"] = statistics.median(rounds)
                each["rounds"] = rounds
        return made


def size(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if count >= unit / 10:
            value = count / unit
            return f"{value:.0f} {name}" if value >= 100 else f"{value:.1f} {name}" if value >= 10 else f"{value:.2f} {name}"
    return f"{count / 1024:.1f} KiB"


def seconds(value):
    if value >= 10:
        return f"{value:.1f} s"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def change(values):
    """By how much the last differs from the first."""
    if len(values) < 2 or not values[0]:
        return ""
    by = 100 * (values[-1] / values[0] - 1)
    return f" (**{'+' if by > 0 else '−' if round(by) else '±'}{abs(by):.0f} %**)"


def sequence(values, shown):
    return " → ".join(shown(value) for value in values) + change(values)


def steps(entries, time):
    """Their step times; of measured ones a change only where it is more than what the rounds differ by."""
    values = [entry[time] for entry in entries]
    first, last = entries[0].get("rounds"), entries[-1].get("rounds")
    if len(entries) > 1 and first and last and max(first) >= min(last) and max(last) >= min(first):
        return " → ".join(seconds(value) for value in values) + " (within the rounds' spread)"
    return sequence(values, seconds)


def card_cell(plan):
    budget = size(plan["budget_bytes"])
    if not plan["fits"]:
        return f"{plan['card']}: does not fit {budget}; least {size(plan['minimum_budget_bytes'])}"
    micro, steps = plan["batches"]
    return f"{plan['card']}: {size(plan['bytes']['peak'])} of {budget}, {micro} x {steps}, {seconds(plan['step_seconds'])}"


def cell(entries, show, time):
    lines = [card_cell(entry) for entry in entries if entry.get("card")]
    rest = [entry for entry in entries if not entry.get("card")]
    for name in show if rest else []:
        if name == "step":
            lines.append("step " + steps(rest, time))
        else:
            lines.append(f"{FIGURES[name]} " + sequence([entry["bytes"][name] for entry in rest], size))
    return "<br>".join(lines)


def table(claims, results):
    lines = ["| | claimed | predicted, full size | measured, small size | resident | |", "|---|---|---|---|---|---|"]
    for claim in claims:
        row, show, why_not = results[claim["what"]], claim.get("show", ["peak"]), claim.get("why_not", "–")
        predicted = cell(row["predicted"], show, "step_seconds") or why_not
        measured = cell(row["measured"], show, "step_processor_seconds") or why_not
        resident = " → ".join(f"{entry['resident_bytes'] / MIB:.0f}" for entry in row["measured"] if entry.get("resident_bytes"))
        lines.append(f"| {claim['what']} | {claim['claim']} | {predicted} | {measured} | {resident + ' MiB' if resident else ''} "
                     f"| {claim.get('note', '')} |")
    return "\n".join(lines)


def put(readme, text, mark, made):
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"{readme} has no place for the table: <!-- {mark} --> and <!-- end -->")
    return pattern.sub(lambda found: found.group(1) + made + "\n" + found.group(2), text)


def readme_of(name):
    return ROOT / "examples" / name / "README.md"


def with_tables(name, claims, results):
    """The system's README with the tables that the results make."""
    words = (f"Full size: `{claims['full']['job']}` on {claims['full']['gpu']} unless another card is named"
             f"{', `' + ' '.join(claims['full']['common']) + '`' if claims['full'].get('common') else ''}.\n"
             f"Small: `{claims['tiny']['job']}`, one thread"
             f"{', `' + ' '.join(claims['tiny']['common']) + '`' if claims['tiny'].get('common') else ''}; bytes are counted in the arena, "
             f"time is processor time of a step (median of {ROUNDS} rounds).\nThe percentage compares the last figure with the first.\n\n")
    text = put(readme_of(name), readme_of(name).read_text(), "claims", words + table(claims["rows"], results))
    if claims.get("tables"):
        text = put(readme_of(name), text, "their tables", reference_tables.table_text(claims["tables"], results["tables"]))
    return text


def stale(system, results):
    """What of the system's claims has been made with other settings, or not at all."""
    rows = [claim["what"] for claim in system.claims["rows"] if results.get(claim["what"], {}).get("settings") != system.settings(claim)]
    tables = results.get("tables", {})
    return rows + [each["what"] for each in system.claims.get("tables", [])
                   if tables.get(each["what"], {}).get("settings") != system.table_settings(each)]


def check(systems, results):
    wrong = []
    for system in systems:
        name, made = system.folder.name, results.get(system.folder.name, {})
        old = stale(system, made)
        wrong += [f"{name}: {what}: not planned with the settings that stand there: scripts/claims.py --missing {name}" for what in old]
        if not old and with_tables(name, system.claims, made) != readme_of(name).read_text():
            wrong.append(f"{readme_of(name)} is not what the results make: scripts/claims.py --tables {name}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{sum(len(each.claims['rows']) for each in systems)} claims and "
          f"{sum(len(table['figures']) for each in systems for table in each.claims.get('tables', []))} figures of tables are as they stand")


def make(system, results, options):
    """Plans and trains what is asked for, and writes it down after each."""
    name = system.folder.name
    kept = results.setdefault(name, {})
    tables = kept.get("tables", {})

    def write():
        rows = {each["what"]: kept[each["what"]] for each in system.claims["rows"] if each["what"] in kept}
        theirs = {each["what"]: tables[each["what"]] for each in system.claims.get("tables", []) if each["what"] in tables}
        results[name] = {**rows, **({"tables": theirs} if theirs else {})}
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")

    for claim in system.claims["rows"]:
        what = claim["what"]
        if options.missing and kept.get(what, {}).get("settings") == system.settings(claim):
            continue
        print(f"{name}: {what}", file=sys.stderr, flush=True)
        kept[what] = system.row(claim, kept.get(what, {}), not options.no_train, options.missing)
        write()
    for each in system.claims.get("tables", []):
        what = each["what"]
        if options.missing and tables.get(what, {}).get("settings") == system.table_settings(each):
            continue
        print(f"{name}: {what}", file=sys.stderr, flush=True)
        tables[what] = system.table(each, tables.get(what, {}), not options.no_train)
        write()
    write()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=SYSTEMS, metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--no-train", action="store_true", help="keep what was measured")
    parser.add_argument("--missing", action="store_true", help="only what is not there yet")
    parser.add_argument("--tables", action="store_true", help="neither plan nor train")
    parser.add_argument("--check", action="store_true", help="whether the tables are what the results make")
    options = parser.parse_args()
    unknown = [name for name in options.systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(SYSTEMS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    systems = [System(name, options.plimsoll) for name in options.systems]
    if options.check:
        return check(systems, results)
    for name, system in zip(options.systems, systems):
        if not options.tables:
            make(system, results, options)
        if old := stale(system, results.get(name, {})):
            sys.exit(f"{RESULTS} has not all of {name} ({old[0]}): run without --tables first")
        readme_of(name).write_text(with_tables(name, system.claims, results[name]))


if __name__ == "__main__":
    main()
