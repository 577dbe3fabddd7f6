#!/usr/bin/env python3
"""Tables for READMEs out of plans, as Markdown: nothing in them is typed.

    scripts/memory-table.py parts  JOB@GPU[,KEY=VALUE...] ...   what fills each device, with its share of what is usable
    scripts/memory-table.py ladder JOB@GPU SETTING[,SETTING...] ...   one row a set of overrides, as NAME:KEY=VALUE,KEY=VALUE
    scripts/memory-table.py learned JOB@GPU SETTING[,SETTING...] ...  the same, of what is frozen: what stays and what learns
    scripts/memory-table.py devices JOB[,KEY=VALUE...] GPU ...  which devices can train it, how fast
    scripts/memory-table.py cards JOB GPU:[KEY=VALUE;KEY=VALUE...] ...   one row a card with the changes that it needs
    scripts/memory-table.py fused JOB ...   what `compile` changes: each job with it off and as it is by itself
    scripts/memory-table.py recipes JOB[,KEY=VALUE...] GPU[,GPU...] [NAME:KEY=VALUE;KEY=VALUE...] ...
                                                                --recipe saving, balanced and speed on each card, a row a
                                                                card and a set of overrides (a semicolon between two)

scripts/readme-tables.py writes them where a README asks for them.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["parameters", "optimizer state", "gradients", "activations", "inputs", "workspace", "context", "fragmentation"]
GIB = 2 ** 30


def plan(options, job, gpu, overrides):
    command = [options.plimsoll, "plan", job, "--json", "-", *overrides]
    if gpu:
        command += ["--gpu", gpu]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def size(count):
    return f"{count / GIB:.2f} GiB" if count >= GIB / 10 else f"{count / 2 ** 20:.1f} MiB"


def seconds(value):
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def micro_batches(p):
    """SAMPLES x COUNT; of a schedule its first."""
    steps = p["choices"]["gradient_accumulation_steps"]
    return f"{p['choices']['micro_batch_size']} x {steps['0'] if isinstance(steps, dict) else steps}"


def split(target):
    """JOB@GPU,KEY=VALUE,... in its parts."""
    place, *overrides = target.split(",")
    job, _, gpu = place.partition("@")
    return job, gpu, overrides


def part_of(breakdown, name):
    return breakdown.get(name, breakdown.get(name.replace(" ", "_"), 0))


def parts(options):
    plans = [(target, plan(options, *split(target))) for target in options.arguments]
    print("| | " + " | ".join(f"{pathlib.Path(split(t)[0]).stem}, {split(t)[1]}" for t, _ in plans) + " |")
    print("|---" * (len(plans) + 1) + "|")
    for name in PARTS:
        cells = [f"{size(part_of(p['breakdown'], name))}, {100 * part_of(p['breakdown'], name) / p['budget_bytes']:.1f} %" for _, p in plans]
        if any(part_of(p["breakdown"], name) for _, p in plans):
            print(f"| {name} | " + " | ".join(cells) + " |")
    print("| **peak** | " + " | ".join(f"**{size(p['peak_bytes'])}, {100 * p['peak_bytes'] / p['budget_bytes']:.1f} %**" for _, p in plans) + " |")
    print("| budget | " + " | ".join(size(p["budget_bytes"]) for _, p in plans) + " |")
    print("| minimum budget | " + " | ".join(size(p["minimum_budget_bytes"]) for _, p in plans) + " |")
    print("| predicted step | " + " | ".join(f"{seconds(p['step_seconds'])}, " + f"{p['units_per_second']:,.0f}".replace(",", " ") + f" {p['unit']}/s" for _, p in plans) + " |")


def settings(options):
    """Of JOB@GPU NAME:KEY=VALUE,... each name with its plan."""
    job, gpu, common = split(options.arguments[0])
    for setting in options.arguments[1:]:
        name, _, overrides = setting.rpartition(":")
        yield name, plan(options, job, gpu, common + [o for o in overrides.split(",") if o])


def ladder(options):
    print("| setting | peak | activations | minimum budget | predicted step | fits |")
    print("|---|---|---|---|---|---|")
    for name, p in settings(options):
        print(f"| {name} | {size(p['peak_bytes'])} | {size(part_of(p['breakdown'], 'activations'))} | {size(p['minimum_budget_bytes'])} | "
              f"{seconds(p['step_seconds'])} | {'yes' if p['fits'] else 'no'} |")


def learned(options):
    print("| | minimum budget | parameters | trained |")
    print("|---|---|---|---|")
    for name, p in settings(options):
        print(f"| {name} | {size(p['minimum_budget_bytes'])} | {size(part_of(p['breakdown'], 'parameters'))} | {p['parameters'] / 1e6:,.1f} M |".replace(",", " "))


def devices(options):
    target, *gpus = options.arguments
    job, _, common = split(target)
    print("| device | usable | peak | minimum budget | micro batches | predicted step |")
    print("|---|---|---|---|---|---|")
    for gpu in gpus:
        p = plan(options, job, gpu, common)
        how = micro_batches(p) if p["fits"] else "does not fit"
        print(f"| {gpu} | {size(p['budget_bytes'])} | {size(p['peak_bytes'])} | {size(p['minimum_budget_bytes'])} | {how} | "
              f"{seconds(p['step_seconds']) if p['fits'] else ''} |")


def cards(options):
    target, *rows = options.arguments
    job, _, common = split(target)
    print("| card | changes | usable | peak | micro batches | predicted step |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        gpu, _, text = row.partition(":")
        changes = [each for each in text.split(";") if each]
        p = plan(options, job, gpu, common + changes)
        how = micro_batches(p) if p["fits"] else "does not fit"
        print(f"| {gpu} | {f'`{chr(32).join(changes)}`' if changes else 'none'} | {size(p['budget_bytes'])} | {size(p['peak_bytes'])} | {how} | "
              f"{seconds(p['step_seconds']) if p['fits'] else ''} |", flush=True)


def fused(options):
    print("| job | recorded ops within fused ones | peak, `false` | peak, `auto` | predicted step, `false` | `auto` |")
    print("|---|---|---|---|---|---|")
    for target in options.arguments:
        job, gpu, common = split(target)
        off, on = (plan(options, job, gpu, [*common, f"compile={value}"]) for value in ("false", "auto"))
        name = pathlib.Path(job).parent.name + " `" + pathlib.Path(job).name + "`" + (f" on {gpu}" if gpu else "")
        print(f"| {name} | {on['choices']['fused_ops']} | {size(off['peak_bytes'])} | {size(on['peak_bytes'])} | "
              f"{seconds(off['step_seconds'])} | {seconds(on['step_seconds'])} |", flush=True)


def recipes(options):
    target, gpus, *variants = options.arguments
    job, _, common = split(target)
    names = ["saving", "balanced", "speed"]
    print("| card | usable | " + ("| " if variants else "") + " | ".join(f"`--recipe {name}`" for name in names) + " |")
    print("|---|---|" + ("---|" if variants else "") + "---|" * len(names))
    for gpu in gpus.split(","):
        for variant in variants or [""]:
            name, _, overrides = variant.partition(":")
            cells = []
            for recipe in names:
                p = plan(options, job, gpu, ["--recipe", recipe, *common, *[each for each in overrides.split(";") if each]])
                cells.append(f"{size(p['peak_bytes'])}, {micro_batches(p)}, {seconds(p['step_seconds'])}" if p["fits"]
                             else f"no: {size(p['minimum_budget_bytes'])}")
            print(f"| {gpu} | {size(p['budget_bytes'])} | " + (f"{name} | " if variants else "") + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["parts", "ladder", "learned", "devices", "cards", "fused", "recipes"])
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    options = parser.parse_args()
    {"parts": parts, "ladder": ladder, "learned": learned, "devices": devices, "cards": cards, "fused": fused, "recipes": recipes}[options.kind](options)


if __name__ == "__main__":
    main()
