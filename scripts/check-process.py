#!/usr/bin/env python3
"""Random jobs with a process budget, each trained, evaluated, saved, resumed and exported: how much is resident?

    scripts/check-process.py                            40 jobs of seed 1
    scripts/check-process.py --jobs 6 --seed 7 --results bench/results/process.md
    scripts/check-process.py --examples                 the examples' small jobs, instead of random ones
    scripts/check-process.py --large                    100 MB of weights: read, saved, resumed in 8 bits, quantized, merged

Each job gets a budget of its own, from the least that `plimsoll train` names to far more than it needs. What is counted is the
kernel's: ru_maxrss of the process, which is VmHWM. Where control groups may be made (root, memory controller), each process
also runs in one that is limited to the budget and 2 %: what needs more is killed.

Fails if a process is killed or over its budget and 2 %, or if the planned bytes differ from the peak by more than 3 % and 8 MiB
(a peak before the first step, of planning and reading, counts against the budget only)."""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 2**20
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")  # version 1
GROUPS_2 = pathlib.Path("/sys/fs/cgroup")
DOES_NOT_FIT = 3
EXAMPLES = ("small-lm", "gesture-ssm", "fmri-autoencoder", "prompt-segmentation", "video-llm")


class Group:
    """A control group with a limit of memory; without one where none may be made."""

    def __init__(self, limit):
        self.folder = None
        for folder, file in ((GROUPS, "memory.limit_in_bytes"), (GROUPS_2, "memory.max")):
            group = folder / f"plimsoll-{os.getpid()}"
            try:
                group.mkdir()
                (group / file).write_text(str(limit))
                self.folder = group
                return
            except OSError:
                if group.exists():
                    group.rmdir()

    def enter(self):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def end(self):
        if self.folder:
            self.folder.rmdir()


def run(command, limit=None):
    """Returns the exit code (negative: the signal), the peak of the resident memory in bytes, and the output."""
    group = Group(limit) if limit else None
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=group.enter if group else None)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if group:
            group.end()
        output.seek(0)
        return process.returncode, usage.ru_maxrss * 1024, output.read()


def is_refused(code, output):
    return code == DOES_NOT_FIT or (code == 1 and "what process_budget leaves" in output)


def advised(budget, output, report):
    """Returns the budget that a refusal names."""
    stated = re.search(r"set process_budget to at least ([0-9.]+) (KiB|MiB|GiB)", output)
    bytes_of = {"KiB": 2**10, "MiB": MIB, "GiB": 2**30}
    data = re.search(r"([0-9]+) bytes in memory; allowed: ([0-9]+) bytes", output)
    if data:
        return budget + int(data[1]) - int(data[2]) + MIB
    named = int(float(stated[1]) * bytes_of[stated[2]]) if stated else (report.get("process") or {}).get("minimum_bytes") or 0
    return max(budget + MIB, named)


def text_of(folder, draw):
    """A file of a few MiB of words."""
    file = folder / "text.txt"
    if not file.exists():
        letters = "etaoinshrdlucm"
        words = ["".join(draw.choice(letters) for _ in range(draw.randint(2, 9))) for _ in range(3000)]
        file.write_text("\n".join(" ".join(draw.choice(words) for _ in range(14)) for _ in range(30_000)))
    return file


def model_of(draw, folder):
    """Returns the keys of a model and its data."""
    kind = draw.choice(["decoder", "decoder", "decoder", "mamba", "gesture_ssm", "fmri_autoencoder", "prompt_segmentation",
                        "video_llm"])
    data = {"type": "synthetic", "samples": draw.choice([48, 96])}
    if kind in ("decoder", "mamba"):
        model = {"type": kind, "hidden_size": draw.choice([64, 128, 256]), "num_layers": draw.randint(1, 5)}
        if kind == "decoder":
            model |= {"num_heads": 4, "num_kv_heads": draw.choice([1, 2, 4])}
        if draw.random() < 0.7:
            data = {"type": "text", "files": str(text_of(folder, random.Random(1))), "tokenizer": "bytes",
                    "validation_fraction": 0.02}
        elif kind == "decoder":
            model["vocab_size"] = draw.choice([512, 8192, 32000])
        data["sequence_length"] = draw.choice([32, 128, 256])
        return model, data
    if kind == "gesture_ssm":
        return {"type": kind, "channels": 6, "num_classes": 4, "hidden_dim": draw.choice([32, 64]), "d_state": 16, "num_layers": 4,
                "head_dim": 16}, data | {"length": 96}
    if kind == "fmri_autoencoder":
        return {"type": kind, "bottleneck_dim": 32, "voxels": draw.choice([300, 3000]),
                "video": {"frames": 4, "size": 32, "patch": 8, "width": 64, "depth": 2, "decoder_depth": 1, "num_heads": 4},
                "audio": {"frames": 16, "mels": 20, "patch": 4, "width": 32, "depth": 2, "decoder_depth": 1, "num_heads": 2},
                "text": {"tokens": 4, "features": 48, "width": 48, "depth": 2, "decoder_depth": 1, "num_heads": 2},
                "fusion": {"width": 64, "depth": 2}, "fmri": {"width": 64, "depth": 2, "decoder_depth": 2}}, data
    if kind == "prompt_segmentation":
        return {"type": kind, "image_size": draw.choice([32, 64]), "channels": 1, "prompt_length": 16,
                "encoder": {"widths": [16, 32, 48, 64], "depths": [1, 1, 2, 1], "num_heads": [2, 3, 4], "windows": [4, 4, 4]},
                "llm": {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "vocab_size": 259},
                "decoder": {"width": 64, "depth": 2, "num_heads": 4, "intermediate_size": 128}}, data
    return {"type": kind, "image_size": 48, "tokens_per_frame": 4,
            "vision": {"patch": 12, "width": 64, "depth": 2, "num_heads": 4},
            "llm": {"hidden_size": 96, "num_layers": 3, "num_heads": 4, "num_kv_heads": 2, "vocab_size": 300}}, data | {
                "max_frames": draw.choice([2, 4]), "sequence_length": 48}


def job_of(draw, folder):
    model, data = model_of(draw, folder)
    batch = draw.choice([4, 8, 12])
    job = {"model": model, "data": data, "batch_size": batch, "precision": draw.choice(["32-true", "bf16-mixed", "auto"]),
           "optimizer": {"name": draw.choice(["adamw", "adamw", "sgd", "lion"]), "learning_rate": 1e-3},
           "max_steps": 6, "eval_every_n_steps": 3, "eval_batches": 2, "seed": draw.randrange(1000),
           "max_grad_norm": draw.choice([0, 1.0])}
    if draw.random() < 0.3:
        job["optimizer"]["state_dtype"] = "8bit"
    if draw.random() < 0.3:
        job["micro_batch_size"] = batch // 2
    if model["type"] == "decoder" and draw.random() < 0.35:
        job["lora"] = {"modules": "*attention*", "rank": 4}
        if draw.random() < 0.5:
            job["quantize"] = {"modules": "*mlp*", "format": draw.choice(["nf4", "int8"])}
    if draw.random() < 0.2:
        job["host_memory_budget"] = "32MiB"
    return job


class Checked:
    """A job that runs with a budget: what was planned and measured, as rows."""

    def __init__(self, program, name, folder, command):
        self.program, self.name, self.folder, self.command = program, name, folder, command
        self.rows, self.faults = [], []

    def train(self, budget, *more):
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        limit = int(budget * 1.02) if budget else None
        command = [str(self.program), "train", *self.command, "--json", str(report), *more]
        code, peak, output = run(command + ([f"process_budget={budget}"] if budget else []), limit)
        return code, peak, output, json.loads(report.read_text()) if report.exists() else {}

    def note(self, phase, budget, peak, process):
        planned, prepared = process.get("planned_bytes") or 0, process.get("prepared_bytes") or 0
        difference = peak - planned if planned else 0
        allowed = max(0.03 * planned, 8 * MIB)
        over = peak > budget * 1.02
        early = prepared >= peak  # the peak was before the first step
        wrong = planned and abs(difference) > allowed and not early
        self.rows.append((self.name, phase, budget, planned, peak, prepared, "over" if over else "differs" if wrong else ""))
        if over or wrong:
            self.faults.append(f"{self.name}, {phase}: budget {budget / MIB:.1f}, planned {planned / MIB:.1f}, "
                               f"measured {peak / MIB:.1f}, before the first step {prepared / MIB:.1f} MiB")

    def run(self, draw, exports):
        checkpoint = [f"checkpoint.directory={self.folder / 'run'}"]
        free = 1 << 34
        code, peak, output, report = self.train(free, *checkpoint, "max_steps=1", "eval_every_n_steps=1")
        if code != 0:
            self.faults.append(f"{self.name}: exit code {code}: {output[-600:]}")
            return
        most, least = report["process"]["planned_bytes"], report["process"]["minimum_bytes"]
        budget = int(least + draw.choice([0, 0, 0.3, 1]) * (most - least))
        fresh = [f"checkpoint.directory={self.folder / 'run2'}"]
        for _ in range(6):
            code, peak, output, report = self.train(budget, *fresh)
            if not is_refused(code, output):
                break
            budget = advised(budget, output, report)
        if code != 0:
            self.faults.append(f"{self.name}: exit code {code} with {budget / MIB:.1f} MiB: {output[-600:]}")
            return
        self.note("train", budget, peak, report["process"])
        code, peak, output, report = self.train(budget, *fresh, "max_steps=9")
        for _ in range(3):
            if not is_refused(code, output):
                break
            budget = advised(budget, output, report)
            code, peak, output, report = self.train(budget, *fresh, "max_steps=9")
        if code != 0:
            self.faults.append(f"{self.name}, resume: exit code {code} with {budget / MIB:.1f} MiB: {output[-600:]}")
            return
        self.note("resume", budget, peak, report["process"])
        if not exports:
            return
        saved = sorted((self.folder / "run2").glob("*.safetensors"))[-1]
        merge = ["--merge"] if "lora" in self.name else []
        self.export("export", saved, "exported.safetensors", *merge)

    def export(self, phase, saved, name, *more):
        """Exports with the least budget, which a refusal of 1 MiB names."""
        command = [str(self.program), "export", *self.command, "--checkpoint", str(saved), "--out", str(self.folder / name), *more]
        code, _, output = run([*command, "process_budget=1MiB"])
        least = re.search(r"the minimum is .* \(([0-9]+) bytes\)", output)
        if code != DOES_NOT_FIT or not least:
            self.faults.append(f"{self.name}, {phase}: 1 MiB is not refused with a minimum: {code}, {output[-600:]}")
            return
        # The next process is not the same to the page.
        budget = int(least[1]) + MIB
        code, peak, output = run([*command, f"process_budget={budget}"], int(budget * 1.02))
        if code < 0:
            self.faults.append(f"{self.name}, {phase}: killed by signal {-code} within {budget / MIB:.1f} MiB")
        elif code != 0:
            self.faults.append(f"{self.name}, {phase}: exit code {code}: {output[-600:]}")
        else:
            self.note(phase, budget, peak, {"planned_bytes": budget})


def large(program, folder):
    """Returns the rows and faults of phases whose files are large beside the process."""
    job = {"model": {"type": "decoder", "hidden_size": 512, "num_layers": 8, "num_heads": 8},
           "data": {"type": "text", "files": str(text_of(folder, random.Random(1))), "tokenizer": "bytes", "sequence_length": 64,
                    "validation_fraction": 0.02},
           "batch_size": 2, "eval_batches": 2, "max_steps": 2, "threads": 1}
    (folder / "job.yaml").write_text(json.dumps(job))
    weights = f"model.weights={folder / 'weights.safetensors'}"
    adapters = ["lora.modules='*attention*'", "lora.rank=4", "quantize.modules='*mlp*'"]
    checked = Checked(program, "25 M parameters", folder, [str(folder / "job.yaml")])

    def train(phase, budget, *more):
        code, peak, output, report = checked.train(budget * MIB, *more)
        if code == 0:
            checked.note(phase, budget * MIB, peak, report["process"])
        else:
            checked.faults.append(f"{phase}: exit code {code}: {output[-600:]}")

    def export(phase, run_folder, name, *more):
        checked.export(phase, sorted((folder / run_folder).glob("*.safetensors"))[-1], name, *more)

    def compare(budget):
        code, peak, output = run([str(program), "compare", *checked.command, f"process_budget={budget * MIB}", "--steps", "3",
                                  "--measure", "1"], int(budget * MIB * 1.02))
        if code in (0, DOES_NOT_FIT):
            checked.note("compare", budget * MIB, peak, {})
        else:
            checked.faults.append(f"compare: exit code {code}: {output[-600:]}")

    train("train, AdamW", 560, f"checkpoint.directory={folder / 'a'}")
    export("export", "a", "weights.safetensors")
    export("export as bfloat16 for transformers", "a", "folder", "--format", "huggingface", "--dtype", "bfloat16")
    train("from 100 MB of weights", 560, weights)
    train("QLoRA from them", 260, weights, *adapters, f"checkpoint.directory={folder / 'b'}")
    export("merged export", "b", "merged.safetensors", *adapters, "--merge")
    train("8-bit state", 360, "optimizer.state_dtype=8bit", f"checkpoint.directory={folder / 'c'}")
    train("resume of 8-bit state", 360, "optimizer.state_dtype=8bit", f"checkpoint.directory={folder / 'c'}", "max_steps=4")
    train("resume in float32", 640, f"checkpoint.resume={sorted((folder / 'c').glob('*.safetensors'))[-1]}", "max_steps=6")
    compare(560)
    compare(400)
    words = wide(program, folder)
    return checked.rows + words.rows, checked.faults + words.faults


def wide(program, folder):
    """An embedding of 200 000 words is nearly the whole model; each phase has the least budget that its refusals name."""
    job = {"model": {"type": "decoder", "hidden_size": 64, "num_layers": 1, "num_heads": 4, "num_kv_heads": 2, "vocab_size": 200_000},
           "data": {"type": "synthetic", "samples": 32, "sequence_length": 16}, "batch_size": 2, "max_steps": 2, "threads": 1}
    (folder / "wide.yaml").write_text(json.dumps(job))
    checked = Checked(program, "200 000 words", folder, [str(folder / "wide.yaml")])

    def train(phase, *more):
        budget = 150 * MIB
        for _ in range(6):
            code, peak, output, report = checked.train(budget, *more)
            if not is_refused(code, output):
                break
            budget = advised(budget, output, report)
        # A conversion before the first step has the arena's room that is not in use yet: what is planned may be more.
        if code == 0 and peak <= 1.02 * budget:
            checked.rows.append((checked.name, phase, budget, report["process"]["planned_bytes"], peak, 0, ""))
        else:
            checked.faults.append(f"{phase}: exit code {code}, {peak / MIB:.1f} of {budget / MIB:.1f} MiB: {output[-600:]}")

    train("train", f"checkpoint.directory={folder / 'wide'}")
    saved = sorted((folder / "wide").glob("*.safetensors"))[-1]
    checked.export("export", saved, "wide.safetensors")
    checked.export("export as bfloat16", saved, "wide16.safetensors", "--dtype", "bfloat16")
    weights = f"model.weights={folder / 'wide.safetensors'}"
    for update in ("split", "kahan", "master", "nearest"):
        train(f"weights read for {update}", weights, "precision=bf16-true", f"optimizer.weight_update={update}")
    train("16-bit weights read for float32", f"model.weights={folder / 'wide16.safetensors'}", "precision=32-true")
    train("QLoRA", weights, "lora.modules='*attention*'", "quantize.modules='*mlp*'")
    return checked


def table(rows):
    def mib(count):
        return f"{count / MIB:.1f}" if count else ""

    lines = ["| job | phase | budget MiB | planned | measured | of these before the first step | |", "|---|---|---|---|---|---|---|"]
    for name, phase, budget, planned, peak, prepared, verdict in rows:
        lines.append(f"| {name} | {phase} | {mib(budget)} | {mib(planned)} | {mib(peak)} | {mib(prepared)} | {verdict} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the job of this number alone")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, help="page to write")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    program, rows, faults = options.build / "plimsoll", [], []
    names = EXAMPLES if options.examples else [] if options.large else range(options.jobs)
    if options.large:
        with tempfile.TemporaryDirectory() as folder:
            rows, faults = large(program, pathlib.Path(folder))
        print(table(rows) + "\n".join(faults))
    for each in names:
        if options.only is not None and each != options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            draw = random.Random(f"{options.seed} {each}")
            if options.examples:
                name, command = each, [str(ROOT / f"examples/{each}/tiny.yaml"), "device=cpu", "memory_budget=auto",
                                       f"log.metrics_file={folder / 'metrics.jsonl'}", "max_steps=6"]
            else:
                job = job_of(draw, folder)
                (folder / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
                name = f"{each}: {job['model']['type']}" + (" lora" if "lora" in job else "")
                command = [str(folder / "job.yaml")]
            checked = Checked(program, name, folder, command)
            checked.run(draw, exports=not options.examples)
            rows += checked.rows
            faults += checked.faults
            for row in checked.rows:
                print(f"{row[0]:24} {row[1]:7} budget {row[2] / MIB:7.1f}  planned {row[3] / MIB:7.1f}  measured {row[4] / MIB:7.1f}"
                      f"  before {row[5] / MIB:7.1f}  {row[6]}", flush=True)
            for fault in checked.faults:
                print("fault:", fault, flush=True)
    if options.results:
        options.results.write_text("# Resident memory of whole processes\n\n" + table(rows))
    print(f"==> process: {len(rows)} runs, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
