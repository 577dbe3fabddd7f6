#!/usr/bin/env python3
"""Writes the tables of READMEs and docs/ that are made of plans: nothing in them is typed.

    scripts/readme-tables.py                       all of them
    scripts/readme-tables.py FILE ...              some
    scripts/readme-tables.py --check               writes nothing; exit code 1 where a plan says something else now

In a README a table stands between two comments, of which the first is the command that prints it: scripts/memory-table.py or
a program beside the README.

    <!-- memory-table.py devices examples/gesture-ssm/job.yaml l40s rtx4090 -->
    ...
    <!-- end -->

Each table is written as soon as it is made: what is interrupted goes on where it was with --from N.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = re.compile(r"(<!-- ((?:memory-table\.py|\./\S+) .*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def made(command, readme, plimsoll):
    program, *arguments = shlex.split(command)
    place = readme.parent / program if program.startswith("./") else ROOT / "scripts" / program
    print(command, file=sys.stderr, flush=True)
    done = subprocess.run([str(place), *arguments, "--plimsoll", plimsoll], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{readme}: {command}: exit code {done.returncode}")
    return done.stdout


def replace(file, text):
    aside = file.with_name(file.name + ".new")
    aside.write_text(text)
    os.replace(aside, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=sorted([*ROOT.glob("examples/*/README.md"), *ROOT.glob("docs/*.md")]))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="begin with a file's table N")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    options = parser.parse_args()
    good = True
    for file in options.files:
        file = file.resolve()
        for command in [found.group(2) for found in TABLE.finditer(file.read_text())][options.first - 1:]:
            table = made(command, file, options.plimsoll)
            # Read again: what stands around the table may have been edited while it was made.
            text = file.read_text()
            new = TABLE.sub(lambda found: found.group(1) + table + found.group(4) if found.group(2) == command else found.group(0), text)
            if new == text:
                continue
            good = False
            if options.check:
                print(f"{file}: not what the plans say now: {command}", file=sys.stderr)
            else:
                replace(file, new)
    return 0 if good or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
