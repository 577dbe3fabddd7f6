#!/usr/bin/env python3
"""Tokens a second, share of the card's arithmetic and peak memory of decoders at their real size, beside PyTorch.

    bench/throughput.py                                     Qwen2.5's 0.5 B and 1.5 B shapes, and 7 B, on one GPU
    bench/throughput.py --jobs qwen2.5-0.5b --budgets 16GiB 8GiB
    bench/throughput.py --device cpu --small                the same programs at a thousandth of the size: that they run

Each job of bench/jobs is trained by Plimsoll with all the memory there is and within each of --budgets, then by
eager_decoder.py, eager and compiled, with Plimsoll's micro batch and, where that does not fit, smaller ones: rounds of one
process each, one after the other, medians over rounds. Needs a Python with torch for the peers (--python). Writes
bench/results/throughput-NAME.json and .md, again after each process. A process that fails has its last words in the table, the
others run, and the exit code is 1.

Arithmetic of a token is 6 for each parameter but the embedding's (an untied one's rows are only looked up) and 6 x layers x
width of the heads x tokens for causal attention; recomputation counts for nothing (PaLM, Chowdhery et al. 2022, appendix B).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
# vocabulary, width, layers, heads, heads of keys, width of a head, inner width, tied, bias of query, key and value
SHAPES = {
    "qwen2.5-0.5b": (151936, 896, 24, 14, 2, 64, 4864, True, True),
    "qwen2.5-1.5b": (151936, 1536, 28, 12, 2, 128, 8960, True, True),
    "qwen2.5-3b": (151936, 2048, 36, 16, 2, 128, 11008, True, True),
    "qwen2.5-7b": (152064, 3584, 28, 28, 4, 128, 18944, False, True),
}
COLUMNS = ("plimsoll", "eager", "checkpointed", "compiled")
SMALL = (512, 64, 2, 4, 2, 16, 160)  # in place of the first seven
KEYS = ("model.vocab_size", "model.hidden_size", "model.num_layers", "model.num_heads", "model.num_kv_heads",
        "model.head_dim", "model.intermediate_size")
FLAGS = ("--vocab", "--width", "--layers", "--heads", "--kv-heads", "--head-dim", "--inner")


class Failure(Exception):
    """A process that did not end well."""


class DeviceMemory(threading.Thread):
    """The most bytes of the first card that are in use while this runs, by the driver's count, context and all; None
    without nvidia-smi."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.done = None, threading.Event()

    def run(self):
        command = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while shutil.which(command[0]) and not self.done.wait(0.2):
            answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
            if answer.isdigit():
                self.most = max(self.most or 0, int(answer) * 2**20)

    def stop(self):
        self.done.set()
        self.join()
        return self.most


def run(command, good):
    """Standard output, and the device's memory in use at the most meanwhile."""
    memory = DeviceMemory()
    memory.start()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    used = memory.stop()
    if done.returncode not in good:
        print(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failure(f"exit code {done.returncode}: {lines[-1].strip()[:200] if lines else 'no message'}")
    return done.stdout, used


def overrides_of(options, budget):
    overrides = [f"device={options.device}", f"max_steps={options.steps}", f"memory_budget={budget}",
                 f"precision={options.precision}", f"data.sequence_length={options.length}", f"batch_size={options.batch}"]
    return overrides + ([f"{key}={value}" for key, value in zip(KEYS, SMALL)] if options.small else [])


def plimsoll(options, name, budget):
    train = [options.plimsoll, "train", BENCH / "jobs" / f"{name}.yaml", *overrides_of(options, budget), "--json", "-"]
    answer, used = run(train, good=(0, 3))
    report = json.loads(answer)
    if not report["fits"]:
        return {"fits": False, "minimum_budget_bytes": report["minimum_budget_bytes"]}
    return {"fits": True, "step_seconds": report["step_seconds"], "peak_bytes": report["measured_peak_bytes"],
            "planned_peak_bytes": report["planned_peak_bytes"], "device_bytes": used,
            "micro_batch_size": report["choices"]["micro_batch_size"]}


def peer(options, name, micro_batch, *flags):
    shape = [*(SMALL if options.small else SHAPES[name][:7])]
    while micro_batch >= 1:
        command = [options.python, BENCH / "eager_decoder.py", "--device", options.device, "--precision", options.precision,
                   "--length", str(options.length), "--steps", str(options.steps), "--batch", str(micro_batch),
                   "--micro-batches", str(-(-options.batch // micro_batch))]
        command += [str(each) for pair in zip(FLAGS, shape) for each in pair]
        command += ["--tied"] * SHAPES[name][7] + ["--qkv-bias"] * SHAPES[name][8] + list(flags)
        answer, used = run(command, good=(0,))
        report = json.loads(answer.splitlines()[-1])
        if report["fits"]:
            return {**report, "device_bytes": used, "micro_batch_size": micro_batch}
        micro_batch //= 2
    return {"fits": False}


def flops_of_token(name, parameters, options):
    vocab, width, layers, heads, _, head_dim = (SMALL if options.small else SHAPES[name])[:6]
    looked_up = 0 if SHAPES[name][7] else vocab * width
    return 6 * (parameters - looked_up) + 6 * layers * heads * head_dim * options.length


def plan_of(options, name):
    plan = [options.plimsoll, "plan", BENCH / "jobs" / f"{name}.yaml", *overrides_of(options, "auto"), "--json", "-"]
    return json.loads(run(plan, good=(0, 3))[0])


def columns_of(options, name, plan):
    """What is measured, each a function of what was measured before. The peers take the micro batch of Plimsoll's first run, or
    of its plan."""
    columns = {}
    if "plimsoll" in options.columns:
        columns["Plimsoll"] = lambda runs: plimsoll(options, name, "auto")
        for budget in options.budgets:
            columns[f"Plimsoll in {budget}"] = lambda runs, budget=budget: plimsoll(options, name, budget)

    def peer_of(*flags):
        def measured(runs):
            for known in (*runs.get("Plimsoll", [])[:1], plan.get("choices", {})):
                if known.get("micro_batch_size"):
                    return peer(options, name, known["micro_batch_size"], *flags)
            return peer(options, name, options.batch, *flags)
        return measured

    peers = {"eager": ("PyTorch eager",), "checkpointed": ("PyTorch eager, checkpointed", "--checkpoint"),
             "compiled": ("PyTorch compiled", "--compile")}
    if options.python:
        columns.update({title: peer_of(*flags) for key, (title, *flags) in peers.items() if key in options.columns})
    return columns


def tokens_of(options, column, report):
    """Of a step: the peers' micro batches are all of one size, Plimsoll's last one is as small as the batch leaves it."""
    if column.startswith("Plimsoll"):
        return options.batch * options.length
    return -(-options.batch // report["micro_batch_size"]) * report["micro_batch_size"] * options.length


def rows_of(options, name, flops, runs):
    rows = []
    for column, results in runs.items():
        if not results:
            continue
        row = {"model": name, "program": column, "fits": results[-1]["fits"]}
        if "failure" in results[-1]:
            row["failure"] = results[-1]["failure"]
        if row["fits"]:
            seconds = [each["step_seconds"] for each in results]
            rate = tokens_of(options, column, results[-1]) / statistics.median(seconds)
            row.update({"step_seconds": {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)},
                        "tokens_per_second": rate, "mfu": rate * flops / (options.peak_tflops * 1e12),
                        **{key: results[-1].get(key) for key in
                           ("micro_batch_size", "peak_bytes", "planned_peak_bytes", "device_bytes", "reserved_bytes")}})
        rows.append(row)
    return rows


def measure(options, name):
    """Yields the rows of a job after each process."""
    try:
        plan = plan_of(options, name)
    except Failure as failure:
        yield [{"model": name, "program": "Plimsoll's plan", "fits": False, "failure": str(failure)}]
        return
    flops = flops_of_token(name, plan["parameters"], options)
    columns = columns_of(options, name, plan)
    runs = {column: [] for column in columns}
    for number in range(options.rounds):
        for column, measured in columns.items():
            if runs[column] and not runs[column][-1]["fits"]:
                continue
            try:
                runs[column].append(measured(runs))
            except Failure as failure:
                runs[column].append({"fits": False, "failure": str(failure)})
            print(f"{name}, round {number + 1} of {options.rounds}, {column}: {runs[column][-1]}", file=sys.stderr)
            yield rows_of(options, name, flops, runs)


def gib(value):
    return f"{value / 2**30:.2f}" if value else ""


def table_of(document):
    lines = [f"# Tokens a second: {document['name']}", "",
             f"{document['precision']}, batches of {document['batch']} x {document['length']} tokens, {document['rounds']} rounds of "
             f"{document['steps']} steps, alternating, medians. MFU against {document['peak_tflops']:g} TFLOP/s. Peak: of what each counts "
             "itself; device: all of it that is in use, by the driver's count.", "",
             "| model | program | micro batch | tokens/s | MFU | peak GiB | planned GiB | device GiB |", "|---" * 8 + "|"]
    for row in document["rows"]:
        if not row["fits"]:
            lines.append(f"| {row['model']} | {row['program']} | | {row.get('failure', 'does not fit')} | | | | |")
            continue
        lines.append(f"| {row['model']} | {row['program']} | {row['micro_batch_size']} | {row['tokens_per_second']:,.0f} | "
                     f"{100 * row['mfu']:.1f} % | {gib(row['peak_bytes'])} | {gib(row['planned_peak_bytes'])} | "
                     f"{gib(row['device_bytes'])} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", default=["qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b"], choices=SHAPES)
    parser.add_argument("--budgets", nargs="*", default=[])
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, help="what is measured; default: all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16-mixed", choices=["32-true", "bf16-mixed", "bf16-true"])
    parser.add_argument("--batch", type=int, default=64, help="samples a step")
    parser.add_argument("--length", type=int, default=1024, help="tokens a sample")
    parser.add_argument("--steps", type=int, default=10, help="of each run; the first two are not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak-tflops", type=float, default=989.4, help="of the card in 16 bits, dense (H100 and H200 SXM)")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--python", default=str(ROOT / ".venv-bench/bin/python"), help="with torch; '' for no peers")
    parser.add_argument("--name", default="h200", help="of the files of results")
    parser.add_argument("--results", type=pathlib.Path, default=BENCH / "results")
    parser.add_argument("--small", action="store_true", help="shapes of a thousandth, for trying the programs")
    options = parser.parse_args()
    document = {key: getattr(options, key) for key in ("name", "precision", "batch", "length", "steps", "rounds", "peak_tflops")}
    document["rows"] = finished = []
    if options.budgets and "plimsoll" not in options.columns:
        parser.error("--budgets are of the column plimsoll, which --columns leaves out")
    if not options.python and "plimsoll" not in options.columns:
        parser.error("the columns of peers need a Python with torch (--python)")
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.jobs:
        for rows in measure(options, name):
            document["rows"] = finished + rows
            for ending, text in ((".json", json.dumps(document, indent=1) + "\n"), (".md", table_of(document))):
                aside = options.results / f".throughput-{options.name}{ending}.tmp"
                aside.write_text(text)
                aside.replace(options.results / f"throughput-{options.name}{ending}")
        finished = document["rows"]
    print(table_of(document))
    return 1 if any("failure" in row for row in document["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
