#!/usr/bin/env python3
"""Trains small jobs on a device whose kernels do nothing (dry_device.cpp), by libtorch's CUDA code and the CUDA backend.

    tests/cuda_dry/run.py BUILD            all jobs
    tests/cuda_dry/run.py BUILD lora host  jobs whose name has one of these words

Every job must end, use the bytes that were planned, put each result in its planned place, and have its ops captured. Values are
not looked at: no kernel computes any.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS = 2
DECODER = {"model.type": "decoder", "model.vocab_size": 512, "model.hidden_size": 128, "model.num_layers": LAYERS, "model.num_heads": 4,
           "model.num_kv_heads": 2, "data.type": "synthetic", "data.samples": 64, "data.sequence_length": 64, "data.validation_fraction": 0,
           "precision": "bf16-true", "batch_size": 4, "optimizer.name": "adamw", "memory_budget": "2GiB"}
MIXED, LORA = {"precision": "bf16-mixed"}, {"lora.modules": ["layers"], "lora.rank": 4}
QUANTIZED = {**LORA, "quantize.modules": ["layers"]}

# Name: changes of DECODER.
JOBS = {
    "bf16-true": {},
    "bf16-mixed": MIXED,
    "16-mixed": {"precision": "16-mixed"},
    "32-true": {"precision": "32-true"},
    "without fused ops": {**MIXED, "compile": False},
    "micro batches": {**MIXED, "micro_batch_size": 1},
    "micro batches in 16 bits": {"micro_batch_size": 1},
    "checkpointing": {**MIXED, "gradient_checkpointing": True},
    "update in backward": {"update_in_backward": True, "max_grad_norm": 0},
    "host memory": {**MIXED, "memory_budget": "622MiB", "host_memory_budget": "1GiB"},
    "window": {"model.sliding_window": 16},
    "softcap": {"model.attention_softcap": 20},
    "as many key heads": {"model.num_kv_heads": 4},
    "norms of queries": {**MIXED, "model.qk_norm": True},
    "layer norm": {"model.positions": "learned", "model.norm": "layernorm", "model.activation": "gelu"},
    "layer norm mixed": {**MIXED, "model.positions": "learned", "model.norm": "layernorm", "model.activation": "gelu"},
    "dropout": {"model.dropout": 0.1},
    "adafactor": {"optimizer.name": "adafactor"},
    "lion": {**MIXED, "optimizer.name": "lion"},
    "sgd": {"optimizer.name": "sgd"},
    "muon": {**MIXED, "optimizer.name": "muon"},
    "8-bit state": {"optimizer.name": "adamw_8bit"},
    "4-bit state": {**MIXED, "optimizer.name": "adamw_4bit"},
    "lora": LORA,
    "nf4": {**QUANTIZED, "quantize.format": "nf4"},
    "int8": {**QUANTIZED, "quantize.format": "int8", **MIXED},
    "large vocabulary": {"model.vocab_size": 200000, **MIXED},
    "large vocabulary in micro batches": {"model.vocab_size": 200000, "micro_batch_size": 2},
    "mamba": {"model.type": "mamba", "model.num_heads": None, "model.num_kv_heads": None, **MIXED},
    "evaluation": {"data.validation_fraction": 0.2, "max_epochs": 1, "max_steps": None},
}
# The example systems.
EXAMPLES = ("small-lm", "gesture-ssm", "fmri-autoencoder", "prompt-segmentation", "video-llm")


def environment(build, log, folder):
    libraries = build / "tests/cuda_dry"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries), "LD_PRELOAD": str(libraries / "libcuda_dry.so"), "PLIMSOLL_DRY_LOG": str(log),
            "XDG_CACHE_HOME": str(folder / "cache"), "PLIMSOLL_RUNTIME_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"}


def overrides_of(changes):
    return [f"{key}={json.dumps(value) if not isinstance(value, str) else value}" for key, value in changes.items() if value is not None]


class Fault(Exception):
    """A job did not do what it should; the text says what."""


class LeftOut(Exception):
    """An example whose data is not here ('make examples' prepares it)."""


def trained(build, job, changes, folder, where=None):
    """The result of train and what was launched, both as JSON."""
    result, log = folder / "result.json", folder / "log.json"
    command = [build / "plimsoll", "train", job, *overrides_of(changes), "device=cuda", "--json", result]
    done = subprocess.run(command, cwd=where or folder, env=environment(build, log, folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600)
    if done.returncode == 2 and where == ROOT and re.search(r"\.data/\S* does not exist", done.stdout):
        raise LeftOut("left out: its data is not here")
    if done.returncode != 0:
        raise Fault(f"exit code {done.returncode}\n{done.stdout[-2000:]}")
    return json.loads(result.read_text()), json.loads(log.read_text())


def expect(holds, what):
    if not holds:
        raise Fault(what)


def check(build, result):
    """What holds for every job."""
    work = result["device_work"]
    expect(work["captures"] and work["captured_ops"] > 0, f"nothing was captured: {work}")
    expect(work["refused_sequences"] == 0, f"captures were refused: {work['refusal']}")
    # cuDNN's gradients of channels-last operands are channels-last, the recorded ones are those of the CPU.
    copied = [each for each in work["copied_results"] if each["op"] != "aten::convolution_backward"]
    expect(copied == [], f"results were not made in their places: {copied}")
    # The context and the workspace of libraries are planned, and are not counted here.
    apart = result["planned_peak_bytes"] - result["measured_peak_bytes"]
    expect(apart == outside(build), f"planned {result['planned_peak_bytes']} bytes, of them {outside(build)} outside of the arena; used "
                                    f"{result['measured_peak_bytes']}")
    for memory in ("host", "disk"):
        expect(result[f"planned_{memory}_bytes"] == result[f"measured_{memory}_bytes"], f"{memory} memory is not used as planned")


def outside(build):
    if not hasattr(outside, "bytes"):
        listed = subprocess.run([build / "plimsoll", "gpus", "h100-sxm", "--json", "-"], stdout=subprocess.PIPE, check=True).stdout
        device = json.loads(listed)["gpus"][0]
        outside.bytes = device["context_bytes"] + device["library_workspace_bytes"]
    return outside.bytes


def run_job(build, name):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job = folder / "job.yaml"
        job.write_text("{}\n")
        changes = {**DECODER, "max_steps": 6, **JOBS[name]}
        result, log = trained(build, job, changes, folder)
        check(build, result)
        if name == "host memory":
            expect(result["planned_host_bytes"] > 0, "the budget is too large: nothing is in host memory")
        if name == "bf16-true":
            check_launches(build, job, changes, folder, result, log)


def check_launches(build, job, changes, folder, result, log):
    """Queries and keys of a layer are rotated once a pass, and no op packs their gradients."""
    _, more = trained(build, job, {**changes, "max_steps": 9}, folder)
    step = {kernel: (count - log["launches"].get(kernel, 0)) / 3 for kernel, count in more["launches"].items()}
    expect(step.get("plimsoll::cuda::rope") == 2 * LAYERS, f"rotations of a step: {step.get('plimsoll::cuda::rope')}")
    expect(step.get("pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel") == LAYERS, f"attention is not by flash kernels: {step}")
    expect(not any("CatArray" in kernel for kernel, count in step.items() if count), f"gradients are packed by an op of its own: {step}")
    expect(more["graph_launches"] > 0, "graphs were not launched")


def run_example(build, name):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        changes = {"max_steps": 5, "memory_budget": "2GiB", "checkpoint.directory": str(folder / "run"), "compile": False}
        result, _ = trained(build, ROOT / "examples" / name / "tiny.yaml", changes, folder, where=ROOT)
        check(build, result)


def run_doctor(build, _):
    """doctor lists the device, also after it has measured the processor."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = [build / "plimsoll", "doctor", "--json", folder / "doctor.json"]
        done = subprocess.run(command, env=environment(build, folder / "log.json", folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600)
        expect(done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}")
        devices = json.loads((folder / "doctor.json").read_text())["devices"]
        expect([each["name"] for each in devices] == ["NVIDIA H100 80GB HBM3"], f"devices are {devices}")
        expect(devices[0]["failure"] == "" and devices[0]["work"]["captured_ops"] > 0, f"the device did not train: {devices[0]}")


def run_resume(build, _):
    """A run with a checkpoint, its continuation, and the exported model."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job = folder / "job.yaml"
        job.write_text("{}\n")
        changes = {**DECODER, **MIXED, "checkpoint.directory": str(folder / "run"), "checkpoint.every_n_steps": 2}
        trained(build, job, {**changes, "max_steps": 4}, folder)
        result, _ = trained(build, job, {**changes, "max_steps": 9}, folder)
        check(build, result)
        expect(result["resumed_step"] == 4, f"resumed at {result['resumed_step']}")
        command = [build / "plimsoll", "export", job, *overrides_of(changes), "device=cuda", "--out", folder / "model.safetensors"]
        done = subprocess.run(command, env=environment(build, folder / "log.json", folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600)
        expect(done.returncode == 0 and (folder / "model.safetensors").exists(), f"export: exit code {done.returncode}\n{done.stdout[-2000:]}")


def run_shapes(build, _):
    """Results of libtorch's CUDA operators have the recorded sizes and dtypes (tests/cuda/shapes_test.cpp)."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        done = subprocess.run([build / "cuda_tests", "--gtest_brief=1", "--gtest_filter=*CudaShapes*:*TheArenaIsUsedAsPlanned*"],
                              env=environment(build, folder / "log.json", folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600)
    expect(done.returncode == 0 and "SKIPPED" not in done.stdout, f"exit code {done.returncode}\n{done.stdout[-3000:]}")


def main():
    build, words = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    runs = [(name, run_job) for name in JOBS] + [(name, run_example) for name in EXAMPLES]
    runs += [("shapes of operators", run_shapes), ("doctor", run_doctor), ("resume", run_resume)]
    runs = [(name, run) for name, run in runs if not words or any(word in name for word in words)]

    def outcome(name, run):
        try:
            run(build, name)
        except (Fault, LeftOut, subprocess.TimeoutExpired) as fault:
            return fault
        return None
    faults = left_out = 0
    outside(build)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, _), fault in zip(runs, pool.map(lambda each: outcome(*each), runs)):
            print(f"{name}: {fault or 'as planned'}", flush=True)
            left_out += isinstance(fault, LeftOut)
            faults += fault is not None and not isinstance(fault, LeftOut)
    print(f"{len(runs) - left_out} jobs, {faults} not as planned; {left_out} left out")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
