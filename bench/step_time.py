"""Step time and peak resident memory of the small language model: Plimsoll beside eager PyTorch from the same wheel.

Alternating runs in one process tree, the same batch, precision and threads; medians over the runs. Needs a Python with torch
2.11.0 and all that it depends on (scripts/setup-bench.sh makes .venv-bench). Writes a table, and JSON with --json FILE.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def eager(options, precision):
    command = [options.python, str(ROOT / "bench" / "eager_step.py"), "--batch", str(options.batch), "--length",
               str(options.length), "--precision", precision, "--steps", str(options.steps), "--threads", str(options.threads)]
    if options.fused_adamw:
        command.append("--fused-adamw")
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def plimsoll(options, precision):
    command = [options.plimsoll, "train", str(ROOT / "examples/small-lm/job.yaml"), f"precision={precision}",
               f"micro_batch_size={options.batch}", f"batch_size={options.batch}", "gradient_accumulation_steps=1",
               f"data.sequence_length={options.length}", f"max_steps={options.steps}", f"threads={options.threads}",
               "gradient_checkpointing=false", "eval_every_n_steps=0", "data.validation_fraction=0",
               "checkpoint.directory=\"\"", "checkpoint.every_n_steps=0", "log.metrics_file=\"\"", "--json", "-"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=str(ROOT / ".venv-bench/bin/python"))
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", nargs="+", default=["32-true", "bf16-mixed"])
    parser.add_argument("--fused-adamw", action="store_true", help="eager with torch.optim.AdamW(fused=True)")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for precision in options.precision:
        ours, theirs = [], []
        for round_number in range(options.rounds):
            for name, run, results in (("plimsoll", plimsoll, ours), ("eager", eager, theirs)):
                result = run(options, precision)
                results.append(result)
                print(f"{precision} round {round_number + 1} {name}: {result['step_seconds']:.3f} s a step", file=sys.stderr)
        row = {"precision": precision, "batch": options.batch, "length": options.length, "threads": options.threads}
        for name, results in (("plimsoll", ours), ("eager", theirs)):
            seconds = [r["step_seconds"] for r in results]
            row[name] = {"step_seconds": statistics.median(seconds), "spread": [min(seconds), max(seconds)],
                         "resident_bytes": statistics.median(r["resident_bytes"] for r in results)}
        row["time_ratio"] = row["plimsoll"]["step_seconds"] / row["eager"]["step_seconds"]
        row["memory_ratio"] = row["plimsoll"]["resident_bytes"] / row["eager"]["resident_bytes"]
        rows.append(row)
    print(f"{'precision':12} {'batch':>9} {'plimsoll s':>10} {'eager s':>8} {'ratio':>6} {'plimsoll GiB':>12} {'eager GiB':>10} {'ratio':>6}")
    for row in rows:
        print(f"{row['precision']:12} {row['batch']:>3} x {row['length']:>4} {row['plimsoll']['step_seconds']:10.3f} "
              f"{row['eager']['step_seconds']:8.3f} {row['time_ratio']:6.3f} {row['plimsoll']['resident_bytes'] / 2**30:12.2f} "
              f"{row['eager']['resident_bytes'] / 2**30:10.2f} {row['memory_ratio']:6.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
