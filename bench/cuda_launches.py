#!/usr/bin/env python3
"""Launches a layer and bytes moved a step that a plan for CUDA has, by shape, counted from plans; no device is needed.

    bench/cuda_launches.py                          Qwen2.5's 0.5 B, 1.5 B and 7 B shapes on an H100
    bench/cuda_launches.py --gpu a100-sxm-80gb --json counts.json
    bench/cuda_launches.py --executed               also runs each on the dry H100 of tests/cuda_dry, and counts what is launched

An op is one launch, except those of launches_of(). Bytes are the operands that each kernel reads and writes, so a matmul's repeated
reads of a block are not in them; the loss head's are those of its chunks. --plimsoll compares another build.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [("0.5b", "bf16-mixed", []), ("0.5b", "bf16-true", []), ("1.5b", "bf16-mixed", []), ("1.5b", "bf16-true", []),
          ("7b", "bf16-mixed", ["optimizer.state_dtype=8bit"]), ("7b", "bf16-true", [])]
ITEM = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "uint8": 1, "float64": 8, "bool": 1, "int32": 4}


def tensors_of(operands):
    """[(dtype, sizes)] of 'bfloat16[2, 3] by [3, 1], … -> …', operands first; and the number of operands."""
    before, _, after = operands.partition(" -> ")
    find = lambda text: [(dtype, [int(n) for n in sizes.split(",")] if sizes else [])  # noqa: E731
                         for dtype, sizes in re.findall(r"(\w+)\[([\d, ]*)\]", re.sub(r" by \[[\d, ]*\]", "", text))]
    read, written = find(before), find(after)
    return read + written, len(read)


def bytes_of(tensor):
    return ITEM[tensor[0]] * math.prod(tensor[1])


def loss_chunks(tokens, vocabulary, item, most_tokens):
    """ops/loss/linear_cross_entropy_chunks.h."""
    most_bytes = most_tokens * vocabulary * item if most_tokens else min(max(2048 * vocabulary, 64 << 20), 256 << 20)
    room = max(64, most_bytes // (vocabulary * item))
    whole = 64 if room >= 256 else 16
    count = max(1, -(-tokens // (room // whole * whole)))
    rows = min(tokens, -(-(-(-tokens // count)) // whole) * whole)
    return -(-tokens // rows)


def chunk_tokens_of(op, scratch):
    """The tokens of a chunk that a plan took, by its scratch in bytes."""
    (dtype, (tokens, width)), (_, (vocabulary, _)) = tensors_of(op["operands"])[0][:2]

    def scratch_of(most):
        count = loss_chunks(tokens, vocabulary, ITEM[dtype], most)
        sums = vocabulary * width * (4 if most else 2) if count > 1 else 0
        return -(-tokens // count) * vocabulary * ITEM[dtype] + sums
    return min((8192, 4096, 2048, 0), key=lambda most: abs(scratch_of(most) - scratch))


def loss_head(op):
    """Launches and bytes of a loss head: logits are written, read and overwritten, and read by two matmuls."""
    (x, weight, *_), _ = tensors_of(op["operands"])
    (dtype, (tokens, width)), (_, (vocabulary, _)) = x, weight
    item, most = ITEM[dtype], 0
    if ".chunks" in op["name"]:
        most = op.get("chunk_tokens", 0)
    count = loss_chunks(tokens, vocabulary, item, most)
    logits, gradient = tokens * vocabulary * item, vocabulary * width
    bytes_ = 6 * logits + 3 * tokens * width * item + 2 * count * gradient * item
    if item == 2 and count > 1:
        if most:  # float32 sums: the first is written, the others are read and written, and the last is converted
            return 4 * count + 2, bytes_ + (2 * count - 1) * gradient * 4 + gradient * 6
        rows = max(4096, (32 << 20) // (width * item)) if ".chunks" in op["name"] else 4096
        blocks = -(-vocabulary // rows)  # two 16-bit values: a block's product, then a kernel that adds it
        return 3 * count + 1 + (1 + (count - 1) * 2 * blocks), bytes_ + (count - 1) * gradient * item * 6
    return 4 * count + 1, bytes_ + (2 * count - 1) * gradient * item


def launches_of(op):
    """Launches of one run of an op."""
    name = op["name"]
    if "linear_cross_entropy" in name:
        return loss_head(op)[0]
    if name.startswith("plimsoll::attention_backward"):
        tensors, read = tensors_of(op["operands"])
        grouped = tensors[1][1][1] != tensors[2][1][1]
        return 3 + (2 if grouped else 0)  # row sums, the kernel, the conversion of dq; sums of dk and dv over a group
    if name.startswith("plimsoll::gradient_norm_group_"):
        return 2 * -(-(len(tensors_of(op["operands"])[0]) - 2) // 64)  # besides gradients: the norms and the mark
    if name.startswith("plimsoll::gradient_norm"):
        return 2  # sums of blocks, and the norm
    if "rms_norm_backward" in name:
        return 2  # rows, and the sum of the weight's gradient
    if name.startswith("aten::embedding_dense_backward"):
        return 6  # sort of the indices and sums of equal ones; libtorch's count depends on the size
    return 1


def moved_by(op):
    if "linear_cross_entropy" in op["name"]:
        return loss_head(op)[1]
    tensors, _ = tensors_of(op["operands"])
    total = sum(map(bytes_of, tensors))
    if op["name"].startswith(("plimsoll::adamw", "aten::addmm_")):  # operands in place are read and written
        total += sum(map(bytes_of, tensors[tensors_of(op["operands"])[1]:]))
    return total


def count(options, shape, precision, more):
    command = [options.plimsoll, "trace", ROOT / f"bench/jobs/qwen2.5-{shape}.yaml", f"precision={precision}", *more, "--gpu",
               options.gpu, "--hot", "1", "--json", "-"]
    hot = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    plan = json.loads(subprocess.run([options.plimsoll, "plan", *command[2:4], *more, "--gpu", options.gpu, "--json", "-"],
                                     stdout=subprocess.PIPE, text=True).stdout)
    micro_batches = plan["choices"]["gradient_accumulation_steps"]
    scratch = re.search(r"at most ([\d.]+) GiB of scratch", json.dumps(plan["reasons"]))
    layers = {"0.5b": 24, "1.5b": 28, "7b": 28}[shape]
    row = {"shape": shape, "precision": precision, "micro_batches": micro_batches, "step_seconds": hot["step_seconds"],
           "launches": 0, "loss_head_launches": 0, "layer_launches": 0.0, "bytes": 0, "loss_head_bytes": 0}
    for op in hot["ops"]:
        if scratch and ".chunks" in op["name"]:
            op["chunk_tokens"] = chunk_tokens_of(op, float(scratch[1]) * 2**30)
        launches, moved = op["runs"] * launches_of(op), op["runs"] * moved_by(op)
        row["launches"] += launches
        row["bytes"] += moved
        if "linear_cross_entropy" in op["name"]:
            row["loss_head_launches"] += launches
            row["loss_head_bytes"] += moved
        in_layer = op["runs"] >= layers and ("layers.*" in op["modules"] or "fused: " in op["name"] or "rms_norm" in op["name"]
                                             or "add.out" in op["name"])
        if in_layer and "adamw" not in op["name"] and "gradient_norm" not in op["name"]:
            row["layer_launches"] += launches / layers / micro_batches
    return row


def executed(options, shape, precision, more):
    """The launches of one step on the dry device: a run of six steps has two more than one of four."""
    libraries = ROOT / "build/tests/cuda_dry"
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.json"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "LD_PRELOAD": str(libraries / "libcuda_dry.so"),
                       "PLIMSOLL_DRY_LOG": str(log), "PLIMSOLL_RUNTIME_DIR": folder, "XDG_CACHE_HOME": folder}
        for steps in (4, 6):
            command = [options.plimsoll, "train", ROOT / f"bench/jobs/qwen2.5-{shape}.yaml", f"precision={precision}", *more,
                       f"max_steps={steps}"]
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            counts.append(json.loads(log.read_text())["launches"])
    return {kernel: (count - counts[0].get(kernel, 0)) / 2 for kernel, count in counts[1].items()}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--gpu", default="h100-sxm")
    flags.add_argument("--plimsoll", default=str(ROOT / "build/plimsoll"))
    flags.add_argument("--executed", action="store_true", help="count launches on the dry device")
    flags.add_argument("--json", type=pathlib.Path)
    options = flags.parse_args()
    rows = [count(options, *shape) for shape in SHAPES]
    print("| shape | precision | micro batches | launches a layer and micro batch | launches of the loss heads | launches a step | "
          "moved by the loss heads | moved a step |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['shape']} | {row['precision']} | {row['micro_batches']} | {row['layer_launches']:.1f} | "
              f"{row['loss_head_launches']} | {row['launches']} | {row['loss_head_bytes'] / 2**30:.0f} GiB | "
              f"{row['bytes'] / 2**30:.0f} GiB |")
    if options.executed:
        print("\n| shape | precision | launches a step, executed | by kernel |\n|---|---|---|---|")
        for row, shape in zip(rows, SHAPES):
            row["executed"] = executed(options, *shape)
            most = sorted(row["executed"].items(), key=lambda each: -each[1])[:8]
            print(f"| {row['shape']} | {row['precision']} | {sum(row['executed'].values()):.0f} | "
                  f"{', '.join(f'{kernel} {count:.0f}' for kernel, count in most)} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
