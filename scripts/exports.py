#!/usr/bin/env python3
"""Lists what libplimsoll and libplimsoll_jobs export, as version scripts of the linker: src/NAME.exports.

    scripts/exports.py --write [--build build]    makes both lists from the objects of a build with all libraries
    scripts/exports.py --check [--build build]    checks them; a line for each fault, exit code 1 if there is one
    scripts/exports.py --count [--build build]    prints how many symbols each library exports

A list has two parts. `public` is what the headers of include/plimsoll declare. `internal` is what the other libraries of the
project need beside it: not for users, and it may change with every version. Everything else stays local to its
library. Tests link the same objects in libraries without a list (src/CMakeLists.txt, plimsoll_open_libraries).
"""
import argparse
import bisect
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Libraries and the folders of CMake that have their objects; the program and the library for NVIDIA devices only need some.
PARTS = {
    "plimsoll": ["plimsoll_engine_plain", "plimsoll_engine_plain_counted", "plimsoll_engine_torch", "plimsoll_engine_torch_counted"],
    "plimsoll_jobs": ["plimsoll_jobs_plain", "plimsoll_jobs_torch"],
    "plimsoll_cuda": ["plimsoll_cuda"],
    "plimsoll_cli": ["plimsoll_cli"],
}
LISTED = ["plimsoll", "plimsoll_jobs"]
# What stands before a name in a symbol that is not a function's: "vtable for plimsoll::UserError".
OF_CLASS = re.compile(r"^(vtable|typeinfo name|typeinfo|VTT|guard variable|construction vtable) for (.*)$")


def symbols_of(build, part):
    """Returns the mangled symbols that the objects of `part` define and need."""
    defined, needed = set(), set()
    for name in PARTS[part]:
        for file in sorted((build / "src" / "CMakeFiles" / f"{name}.dir").rglob("*.o")):
            for line in subprocess.run(["nm", str(file)], capture_output=True, text=True, check=True).stdout.splitlines():
                words = line.split()
                if len(words) < 2:
                    continue
                kind, symbol = words[-2], words[-1]
                if kind == "U":
                    needed.add(symbol)
                elif kind in "TDBRWVu":
                    defined.add(symbol)
    return defined, needed - defined


def demangled(symbols):
    symbols = sorted(symbols)
    lines = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    return dict(zip(symbols, lines.splitlines()))


def declared_names(folder):
    """Returns the classes and the functions that public headers declare in namespace plimsoll."""
    classes, functions = set(), set()
    for header in sorted(folder.glob("*.h")):
        text = re.sub(r"//[^\n]*", "", header.read_text())
        classes.update(re.findall(r"^ *(?:class|struct)(?: \[\[\w+\]\])? (\w+)(?= [:{]| final| \{|\s*:)", text, re.MULTILINE))
        functions.update(re.findall(r"\b(\w+)\(", text))
    return classes, functions


def qualified(name):
    """Returns the qualified name in a demangled symbol, without parameters, and whether it is a class's data."""
    found = OF_CLASS.match(name)
    of_class = found is not None
    if found:
        name = found.group(2)
    name = name.split("[abi:")[0]
    depth, end = 0, len(name)
    for i, c in enumerate(name):
        depth += c == "<"
        depth -= c == ">"
        if c == "(" and depth == 0 and i > 0 and not name[:i].endswith("operator"):
            end = i
            break
    return name[:end].strip(), of_class


def patterns_for(symbols, names, classes, functions):
    """Splits `symbols` into the patterns of the public and of the internal part."""
    public, internal = set(), set()
    for symbol in symbols:
        name, of_class = qualified(names[symbol])
        # Return types of templates stand before their names.
        name = name.split(" ")[-1] if "<" in name else name
        if not name.startswith("plimsoll::"):
            continue
        parts = name.split("::")
        owner = "::".join(parts[:-1])
        is_public = len(parts) >= 2 and (parts[1] in classes or (len(parts) == 2 and parts[1] in functions))
        into = public if is_public else internal
        if of_class:
            into.add(names[symbol])
        elif owner != "plimsoll" and (parts[-2][:1].isupper()):
            into.add(f"{owner}::*")
        else:
            into.add(f"{name}*" if "(" in names[symbol] else name)  # the linker's patterns have no brackets
    return public, internal


def symbols_by_library(build):
    """Returns for each library the demangled names of its symbols, and the symbols that it must export."""
    defined, needed = {}, {}
    for part in PARTS:
        defined[part], needed[part] = symbols_of(build, part)
    classes, functions = declared_names(ROOT / "include" / "plimsoll")
    found = {}
    for library in LISTED:
        names = demangled(defined[library])
        wanted = {s for other in PARTS if other != library for s in needed[other] if s in defined[library]}
        found[library] = (names, wanted | {s for s in names if public_symbol(names[s], classes, functions)})
    return found, classes, functions


def faults_of(text, names, exported):
    """Returns what is wrong with a list: a symbol that it leaves out, a name that no symbol has. It may name more than this
    build's libraries need of each other: compilers inline differently."""
    patterns = [line.strip().rstrip(";") for line in text.splitlines() if line.strip().startswith(("plimsoll::", '"'))]
    exact = {pattern.strip('"') for pattern in patterns if pattern.startswith('"')}
    globs = [pattern.rstrip("*") for pattern in patterns if not pattern.startswith('"')]
    faults = [f"leaves out {names[s]}" for s in sorted(exported)
              if names[s].startswith("plimsoll::") and names[s] not in exact and not names[s].startswith(tuple(globs))]
    all_names = sorted(names.values())
    faults += [f"names {each}, which the library does not have" for each in sorted(exact) if each not in set(all_names)]
    for prefix in globs:
        at = bisect.bisect_left(all_names, prefix)
        if at == len(all_names) or not all_names[at].startswith(prefix):
            faults.append(f"names {prefix}*, which the library does not have")
    return faults


def public_symbol(name, classes, functions):
    if OF_CLASS.match(name) and "(" in name:  # of a function's type
        return False
    name, _ = qualified(name)
    if "<" in name or "lambda" in name or "{" in name or "::Impl" in name:
        return False
    parts = name.split("::")
    return len(parts) >= 2 and parts[0] == "plimsoll" and (
        parts[1] in classes or (len(parts) == 2 and parts[1] in functions))


def text_of(library, public, internal):
    lines = [f"# What lib{library} exports. Made by scripts/exports.py --write.", "PLIMSOLL_0 {", "  global:"]
    for title, patterns in (("public: include/plimsoll", public), ("internal: for the project's own libraries", internal)):
        if not patterns:  # the linker takes no empty list
            continue
        lines.append(f"    # {title}")
        lines.append('    extern "C++" {')
        lines += [f"      {quoted(each)};" for each in sorted(patterns)]
        lines.append("    };")
    return "\n".join(lines + ["  local:", "    *;", "};", ""])


def quoted(pattern):
    # In quotes a name is taken as it is, without wildcards.
    return pattern if pattern.endswith("*") else f'"{pattern}"'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for flag in ("write", "check", "count"):
        what.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    if arguments.count:
        for library in LISTED + ["plimsoll_cuda", "plimsoll_media"]:
            listed = arguments.build / "exported" / f"lib{library}.so"
            file = listed if listed.exists() else arguments.build / f"lib{library}.so"
            if file.exists():
                lines = subprocess.run(["nm", "-D", "--defined-only", str(file)], capture_output=True, text=True, check=True).stdout
                print(f"lib{library}: {len(lines.splitlines())} symbols")
        return 0
    found, classes, functions = symbols_by_library(arguments.build)
    faulty = False
    for library, (names, exported) in found.items():
        file = ROOT / "src" / f"{library}.exports"
        if arguments.write:
            public, internal = patterns_for(exported, names, classes, functions)
            file.write_text(text_of(library, public, internal - public))
            print(f"{file.relative_to(ROOT)}: {len(public)} public patterns, {len(internal - public)} internal")
            continue
        for fault in faults_of(file.read_text(), names, exported):
            print(f"src/{library}.exports {fault}; run scripts/exports.py --write")
            faulty = True
    if faulty:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
