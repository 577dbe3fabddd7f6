#!/usr/bin/env python3
"""Writes docs/command-line.md from the program's own help.

    scripts/command-line.py            writes the page
    scripts/command-line.py --check    fails if the page is not what the program says now

Runs build/plimsoll (--plimsoll PATH: another) with --help, and each of its commands. The fields of `plan --json` are
described below, in FIELDS; a small job is planned to see that no field is missing and none is left over.
"""
import argparse
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "command-line.md"
COLUMN = 30  # where descriptions begin in the help
SHARED = "The usual flags"  # a group of options that several commands have: described once
JOB = """
model: {hidden_size: 64, num_layers: 1, num_heads: 2}
data: {type: synthetic, sequence_length: 32}
batch_size: 2
precision: 32-true
memory_budget: 64MiB
"""
FIELDS = {
    "fits": "true if a plan within the budget was found",
    "budget_bytes": "the device's budget; 0: no limit",
    "peak_bytes": "planned peak on the device, context and fragmentation included",
    "minimum_budget_bytes": "the smallest budget for which a plan was placed",
    "plan_hash": "16 hexadecimal digits for ops, operands, offsets and budgets; `train --json` has the same if it ran this plan",
    "breakdown": "the parts of peak_bytes: parameters, gradients, optimizer_state, activations, inputs, workspace, context, fragmentation",
    "headroom_bytes": "budget less peak; null without a budget",
    "budget_share": "peak as a fraction of the budget; null without a budget",
    "device_bytes": "nominal memory of the device named by --gpu; null without one",
    "device_share": "peak as a fraction of that; null without one",
    "devices": "devices that train together; the plan is that of one of them",
    "strategy": "what each device stores: ddp, zero1, zero2, zero3, or auto if nothing was decided; null for one device",
    "link": "the links between the devices; null for one device",
    "link_bytes_per_step": "bytes that a device sends to the others in a step",
    "exchange_seconds_per_step": "predicted seconds of these exchanges. null, as link_bytes_per_step and units_per_second_all_devices: no exchanges were recorded",
    "exchange_wait_seconds_per_step": "the part of exchange_seconds_per_step that ops wait for",
    "units_per_second_all_devices": "units_per_second of all devices together",
    "step_seconds": "predicted seconds of an optimizer step",
    "units_per_second": "predicted throughput of one device",
    "uncertainty": "relative uncertainty of units_per_second on a device of the catalogue: 0.15 means that two of three predictions are within 15 %. null: not known",
    "unit": "what units_per_second counts, for example tokens",
    "norms_seconds": "predicted seconds of a first pass for the gradients' norm, or 0",
    "recompute_seconds": "predicted seconds of recomputed ops in a micro batch",
    "recompute_bound_seconds": "lower bound of recompute_seconds + offload_seconds under this budget",
    "offload_seconds": "predicted seconds that ops of a micro batch wait for copies",
    "update_offload_seconds": "predicted seconds that the update waits for copies",
    "host_bytes": "planned peak of the arena in host memory",
    "host_budget_bytes": "host_memory_budget less batches_ahead_bytes",
    "batches_ahead_bytes": "host memory for micro batches that are prepared ahead",
    "disk_bytes": "planned bytes on disk",
    "disk_budget_bytes": "disk_budget",
    "process": "with process_budget: budget_bytes, planned_bytes, minimum_bytes, present_bytes, later_bytes, arena_bytes; else null",
    "elsewhere": "offloaded buffers that live from step to step, or from a micro batch to the update: label, role, memory, bytes",
    "cost_model": "device and source of the rates that times are predicted from",
    "effective_batch_size": "samples of a step in the first epoch",
    "choices": "settings of the plan: micro_batch_size, gradient_accumulation_steps, precision, number formats, offload_…_bytes, …",
    "reasons": "each decision and its reason: decision, why",
    "plan_seconds": "seconds of planning, recording included",
    "record_seconds": "seconds of recording",
    "run_length": "steps of the whole run: steps, training_samples, steps_of_epochs, schedule_steps, warmup_steps, schedule, text; null: not known before the data are read",
    "parameters": "numbers that are trained, over all ranks",
    "model_parameters": "numbers of the model: frozen ones included, adapters not",
    "rank_parameters": "trained numbers that a rank stores; fewer with zero3",
    "model_bytes": "peak of parameters, gradients and optimizer state on the device",
    "arena_bytes": "size of the device's arena",
    "live_bytes": "largest sum of live buffers, without fragmentation",
    "arena_waste": "fragmentation as a fraction of live_bytes",
    "residents": "the largest buffers at the peak: label, role, bytes",
}
# Fields that only some calls have.
SOMETIMES = {
    "passes": "with --dump-passes: pass, applied, changed, ops, buffers, live_bytes, file (null: the trace is unchanged)",
    "by_module": "with --by module: module, bytes, breakdown",
    "frontier": "with --frontier or --html, one entry a budget: budget_bytes, peak_bytes, step_seconds, choices, fits",
    "gpus": "with several devices in --gpu, instead of all else: one entry a device",
    "device_counts": "with several numbers in --devices, instead of all else: one entry a number, with its efficiency",
    "would_fit": "if the job does not fit: changes that would: change, overrides, meaning, peak_bytes, step_seconds, units_per_second",
    "would_fit_search": "the search for them: complete, interrupted, limit_seconds, seconds, planned, not_planned",
    "what_if": "with --what-if: change, meaning, fits, parameters, minimum_budget_bytes, peak_bytes, step_seconds, units_per_second, uncertainty",
    "what_if_not_planned": "changes for which no time was left",
}


# What several commands have with one meaning: described once.
COMMON = {
    "-h,--help": "print this help message and exit",
    "--json FILE|-": "write the result as JSON to FILE; -: to standard output, without other output",
    "JOB.yaml": "the job file",
    "OVERRIDE ...": "value for a key of the job file, as key.path=value: optimizer.name=sgd 'data.files=[a.txt, b.txt]'",
}


def said(command):
    # The help is parsed, so no line of it may be folded.
    done = subprocess.run(command, env={**os.environ, "COLUMNS": "1000000"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


class Help:
    """A help text in its parts: description, usage, groups of entries (name, meaning), and what follows them."""

    def __init__(self, text):
        self.description, self.usage, self.groups, self.footer = [], "", {}, []
        group, entries_end = None, False
        lines = text.splitlines()
        for index, line in enumerate(lines):
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if line.startswith("Usage: "):
                self.usage = line[len("Usage: "):].strip()
            elif not self.usage:
                self.description.append(line)
            elif entries_end:
                self.footer.append(line)
            elif re.match(r"\S.*:$", line) and re.match(r"  \S", following) and (group is None or not lines[index - 1].strip()) \
                    and self.is_group(line[:-1]):
                group = line[:-1]
                self.groups[group] = []
            elif group and line.startswith(" " * COLUMN):
                name, meaning = self.groups[group][-1]
                self.groups[group][-1] = (name, f"{meaning} {line.strip()}".strip())
            elif group and re.match(r"  \S", line):
                long = following.startswith(" " * COLUMN) and "  " not in line.strip()
                name, meaning = (line, "") if long else (line[:COLUMN], line[COLUMN:])
                self.groups[group].append((name.strip(), meaning.strip()))
            elif group and line.strip():
                entries_end = True
                self.footer.append(line)
        self.description = " ".join(line.strip() for line in self.description if line.strip())

    @staticmethod
    def is_group(name):
        return name in ("Positionals", "Options", "Subcommands") or name.startswith(SHARED)


def cell(text):
    """Text for a table: nothing in it is Markdown."""
    return re.sub(r"([\\|*_<>\[\]`])", r"\\\1", text)


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def parts_of(name):
    """An entry of the help as (name and value, default, conditions): "--measure FLOAT:from 0 to 3600=30 Needs: --hot"."""
    name, *conditions = re.split(r" (?=(?:Needs|Excludes): )", name)
    conditions = [condition[:1].lower() + condition[1:].replace(":", "", 1) for condition in conditions]
    if name.endswith(" REQUIRED"):
        name, conditions = name[:-len(" REQUIRED")], ["required", *conditions]
    value = re.match(r"(.*?)(?::((?:from |\[).*?))?(?:=(\S+))?$", name)
    if value.group(2):
        conditions.append(value.group(2))
    return value.group(1), value.group(3) or "", conditions


def table(heading, entries):
    rows = []
    for name, meaning in entries:
        name, default, conditions = parts_of(name)
        if default and "default" not in meaning:
            conditions.insert(0, f"default {default}")
        rows.append(f"| {code(name)} | {cell('; '.join([meaning, *conditions]))} |")
    return [f"| {heading} | Meaning |", "|---|---|", *rows, ""]


def fields(plimsoll):
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(JOB)
        found = json.loads(said([plimsoll, "plan", str(job), "--json", "-"]))
    unknown, gone = set(found) - set(FIELDS), set(FIELDS) - set(found)
    if unknown or gone:
        sys.exit(f"scripts/command-line.py: FIELDS lacks {sorted(unknown)} of `plan --json`, which does not have {sorted(gone)}")
    return ["| Field | Meaning |", "|---|---|"] + [f"| `{name}` | {cell(meaning)} |" for name, meaning in {**FIELDS, **SOMETIMES}.items()]


def page(plimsoll):
    main = Help(said([plimsoll, "--help"]))
    commands = main.groups["Subcommands"]
    lines = ["# Command line", "",
             "<!-- Written by scripts/command-line.py from the program's own help; do not edit. -->", "",
             "`plimsoll COMMAND --help` prints these options, and examples; `plimsoll --version` prints the version. Keys are in the",
             "[job file](job-file.md), exit codes in [how a run ends](runs.md#exit-codes).", "",
             f"    {main.usage}", ""]
    shared = {}
    for name, meaning in commands:
        found = Help(said([plimsoll, name, "--help"]))
        lines += [f"## plimsoll {name}", "", cell(meaning[:1].upper() + meaning[1:]) + ".", "", f"    {found.usage}", ""]
        also = []
        for group, entries in found.groups.items():
            if group.startswith(SHARED):
                if shared.setdefault(group, entries) != entries:
                    sys.exit(f"scripts/command-line.py: '{group}' differs between commands: describe each by itself")
                also.append("[the usual flags](#the-usual-flags)")
            else:
                own = [entry for entry in entries if not entry[0].startswith(tuple(COMMON))]
                also += ["`--json`" for entry in entries if entry[0].startswith("--json")]
                if own:
                    lines += table("Argument" if group == "Positionals" else "Option", own)
        if also:
            lines += [f"Also: {', '.join(also)}.", ""]
    lines += ["## Common arguments", "", *table("Argument", COMMON.items())]
    for group, entries in shared.items():
        lines += ["## The usual flags", "", cell(group[len(SHARED):].strip(" ()")[:1].upper() + group[len(SHARED):].strip(" ()")[1:]) + ".", ""]
        lines += table("Flag", entries)
    lines += ["## Fields of `plan --json`", "",
              "Later versions may add fields.", ""] + fields(plimsoll)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"), metavar="PATH")
    options = parser.parse_args()
    text = page(options.plimsoll)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if old != text:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(PAGE.relative_to(ROOT)), "the program's help"))
        sys.exit("docs/command-line.md is stale: run scripts/command-line.py")


if __name__ == "__main__":
    main()
