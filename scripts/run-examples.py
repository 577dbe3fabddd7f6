#!/usr/bin/env python3
"""Prepares and trains the small job of every example, and prints what each planned, used and learned.

    scripts/run-examples.py                  all of them
    scripts/run-examples.py gesture-ssm      some
    scripts/run-examples.py --json FILE      the figures for machines as well

Exit code 1 where a run fails, where memory used is not what was planned within half a percent, or where a metric is not
better than the baseline that it is shown with first.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ["small-lm", "gesture-ssm", "fmri-autoencoder", "prompt-segmentation", "video-llm"]
TOLERANCE = 0.005
# From the start, whatever runs of the same job have left: what is resumed at its end trains nothing.
ANEW = ['checkpoint.directory=""', 'log.metrics_file=""']


def small_job(folder):
    return next(folder / name for name in ("tiny.yaml", "quickstart.yaml") if (folder / name).exists())


def run(name, plimsoll, overrides):
    folder = ROOT / "examples" / name
    if (folder / "prepare").exists():
        subprocess.run([str(folder / "prepare")], check=True, stdout=sys.stderr)
    began = time.monotonic()
    done = subprocess.run([plimsoll, "train", str(small_job(folder)), "--json", "-", *ANEW, *overrides], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: plimsoll train ended with exit code {done.returncode}")
    report = json.loads(done.stdout)
    report["example"], report["wall_seconds"] = name, time.monotonic() - began
    return report


def metric_of(report):
    """The first metric with its baselines; the evaluation loss, which is to be below them, where there is none."""
    for name, value in report["metrics"].items():
        baselines = [each for each in report["baselines"] if each["metric"] == name]
        if baselines:
            return name, value, baselines
    return "evaluation_loss", report["evaluation_loss"], [b for b in report["baselines"] if b["metric"] == "evaluation_loss"]


def better(metric, value, baseline):
    return value < baseline if metric.endswith("loss") else value > baseline


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", default=EXAMPLES)
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json")
    options = parser.parse_args()
    reports = [run(name, options.plimsoll, options.override) for name in options.examples]
    good = True
    print(f"{'example':20} {'planned':>12} {'used':>12} {'seconds':>8}  metric")
    for report in reports:
        planned, used = report["planned_peak_bytes"], report["measured_peak_bytes"]
        name, value, baselines = metric_of(report)
        beside = ", ".join(f"{each['name']} {each['value']:.4f}" for each in baselines)
        marks = []
        if abs(used - planned) > TOLERANCE * planned:
            marks.append("MEMORY IS NOT AS PLANNED")
        if baselines and value is not None and not better(name, value, baselines[0]["value"]):
            marks.append("NOT BETTER THAN THE BASELINE")
        good = good and not marks
        said = "no metric" if value is None else f"{name} {value:.4f}"
        print(f"{report['example']:20} {planned:12} {used:12} {report['wall_seconds']:8.0f}  {said}"
              f"{' (' + beside + ')' if beside else ''}{'  ' + ', '.join(marks) if marks else ''}")
    for report in reports:  # of a step each, or prose
        for name in ("losses", "reasons", "left_out"):
            report.pop(name, None)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(reports, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
