"""What formats of weights and optimizer state do to the loss: the same job, data and seeds under each of them.

Trains job.yaml (real text) for --steps steps once for each setting and seed, and compares the loss on held-out text with
float32 AdamW's of the same seed. Writes a table, JSON with --json FILE and the curves with --svg FILE.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

BF16 = ["precision=bf16-true"]
SETTINGS = {
    "float32": [],
    "bf16 + stochastic + 8-bit": BF16 + ["optimizer.state_dtype=8bit", "optimizer.weight_update=stochastic"],
    "bf16 + stochastic + 4-bit": BF16 + ["optimizer.state_dtype=4bit", "optimizer.weight_update=stochastic"],
    "bf16, to nearest": BF16 + ["optimizer.state_dtype=float32", "optimizer.weight_update=nearest"],
    "bf16 + kahan + 8-bit": BF16 + ["optimizer.state_dtype=8bit", "optimizer.weight_update=kahan"],
    "bf16 + split + float32": BF16 + ["optimizer.state_dtype=float32", "optimizer.weight_update=split"],
    "float32 + 8-bit": ["optimizer.state_dtype=8bit"],
    "float32 + 4-bit": ["optimizer.state_dtype=4bit"],
    "4 x 1, sums in 8 bits, bf16 + 8-bit": BF16 + ["optimizer.state_dtype=8bit", "micro_batch_size=1",
                                                   "gradient_accumulation_steps=4", "gradient_accumulation_dtype=8bit"],
}
DEFAULT = list(SETTINGS)[:4]


def train(options, name, seed, folder):
    metrics = folder / f"{list(SETTINGS).index(name)}-{seed}.jsonl"
    command = [options.plimsoll, "train", str(HERE / "job.yaml"), f"seed={seed}", f"max_steps={options.steps}",
               f"log.metrics_file={metrics}", "log.every_n_steps=1", *SETTINGS[name], *options.override, "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{name}, seed {seed}: exit code {run.returncode}\n{run.stderr[-2000:]}")
    report = json.loads(run.stdout)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    evaluations = [(row["step"], row["validation_loss"]) for row in rows if "validation_loss" in row]
    losses = [row["loss"] for row in rows if "loss" in row]
    print(f"{name}, seed {seed}: {evaluations[-1][1]:.4f}", file=sys.stderr, flush=True)
    return {"name": name, "seed": seed, "evaluations": evaluations, "losses": losses,
            "peak_bytes": report["measured_peak_bytes"], "step_seconds": report["step_seconds"]}


def curve(losses, window):
    return [statistics.fmean(losses[max(0, i - window + 1):i + 1]) for i in range(window - 1, len(losses), window)]


def svg(runs, names, steps):
    """Mean training loss over the seeds, in windows of a fortieth of the run, from a tenth of it on."""
    colors = ["#1b6ca8", "#d1495b", "#edae49", "#66a182", "#8d6a9f", "#2e4057", "#c17c74", "#5d737e", "#7f9c4f"]
    window = max(1, steps // 40)
    lines = {name: [statistics.fmean(values) for values in zip(*(curve(r["losses"], window) for r in runs if r["name"] == name))]
             for name in names}
    first = max(1, len(next(iter(lines.values()))) // 10)
    shown = [v for line in lines.values() for v in line[first:]]
    low, high = min(shown), max(shown)
    width, height, left, bottom = 760, 420, 60, 40

    def place(i, value, count):
        return (left + (width - left - 20) * (i - first) / max(1, count - 1 - first),
                20 + (height - bottom - 20) * (high - value) / (high - low))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for k in range(5):
        value = low + (high - low) * k / 4
        y = place(first, value, 2 + first)[1]
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for k in range(5):
        x = left + (width - left - 20) * k / 4
        step = (first + (len(next(iter(lines.values()))) - 1 - first) * k / 4 + 1) * window
        parts.append(f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{step:.0f}</text>')
    for n, (name, line) in enumerate(lines.items()):
        points = " ".join("{:.1f},{:.1f}".format(*place(i, line[i], len(line))) for i in range(first, len(line)))
        color = colors[n % len(colors)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6"/>'
                     f'<text x="{width - 300}" y="{40 + 16 * n}" fill="{color}">{name}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 1}" text-anchor="middle">step</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time, a thread each")
    parser.add_argument("--all", action="store_true", help="every setting, not only the first four")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="of the job, for every run")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    names = list(SETTINGS) if options.all else DEFAULT
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        runs = list(pool.map(lambda each: train(options, *each, pathlib.Path(folder)),
                             [(name, seed) for seed in range(1, options.seeds + 1) for name in names]))
    last = {(r["name"], r["seed"]): r["evaluations"][-1][1] for r in runs}
    seeds = range(1, options.seeds + 1)
    rows = []
    for name in names:
        against = [100 * (last[name, s] / last["float32", s] - 1) for s in seeds]
        rows.append({"setting": name, "losses": [last[name, s] for s in seeds],
                     "mean": statistics.fmean(last[name, s] for s in seeds), "against_float32_percent": against,
                     "mean_percent": statistics.fmean(against), "peak_bytes": max(r["peak_bytes"] for r in runs if r["name"] == name)})
    print(f"{'setting':38} {'loss':>8} {'against float32':>16}  {'by seed':28} {'peak MiB':>9}")
    for row in rows:
        by_seed = ", ".join(f"{value:+.2f} %" for value in row["against_float32_percent"])
        print(f"{row['setting']:38} {row['mean']:8.4f} {row['mean_percent']:+14.2f} %  {by_seed:28} {row['peak_bytes'] / 2**20:9.1f}")
    if options.json:
        result = {"steps": options.steps, "rows": rows,
                  "curves": [{"setting": r["name"], "seed": r["seed"], "evaluations": r["evaluations"]} for r in runs]}
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    if options.svg:
        pathlib.Path(options.svg).write_text(svg(runs, names, options.steps))


if __name__ == "__main__":
    main()
