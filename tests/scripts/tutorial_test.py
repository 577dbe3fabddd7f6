#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md in order, in a temporary folder, and compares their output with the page.

    tests/scripts/tutorial_test.py build/plimsoll            the test
    tests/scripts/tutorial_test.py build/plimsoll --print    prints what each command writes now, to renew the page

How the page is read:
- A block that opens with ```yaml FILE is written to FILE.
- In a block that opens with ```console a line that begins with "$ " is a command. The lines below it are its output.
- A command must end with exit code 0, unless the next command is `echo $?`: that one shows the exit code.
- A line that begins with "^C" stands for Ctrl-C: the test sends SIGINT when the training has made some steps.
- "…" stands for left-out text: alone for lines, at the end of a line for the rest of the line.
Each line of the page must be in the command's output, in the same order. All words of a line must agree. Sizes may
differ by 2 % and losses by 10 %, because kernels need other scratch and round otherwise on other processors. Other numbers
(times, rates, the step at which Ctrl-C arrives) are not compared.
"""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(yaml (?P<file>\S+)|console)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d:]*(?:\.\d+)?(?:e[+-]?\d+)?")
SIZE_UNITS = {"B", "KiB", "MiB", "GiB"}
INTERRUPT_SECONDS = 2.0  # after the first line of progress; all steps must take longer, on any processor
COMMAND_SECONDS = 3600.0  # ends what hangs


class Command:
    """A command of the page with the lines of output that the page shows."""

    def __init__(self, text):
        self.text, self.shown, self.interrupted = text, [], False


def blocks():
    """Yields (file name, text) for a file to write and (None, commands) for a block of commands."""
    for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if found["file"]:
            yield found["file"], found["text"]
            continue
        commands = []
        for line in found["text"].splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            elif not commands:
                sys.exit(f"{PAGE}: output without a command: {line}")
            elif line.startswith("^C"):
                commands[-1].interrupted = True
                commands[-1].shown.append(line[2:])
            else:
                commands[-1].shown.append(line)
        yield None, commands


def run(command, folder, environment, last_code):
    """Returns the command's exit code and its lines, standard output and standard error together."""
    text = command.text.replace("$?", str(last_code))
    # exec: the signal goes to the program, as Ctrl-C in a terminal reaches it.
    process = subprocess.Popen(["bash", "-c", f"exec {text}" if command.interrupted else text], cwd=folder, env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               encoding="utf-8")
    limit = threading.Timer(COMMAND_SECONDS, process.kill)
    limit.start()
    lines, interrupt = [], None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if command.interrupted and interrupt is None and line.startswith("train "):
            interrupt = threading.Timer(INTERRUPT_SECONDS, process.send_signal, [signal.SIGINT])
            interrupt.start()
    code = process.wait()
    for timer in (limit, interrupt):
        if timer:
            timer.cancel()
    return (128 - code if code < 0 else code), lines


def tokens(line):
    """The words of the line. A number becomes (value, what it is: size, resident, loss or other)."""
    words, made = line.split(), []
    # Rates have a prefix or none, by the machine and its other work.
    words = [word for i, word in enumerate(words) if not (word == "k" and words[i + 1:i + 2] == ["tokens/s"])]
    for i, word in enumerate(words):
        bare = word.strip("(),;:")
        if not NUMBER.fullmatch(bare):
            made.append(NUMBER.sub("N", word))
            continue
        kind = "other"
        if i + 1 < len(words) and words[i + 1].strip("(),;:/") in SIZE_UNITS:
            # Of the whole process: libraries and the processor count too.
            kind = "resident" if "resident" in words else "size"
        elif "loss" in words and "/s" not in line:
            kind = "loss"
        made.append((float(bare) if ":" not in bare else 0.0, kind))
    return made


def same(shown, written):
    if shown.endswith("…"):
        wanted = tokens(shown[:-1])
        got = tokens(written)[:len(wanted)]
    else:
        wanted, got = tokens(shown), tokens(written)
    if len(wanted) != len(got):
        return False
    for a, b in zip(wanted, got):
        if isinstance(a, str) or isinstance(b, str):
            # A unit of time or of a rate follows its number: 970 us here may be 1.2 ms there.
            if a != b and not (isinstance(a, str) and isinstance(b, str) and {a, b} <= {"us", "ms", "s", "k", "h"}):
                return False
        else:
            tolerance = {"size": 0.02, "resident": 0.15, "loss": 0.1, "other": float("inf")}[a[1]]
            if abs(a[0] - b[0]) > tolerance * max(abs(a[0]), abs(b[0])):
                return False
    return True


def missing_line(shown, written):
    """The first line of `shown` that `written` has not, in this order; None if all are there."""
    at = 0
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        while at < len(written) and not same(line, written[at]):
            at += 1
        if at == len(written):
            return line
        at += 1
    return None


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    printing = "--print" in sys.argv
    faults, last_code, count = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        # One thread: beside other tests the threads of a kernel wait for one another. The page says so too.
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": folder, "OMP_NUM_THREADS": "1",
                       "LC_ALL": "C"}
        work = pathlib.Path(folder) / "work"
        work.mkdir()
        for file, content in blocks():
            if file:
                (work / file).write_text(content, encoding="utf-8")
                continue
            for i, command in enumerate(content):
                begin = time.monotonic()
                code, lines = run(command, work, environment, last_code)
                count += 1
                print(f"{time.monotonic() - begin:5.1f} s  exit code {code}: {command.text}", flush=True)
                if printing:
                    print("\n".join(lines))
                shows_code = i + 1 < len(content) and content[i + 1].text == "echo $?"
                missing = missing_line(command.shown, lines)
                if missing is not None:
                    faults.append(f"{command.text}\n  does not write: {missing}\n  but:\n    " + "\n    ".join(lines))
                if code != 0 and not shows_code:
                    faults.append(f"{command.text}\n  ended with exit code {code}:\n    " + "\n    ".join(lines))
                # The exit code is compared exactly, although it is a number without a unit.
                if command.text == "echo $?" and [line.strip() for line in command.shown if line.strip()] != [str(last_code)]:
                    faults.append(f"{shlex.quote(content[i - 1].text)} ended with {last_code}; the page says {command.shown}")
                last_code = code
    if count == 0:
        faults.append(f"{PAGE} has no commands")
    if faults and not printing:
        sys.exit("\n\n".join(faults))


if __name__ == "__main__":
    main()
