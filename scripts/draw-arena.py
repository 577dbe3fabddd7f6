#!/usr/bin/env python3
"""Draws the plan of a training step as SVG, from the JSON of `plimsoll trace --scheduled`.

    build/plimsoll trace JOB.yaml --scheduled --json - | scripts/draw-arena.py > arena.svg
    … | scripts/draw-arena.py --memory host > host.svg       the arena in host memory (or: disk)
    … | scripts/draw-arena.py --lifetimes 24 > lifetimes.svg  the 24 largest buffers, one line each, in order of birth

Time goes from left to right, one step of equal width for each op. In an arena, bytes go from bottom to top and each
rectangle is a buffer: its width is its lifetime, its height its bytes. A dark band below the arena marks ops that run a
second time (recomputation). --height PIXELS sets the height of the drawing; buffers too flat to see are left out.
"""
import argparse
import html
import json
import sys

COLORS = {"parameter": "#35618f", "optimizer_state": "#6c8ebf", "gradient": "#c8553d", "activation": "#e9a23b",
           "temporary": "#f3d9a4", "input": "#5b8c5a", "workspace": "#9d79bc"}
NAMES = {"parameter": "parameters", "optimizer_state": "optimizer state", "gradient": "gradients", "activation": "activations",
         "temporary": "temporaries", "input": "inputs", "workspace": "workspace"}
SEGMENTS = ("micro", "accumulate", "remainder", "last", "update")
MEMORIES = {"device": "the arena", "host": "the host memory", "disk": "the disk space"}
WIDTH, LEFT, TOP, ROW = 960, 64, 40, 15


class Drawing:
    """The axes that all drawings share: ops from left to right, segments named below, roles in a legend."""

    def __init__(self, trace, height, left):
        segments = {s["name"]: s for s in trace["segments"]}
        self.segments = {name: segments[name] for name in SEGMENTS if name in segments}
        self.first, self.last = segments["micro"]["begin"], segments["update"]["end"]
        self.height, self.left, self.trace, self.out = height, left, trace, []

    def x(self, op):
        return self.left + (min(max(op, self.first), self.last) - self.first) * WIDTH / (self.last - self.first)

    def begin(self, title):
        self.out += [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + self.left + 16} {self.height + TOP + 64}" '
                     'font-family="sans-serif" font-size="12">',
                     '<rect width="100%" height="100%" fill="white"/>',
                     f'<text x="{self.left}" y="22">{html.escape(title)}</text>']

    def box(self, buffer, y, height):
        left, right = self.x(buffer["birth"]), self.x(buffer["death"])
        if right - left < 0.2 or height < 0.1:
            return
        self.out.append(f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" '
                        f'height="{height:.1f}" fill="{COLORS[buffer["role"]]}" stroke="white" stroke-width="0.2">'
                        f'<title>{html.escape(buffer["label"])}: {buffer["bytes"]} bytes</title></rect>')

    def end(self):
        for name, segment in self.segments.items():
            if segment["begin"] == segment["end"]:
                continue
            x = self.x(segment["begin"])
            self.out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + self.height + 6}" stroke="#333"/>')
            self.out.append(f'<text x="{x + 4:.1f}" y="{TOP + self.height + 16}">{name}</text>')
        for begin, end in runs(op["index"] for op in self.trace["ops"] if op["recomputed"]):
            if self.first <= begin < self.last:
                self.out.append(f'<rect x="{self.x(begin):.1f}" y="{TOP + self.height + 20}" '
                                f'width="{self.x(end) - self.x(begin):.1f}" height="5" fill="#333"><title>recomputed</title></rect>')
        at = self.left
        for role, name in NAMES.items():
            self.out.append(f'<rect x="{at}" y="{TOP + self.height + 34}" width="12" height="12" fill="{COLORS[role]}"/>'
                            f'<text x="{at + 17}" y="{TOP + self.height + 44}">{name}</text>')
            at += 40 + 7 * len(name)
        self.out.append("</svg>")
        return "\n".join(self.out)


def runs(indices):
    """Consecutive numbers as half-open ranges."""
    ranges = []
    for index in sorted(indices):
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])
    return ranges


def draw_arena(trace, memory, height):
    drawing = Drawing(trace, height, LEFT)
    buffers = [b for b in trace["buffers"] if b.get("offset") is not None and b["bytes"] > 0 and b["memory"] == memory]
    if not buffers:
        sys.exit(f"no buffer is placed in {memory} memory; is the trace a schedule (--scheduled)?")
    top = max(b["offset"] + b["bytes"] for b in buffers)
    y = lambda offset: TOP + height - offset * height / top
    drawing.begin(f"Each buffer in {MEMORIES[memory]} during one training step ({top / 2**20:.0f} MiB)")
    for buffer in buffers:
        upper = y(buffer["offset"] + buffer["bytes"])
        drawing.box(buffer, upper, max(y(buffer["offset"]) - upper, 0.0))
    for part in range(5):
        drawing.out.append(f'<text x="{LEFT - 6}" y="{y(top * part / 4) + 4:.1f}" text-anchor="end">'
                           f'{top * part / 4 / 2**20:.3g} MiB</text>')
    return drawing.end()


def draw_lifetimes(trace, count):
    left = 250
    drawing = Drawing(trace, 0, left)
    alive = [b for b in trace["buffers"] if b["birth"] < drawing.last and b["death"] > drawing.first]
    chosen = sorted(alive, key=lambda b: (-b["bytes"], b["id"]))[:count]
    chosen.sort(key=lambda b: (b["birth"], b["id"]))
    drawing.height = ROW * len(chosen)
    drawing.begin(f"Lifetimes of the {len(chosen)} largest buffers of one training step")
    for row, buffer in enumerate(chosen):
        y = TOP + ROW * row
        label = buffer["label"] if len(buffer["label"]) <= 32 else buffer["label"][:31] + "…"
        drawing.box(buffer, y + 1, ROW - 2)
        drawing.out.append(f'<text x="{left - 6}" y="{y + 11}" text-anchor="end" font-size="11">{html.escape(label)}, '
                           f'{buffer["bytes"] / 2**20:.1f} MiB</text>')
    return drawing.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", choices=list(MEMORIES), default="device")
    parser.add_argument("--lifetimes", type=int, metavar="N")
    parser.add_argument("--height", type=int, default=420, metavar="PIXELS")
    options = parser.parse_args()
    trace = json.load(sys.stdin)
    print(draw_lifetimes(trace, options.lifetimes) if options.lifetimes else draw_arena(trace, options.memory, options.height))


if __name__ == "__main__":
    main()
