#!/usr/bin/env python3
"""Ends ranks of a run at random moments and looks at what the others do, and at the run that resumes.

    bench/ranks_failures.py --plimsoll build/plimsoll [--moments 30] [--seed S] [--json FILE]

At each moment one rank of two to four is killed (SIGKILL) or stopped (SIGSTOP), or the disk under the checkpoints is filled. The
run must end with exit code 1 within 5 s of that, say which rank failed, and leave a whole checkpoint; the same command then
goes on, and its losses and weights must be those of an unbroken run. A full disk needs the right to mount a tmpfs (root); without
it these moments are kills. Exit code 1: one was otherwise."""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from ranks_matrix import JOB, tensors_of

STEPS = 40
MOST_SECONDS = 5


def children_of(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the name in brackets: state, parent.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (OSError, IndexError, ValueError):  # it has ended meanwhile
            continue
    return sorted(found)


def command_of(plimsoll, job, ranks, checkpoints, report):
    return [plimsoll, "train", str(job), "--devices", str(ranks), "micro_batch_size=2", "gradient_accumulation_steps=1",
            f"max_steps={STEPS}", "eval_every_n_steps=0", "checkpoint.every_n_steps=1", "checkpoint.keep=2",
            f"checkpoint.directory={checkpoints}", "--json", str(report)]


def steps_saved(checkpoints):
    return max((int(file.stem.split("-")[1]) for file in checkpoints.glob("step-*.safetensors")), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default="build/plimsoll")
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--any-seconds", action="store_true", help="a run may take as long as it needs to end: for tests")
    arguments = parser.parse_args()
    plimsoll = os.path.abspath(arguments.plimsoll)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    rows, failed, unbroken = [], 0, {}
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        text = root / "text.txt"
        words = random.Random(7)
        text.write_text(" ".join("".join(words.choices("abcdefgh", k=words.randint(2, 8))) for _ in range(20000)))
        job = root / "job.yaml"
        job.write_text(JOB.format(text=text, steps=STEPS))
        for moment in range(arguments.moments):
            ranks, kind = draw.choice([2, 3, 4]), draw.choice(["killed", "stopped", "full disk"])
            which, at_step, later = draw.randrange(ranks), draw.randrange(2, STEPS - 8), draw.random() * 0.05
            if ranks not in unbroken:
                folder = root / f"unbroken-{ranks}"
                folder.mkdir()
                subprocess.run(command_of(plimsoll, job, ranks, folder, root / "unbroken.json"), check=True, capture_output=True)
                unbroken[ranks] = tensors_of(folder)
            folder = root / f"moment-{moment}"
            folder.mkdir()
            mounted = False
            if kind == "full disk":
                mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True).returncode == 0
                kind = kind if mounted else "killed"
            report = root / "report.json"
            command = command_of(plimsoll, job, ranks, folder, report)
            run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            found = ""
            while steps_saved(folder) < at_step and run.poll() is None:
                time.sleep(0.002)
            time.sleep(later)
            processes = children_of(run.pid)
            began = time.monotonic()
            if run.poll() is not None or len(processes) != ranks:
                found = f"the run ended by itself, or has {len(processes)} processes"
            elif kind == "full disk":
                try:
                    with open(folder / "filler", "wb") as filler:
                        while True:
                            filler.write(b"\0" * 65536)
                            filler.flush()
                except OSError:
                    pass
            else:
                os.kill(processes[which], signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
            try:
                output = run.communicate(timeout=3600 if arguments.any_seconds else 60)[0]
            except subprocess.TimeoutExpired:
                run.kill()
                output, found = run.communicate()[0], found or "it had not ended"
            seconds = time.monotonic() - began
            rank = 0 if kind == "full disk" else which
            said = [line for line in output.splitlines() if line.startswith(("plimsoll", "error", "rank")) or "rank " in line]
            if not found and run.returncode != 1:
                found = f"exit code {run.returncode}: {output[-300:]}"
            if not found and kind != "full disk" and f"rank {rank}" not in output:
                found = f"rank {rank} is not named: {output[-300:]}"
            if not found and not arguments.any_seconds and seconds > MOST_SECONDS + 1:  # a second for the parent, which waits for all
                found = f"it ended after {seconds:.1f} s"
            if mounted:
                (folder / "filler").unlink(missing_ok=True)
            if not found:
                again = subprocess.run(command, capture_output=True, text=True)
                if again.returncode != 0:
                    found = f"the resumed run: exit code {again.returncode}: {again.stderr[-300:]}"
                elif tensors_of(folder) != unbroken[ranks]:
                    found = "the resumed run has other weights"
            if mounted:
                subprocess.run(["umount", str(folder)], check=True)
            failed += bool(found)
            rows.append({"ranks": ranks, "rank": rank, "kind": kind, "after_step": at_step, "seconds": round(seconds, 2),
                         "message": said[-1:] and said[-1][:200], "fault": found})
            print(f"{moment + 1:3} {ranks} ranks, rank {rank} {kind:9} after step {at_step:2}: ended in {seconds:4.1f} s  {found or 'resumed, same bits'}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"seed": seed, "moments": rows}, indent=1) + "\n")
    print(f"{len(rows) - failed} of {len(rows)} as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
