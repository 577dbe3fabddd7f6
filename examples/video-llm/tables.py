#!/usr/bin/env python3
"""Prints tables of README.md from what `plimsoll plan --json` says. Nothing is run on a GPU: a plan needs none.

    examples/video-llm/tables.py ladder|breakdown|frames|cards [--plimsoll PROGRAM]

scripts/readme-tables.py writes them where README.md has them.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GIB = 2**30
PLIMSOLL = ROOT / "build" / "plimsoll"
# Everything trained: no adapters, nothing frozen, weights as the precision has them.
WHOLE = ["lora.modules=[]", "lora.rank=8", "lora.alpha=16", "train=[]", "model.llm.dtype=auto"]
CARD = "rtx4090"
OPEN = ["--memory", "10TiB"]  # what a step takes if it may take what it likes


def plan(overrides, gpu=CARD):
    command = [PLIMSOLL, "plan", HERE / "job.yaml", *overrides, "--gpu", gpu, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in (0, 3):  # 3: it does not fit, which is an answer
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return answer["gpus"][0] if "gpus" in answer else answer


def gib(count):
    return f"{count / GIB:.1f} GiB"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ladder():
    """One change after the other, batch 4 at a time, 100 frames."""
    off, llm = "model.llm.use_gradient_checkpointing=false", "model.llm.use_gradient_checkpointing=true"
    one = ["gradient_accumulation_steps=1"]
    rows = []
    for name, extra, wanted in [
        ("`precision: 32-true`", one + ["precision=32-true", off, "gradient_checkpointing=false"], "peak_bytes"),
        ("`bf16-mixed`", one + [off, "gradient_checkpointing=false"], "peak_bytes"),
        ("accumulated, 4 x 8", [off, "gradient_checkpointing=false"], "peak_bytes"),
        ("the language model checkpointed", [llm], "peak_bytes"),
        ("every block checkpointed", [off, "gradient_checkpointing=true"], "peak_bytes"),
        ("Plimsoll's own choice, the least", [off], "minimum_budget_bytes"),
    ]:
        cells = [name]
        for kind in (WHOLE, ["model.llm.dtype=auto"], []):
            cells.append(gib(plan(OPEN + kind + extra)[wanted]))
        rows.append(cells)
    return table(["", "everything trained", "adapters, `llm.dtype: auto`", "adapters, `llm.dtype: bfloat16`"], rows)


def breakdown():
    names = ["parameters", "gradients", "optimizer_state", "activations", "inputs", "workspace", "context"]
    rows = []
    for name, kind in [("job.yaml", []), ("everything trained, bf16-mixed", WHOLE)]:
        answer = plan(OPEN + kind)
        rows.append([name, gib(answer["peak_bytes"])] + [gib(answer["breakdown"][each]) for each in names])
    return table(["", "peak"] + [each.replace("_", " ") for each in names], rows)


def frames():
    rows = []
    for count in (25, 50, 75, 100, 150, 200):
        answers = [plan(OPEN + [f"data.max_frames={count}"] + extra) for extra in ([], ["micro_batch_size=1", "gradient_accumulation_steps=32"])]
        whole = plan(OPEN + WHOLE + [f"data.max_frames={count}"])
        rows.append([str(count), gib(answers[0]["peak_bytes"]), gib(answers[1]["peak_bytes"]),
                     gib(answers[1]["minimum_budget_bytes"]), gib(whole["peak_bytes"])])
    return table(["`data.max_frames`", "job.yaml, 4 x 8", "1 x 32", "1 x 32, the least", "everything trained, 4 x 8"], rows)


def cards():
    rows = []
    for gpu, size, count in [("rtx3070", "8 GB", 75), ("rtx4060ti-16gb", "16 GB", 150), ("rtx4090", "24 GB", 200),
                             ("l40s", "48 GB", 200)]:
        own = ["memory_budget=auto", "micro_batch_size=auto", "gradient_accumulation_steps=auto", "batch_size=32",
               "model.llm.use_gradient_checkpointing=false", f"data.max_frames={count}"]
        answer = plan(own, gpu)
        host = plan(own + WHOLE + ["optimizer.state_dtype=8bit", "precision=bf16-true", "max_grad_norm=0",
                                   "micro_batch_size=1", "host_memory_budget=64GiB"], gpu)
        fits = answer["fits"]
        choice = answer["choices"]
        rows.append([f"{size} ({gpu})", str(count), gib(answer["budget_bytes"]), gib(answer["peak_bytes"]) if fits else "does not fit",
                     f"{choice['micro_batch_size']} x {choice['gradient_accumulation_steps']}" if fits else f"least {gib(answer['minimum_budget_bytes'])}",
                     f"{answer['step_seconds']:.1f} s" if fits else "",
                     f"{host['step_seconds']:.0f} s a step" if host["fits"] else f"no: {gib(host['minimum_budget_bytes'])}"])
    return table(["card", "frames", "budget", "adapters: peak", "micro batches", "predicted step",
                  "everything trained, with 64 GiB of host memory"], rows)


if __name__ == "__main__":
    MAKERS = {maker.__name__: maker for maker in (ladder, breakdown, frames, cards)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(MAKERS))
    parser.add_argument("--plimsoll", default=PLIMSOLL)
    options = parser.parse_args()
    PLIMSOLL = options.plimsoll
    print(MAKERS[options.table]())
