"""How step time and planning time grow with layers, width, sequence and batch: the small language model, one number changed at
a time.

Every point is `plimsoll train` for the step (median over its steps but the first two) and `plimsoll plan` for planning
(recording included, the process's start not), each ROUNDS times, medians with the least and the most. Writes
RESULTS/scaling-DEVICE.json and a picture of it, RESULTS/scaling-DEVICE.svg.
"""
import argparse
import html
import json
import math
import os
import pathlib
import sys

import step_time

ROOT = step_time.ROOT
BASE = {"layers": 6, "width": 448, "sequence": 512, "batch": 2}
CURVES = {"layers": [1, 2, 4, 6, 12, 24], "width": [128, 256, 448, 896, 1792], "sequence": [64, 128, 256, 512, 1024, 2048],
          "batch": [1, 2, 4, 8, 16]}
UNITS = {"layers": "layers", "width": "hidden_size", "sequence": "tokens a sample", "batch": "samples a step"}


def overrides_of(shape, precision, threads, steps):
    width = shape["width"]
    return [f"model.num_layers={shape['layers']}", f"model.hidden_size={width}", f"model.num_heads={width // 64}",
            f"model.intermediate_size={round(width * 1088 / 448 / 64) * 64}", f"data.sequence_length={shape['sequence']}",
            f"batch_size={shape['batch']}", f"micro_batch_size={shape['batch']}", f"precision={precision}",
            f"threads={threads}", f"max_steps={steps}", *step_time.COMMON, "data.validation_fraction=0",
            'checkpoint.directory=""', "checkpoint.every_n_steps=0", 'log.metrics_file=""']


def measure(options, shape):
    overrides = overrides_of(shape, options.precision, options.threads, options.steps)
    job = str(ROOT / "examples/small-lm/job.yaml")
    steps, plans = [], []
    for _ in range(options.rounds):
        planned = step_time.report_of([options.plimsoll, "plan", job, *overrides, "--json", "-"])
        plans.append(planned["plan_seconds"])
        parameters = planned["parameters"]
        if not planned["fits"]:
            return {"parameters": parameters, "fits": False, "plan_seconds": step_time.spread(plans)}
        trained = step_time.report_of([options.plimsoll, "train", job, *overrides, "--json", "-"])
        if not trained["fits"]:  # other programs have taken the memory since
            return {"parameters": parameters, "fits": False, "plan_seconds": step_time.spread(plans)}
        steps.append(trained["step_seconds"])
    return {"parameters": parameters, "fits": True, "step_seconds": step_time.spread(steps),
            "plan_seconds": step_time.spread(plans)}


# A picture of two rows of panels, logarithmic both ways: on such a grid a power is a straight line, and its slope is told.

PANEL, GAP, LEFT, TOP = 200, 70, 70, 60


def slope_of(points):
    """Of the straight line of least squares through the logarithms: the power with which it grows."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    below = sum((a - x) ** 2 for a in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / below if below > 0 else 0.0


def decades(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def seconds_text(exponent):
    return {-4: "0.1 ms", -3: "1 ms", -2: "10 ms", -1: "0.1 s"}.get(exponent, f"{10 ** exponent:g} s")


def panel(left, top, points, title, x_name, decades_of_y):
    """`points`: (x, {median, least, most})."""
    xs = [x for x, _ in points]
    low_x, high_x = math.log(min(xs)), math.log(max(xs))
    low_y, high_y = decades_of_y

    def place(x, y):
        across = (math.log(x) - low_x) / ((high_x - low_x) or 1)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return left + PANEL * across, top + PANEL * (1 - up)

    parts = [f'<rect x="{left}" y="{top}" width="{PANEL}" height="{PANEL}" fill="none" stroke="#999"/>']
    for exponent in range(low_y, high_y + 1):
        _, y = place(xs[0], 10.0 ** exponent)
        parts.append(f'<line x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{seconds_text(exponent)}</text>')
    for x in xs:
        across, _ = place(x, 10.0 ** low_y)
        parts.append(f'<text x="{across:.1f}" y="{top + PANEL + 15}" text-anchor="middle">{x}</text>')
    line = " ".join("{:.1f},{:.1f}".format(*place(x, each["median"])) for x, each in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb4" stroke-width="2"/>')
    for x, each in points:
        across, y = place(x, each["median"])
        _, high = place(x, each["most"])
        _, low = place(x, each["least"])
        parts.append(f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{high:.1f}" y2="{low:.1f}" stroke="#1f6fb4"/>')
        parts.append(f'<circle cx="{across:.1f}" cy="{y:.1f}" r="3" fill="#1f6fb4"/>')
    power = f", grows as n^{slope_of([(x, each['median']) for x, each in points]):.2f}" if len(points) > 1 else ""
    parts.append(f'<text x="{left}" y="{top - 8}">{html.escape(title + power)}</text>')
    parts.append(f'<text x="{left + PANEL / 2}" y="{top + PANEL + 32}" text-anchor="middle">{html.escape(x_name)}</text>')
    return parts


def picture_of(document):
    names = list(document["curves"])
    width, height = LEFT + len(names) * (PANEL + GAP), TOP + 2 * (PANEL + GAP + 20)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="22" font-size="14">{html.escape(document["processor"])}, {document["threads"]} threads, '
             f'{document["precision"]}; otherwise {html.escape(", ".join(f"{k} {v}" for k, v in BASE.items()))}</text>']
    for row, (key, title) in enumerate([("step_seconds", "a step"), ("plan_seconds", "planning")]):
        lists = {name: [(each["value"], each[key]) for each in document["curves"][name] if key in each] for name in names}
        values = [part for points in lists.values() for _, each in points for part in (each["least"], each["most"])]
        if not values:
            continue
        for column, name in enumerate(names):
            if lists[name]:
                parts += panel(LEFT + column * (PANEL + GAP), TOP + row * (PANEL + GAP + 20), lists[name], title,
                               UNITS[name], decades(values))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--steps", type=int, default=8, help="of each run; the first two are not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--curves", nargs="+", default=list(CURVES), choices=list(CURVES))
    parser.add_argument("--points", type=int, help="of each curve, its first ones; default: all")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--device", default=f"cpu-{cores}-cores", help="part of the names of the files of results")
    options = parser.parse_args()
    if options.steps < 3:
        parser.error("--steps: at least 3, the first two are not timed")
    document = {"processor": step_time.processor(), "threads": options.threads, "precision": options.precision,
                "steps": options.steps, "rounds": options.rounds, "base": BASE, "curves": {}}
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.curves:
        document["curves"][name] = []
        for value in CURVES[name][:options.points]:
            point = {"value": value, **measure(options, {**BASE, name: value})}
            document["curves"][name].append(point)
            took = f"{point['step_seconds']['median']:.4f} s a step" if point["fits"] else "does not fit"
            print(f"{name} {value}: {took}, planned in {point['plan_seconds']['median']:.2f} s", file=sys.stderr)
            step_time.write(options.results / f"scaling-{options.device}.json", json.dumps(document, indent=1) + "\n")
            step_time.write(options.results / f"scaling-{options.device}.svg", picture_of(document))


if __name__ == "__main__":
    main()
