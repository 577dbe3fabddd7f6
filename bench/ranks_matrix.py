#!/usr/bin/env python3
"""Trains small jobs on several ranks and compares losses and weights with one rank, bit for bit.

    bench/ranks_matrix.py --plimsoll build/plimsoll [--cells N --seed S] [--ranks 2,4] [--json FILE]

A cell is {ddp, zero1, zero2, zero3} x {float32, bf16-mixed, 8-bit state} x {clipping, updates in backward, accumulation of 2} on
so many ranks. Its reference is one rank with as many micro batches a step. `--cells N` draws N cells; the seed is printed.
Exit code 1: a cell differs, or a run used other bytes than were planned."""
import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

STRATEGIES = ["ddp", "zero1", "zero2", "zero3"]
FORMATS = {"float32": [], "bf16-mixed": ["precision=bf16-mixed"], "8-bit state": ["optimizer.state_dtype=8bit"]}
OPTIONS = {
    "clipping": (1, ["max_grad_norm=0.5"]),
    "updates in backward": (1, ["max_grad_norm=0", "update_in_backward=true"]),
    "accumulation of 2": (2, ["max_grad_norm=0.5"]),
}
MICRO_BATCH = 2
STEPS = 6

JOB = """\
model:
  type: decoder
  hidden_size: 128
  num_layers: 2
  num_heads: 4
  num_kv_heads: 2
  head_dim: 32
  intermediate_size: 256
  norm: rmsnorm
  positions: rope
  activation: swiglu
  dropout: 0.1
data: {{type: text, files: {text}, tokenizer: bytes, sequence_length: 64}}
optimizer: {{name: adamw, learning_rate: 1.0e-3}}
max_steps: {steps}
eval_every_n_steps: 3
precision: 32-true
threads: 1
seed: 3
"""


def tensors_of(folder):
    """Name, dtype, sizes and bytes of each tensor of the newest checkpoint."""
    file = sorted(folder.glob("step-*.safetensors"))[-1]
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    begin = 8 + length
    return {
        name: (entry["dtype"], tuple(entry["shape"]), data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def train(plimsoll, job, folder, overrides):
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True)
    report = folder / "report.json"
    command = [plimsoll, "train", str(job), f"checkpoint.directory={checkpoints}", *overrides, "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(report.read_text()), tensors_of(checkpoints)


def difference(reference, other):
    """What differs between two runs, in words; empty: nothing."""
    (report, tensors), (others_report, others) = reference, other
    if report["losses"] != others_report["losses"]:
        at = next(i for i, (a, b) in enumerate(zip(report["losses"], others_report["losses"])) if a != b)
        return f"the loss of step {at + 1} is {others_report['losses'][at]!r}, not {report['losses'][at]!r}"
    if tensors.keys() != others.keys():
        return f"other tensors: {sorted(tensors.keys() ^ others.keys())[:3]}"
    for name, tensor in tensors.items():
        if tensor != others[name]:
            return f"'{name}' differs"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default="build/plimsoll")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--cells", type=int, default=0, help="so many cells, drawn; 0: all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    plimsoll = os.path.abspath(arguments.plimsoll)
    counts = [int(count) for count in arguments.ranks.split(",")]
    cells = list(itertools.product(counts, FORMATS, OPTIONS, STRATEGIES))
    if arguments.cells:
        seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 30)
        print(f"seed {seed}")
        cells = sorted(random.Random(seed).sample(cells, min(arguments.cells, len(cells))), key=cells.index)
    rows, failed, references = [], 0, {}
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        text = root / "text.txt"
        draw = random.Random(7)
        words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(400)]
        text.write_text(" ".join(draw.choices(words, k=12000)))
        job = root / "job.yaml"
        job.write_text(JOB.format(text=text, steps=STEPS))
        for number, (count, format_name, option, strategy) in enumerate(cells):
            accumulation, of_option = OPTIONS[option]
            common = [*FORMATS[format_name], *of_option, f"micro_batch_size={MICRO_BATCH}"]
            key = (count, format_name, option)
            if key not in references:
                references[key] = train(
                    plimsoll, job, root / f"reference-{len(references)}",
                    [*common, f"gradient_accumulation_steps={accumulation * count}", "eval_batches=4"])
            run = train(
                plimsoll, job, root / f"cell-{number}",
                [*common, f"gradient_accumulation_steps={accumulation}", "eval_batches=4", f"devices={count}",
                 f"strategy={strategy}"])
            found = difference(references[key], run)
            planned, used = run[0]["planned_peak_bytes"], run[0]["measured_peak_bytes"]
            if not found and planned != used:
                found = f"{used} bytes used, {planned} planned"
            failed += bool(found)
            rows.append({"ranks": count, "format": format_name, "option": option, "strategy": strategy,
                         "planned_bytes": planned, "used_bytes": used, "equal": not found, "difference": found})
            print(f"{count} ranks  {format_name:12} {option:20} {strategy:6} {planned:>10} B  {found or 'equal'}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"cells": rows}, indent=1) + "\n")
    print(f"{len(rows) - failed} of {len(rows)} cells are equal to one rank")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
