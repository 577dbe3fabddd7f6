#!/usr/bin/env python3
"""Checks the layers of the sources: a room (a folder of src) includes only rooms of earlier lines of src/rooms.txt.

    scripts/check-layers.py              checks src and include; one line if all is well
    scripts/check-layers.py --list       prints the rooms bottom up first: files, lines, and the includes of each room
    scripts/check-layers.py --json       prints the rooms and the faults as JSON, for scripts
    scripts/check-layers.py --root DIR   checks another tree

A public header (include/plimsoll) belongs to the room that the table names. An arrow leads from a room to a room that it
includes. The faults are:

  - an arrow up: an include of a room of a later line; also of a later library, so the engine includes nothing of the jobs
  - cli/* includes a header of the libraries that is not public; of the ground it may include all
  - a circle of rooms that include each other, with the includes that form it
  - record or plan/* includes device/*, or plan/* includes ops/*, whatever the order of the table
  - a file of a room without libtorch includes libtorch, directly or through headers
  - a room with more than 40 files in its folder, and a room without a folder
  - a file outside the rooms, and a public header that the table does not list, lists twice, or lists though it does not exist
  - an include in quotes that names no file of the project

Prints one line for each fault, FILE:LINE: REASON; REMEDY, and exits with 1 if there is one.
"""
import argparse
import collections
import json
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "src/rooms.txt"
LIBRARIES = ["ground", "engine", "jobs"]  # bottom up
PUBLIC = "include/plimsoll"
MAX_FILES = 40
ROW = re.compile(r"(\w+) +([a-z][\w/]*) +(torch|-) +(-|\w+(?:,\w+)*) +\| (\S[^;\[\]\\]*)", re.ASCII)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)', re.MULTILINE)
LIBTORCH = ("torch/", "ATen/", "c10/")
# (room, room that it never includes, what to do instead), each with the rooms below its folder.
NEVER = [
    ("record", "device", "record and plan include no device: pass in the sizes or the cost model that are needed"),
    ("plan", "device", "record and plan include no device: pass in the sizes or the cost model that are needed"),
    ("plan", "ops", "plan includes no operator: pass in the function, or declare it in trace or cost"),
]
# The rooms of the program, which knows the libraries by their public headers.
PROGRAM = "cli"
# Headers of tests that sources may name: kernels are compiled for the CPU there.
OF_TESTS = {"cuda_on_cpu/cuda_on_cpu.h"}


class Room:
    def __init__(self, name, library, torch, headers, subject, row, level):
        self.name, self.library, self.torch, self.headers, self.subject = name, library, torch, headers, subject
        self.row, self.level = row, level  # its line in the table, its place from the bottom
        self.files, self.lines = [], 0

    def is_in(self, folder):
        return self.name == folder or self.name.startswith(folder + "/")


class Layers:
    """The rooms of a tree, the includes of its files, and the faults of both."""

    def __init__(self, root):
        self.root = root
        self.faults = []  # (file, line, text)
        self.circles = []  # (TABLE, line of a room, text)
        self.rooms = {}  # by name, bottom up
        self.room_of = {}  # by file; None: outside the rooms
        self.includes = {}  # by file: (line, file)
        self.libtorch = {}  # by file: the first include of libtorch as (line, name)
        self.owner = {}  # by public header: its room
        self.read_table()
        self.read_files()
        self.check_places()
        self.check_arrows()
        self.check_circles()
        self.check_libtorch()

    def fault(self, file, line, text):
        self.faults.append((file, line, text))

    def read_table(self):
        level = 0
        for number, line in enumerate((self.root / TABLE).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.isascii():
                self.fault(TABLE, number, "the line is not ASCII, and CMake would not read all of it; write it in ASCII")
            if not line.strip() or line.startswith("#"):
                continue
            row = ROW.fullmatch(line)
            if not row or row[1] not in LIBRARIES:
                self.fault(TABLE, number, f"{line.strip()!r} is not a room; write LIBRARY ROOM LIBTORCH HEADERS | SUBJECT with a "
                                          f"library of {', '.join(LIBRARIES)}, without semicolon, square bracket and backslash")
                continue
            library, name, torch, headers, subject = row.groups()
            if name in self.rooms:
                self.fault(TABLE, number, f"room {name} is also in line {self.rooms[name].row}; remove one")
                continue
            if LIBRARIES.index(library) < level:
                self.fault(TABLE, number, f"room {name} of {library} follows a room of {LIBRARIES[level]}; move the line up to "
                                          f"the rooms of {library}")
            level = max(level, LIBRARIES.index(library))
            headers = [] if headers == "-" else [f"{PUBLIC}/{header}.h" for header in headers.split(",")]
            room = Room(name, library, torch == "torch", headers, subject.strip(), number, len(self.rooms))
            self.rooms[name] = room
            for header in headers:
                if header in self.owner:
                    self.fault(TABLE, number, f"{header} is also a header of {self.owner[header].name} "
                                              f"(line {self.owner[header].row}); remove it from one of the lines")
                else:
                    self.owner[header] = room

    def read_files(self):
        texts = {}
        for top in ("include", "src"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in {".h", ".cpp", ".cu", ".cuh"} and path.is_file():
                    texts[path.relative_to(self.root).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
        for file, text in texts.items():
            room = self.owner.get(file) or self.rooms.get(posixpath.dirname(file).removeprefix("src/"))
            self.room_of[file] = room
            if room:
                room.files.append(file)
                room.lines += len(text.splitlines())
            self.includes[file] = []
            for found in INCLUDE.finditer(text):
                quote, name = found.groups()
                line = text.count("\n", 0, found.start()) + 1
                # As a compiler looks: an include in quotes next to the file first.
                beside = [posixpath.normpath(posixpath.join(posixpath.dirname(file), name))] if quote == '"' else []
                target = next((path for path in [*beside, "include/" + name, "src/" + name] if path in texts), None)
                if target:
                    self.includes[file].append((line, target))
                elif name.startswith(LIBTORCH):
                    self.libtorch.setdefault(file, (line, name))
                elif quote == '"' and name not in OF_TESTS:
                    self.fault(file, line, f'#include "{name}" names no file in include, in src or next to this file; correct the '
                                           "path, or write <> for a header of another project")

    def check_places(self):
        for file, room in self.room_of.items():
            if room:
                continue
            folder = posixpath.dirname(file)
            if folder == PUBLIC and file.endswith(".h"):
                self.fault(file, 1, f"{TABLE} does not list this public header; add {pathlib.PurePath(file).stem} to the line of "
                                    "its room")
            elif file.startswith("include/"):
                self.fault(file, 1, f"public headers are {PUBLIC}/NAME.h; move this file there or below src")
            else:
                self.fault(file, 1, f"the folder {folder} is not a room of {TABLE}; move this file into the folder of a room, or "
                                    "add a line for a new room")
        for room in self.rooms.values():
            count = sum(file.startswith("src/") for file in room.files)
            if count == 0:
                self.fault(TABLE, room.row, f"room {room.name} has no sources in src/{room.name}; remove the line, or correct the "
                                            "name")
            if count > MAX_FILES:
                self.fault(TABLE, room.row, f"room {room.name} has {count} files; allowed: at most {MAX_FILES}; divide the room by "
                                            "subject")
            for header in room.headers:
                if header not in self.room_of:
                    self.fault(TABLE, room.row, f"{header} does not exist; remove it from the headers of {room.name}")

    def check_arrows(self):
        """Faults of single includes, and self.arrows: the includes as (file, line, file) by (room, room)."""
        self.arrows = collections.defaultdict(list)
        for file, includes in self.includes.items():
            room = self.room_of[file]
            for line, target in includes if room else ():
                other = self.room_of[target]
                what = f"{room.name} includes {target.split('/', 1)[1]}"
                if not other or other is room:
                    continue
                self.arrows[room, other].append((file, line, target))
                never = next((rule for a, b, rule in NEVER if room.is_in(a) and other.is_in(b)), None)
                if never:
                    self.fault(file, line, f"{what}; {never}")
                elif room.is_in(PROGRAM) and not other.is_in(PROGRAM) and other.library != "ground" and target not in self.owner:
                    self.fault(file, line, f"{what}, but the program includes only public headers of the libraries; declare what "
                                           f"it needs in {PUBLIC}, or move it into {PROGRAM}")
                elif LIBRARIES.index(other.library) > LIBRARIES.index(room.library):
                    self.fault(file, line, f"{what} of {other.name}, but {room.library} includes nothing of {other.library}; move the "
                                           f"declarations that {room.name} needs to {room.library}, or pass in the values")
                elif other.level > room.level:
                    self.fault(file, line, f"{what} of {other.name}, an arrow up in {TABLE}; move the declarations that {room.name} "
                                           f"needs to {room.name} or an earlier room, or pass in the values")

    def check_circles(self):
        """The shortest circle through each arrow up. The rooms are in a row, so a circle has an arrow up."""
        after = collections.defaultdict(list)
        for room, other in sorted(self.arrows, key=lambda arrow: (arrow[0].level, arrow[1].level)):
            after[room].append(other)
        seen = set()
        for low, high in [(room, other) for room in after for other in after[room] if other.level > room.level]:
            back = path_of(high, lambda room: room is low, after.__getitem__)
            if not back or frozenset(back) in seen:
                continue
            seen.add(frozenset(back))
            circle = [low, *back]
            text = f"circle of rooms: {' -> '.join(room.name for room in circle)}; remove one of its arrows:"
            for room, other in zip(circle, back):
                includes = self.arrows[room, other]
                shown = includes if other.level > room.level else includes[:1]
                for file, line, target in shown:
                    text += f"\n    {file}:{line}: {room.name} -> {other.name}: includes {target.split('/', 1)[1]}"
                if len(includes) > len(shown):
                    text += f", and {len(includes) - len(shown)} more"
            self.circles.append((TABLE, low.row, text))

    def check_libtorch(self):
        """A chain is a fault where it leaves the rooms without libtorch, not in the files that include that file."""
        for file, includes in self.includes.items():
            room = self.room_of[file]
            if not room or room.torch:
                continue
            rule = f"but {room.name} is without libtorch in {TABLE}"
            if file in self.libtorch:
                line, name = self.libtorch[file]
                self.fault(file, line, f"#include <{name}>, {rule}; remove it, or move the file to a room with libtorch")
            for line, target in includes:
                if self.room_of[target] and not self.room_of[target].torch:
                    continue
                chain = path_of(target, self.libtorch.__contains__, lambda each: [other for _, other in self.includes[each]])
                if chain:
                    names = [each.split("/", 1)[1] for each in chain] + [f"<{self.libtorch[chain[-1]][1]}>"]
                    self.fault(file, line, f"includes libtorch through {' -> '.join(names)}, {rule}; include a header without "
                                           "libtorch, or declare the types instead")

    def includes_of(self, room):
        """The number of includes from a room to others, by name, bottom up."""
        to = sorted((other.level, other.name, len(found)) for (one, other), found in self.arrows.items() if one is room)
        return {name: count for _, name, count in to}

    def texts(self):
        return [f"{file}:{line}: {text}" for file, line, text in sorted(self.faults) + self.circles]


def path_of(start, is_end, after):
    """The shortest path from `start` to a node for which `is_end` holds, with both; None if there is none."""
    before, row = {start: None}, [start]
    for node in row:
        if is_end(node):
            path = [node]
            while before[path[-1]] is not None:
                path.append(before[path[-1]])
            return path[::-1]
        for other in after(node):
            if other not in before:
                before[other] = node
                row.append(other)
    return None


def print_list(layers):
    rooms = layers.rooms.values()
    width = max([4, *(len(room.name) for room in rooms)])
    print(f"{'library':<7}  {'room':<{width}}  libtorch  files  lines  includes (room:number)")
    for room in rooms:
        to = " ".join(f"{name}:{count}" for name, count in layers.includes_of(room).items()) or "-"
        torch = "torch" if room.torch else "-"
        print(f"{room.library:<7}  {room.name:<{width}}  {torch:<8}  {len(room.files):>5}  {room.lines:>5}  {to}")
    total = ", ".join(f"{library} {sum(room.lines for room in rooms if room.library == library)}" for library in LIBRARIES)
    print(f"lines: {total}")


def json_of(layers):
    rooms = [{"room": room.name, "library": room.library, "torch": room.torch, "subject": room.subject,
              "headers": [header.split("/", 1)[1] for header in room.headers], "files": len(room.files), "lines": room.lines,
              "includes": layers.includes_of(room)} for room in layers.rooms.values()]
    return json.dumps({"rooms": rooms, "faults": layers.texts()}, indent=1)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--list", action="store_true", help="print the rooms, then the faults")
    output.add_argument("--json", action="store_true", help="print the rooms and the faults as JSON")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, metavar="DIR",
                        help="the tree to check (default: this repository)")
    options = parser.parse_args(arguments)
    if not (options.root / TABLE).is_file():
        parser.error(f"--root: {options.root} has no {TABLE}; use the root of the repository")
    layers = Layers(options.root)
    faults = layers.texts()
    if options.json:
        print(json_of(layers))
        return 1 if faults else 0
    if options.list:
        print_list(layers)
    for text in faults:
        print(text)
    count = {0: "no fault", 1: "1 fault"}.get(len(faults), f"{len(faults)} faults")
    print(f"layers: {len(layers.rooms)} rooms, {len(layers.room_of)} files, {len(layers.arrows)} arrows, {count}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
