#!/usr/bin/env python3
"""Writes the tables of the examples' READMEs that scripts/memory-table.py makes: nothing in them is typed.

    scripts/readme-tables.py                       all of them
    scripts/readme-tables.py FILE ...              some
    scripts/readme-tables.py --check               writes nothing; exit code 1 where a plan says something else now

In a README a table stands between two comments, of which the first says how it is made:

    <!-- memory-table.py devices examples/gesture-ssm/job.yaml l40s rtx4090 -->
    ...
    <!-- end -->
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = re.compile(r"(<!-- memory-table\.py (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def made(arguments, plimsoll):
    command = [str(ROOT / "scripts" / "memory-table.py"), *shlex.split(arguments), "--plimsoll", plimsoll]
    print(" ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{arguments}: exit code {done.returncode}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=sorted(ROOT.glob("examples/*/README.md")))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    options = parser.parse_args()
    good = True
    for file in options.files:
        text = file.read_text()
        new = TABLE.sub(lambda found: found.group(1) + made(found.group(2), options.plimsoll) + found.group(3), text)
        if new == text:
            continue
        good = False
        print(f"{file}: {'is not what the plans say now' if options.check else 'written'}", file=sys.stderr)
        if not options.check:
            file.write_text(new)
    return 0 if good or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
