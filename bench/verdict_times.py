"""How long `plimsoll plan` takes to say whether a job fits, and what would: from the start of the process to the verdict with
its tables on standard output, and to its end. The five systems' full-size jobs on cards of 8 to 80 GB, with memory_budget=auto:
all that the card has.

Writes a table, and JSON with --json FILE.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEMS = ["small-lm", "fmri-autoencoder", "gesture-ssm", "prompt-segmentation", "video-llm"]
CARDS = ["rtx3070", "rtx3060-12gb", "rtx4080", "rtx4090", "a6000", "a100-80gb-sxm"]  # 8, 12, 16, 24, 48 and 80 GB
ANSWERS = ("fits", "does not fit", "needs")


def run(program, arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        start = time.monotonic()
        child = subprocess.Popen([program, "plan", *arguments, "--json", str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        text, verdict = b"", None
        while part := os.read(child.stdout.fileno(), 1 << 16):
            if verdict is None:
                verdict = time.monotonic() - start
            text += part
        code = child.wait()
        seconds = time.monotonic() - start
        if code not in (0, 3) or not text.decode().startswith(ANSWERS):
            sys.exit(f"{' '.join(arguments)}: exit code {code}: {text.decode()[:200]}")
        plan = json.loads(out.read_text())
    return {"verdict_seconds": verdict, "seconds": seconds, "fits": plan["fits"], "peak_bytes": plan["peak_bytes"],
            "minimum_budget_bytes": plan["minimum_budget_bytes"],
            "would_fit": [each["change"] for each in plan.get("would_fit", [])],
            "complete": plan.get("would_fit_search", {}).get("complete")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many")
    parser.add_argument("--cards", default=",".join(CARDS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json")
    parser.add_argument("more", nargs="*", default=[], help="overrides and options of plan, behind --")
    options = parser.parse_args()
    rows = []
    print(f"{'job':20} {'card':14} {'fits':4} {'verdict s':>9} {'advice s':>8}  {'least GiB':>9}  what would fit")
    for system in options.systems.split(","):
        for card in options.cards.split(","):
            job = ROOT / "examples" / system / "job.yaml"
            runs = [run(options.plimsoll, [str(job), "--gpu", card, "memory_budget=auto", *options.more])
                    for _ in range(options.rounds)]
            row = {"job": system, "card": card, **runs[0],
                   **{key: statistics.median(r[key] for r in runs) for key in ("verdict_seconds", "seconds")}}
            rows.append(row)
            print(f"{system:20} {card:14} {'yes' if row['fits'] else 'no':4} {row['verdict_seconds']:9.2f} "
                  f"{'-' if row['fits'] else format(row['seconds'], '.2f'):>8}  {row['minimum_budget_bytes'] / 2**30:9.2f}  "
                  f"{' | '.join(row['would_fit'])}{' (cut)' if row['complete'] is False else ''}", flush=True)
    print(f"longest: verdict {max(row['verdict_seconds'] for row in rows):.2f} s, advice "
          f"{max((row['seconds'] for row in rows if not row['fits']), default=0):.2f} s")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"rounds": options.rounds, "overrides": options.more, "rows": rows},
                                                         indent=1) + "\n")


if __name__ == "__main__":
    main()
