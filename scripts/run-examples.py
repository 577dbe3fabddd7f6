#!/usr/bin/env python3
"""Prepares and trains the small job of every example, and prints what each planned, used and learned.

    scripts/run-examples.py                       all of them, with the seed of the job
    scripts/run-examples.py gesture-ssm           some
    scripts/run-examples.py --seeds 5             seeds 1 to 5: mean and standard deviation of the metric
    scripts/run-examples.py --seeds 5 --splits --json FILE  other splits too, and the figures for machines
    scripts/run-examples.py --readme FILE         writes the table of README.md from such a file; trains nothing

Exit code 1 if a run fails, if memory used is not what was planned within half a percent, or if the mean of a metric is not
better than the example's floor (FLOORS). Other baselines that the mean does not beat are named.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ["small-lm", "gesture-ssm", "fmri-autoencoder", "prompt-segmentation", "video-llm"]
# Other splits of an example's data: whole videos held out, in two lists.
SPLITS = {f"video-llm/{name}": ("video-llm", [f"data.list={ROOT}/.data/video-llm/{name}.tsv"]) for name in ("whole-1", "whole-2")}
TOLERANCE = 0.005
# From the start, whatever runs of the same job have left: a run that is resumed at its end trains nothing.
ANEW = ['checkpoint.directory=""', 'log.metrics_file=""']
# What the metric is measured on, for the table of README.md.
HELD_OUT = {
    "small-lm": "1 MiB of text",
    "gesture-ssm": "the recordings of the test file",
    "fmri-autoencoder": "whole runs of the scanner",
    "prompt-segmentation": "blocks of slices",
    "video-llm": "parts of known videos",
    "video-llm/whole-1": "three whole videos",
    "video-llm/whole-2": "four whole videos",
}
# The data.type of an example, and what its baselines need besides.
BASELINES = {
    "small-lm": ["text"],
    "gesture-ssm": ["series"],
    "fmri-autoencoder": ["stimuli", f"--texts={ROOT}/.data/fmri-autoencoder/attributes.txt"],
    "prompt-segmentation": ["slices"],
    "video-llm": ["clips"],
}
# A model that is not above this baseline has learned nothing.
FLOORS = {
    "small-lm": "by the token before",
    "gesture-ssm": "most frequent class",
    "fmri-autoencoder": "mean of the label",
    "prompt-segmentation": "the structure's mean mask",
    "video-llm": "without the video",
}
TABLE = re.compile(r"(<!-- run-examples\.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def small_job(folder):
    return next(folder / name for name in ("tiny.yaml", "quickstart.yaml") if (folder / name).exists())


def plimsoll_json(options, command, name, overrides):
    job = str(small_job(ROOT / "examples" / name))
    done = subprocess.run([options.plimsoll, command, job, "--json", "-", *overrides], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: plimsoll {command} ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def baselines_of(options, name, overrides, report):
    """What examples/baselines/baselines.py says of the samples that a run has read and evaluated."""
    command = [str(options.python), str(ROOT / "examples/baselines/baselines.py"), *BASELINES[name], "--json",
               f"--writer={pathlib.Path(options.plimsoll).parent}/write_samples", f"--evaluated={report['evaluated_samples']}",
               f"--trained={report['steps'] * report['effective_batch_size']}", str(small_job(ROOT / "examples" / name)), *overrides]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {' '.join(command)} ended with exit code {done.returncode}")
    found = json.loads(done.stdout)
    # The program counts some of them too: they agree if the samples are those of the run.
    for own in report["baselines"]:
        if not any((each["metric"], each["name"]) == (own["metric"], own["name"]) and abs(each["value"] - own["value"]) < 1e-6 for each in found):
            sys.exit(f"{name}: {own['name']} is {own['value']} in the report, and not in that of {' '.join(command)}")
    return found


def metric_of(report, baselines):
    """The first metric that has baselines; else the evaluation loss, which is to be below them."""
    return next((name for name in report["metrics"] if any(each["metric"] == name for each in baselines)), "evaluation_loss")


def run(options, name):
    """Trains one example, or a split of SPLITS, with every seed; returns its figures."""
    split = name
    name, overrides = SPLITS.get(name, (name, []))
    overrides = [*overrides, *options.override]
    folder = ROOT / "examples" / name
    if (folder / "prepare").exists():
        subprocess.run([str(folder / "prepare")], check=True, stdout=sys.stderr)
    plan = plimsoll_json(options, "plan", name, overrides)
    seeds = [f"seed={seed}" for seed in range(1, options.seeds + 1)] or [None]
    reports, seconds = [], []
    for seed in seeds:
        began = time.monotonic()
        report = plimsoll_json(options, "train", name, [*ANEW, *overrides, *([seed] if seed else [])])
        seconds.append(time.monotonic() - began)
        if report["evaluation_loss"] is None:
            sys.exit(f"{name}: the run evaluated nothing; set data.validation_fraction above 0")
        reports.append(report)
        print(f"{split:20} {seed or '':8} evaluation loss {report['evaluation_loss']:.4f} {seconds[-1]:6.1f} s", file=sys.stderr, flush=True)
    # A baseline sees what a seed draws, if it sees that at all: those of the last seed are shown.
    found = baselines_of(options, name, [*overrides, *([seed] if seed else [])], report)
    metric = metric_of(report, found)
    values = [each["metrics"].get(metric, each["evaluation_loss"]) for each in reports]
    used = [[each["planned_peak_bytes"], each["measured_peak_bytes"]] for each in reports]
    return {
        "example": split, "parameters": plan["parameters"], "held_out": HELD_OUT[split], "steps": report["steps"],
        "precision": report["choices"]["precision"], "metric": metric, "seeds": len(seeds), "values": values,
        "mean": statistics.mean(values), "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "evaluation_losses": [each["evaluation_loss"] for each in reports],
        "baselines": {each["name"]: each["value"] for each in found if each["metric"] == metric},
        "budget_bytes": report["budget_bytes"], "planned_peak_bytes": used[0][0],
        "planned_and_used_bytes": used, "wall_seconds": [round(each, 1) for each in seconds],
    }


def better(metric, value, baseline):
    return value < baseline if metric.endswith("loss") else value > baseline


def spread(figures):
    mean = f"{figures['mean']:.3f}"
    return mean if figures["deviation"] is None else f"{mean} ± {figures['deviation']:.3f}"


def mebibytes(count):
    """Three digits, without an exponent."""
    value = count / 2**20
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def write_readme(results):
    words = {"evaluation_loss": "loss per token", "dice": "Dice", "captions_right": "correct captions"}
    lines = ["| system | parameters | peak memory | held out | metric, mean ± deviation | baselines |", "|---|---|---|---|---|---|"]
    for each in results:
        beside = "; ".join(f"{name} {value:.3f}" for name, value in each["baselines"].items())
        folder = each["example"].split("/")[0]
        lines.append(f"| [{folder}](examples/{folder}/README.md) | {each['parameters']:,} | ".replace(",", " ") +
                     f"{mebibytes(each['planned_peak_bytes'])} MiB | {each['held_out']} | "
                     f"{words.get(each['metric'], each['metric'])} {spread(each)} | {beside} |")
    readme = ROOT / "README.md"
    text = readme.read_text()
    new = TABLE.sub(lambda found: found.group(1) + "\n".join(lines) + "\n" + found.group(3), text)
    if new == text and not TABLE.search(text):
        sys.exit("README.md has no table between '<!-- run-examples.py -->' and '<!-- end -->'")
    aside = readme.with_name("README.md.new")
    aside.write_text(new)
    os.replace(aside, readme)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", default=EXAMPLES, help=f"of {', '.join([*EXAMPLES, *SPLITS])}")
    parser.add_argument("--splits", action="store_true", help="other splits of the data too")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="seeds 1 to N; default: the seed of the job")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".venv-examples/bin/python", help="with numpy (scripts/setup-examples.sh)")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.readme:
        return write_readme(json.loads(options.readme.read_text()))
    if not options.python.exists():
        parser.error(f"{options.python} is missing; run scripts/setup-examples.sh")
    unknown = [name for name in options.examples if name not in EXAMPLES and name not in SPLITS]
    if unknown:
        parser.error(f"there is no example {unknown[0]}; choose of {', '.join([*EXAMPLES, *SPLITS])}")
    results = [run(options, name) for name in [*options.examples, *(SPLITS if options.splits else [])]]
    good = True
    print(f"{'example':20} {'planned':>12} {'seconds':>8}  metric")
    for each in results:
        marks = []
        if any(abs(used - planned) > TOLERANCE * planned for planned, used in each["planned_and_used_bytes"]):
            marks.append("MEMORY IS NOT AS PLANNED")
        missed = [name for name, value in each["baselines"].items() if not better(each["metric"], each["mean"], value)]
        floor = FLOORS.get(each["example"])  # none for other splits
        if floor is not None and (floor in missed or floor not in each["baselines"]):
            marks.append("NOT BETTER THAN ITS FLOOR")
        good = good and not marks
        marks += [f"not better than: {name}" for name in missed]
        beside = ", ".join(f"{name} {value:.4f}" for name, value in each["baselines"].items())
        print(f"{each['example']:20} {each['planned_peak_bytes']:12} {max(each['wall_seconds']):8.0f}  {each['metric']} {spread(each)}"
              f"{' (' + beside + ')' if beside else ''}{'  ' + ', '.join(marks) if marks else ''}")
    minutes = sum(sum(each["wall_seconds"]) for each in results) / 60
    print(f"==> examples: {sum(each['seeds'] for each in results)} runs in {minutes:.1f} minutes")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
