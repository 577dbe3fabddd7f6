#!/usr/bin/env python3
"""Checks that sanitized programs are made of sanitized objects alone.

    scripts/check-sanitized.py [BUILD]     the programs of build/, or of another build folder

An inline function has a copy in each object that uses it, and the linker takes any of the copies. A fault in it is found for
certain only if each copy has the checks. A program is sanitized if one object of it, or of a library of the build that it is
linked with, is compiled with -fsanitize. All its objects must then have the address and undefined-behavior sanitizers, and the
same flags of sanitizers and of containers (_GLIBCXX_ASSERTIONS): containers of two kinds do not fit together.

Reads build.ninja; nothing needs to be built. Prints the objects at fault, and exits with 1 if there is one, or no sanitized program.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = {"address", "undefined"}


def statements(text):
    """Output -> (rule, inputs, FLAGS) of each build statement. Order-only inputs are not linked, and left out."""
    found = {}
    for block in re.split(r"^(?=build )", text.replace("$\n", ""), flags=re.MULTILINE)[1:]:
        outputs, _, rest = block.split("\n", 1)[0][len("build "):].partition(": ")
        rule, *inputs = rest.split(" || ")[0].split()
        flags = re.search(r"^  FLAGS = (.*)$", block, flags=re.MULTILINE)
        for output in outputs.split():
            found[output] = (rule, [name for name in inputs if name != "|"], flags.group(1).split() if flags else [])
    return found


def objects_of(output, build, seen):
    """The objects that an output is linked from, with those of its libraries that the build makes."""
    found = []
    for name in build[output][1]:
        if name in seen or name not in build:
            continue
        seen.add(name)
        if name.endswith(".o"):
            found.append(name)
        elif re.search(r"\.(a|so[.0-9]*)$", name):
            found += objects_of(name, build, seen)
    return found


def kind_of(flags):
    """The flags that must be the same in all objects, and the sanitizers that they leave."""
    kind = tuple(flag for flag in flags if re.match(r"-f(no-)?sanitize|-D_GLIBCXX_", flag))
    left = set()
    for flag in kind:
        sign, _, names = flag.partition("sanitize=")
        left = left - set(names.split(",")) if sign == "-fno-" else left | set(filter(None, names.split(",")))
    return kind, left


def faults(text):
    """(sanitized programs, messages)."""
    build = statements(text)
    programs, messages = [], []
    for output, (rule, _, _) in sorted(build.items()):
        if not rule.startswith("CXX_EXECUTABLE_LINKER"):
            continue
        kinds = {name: kind_of(build[name][2]) for name in objects_of(output, build, set())}
        if not any(left for _, left in kinds.values()):
            continue
        programs.append(output)
        first = next((kind for kind, left in kinds.values() if NEEDED <= left), ())
        for name, (kind, left) in kinds.items():
            if not NEEDED <= left:
                messages.append(f"{output}: {name} is compiled without -fsanitize={','.join(sorted(NEEDED - left))}")
            elif kind != first:
                messages.append(f"{output}: {name} has {' '.join(kind)}; another object has {' '.join(first)}")
    return programs, messages


def main():
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build") / "build.ninja"
    programs, messages = faults(path.read_text(encoding="utf-8"))
    for message in messages:
        print(f"sanitized: {message}", file=sys.stderr)
    if not programs:
        sys.exit(f"sanitized: {path} has no sanitized program")
    print(f"sanitized: {len(programs)} programs, {len(messages)} faults")
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main())
