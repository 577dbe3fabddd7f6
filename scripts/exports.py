#!/usr/bin/env python3
"""Makes what libplimsoll and libplimsoll_jobs export, as version scripts of the linker, and checks it.

    scripts/exports.py write FILE --of OBJECT... [--for OBJECT...]    for the build: the exports of a library of the objects --of
    scripts/exports.py check [--build build]                          a line for each fault, exit code 1 if there is one

A library exports what the headers of include/plimsoll declare, and what our other libraries need of it (--for). The second
part is not for users, and it may change with every version. Everything else stays local to its library. Tests link the
same objects in libraries without a version script (src/CMakeLists.txt, plimsoll_open_libraries).
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What stands before a name in a symbol that is not a function's: "vtable for plimsoll::UserError".
OF_CLASS = re.compile(r"^(?:vtable|typeinfo name|typeinfo|VTT|guard variable|construction vtable) for ")


def symbols_of(files, *flags):
    """Returns the mangled symbols that the files define and need."""
    defined, needed = set(), set()
    for line in subprocess.run(["nm", *flags, *files], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        kind, symbol = words[-2], words[-1].split("@")[0]
        if kind == "U":
            needed.add(symbol)
        elif kind in "TDBRWVu":
            defined.add(symbol)
    return defined, needed - defined


def declared_names():
    """Returns the classes and the functions that public headers declare in namespace plimsoll."""
    classes, functions = set(), set()
    for header in sorted((ROOT / "include" / "plimsoll").glob("*.h")):
        text = re.sub(r"//[^\n]*", "", header.read_text())
        classes.update(re.findall(r"^ *(?:class|struct)(?: \[\[\w+\]\])? (\w+)(?= [:{]| final| \{|\s*:)", text, re.MULTILINE))
        functions.update(re.findall(r"\b(\w+)\(", text))
    return classes, functions


def is_public(name, classes, functions):
    """Returns whether a public header declares what has this demangled name."""
    of_class = OF_CLASS.match(name)
    if of_class and "(" in name:  # of a function's type
        return False
    name = name[of_class.end() if of_class else 0:].split("[abi:")[0].split("(")[0]
    if "<" in name or "{" in name or "::Impl" in name:
        return False
    parts = name.split("::")
    return len(parts) >= 2 and parts[0] == "plimsoll" and (parts[1] in classes or (len(parts) == 2 and parts[1] in functions))


def public_symbols(symbols):
    """Returns the public ones of mangled symbols, with their demangled names."""
    symbols = sorted(symbols)
    names = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout.splitlines()
    declared = declared_names()
    return {symbol: name for symbol, name in zip(symbols, names) if is_public(name, *declared)}


def write(file, objects, users):
    # CMake counts a precompiled header among the objects of its target.
    objects, users = ([each for each in files if each.endswith(".o")] for files in (objects, users))
    defined, _ = symbols_of(objects)
    exported = set(public_symbols(defined))
    if users:
        exported |= {symbol for symbol in symbols_of(users)[1] & defined if "8plimsoll" in symbol}
    lines = ["PLIMSOLL_0 {", "  global:", *(f"    {symbol};" for symbol in sorted(exported)), "  local:", "    *;", "};", ""]
    text = "\n".join(lines)
    if not file.exists() or file.read_text() != text:  # an equal list links nothing again
        file.write_text(text)


def check(build):
    """The libraries for tests export everything: what of it is public, the libraries for users must export."""
    faulty = False
    for library in ("libplimsoll.so", "libplimsoll_jobs.so"):
        exported, _ = symbols_of([build / "exported" / library], "-D")
        public = public_symbols(symbols_of([build / library], "-D")[0])
        faults = [f"does not export {name}, which a public header declares" for symbol, name in public.items() if symbol not in exported]
        if not public:
            faults.append("exports nothing that a public header declares")
        print("\n".join(f"{library}: {fault}" for fault in [*faults, f"{len(exported)} symbols, {len(public)} of them public"]))
        faulty = faulty or bool(faults)
    return faulty


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("file", type=pathlib.Path)
    writing.add_argument("--of", nargs="+", required=True)
    writing.add_argument("--for", nargs="*", default=[], dest="users")
    checking = commands.add_parser("check")
    checking.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check(arguments.build)
    return write(arguments.file, arguments.of, arguments.users)


if __name__ == "__main__":
    sys.exit(main())
