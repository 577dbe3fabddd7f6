#!/usr/bin/env python3
"""Draws the arena of a schedule as SVG: time from left to right (ops), bytes from bottom to top, one rectangle a buffer.

    build/plimsoll trace JOB.yaml --scheduled --json - | scripts/draw-arena.py > arena.svg
"""
import html
import json
import sys

COLOURS = {"parameter": "#35618f", "optimizer_state": "#6c8ebf", "gradient": "#c8553d", "activation": "#e9a23b",
           "temporary": "#f3d9a4", "input": "#5b8c5a", "workspace": "#9d79bc"}
NAMES = {"parameter": "parameters", "optimizer_state": "optimizer state", "gradient": "gradients", "activation": "activations",
         "temporary": "temporaries", "input": "inputs", "workspace": "workspace"}
WIDTH, HEIGHT, LEFT, TOP = 960, 420, 64, 40


def main():
    trace = json.load(sys.stdin)
    segments = {s["name"]: s for s in trace["segments"]}
    first, last = segments["micro"]["begin"], segments["update"]["end"]
    buffers = [b for b in trace["buffers"] if b.get("offset") is not None and b["bytes"] > 0]
    height = max(b["offset"] + b["bytes"] for b in buffers)
    x = lambda op: LEFT + (min(max(op, first), last) - first) * WIDTH / (last - first)
    y = lambda offset: TOP + HEIGHT - offset * HEIGHT / height
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 16} {HEIGHT + TOP + 64}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="22">Where every byte lies during one training step ({height / 2**20:.0f} MiB)</text>']
    for buffer in buffers:
        left, right = x(buffer["birth"]), x(buffer["death"])
        box = max(y(buffer["offset"]) - y(buffer["offset"] + buffer["bytes"]), 0.0)
        if right - left < 0.2 or box < 0.1:
            continue
        out.append(f'<rect x="{left:.1f}" y="{y(buffer["offset"] + buffer["bytes"]):.1f}" width="{right - left:.1f}" '
                   f'height="{box:.1f}" fill="{COLOURS[buffer["role"]]}" stroke="white" stroke-width="0.2">'
                   f'<title>{html.escape(buffer["label"])}: {buffer["bytes"]} bytes</title></rect>')
    for name in ("micro", "accumulate", "update"):
        if name in segments:
            out.append(f'<line x1="{x(segments[name]["begin"]):.1f}" x2="{x(segments[name]["begin"]):.1f}" y1="{TOP}" '
                       f'y2="{TOP + HEIGHT + 6}" stroke="#333"/>')
            out.append(f'<text x="{x(segments[name]["begin"]) + 4:.1f}" y="{TOP + HEIGHT + 16}">{name}</text>')
    for part in range(5):
        out.append(f'<text x="{LEFT - 6}" y="{y(height * part / 4) + 4:.1f}" text-anchor="end">{height * part / 4 / 2**20:.0f} MiB</text>')
    at = LEFT
    for role, name in NAMES.items():
        out.append(f'<rect x="{at}" y="{TOP + HEIGHT + 34}" width="12" height="12" fill="{COLOURS[role]}"/>'
                   f'<text x="{at + 17}" y="{TOP + HEIGHT + 44}">{name}</text>')
        at += 40 + 7 * len(name)
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
