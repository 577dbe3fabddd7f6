"""Bytes a parameter: weights, gradients and optimizer state in the arena at the most, as planned and as trained.

Plans job.yaml under each setting, then trains it for a few steps and compares the arena that was used with the plan's.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BF16 = ["precision=bf16-true"]
LEAN = BF16 + ["update_in_backward=true"]
SETTINGS = {
    "float32, AdamW": ["update_in_backward=false"],
    "float32, AdamW, update in backward": ["update_in_backward=true"],
    "float32, AdamW 8-bit, update in backward": ["update_in_backward=true", "optimizer.state_dtype=8bit"],
    "bf16, AdamW, state bf16": BF16 + ["update_in_backward=false"],
    "bf16 + 16 bits (split), AdamW float32": BF16 + ["update_in_backward=false", "optimizer.weight_update=split",
                                                    "optimizer.state_dtype=float32"],
    "bf16 + 16 bits (split), AdamW 8-bit, update in backward": LEAN + ["optimizer.weight_update=split",
                                                                       "optimizer.state_dtype=8bit"],
    "bf16, AdamW 8-bit": BF16 + ["update_in_backward=false", "optimizer.state_dtype=8bit"],
    "bf16, AdamW 8-bit, update in backward": LEAN + ["optimizer.state_dtype=8bit"],
    "bf16, AdamW 4-bit, update in backward": LEAN + ["optimizer.state_dtype=4bit"],
    "bf16, AdamW 8-bit, 4 micro batches summed in 8 bits": BF16 + ["optimizer.state_dtype=8bit", "micro_batch_size=1",
                                                                   "gradient_accumulation_steps=4",
                                                                   "gradient_accumulation_dtype=8bit"],
    "bf16, Lion 8-bit, update in backward": LEAN + ["optimizer.name=lion_8bit"],
    "bf16, Muon 8-bit, update in backward": LEAN + ["optimizer.name=muon", "optimizer.state_dtype=8bit"],
    "bf16, Muon bf16, update in backward": LEAN + ["optimizer.name=muon"],
    "float32, Muon": ["update_in_backward=false", "optimizer.name=muon"],
    "bf16, Adafactor, update in backward": LEAN + ["optimizer.name=adafactor"],
    "float32, Adafactor": ["update_in_backward=false", "optimizer.name=adafactor"],
}


def call(options, command, settings):
    run = subprocess.run([options.plimsoll, command, str(HERE / "job.yaml"), *settings, *options.override, "--json", "-"],
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{settings}: exit code {run.returncode}\n{run.stderr[-2000:]}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--only", nargs="*", help="settings whose names contain one of these")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="of the job, for every run")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for name, settings in SETTINGS.items():
        if options.only and not any(part in name for part in options.only):
            continue
        plan = call(options, "plan", settings)
        row = {"setting": name, "parameters": plan["parameters"], "bytes_a_parameter": plan["model_bytes"] / plan["parameters"],
               "planned_peak_bytes": plan["peak_bytes"]}
        if not options.plan_only:
            report = call(options, "train", settings)
            row |= {"planned_peak_bytes": report["planned_peak_bytes"], "measured_peak_bytes": report["measured_peak_bytes"],
                    "losses": report["losses"]}
        rows.append(row)
        measured = f"{row['measured_peak_bytes'] / 2**30:8.3f}" if "measured_peak_bytes" in row else f"{'':8}"
        print(f"{name:58} {row['bytes_a_parameter']:6.3f} {row['planned_peak_bytes'] / 2**30:8.3f} {measured}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
