"""AdamW with state of 8 and 4 bits: Plimsoll's beside torchao's and bitsandbytes', in the small language model's whole step.

Rounds in which each program runs once as a process of its own, one after the other; medians over the rounds with the least
and the most. Weights, gradients and activations are float32, or bfloat16 under autocast, on all sides; only the state differs. Its
bytes are counted: Plimsoll's as planned, the others' tensor by tensor. How a step and resident memory are measured:
docs/benchmarks.md.

Needs .venv-bench (scripts/setup-bench.sh). Writes RESULTS/lean-state-DEVICE.json and .md.
"""
import argparse
import json
import pathlib
import sys

from step_time import BENCH, ROOT, eager, milliseconds, plimsoll, processor, small_lm, spread, write

# Name, and what makes it: overrides of the job, or the peer's optimizer.
COLUMNS = [
    ("Plimsoll, float32", ["optimizer.state_dtype=float32"]),
    ("PyTorch AdamW, float32", "adamw"),
    ("Plimsoll, 8 bits", ["optimizer.state_dtype=8bit"]),
    ("torchao AdamW8bit", "torchao-8bit"),
    ("bitsandbytes AdamW8bit", "bitsandbytes-8bit"),
    ("Plimsoll, 4 bits", ["optimizer.state_dtype=4bit"]),
    ("torchao AdamW4bit", "torchao-4bit"),
]


def measure(options, case, precision):
    runs = {name: [] for name, _ in COLUMNS}
    state = {}
    for number in range(options.rounds):
        for name, how in COLUMNS:
            if isinstance(how, str):
                result = eager(options, case, precision, "--optimizer", how)
                state[name] = result["state_bytes"]
            else:
                own = {**case, "overrides": case["overrides"] + how}
                state[name] = plimsoll(options, own, precision, "plan")["breakdown"]["optimizer_state"]
                result = plimsoll(options, own, precision)
            runs[name].append(result)
            print(f"{precision}, round {number + 1} of {options.rounds}, {name}: {result['step_seconds']:.4f} s a step", file=sys.stderr)
    return [{"precision": precision, "name": name, "state_bytes": state[name],
             "step_seconds": spread([each["step_seconds"] for each in results]),
             "resident_bytes": spread([each["resident_bytes"] for each in results]),
             "last_loss": results[0]["losses"][-1]} for name, results in runs.items()]


def table_of(document):
    lines = [f"# State of 8 and 4 bits: {document['processor']}, {document['threads']} threads", "",
             f"The small language model at {document['size']}, {document['rounds']} rounds of {document['steps']} steps, alternating. How each figure is "
             "measured: docs/benchmarks.md.", "",
             "| precision | | state, MiB | step, ms: median (least to most) | resident, GiB |", "|---|---|---|---|---|"]
    lines += [f"| {row['precision']} | {row['name']} | {row['state_bytes'] / 2**20:.1f} | {milliseconds(row['step_seconds'])} | "
              f"{row['resident_bytes']['median'] / 2**30:.2f} |" for row in document["rows"]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".venv-bench/bin/python"))
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--steps", type=int, default=8, help="of each run; the first two are not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", nargs="+", default=["32-true", "bf16-mixed"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--results", type=pathlib.Path, default=BENCH / "results")
    parser.add_argument("--device", default="", help="name of the files of results (default: cpu-THREADS-cores)")
    options = parser.parse_args()
    options.fused_adamw = False
    if options.steps < 3:
        parser.error("--steps: at least 3, the first two are not timed")
    case = small_lm(options.batch, options.length)
    path = options.results / f"lean-state-{options.device or f'cpu-{options.threads}-cores'}.json"
    options.results.mkdir(parents=True, exist_ok=True)
    document = {"processor": processor(), "threads": options.threads, "size": case["size"], "steps": options.steps,
                "rounds": options.rounds, "rows": []}
    for precision in options.precision:
        document["rows"] += measure(options, case, precision)
        write(path, json.dumps(document, indent=1) + "\n")
        write(path.with_suffix(".md"), table_of(document))
    print(table_of(document))


if __name__ == "__main__":
    main()
