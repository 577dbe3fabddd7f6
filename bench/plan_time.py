"""How long planning takes, and how much memory: whole processes of `plimsoll plan`, start included.

Medians over the rounds. Writes a table, and JSON with --json FILE.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(program, job):
    start = time.monotonic()
    child = subprocess.Popen([program, "plan", str(job), "--json", "-"], stdout=subprocess.PIPE)
    result = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{job}: exit code {os.waitstatus_to_exitcode(status)}")
    return {"seconds": time.monotonic() - start, "resident_bytes": usage.ru_maxrss * 1024, "plan_seconds": result["plan_seconds"],
            "record_seconds": result["record_seconds"], "arena_waste": result["arena_waste"], "peak_bytes": result["peak_bytes"],
            "recompute_seconds": result["recompute_seconds"], "recompute_bound_seconds": result["recompute_bound_seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("jobs", nargs="*", default=sorted((ROOT / "bench/jobs").glob("*.yaml")))
    options = parser.parse_args()
    rows = []
    for job in options.jobs:
        runs = [run(options.plimsoll, job) for _ in range(options.rounds)]
        rows.append({"job": pathlib.Path(job).stem, **{key: statistics.median(r[key] for r in runs) for key in runs[0]}})
    print(f"{'job':16} {'process s':>9} {'plan s':>7} {'resident MB':>11} {'peak GiB':>9} {'waste %':>8} {'recompute s':>11} {'bound s':>8}")
    for row in rows:
        print(f"{row['job']:16} {row['seconds']:9.2f} {row['plan_seconds']:7.2f} {row['resident_bytes'] / 1e6:11.0f} "
              f"{row['peak_bytes'] / 2**30:9.1f} {100 * row['arena_waste']:8.2f} {row['recompute_seconds']:11.3f} "
              f"{row['recompute_bound_seconds']:8.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
