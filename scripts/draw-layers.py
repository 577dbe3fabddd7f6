#!/usr/bin/env python3
"""Draws the rooms of the source in their layers as SVG, from the JSON of scripts/check-layers.py.

    scripts/check-layers.py --json | scripts/draw-layers.py > docs/images/layers.svg

A band is a library, a box a folder of src with the rooms inside it. A box is one row above the highest box that it
includes, so that every include leads to a lower row or stays inside its box. The arrows are the way of a training step.
Rooms without files are left out. Each room shows its subject when the pointer rests on it.
"""
import argparse
import collections
import html
import json
import sys

WIDTH, MARGIN, COLUMN, GAP = 800, 12, 104, 8  # pixels; COLUMN: the left column, with the names of the bands and long arrows
ARROW_GAP = 26  # between two rows that an arrow joins
CHIP, PAD, BAND_PAD = 24, 6, 10
# The way of a step: (from, to, what is handed over). The boxes of these folders are the first of their rows.
FLOW = [("record", "plan", "trace"), ("plan", "run", "schedule"), ("run", "device", "ops, copies")]
ON_THE_WAY = {name for arrow in FLOW for name in arrow[:2]}
BANDS = {"ground": ("#eef1f4", "#c3ccd6"), "engine": ("#e8f0fa", "#b4cbe8"), "jobs": ("#f8f2e4", "#e0cfa4")}
INK, MUTED, ARROW = "#1f2933", "#5a6672", "#b5432c"
PLAIN, TORCH = ("#ffffff", "#9aa7b4"), ("#fbdcc9", "#d08a5f")


# A library of its own inside a folder: a box of its own, because it includes more than the rest of the folder.
OWN_BOX = {"device/cuda"}


def box_of(room):
    return room if room in OWN_BOX else room.split("/")[0]


def text_width(text, bold=False):
    """An upper estimate in pixels for 12 pixels of a sans-serif font; browsers differ in the font."""
    return len(text) * (7.6 if bold else 7.0)


class Box:
    """A folder of src: its own room, if it has files, and the rooms below it."""

    def __init__(self, name, rooms):
        self.name, self.library = name, rooms[0]["library"]
        own = [room for room in rooms if room["room"] == name]
        self.rooms = own + [room for room in rooms if room["room"] != name]
        self.includes = {box_of(other) for room in rooms for other in room["includes"]} - {name}

    def label(self, room):
        return room["room"] if room["room"] == self.name else room["room"][len(self.name) + 1:]

    def chip_width(self, room):
        return text_width(self.label(room), room["room"] == self.name) + 14

    def natural_width(self):
        return sum(self.chip_width(room) + GAP / 2 for room in self.rooms) - GAP / 2 + 2 * PAD

    def place(self, x, width):
        """Sets the places of the rooms, line by line, and the height of the box."""
        self.x, self.width, self.chips = x, width, []
        at, line = PAD, 0
        for room in self.rooms:
            chip = self.chip_width(room)
            if at > PAD and at + chip > width - PAD:
                at, line = PAD, line + 1
            self.chips.append((room, x + at, line, chip))
            at += chip + GAP / 2
        self.height = (line + 1) * (CHIP + GAP / 2) - GAP / 2 + 2 * PAD


def boxes_of(rooms):
    folders = collections.defaultdict(list)
    for room in rooms:
        if room["files"]:
            folders[box_of(room["room"])].append(room)
    return {name: Box(name, of_folder) for name, of_folder in folders.items()}


def rows_of(boxes):
    """The rows of a band, bottom up: a box is above all boxes of its band that it includes."""
    level = {}
    def level_of(name, above=()):
        if name in above:
            sys.exit("folders that include each other: " + " ".join(above[above.index(name):]))
        if name not in level:
            below = [other for other in boxes[name].includes if other in boxes]
            level[name] = 1 + max((level_of(other, (*above, name)) for other in below), default=-1)
        return level[name]
    rows = collections.defaultdict(list)
    for name in boxes:
        rows[level_of(name)].append(boxes[name])
    return [sorted(rows[i], key=lambda box: box.name not in ON_THE_WAY) for i in sorted(rows)]


def place_row(row, left, width):
    """Shares the width of a row among its boxes; those of several rooms take what is left, and wrap."""
    free = width - GAP * (len(row) - 1)
    need = sum(box.natural_width() for box in row)
    several = [box for box in row if len(box.rooms) > 1] if need > free else row
    fixed = sum(box.natural_width() for box in row if box not in several)
    scale = (free - fixed) / sum(box.natural_width() for box in several)
    for box in row:
        box.place(left, box.natural_width() * (scale if box in several else 1))
        left += box.width + GAP
    height = max(box.height for box in row)
    for box in row:
        box.height = height
    return height


class Drawing:
    def __init__(self):
        self.out = []

    def rect(self, x, y, width, height, fill, stroke, radius=4, extra="", title=""):
        inside = f"><title>{html.escape(title)}</title></rect>" if title else "/>"
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" fill="{fill}" '
                        f'stroke="{stroke}"{extra}{inside}')

    def text(self, x, y, text, fill=INK, extra=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}"{extra}>{html.escape(text)}</text>')

    def box(self, box):
        on_the_way = box.name in ON_THE_WAY
        self.rect(box.x, box.y, box.width, box.height, "#ffffff", ARROW if on_the_way else "#8794a1", 5,
                  ' stroke-width="1.6"' if on_the_way else "")
        top = box.y + (box.height - (box.chips[-1][2] + 1) * (CHIP + GAP / 2) + GAP / 2) / 2
        for room, x, line, width in box.chips:
            y = top + line * (CHIP + GAP / 2)
            fill, stroke = TORCH if room["torch"] not in (False, None, "", "-") else PLAIN
            self.rect(x, y, width, CHIP, fill, stroke, 3, title=f'{room["room"]}: {room["subject"]}')
            weight = ' font-weight="bold"' if room["room"] == box.name else ""
            self.text(x + width / 2, y + 16, box.label(room), INK, f' text-anchor="middle" pointer-events="none"{weight}')

    def arrow(self, begin, end, label):
        """Straight from row to row where they are neighbors; otherwise through the left column."""
        line = f'fill="none" stroke="{ARROW}" stroke-width="1.8" marker-end="url(#head)"/>'
        lower, upper = (begin, end) if end.y < begin.y else (end, begin)
        if lower.y - upper.y - upper.height <= ARROW_GAP:
            x = max(begin.x, end.x) + 36
            y1, y2 = (begin.y, end.y + end.height) if lower is begin else (begin.y + begin.height, end.y)
            self.out.append(f'<path d="M{x:.1f} {y1:.1f} V{y2 + (1 if y2 < y1 else -1):.1f}" {line}')
            self.text(x + 9, (y1 + y2) / 2 + 4, label, ARROW, ' font-weight="bold"')
            return
        y1, y2, track = begin.y + begin.height / 2, end.y + end.height / 2, begin.x - 18
        self.out.append(f'<path d="M{begin.x:.1f} {y1:.1f} H{track:.1f} V{y2:.1f} H{end.x - 1:.1f}" {line}')
        self.text(track - 6, (y1 + y2) / 2 + 4, label, ARROW, ' text-anchor="end" font-weight="bold"')


def gap_above(rows, i):
    """The pixels between a row and the one above it."""
    pair = [{box.name for box in row} for row in rows[i:i + 2]]
    joined = len(pair) == 2 and any({begin, end} & pair[0] and {begin, end} & pair[1] for begin, end, _ in FLOW)
    return ARROW_GAP if joined else GAP


def draw(rooms):
    libraries = list(dict.fromkeys(room["library"] for room in rooms))
    boxes = boxes_of(rooms)
    drawing, left, y = Drawing(), MARGIN + COLUMN, MARGIN + 26
    for library in reversed(libraries):
        rows = rows_of({name: box for name, box in boxes.items() if box.library == library})
        top, y = y, y + BAND_PAD
        fill, stroke = BANDS.get(library, BANDS["ground"])
        heights = [place_row(row, left, WIDTH - MARGIN - BAND_PAD - left) for row in rows]
        gaps = [gap_above(rows, i) for i in range(len(rows) - 1)]
        drawing.rect(MARGIN, top, WIDTH - 2 * MARGIN, sum(heights) + sum(gaps) + 2 * BAND_PAD, fill, stroke, 6)
        drawing.text(MARGIN + 10, top + 24, library, INK, ' font-size="16" font-weight="bold"')
        for row, height, gap in reversed(list(zip(rows, heights, [0, *gaps]))):
            for box in row:
                box.y = y
            y += height + gap
        y += BAND_PAD + GAP
    for box in boxes.values():
        drawing.box(box)
    for number, (begin, end, label) in enumerate(FLOW, 1):
        if begin in boxes and end in boxes:
            drawing.arrow(boxes[begin], boxes[end], f"{number} {label}")
    x, legend = MARGIN, MARGIN + 14
    for (fill, stroke), name in ((PLAIN, "no libtorch"), (TORCH, "may include libtorch")):
        drawing.rect(x, legend - 11, 22, 14, fill, stroke, 3)
        drawing.text(x + 28, legend, name, MUTED)
        x += 44 + text_width(name)
    drawing.text(WIDTH - MARGIN, legend, "A box includes only boxes in rows below it.", MUTED, ' text-anchor="end"')
    drawing.text(MARGIN, y + 12, "Arrows: the way of a training step, and what is handed over.", ARROW)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24:.0f}" width="{WIDTH}" '
            'font-family="sans-serif" font-size="12" '
            'role="img">\n<title>The rooms of the source in their layers</title>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 Z" fill="{ARROW}"/></marker></defs>\n<rect width="100%" height="100%" rx="8" fill="#ffffff"/>')
    return "\n".join([head, *drawing.out, "</svg>"])


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(draw(json.load(sys.stdin)["rooms"]))


if __name__ == "__main__":
    main()
