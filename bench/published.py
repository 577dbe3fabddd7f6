#!/usr/bin/env python3
"""Predicted beside published: tokens a second and peak memory of training runs that others measured on GPUs.

    bench/published.py                      all rows: plans each for its card, prints the table
    bench/published.py --only llmq l40s     rows whose id has one of these words
    bench/published.py --write NAME         also writes bench/results/published-NAME.json and .md

bench/published/rows.jsonl has a row for each published figure: source, date of the stored source, card, devices, shape, tokens of
a sample, micro batch, samples of a step on one device, setting (below), checkpointing (off; on: each block; auto: the least that
fits), host memory where state or activations lie there, tokens a second of one device, and peak memory where it is published.
A row with `apart` does other work than ours and is counted apart; with `other_card` it is not, or cannot be, of the catalogue's
card. `added` says whether the row is older than the change of the model ("before") or younger ("after"). No constant of the cost model is fitted to a row (docs/predictions.md).

Two speeds are predicted. "our step" is that of our plan. "that program" is for rows whose program does other work beside the same matmuls,
as its source says: `program` eager runs other kernels (published_eager.py); LLMQ with `flags`, and bitsandbytes' paged optimizer, copy
other values to and from host memory (published_host.py).

Peak memory is that of the planned step without the context, as PyTorch counts it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import published_eager
import published_host

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "bench" / "published" / "rows.jsonl"
RESULTS = ROOT / "bench" / "results"
GIB = 2**30


def qwen25(vocab, width, layers, heads, kv_heads, head_dim, inner, tied):
    return {"vocab_size": vocab, "hidden_size": width, "num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads,
            "head_dim": head_dim, "intermediate_size": inner, "qkv_bias": True, "tie_embeddings": tied}


def llama(vocab, width, layers, heads, kv_heads, inner, tied):
    return {"vocab_size": vocab, "hidden_size": width, "num_layers": layers, "num_heads": heads, "num_kv_heads": kv_heads,
            "intermediate_size": inner, "tie_embeddings": tied}


def gpt(vocab, width, layers, heads):
    return {"vocab_size": vocab, "hidden_size": width, "num_layers": layers, "num_heads": heads, "intermediate_size": 4 * width,
            "activation": "gelu", "norm": "layernorm", "positions": "learned", "tie_embeddings": True}


SHAPES = {
    "qwen2.5-0.5b": qwen25(151936, 896, 24, 14, 2, 64, 4864, True),
    "qwen2.5-1.5b": qwen25(151936, 1536, 28, 12, 2, 128, 8960, True),
    "qwen2.5-3b": qwen25(151936, 2048, 36, 16, 2, 128, 11008, True),
    "qwen2.5-7b": qwen25(152064, 3584, 28, 28, 4, 128, 18944, False),
    "qwen2.5-14b": qwen25(152064, 5120, 48, 40, 8, 128, 13824, False),
    "qwen2.5-32b": qwen25(152064, 5120, 64, 40, 8, 128, 27648, False),
    "qwen-7b": qwen25(151936, 4096, 32, 32, 32, 128, 11008, False),
    "qwen-14b": qwen25(152064, 5120, 40, 40, 40, 128, 13696, False),
    "llama3.1-8b": llama(128256, 4096, 32, 32, 8, 14336, False),
    "llama3.2-3b": {**llama(128256, 3072, 28, 24, 8, 8192, True), "head_dim": 128},
    "tinyllama-1.1b": llama(32000, 2048, 22, 32, 4, 5632, False),
    "gpt2-124m": gpt(50304, 768, 12, 12),
    "gpt2-350m": gpt(50304, 1024, 24, 16),
    "gpt2-774m": gpt(50304, 1280, 36, 20),
    "gpt2-1558m": gpt(50304, 1600, 48, 25),
    "gpt-small": gpt(16384, 768, 12, 12),
    "gpt-medium": gpt(16384, 1024, 24, 16),
    "mpt-125m": gpt(50368, 768, 12, 12),
    "mpt-350m": gpt(50368, 1024, 24, 16),
    "mpt-760m": gpt(50368, 1536, 24, 12),
    "mpt-1b": gpt(50368, 2048, 24, 16),
    "mpt-3b": gpt(50368, 2560, 32, 20),
    "mpt-7b": gpt(50368, 4096, 32, 32),
    "mpt-13b": gpt(50368, 5120, 40, 40),
}
ADAMW, PURE = {"optimizer.name": "adamw"}, {"precision": "bf16-true", "optimizer.name": "adamw"}
SETTINGS = {
    "llmq": {**PURE, "optimizer.state_dtype": "bfloat16"},  # weights, gradients and both moments in bfloat16
    "llmq-zero1": {**PURE, "optimizer.state_dtype": "bfloat16", "strategy": "zero1"},
    "llmq-zero3": {**PURE, "optimizer.state_dtype": "bfloat16", "strategy": "zero3"},
    "bf16-adamw": PURE,
    "bf16-adamw-in-backward": {**PURE, "update_in_backward": True, "max_grad_norm": 0},
    "bf16-adamw8-in-backward": {"precision": "bf16-true", "optimizer.name": "adamw_8bit", "update_in_backward": True, "max_grad_norm": 0},
    "lora": PURE,
    "qlora": {**PURE, "quantize.modules": ["layers"], "quantize.format": "nf4", "quantize.double_scales": True},
    "amp-bf16": {**ADAMW, "precision": "bf16-mixed"},
    "amp-fp16": {**ADAMW, "precision": "16-mixed"},
    "amp-bf16-ddp": {**ADAMW, "precision": "bf16-mixed", "strategy": "ddp"},
    "amp-bf16-zero3": {**ADAMW, "precision": "bf16-mixed", "strategy": "zero3"},
    "bf16-zero1": {**ADAMW, "precision": "bf16-mixed", "strategy": "zero1"},  # float32 master weights and state
    "bf16-zero3": {**ADAMW, "precision": "bf16-mixed", "strategy": "zero3"},
}


def job_of(row):
    job = {"model.type": "decoder", **{f"model.{key}": value for key, value in SHAPES[row["shape"]].items()}}
    job.update({"data.type": "synthetic", "data.samples": 4 * row["batch"] * row["devices"], "data.sequence_length": row["length"],
                "data.validation_fraction": 0, "device": "cuda", "memory_budget": "auto", "max_steps": 10,
                "micro_batch_size": row["micro_batch"], "batch_size": row["batch"] * row["devices"]})
    job.update(SETTINGS[row["setting"]])
    job["gradient_checkpointing"] = {"on": True, "off": False, "auto": "auto"}[row["checkpointing"]]
    if row["host_gib"]:
        job["host_memory_budget"] = f"{row['host_gib']}GiB"
    if "lora" in row:
        job.update({"lora.modules": ["layers"], "lora.rank": row["lora"]["rank"], "model.dtype": "bfloat16"})
    tree = {}
    for key, value in job.items():
        *path, last = key.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = value
    return tree


def planned(row, plimsoll, *overrides):
    """The plan's JSON for the row's card. Where the published setting does not fit as we count memory, that with the least
    recomputation that fits."""
    with tempfile.TemporaryDirectory() as folder:
        job, answer = os.path.join(folder, "job.yaml"), os.path.join(folder, "plan.json")
        changes = [[], ["gradient_checkpointing=auto"], ["gradient_checkpointing=auto", "host_memory_budget=128GiB"]]
        for change in changes:
            pathlib.Path(job).write_text(json.dumps(job_of(row)))
            command = [plimsoll, "plan", job, *change, *overrides, "--gpu", row["gpu"], "--json", answer]
            if row["devices"] > 1:
                command += ["--devices", str(row["devices"])]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode not in (0, 3):
                sys.exit(f"{row['id']}: exit code {done.returncode}\n{done.stderr[-1500:]}")
            plan = json.loads(pathlib.Path(answer).read_text())
            if plan["fits"]:
                return plan, " ".join(change)
    return None, "does not fit"


def program_seconds(row, plan, plimsoll):
    """Seconds of the published program's step on one device; None if it does the work of ours. `plan`: of our step."""
    shape = SHAPES[row["shape"]]
    if published_eager.family_of(row):
        eager, _ = planned(row, plimsoll, "compile=false")
        return eager and published_eager.program_seconds(row, shape, job_of(row), eager, plimsoll)
    if "flags" in row:
        return published_host.llmq_seconds(row, shape, plan, published_eager.card_of(row["gpu"], plimsoll))
    if row["setting"] == "bf16-adamw8-in-backward" and row["host_gib"]:
        return published_host.paged_seconds(row, shape, plan, published_eager.card_of(row["gpu"], plimsoll))
    return None


def compared(row):
    """The predicted speed that is compared with the published one."""
    return row.get("predicted_program", row.get("predicted"))


def measured(row, plimsoll):
    plan, change = planned(row, plimsoll)
    made = {key: row[key] for key in ("id", "gpu", "devices", "shape", "length", "setting", "checkpointing", "program", "tokens_per_second", "added")}
    made.update({"apart": "apart" in row, "other_card": row.get("other_card", False), "changed": change})
    if plan:
        made["predicted"] = plan["units_per_second"]
        made["ratio"] = plan["units_per_second"] / row["tokens_per_second"]
        made["uncertainty"] = plan.get("uncertainty")
        seconds = program_seconds(row, plan, plimsoll)
        if seconds:
            made["predicted_program"] = row["batch"] * row["length"] / seconds
            made["ratio_program"] = made["predicted_program"] / row["tokens_per_second"]
        if "peak_gib" in row:
            made["peak_gib"] = row["peak_gib"]
            made["predicted_peak_gib"] = (plan["peak_bytes"] - plan["breakdown"]["context"]) / GIB
    return made


def pairs(rows):
    """Cards in the same setting, of which one is measured the faster by 5 % or more and the other predicted the faster."""
    work = {}
    for row in rows:
        source = row["id"].split("-")[0]
        work.setdefault((source, row["shape"], row["length"], row["setting"], row["devices"]), []).append(row)
    wrong, count = [], 0
    for same in work.values():
        for i, a in enumerate(same):
            for b in same[i + 1:]:
                if a["other_card"] or b["other_card"] or a["gpu"] == b["gpu"] or a["checkpointing"] != b["checkpointing"] or not compared(a) or not compared(b):
                    continue
                published = a["tokens_per_second"] / b["tokens_per_second"]
                if 1 / 1.05 < published < 1.05:
                    continue
                count += 1
                predicted = compared(a) / compared(b)
                if (published > 1) != (predicted > 1):
                    wrong.append((a["id"], b["id"], published, predicted))
    return count, wrong


PROGRAMS = ("llmq", "llm.c", "torchtune", "tinyllama", "nanogpt", "llm-foundry", "qwen", "languini")


def within_uncertainty(rows):
    """How many rows of each program have a ratio within their ±: "llmq 34 of 34, ..."."""
    counts = []
    for program in PROGRAMS:
        inside = [abs(compared(row) / row["tokens_per_second"] - 1) <= row["uncertainty"] for row in rows if row["id"].startswith(program) and row.get("uncertainty")]
        if inside:
            counts.append(f"{program} {sum(inside)} of {len(inside)}")
    return ", ".join(counts)


def share(rows, speed):
    ratios = [speed(row) / row["tokens_per_second"] for row in rows if speed(row)]
    if not ratios:
        return "none"
    within = sum(0.85 <= ratio <= 1.15 for ratio in ratios)
    return f"{within} of {len(rows)} within 0.85 to 1.15; predicted / published {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"


def table_of(rows, name):
    lines = [f"# Predicted beside published{f': {name}' if name else ''}", "",
             "Written by `bench/published.py`; rows and sources: [rows.jsonl](../published/rows.jsonl). Tokens a second are those of one device.", "",
             "| row | program | devices | published | our step | ± | ratio | that program | ratio | peak GiB, published | predicted | planned with |", "|---" * 12 + "|"]
    for row in rows:
        begin = f"| {row['id']} | {row['program']} | {row['devices']} | {row['tokens_per_second']:,} | "
        if "predicted" not in row:
            lines.append(f"{begin}does not fit | | | | | | | |")
            continue
        peak = f"{row['peak_gib']:.1f} | {row['predicted_peak_gib']:.1f}" if "peak_gib" in row else " | "
        unsure = f"{100 * row['uncertainty']:.0f} %" if row.get("uncertainty") else ""
        program = f"{row['predicted_program']:,.0f} | {row['ratio_program']:.2f}" if "predicted_program" in row else " | "
        lines.append(f"{begin}{row['predicted']:,.0f} | {unsure} | "
                     f"{row['ratio']:.2f}{' (apart)' if row['apart'] else ''} | {program} | {peak} | {row['changed']} |")

    def of(added, chosen=lambda row: True):
        return [row for row in rows if not row["apart"] and row["added"] in added and chosen(row)]

    def ours(row):
        return row.get("predicted")

    def eager(row):
        return compared(row) if row["program"] == "eager" else ours(row)

    count, wrong = pairs(rows)
    for title, added in (("Rows older than the model", ("before",)), ("Rows younger than the model", ("after",))):
        lines += ["", f"{title}, our step: {share(of(added), ours)}.", "",
                  f"{title}, that program if it is eager: {share(of(added), eager)}.", "",
                  f"{title}, that program if it is eager or copies otherwise: {share(of(added), compared)}."]
    everything = ("before", "after")
    for title, chosen in (("Eager", lambda row: row["program"] == "eager"), ("Lean, other copies to host memory", lambda row: row["program"] == "lean" and "predicted_program" in row)):
        lines += ["", f"{title}, our step: {share(of(everything, chosen), ours)}; that program: {share(of(everything, chosen), compared)}."]
    lines += ["", f"Lean, the same work, our step: {share(of(everything, lambda row: row['program'] == 'lean' and 'predicted_program' not in row), ours)}.", "",
              f"Apart, our step: {share([row for row in rows if row['apart']], ours)}.", "",
              f"Within their ±, that program where it does other work, without those apart: {within_uncertainty(of(everything))}.", "",
              f"Pairs of cards in one setting, 5 % or more apart: {count}, ranked the other way round: {len(wrong)}."]
    lines += [f"- {a} over {b}: published {published:.2f}, predicted {predicted:.2f}" for a, b, published, predicted in wrong]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="words of ids")
    parser.add_argument("--plimsoll", default=str(ROOT / "build" / "plimsoll"))
    parser.add_argument("--jobs", type=int, default=2, help="plans at a time")
    parser.add_argument("--write", metavar="NAME", default="", help="of the files of results")
    options = parser.parse_args()
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    assert len({row["id"] for row in rows}) == len(rows), "two rows have one id"
    rows = [row for row in rows if not options.only or any(word in row["id"] for word in options.only)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        made = list(pool.map(lambda row: measured(row, options.plimsoll), rows))
    table = table_of(made, options.write)
    print(table)
    if options.write:
        (RESULTS / f"published-{options.write}.json").write_text(json.dumps(made, indent=1) + "\n")
        (RESULTS / f"published-{options.write}.md").write_text(table)


if __name__ == "__main__":
    main()
