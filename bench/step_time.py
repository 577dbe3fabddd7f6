"""Step time and peak resident memory: Plimsoll beside PyTorch from the same wheel, eager and through torch.compile.

For every model, size and precision: rounds in which each program runs once as a process of its own, one after the other, so
that a machine that slows down slows all of them; the figures are medians over the rounds with the least and the most. With
--before, an earlier program of Plimsoll runs in the same rounds. In every round the matrix products of one step (linear layers
and heads, forward and backward) are timed alone as well: the floor, of which a step's share is told. The step that the plan
predicts is beside it. Where the numbers of parameters of the programs differ, nothing is measured.

Needs a Python with torch 2.11.0 and all that it depends on, and g++ for torch.compile (scripts/setup-bench.sh makes
.venv-bench). Writes RESULTS/DEVICE.json and the table RESULTS/DEVICE.md, anew after every configuration.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"

# What is the same for all: no evaluation, nothing written, the step as eager runs it (nothing rebuilt).
COMMON = ["gradient_checkpointing=false", "eval_every_n_steps=0", "memory_budget=auto", "gradient_accumulation_steps=1"]


def small_lm(batch, length):
    return {"name": "small-lm", "size": f"{batch} x {length}", "job": "examples/small-lm/job.yaml", "eager": "eager_step.py",
            "overrides": [f"data.sequence_length={length}", "data.validation_fraction=0", 'checkpoint.directory=""',
                          "checkpoint.every_n_steps=0", 'log.metrics_file=""'],
            "batch": batch, "flags": ["--length", str(length)]}


CASES = [
    small_lm(2, 512),
    small_lm(8, 1024),
    {"name": "gesture-ssm", "size": "10 x 20 vectors", "job": "examples/gesture-ssm/tiny.yaml", "eager": "eager_mamba.py",
     "overrides": [], "batch": 10, "flags": []},
    {"name": "prompt-segmentation", "size": "16 x 96^2", "job": "examples/prompt-segmentation/tiny.yaml",
     "eager": "eager_segmentation.py", "overrides": ["data.validation_fraction=0"], "batch": 16, "flags": []},
]
COLUMNS = ["plimsoll", "before", "eager", "compiled"]


def output_of(command, good=(0,), environment=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode not in good:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def report_of(command, environment=None):
    """What `plimsoll … --json -` tells; that something does not fit is an answer."""
    return json.loads(output_of(command, (0, 3), environment))


def eager(options, case, precision, *flags):
    command = [options.python, str(BENCH / case["eager"]), "--batch", str(case["batch"]), "--precision", precision, "--steps",
               str(options.steps), "--threads", str(options.threads), *case["flags"], *flags]
    if options.fused_adamw:
        command.append("--fused-adamw")
    return json.loads(output_of(command).splitlines()[-1])


def overrides_of(options, case, precision):
    return [f"precision={precision}", f"micro_batch_size={case['batch']}", f"batch_size={case['batch']}",
            f"threads={options.threads}", f"max_steps={options.steps}", *COMMON, *case["overrides"]]


def plimsoll(options, case, precision, command="train", program=None):
    # An earlier program measures with other kernels: its times are kept apart.
    apart = {"XDG_CACHE_HOME": options.cache_before} if program else None
    report = report_of([program or options.plimsoll, command, str(ROOT / case["job"]), *overrides_of(options, case, precision), "--json", "-"], apart)
    if not report["fits"]:
        sys.exit(f"{case['name']} {case['size']} {precision} does not fit into this machine's memory")
    return report


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "rounds": len(values)}


def measure(options, case, precision):
    # Rates and times of the step's ops are measured first, so that the plan predicts from them.
    output_of([options.plimsoll, "doctor", "--threads", str(options.threads)])
    output_of([options.plimsoll, "trace", str(ROOT / case["job"]), *overrides_of(options, case, precision), "--hot", "1"])
    plan = plimsoll(options, case, precision, "plan")
    planned = plan["parameters"]
    results = {column: [] for column in options.columns}
    products = []
    for number in range(options.rounds):
        products.append(eager(options, case, precision, "--products"))
        if products[-1]["parameters"] != planned:
            sys.exit(f"{case['name']}: {planned} parameters are planned, {case['eager']} has {products[-1]['parameters']}")
        for column in options.columns:
            if column in ("plimsoll", "before"):
                result = plimsoll(options, case, precision, program=options.before if column == "before" else None)
            else:
                result = eager(options, case, precision, *(["--compile"] if column == "compiled" else []))
            results[column].append(result)
            print(f"{case['name']} {case['size']} {precision}, round {number + 1} of {options.rounds}, {column}: "
                  f"{result['step_seconds']:.4f} s a step", file=sys.stderr)
    floor = spread([each["products_seconds"] for each in products])
    row = {"model": case["name"], "size": case["size"], "precision": precision, "parameters": planned,
           "rounds": options.rounds, "steps": options.steps, "predicted_step_seconds": plan["step_seconds"],
           "products": {"seconds": floor, "flops": products[0]["products_flops"],
                        "flops_per_second": products[0]["products_flops"] / floor["median"]}}
    for column, runs in results.items():
        seconds = spread([each["step_seconds"] for each in runs])
        row[column] = {"step_seconds": seconds, "floor_share": floor["median"] / seconds["median"],
                       "resident_bytes": spread([each["resident_bytes"] for each in runs]),
                       "first_loss": runs[0]["losses"][0]}
        if column not in ("plimsoll", "before"):
            row[column]["start_resident_bytes"] = runs[0]["start_resident_bytes"]
        if column == "compiled":
            row[column]["first_step_seconds"] = spread([each["first_step_seconds"] for each in runs])
    return row


def processor():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def milliseconds(seconds):
    return f"{1000 * seconds['median']:.1f} ({1000 * seconds['least']:.1f} to {1000 * seconds['most']:.1f})"


def table_of(document):
    lines = [f"# Step times: {document['processor']}, {document['threads']} threads", "",
             "Alternating runs; milliseconds a step as median (least to most) over the rounds; predicted by the plan; resident", "memory of the whole process at its peak. The floor is the step's matrix products alone. How each "
             "figure is measured: docs/benchmarks.md.", "",
             "| model | batch | precision | rounds of steps | floor | predicted | " + " | ".join(
                 f"{column} | floor / step | resident GiB" for column in document["columns"]) + " |",
             "|---" * (6 + 3 * len(document["columns"])) + "|"]
    for row in document["rows"]:
        cells = [row["model"], row["size"], row["precision"], f"{row['rounds']} of {row['steps']}",
                 f"{milliseconds(row['products']['seconds'])}, {row['products']['flops_per_second'] / 1e9:.0f} GFLOP/s",
                 f"{1000 * row['predicted_step_seconds']:.1f}"]
        for column in document["columns"]:
            part = row[column]
            cells += [milliseconds(part["step_seconds"]), f"{100 * part['floor_share']:.0f} %",
                      f"{part['resident_bytes']['median'] / 2**30:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(path, text):
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.write_text(text)
    aside.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--python", default=str(ROOT / ".venv-bench/bin/python"))
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--steps", type=int, default=10, help="of each run; the first two are not timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--precision", nargs="+", default=["32-true", "bf16-mixed"])
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, help="default: all that can be measured")
    parser.add_argument("--before", help="an earlier program of Plimsoll, measured in the same rounds")
    parser.add_argument("--cases", nargs="+", default=[], metavar="TEXT",
                        help="only those whose name and size have this in them: small-lm, '2 x 512'")
    parser.add_argument("--fused-adamw", action="store_true", help="PyTorch with torch.optim.AdamW(fused=True)")
    parser.add_argument("--results", type=pathlib.Path, default=BENCH / "results")
    parser.add_argument("--device", default=f"cpu-{cores}-cores", help="name of the files of results")
    options = parser.parse_args()
    cases = [case for case in CASES
             if not options.cases or any(text in f"{case['name']} {case['size']}" for text in options.cases)]
    if not cases:
        parser.error(f"no case has {options.cases} in its name")
    if options.columns is None:
        options.columns = [each for each in COLUMNS if each != "before" or options.before]
    if "before" in options.columns and not options.before:
        parser.error("the column before needs --before PROGRAM")
    if options.steps < 3:
        parser.error("--steps: at least 3, the first two are not timed")
    document = {"processor": processor(), "threads": options.threads,
                "fused_adamw": options.fused_adamw, "columns": options.columns, "rows": []}
    options.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as options.cache_before:
        measure_all(options, cases, document)
    print(table_of(document))


def measure_all(options, cases, document):
    for case in cases:
        for precision in options.precision:
            document["rows"].append(measure(options, case, precision))
            write(options.results / f"{options.device}.json", json.dumps(document, indent=1) + "\n")
            write(options.results / f"{options.device}.md", table_of(document))


if __name__ == "__main__":
    main()
