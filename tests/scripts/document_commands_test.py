#!/usr/bin/env python3
"""Runs the commands of README.md and of the pages below, as they are written.

    tests/scripts/document_commands_test.py build/plimsoll            the test
    tests/scripts/document_commands_test.py build/plimsoll --list     prints each command and what the test does with it

Commands are the lines of code blocks, and inline code, that begin with `plimsoll` or `build/plimsoll`. They run in a temporary
folder that has the repository's examples, scripts and build. README's job file is there as my.yaml and as
job.yaml, with a text to train on.

- plan, gpus, place and trace run as they are written. A plan does not search for changes that fit (--advice none).
- train runs as a plan with the same job and overrides, which reads and checks them all. README's own training and its
  export run, the training with three steps.
- Left out are commands that a reader completes (JOB, …), commands that need a file that the repository does not have, and those of LEFT_OUT
  and LONG. --list prints the reason of each.

A command may end with exit code 0. A plan may also end with 3: it does not fit.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/concepts.md", "docs/devices.md", "docs/fine-tuning.md", "docs/index.md", "docs/job-file.md",
         "docs/weights.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "examples").glob("*/README.md"))]
PROGRAM = re.compile(r"^(?:build/)?plimsoll (plan|train|trace|gpus|place|export|doctor|compare|monitor)\b")
STEPS = "max_steps=3 scheduler.warmup_steps=1"

LEFT_OUT = {
    "doctor": "measures the machine for seconds",
    "compare": "measures the machine for minutes",
    "monitor": "runs until it is stopped",
}
# By words of the command.
LONG = {
    "--what-if": "plans a job of 8.5 billion parameters nine times",
    "small-lm/job.yaml memory_budget=4GiB": "measures matmuls at full size for 20 s",
}


def commands_of(page):
    """Yields (line number, command): what stands before a comment, with continued lines joined."""
    in_fence, whole, first = False, "", 0
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            in_fence = not in_fence
            continue
        code = [line.strip()] if in_fence or line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for text in code:
            text = whole + re.sub(r"\s#\s.*$", "", text).strip()
            if text.endswith(("\\", "|")) and text != "|":
                whole, first = text.rstrip("\\") + " ", first or number
                continue
            yield first or number, text
            whole, first = "", 0


def job_of_readme():
    return re.search(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)[1]


def prepared(folder, program):
    """The folder that commands run in."""
    for name in ("examples", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    (folder / "docs/images").mkdir(parents=True)  # of its own: commands draw into it
    (folder / "build/plimsoll").symlink_to(program)
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("concepts.md", "from-pytorch.md", "job-file.md"))
    (folder / "my.txt").write_text(text, encoding="utf-8")
    for name in ("my.yaml", "job.yaml"):
        (folder / name).write_text(job_of_readme(), encoding="utf-8")
    (folder / "buffers.csv").write_text("id,lower,upper,size\n1,0,3,1024\n2,1,4,2048\n3,3,6,1024\n")


def what_runs(page, command):
    """The command that the test runs, or None and the reason."""
    found = PROGRAM.match(command)
    if not found:
        return None, "it is no command of the program"
    for words, reason in LONG.items():
        if words in command:
            return None, reason
    if re.search(r"\bJOB\b|\bFILE\b|\bNAME\b|\bVENDOR\b|…|\[--|\bJOB\.yaml\b|\$D\b", command):
        return None, "the reader completes it"
    if found[1] in LEFT_OUT:
        return None, LEFT_OUT[found[1]]
    missing = [name for name in re.findall(r"[\w./-]+\.(?:yaml|safetensors|json|npz)\b", command)
               if name not in ("my.yaml", "job.yaml", "plan.html") and not (ROOT / name).exists() and found[1] != "export"]
    if missing:
        return None, f"it needs {missing[0]}"
    if found[1] != "gpus" and not re.search(r"\.(yaml|csv)\b|\$\w+|--help", command):
        return None, "it names the command"
    command = re.sub(r"^(build/)?plimsoll", "build/plimsoll", command)
    if found[1] == "train":
        if "my.yaml" in command:
            return f"{command} {STEPS}", None
        command = command.replace("plimsoll train", "plimsoll plan", 1)
    if found[1] == "export" and "my.yaml" not in command:
        return None, "it needs a checkpoint"
    if " plan " in command and not re.search("--advice|--help", command):
        command += " --advice none"
    return command, None


def main():
    program, only_list = pathlib.Path(sys.argv[1]).resolve(), "--list" in sys.argv
    failed, ran, begin, seen = [], 0, time.monotonic(), set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepared(folder, program)
        environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "NO_COLOR": "1", "COLUMNS": "120"}
        for page in PAGES:
            variables = ""
            for number, command in commands_of(page):
                if re.fullmatch(r"\w+=(\"[^\"]*\"|[\w./-]+)", command):
                    variables = f"{command}; "  # of the commands below it
                text, reason = what_runs(page, command)
                if text is None:
                    if only_list and PROGRAM.match(command):
                        print(f"{page}:{number}: left out, {reason}: {command}")
                    continue
                if text in seen:
                    continue
                seen.add(text)
                start = time.monotonic()
                if only_list:
                    print(f"{page}:{number}: {text}")
                    continue
                done = subprocess.run(["bash", "-o", "pipefail", "-c", variables + text], cwd=folder, env=environment, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600)
                ran += 1
                print(f"{time.monotonic() - start:6.1f} s  {done.returncode}  {page}:{number}: {text}", flush=True)
                if done.returncode not in ((0, 3) if " plan " in text else (0,)):
                    failed.append(f"{page}:{number}: {text}\n{done.stdout[-1500:]}")
    if only_list:
        return
    for each in failed:
        print(f"\nFAILED {each}")
    print(f"==> documents: {ran} commands, {len(failed)} failed, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failed or ran < 20 else 0)


if __name__ == "__main__":
    main()
