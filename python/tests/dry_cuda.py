"""Trains the models of architectures/ on a device whose kernels do nothing (tests/cuda_dry), by libtorch's CUDA code.

    PYTHONPATH=build/python .venv-python/bin/python python/tests/dry_cuda.py BUILD [NAME...]     a line for each model and precision
    PYTHONPATH=build/python .venv-python/bin/python python/tests/dry_cuda.py BUILD --operators   operators (survey.py) that fail

A model fails if an operator makes a result of another size or dtype than was recorded, takes other memory than was planned, or
is refused. Values are not looked at. Kernels that are compiled at run time are left out: NVIDIA's compiler is a stub."""
import os
import pathlib
import subprocess
import sys
import warnings

import survey
import torch

import plimsoll as pl
from architectures import ARCHITECTURES, REFUSED

PRECISIONS = ("bf16-true", "bf16-mixed")
# libtorch has no transform of bfloat16; a kernel of rwkv's reads a size back, which nothing has written here.
WITHOUT = {("fourier", "bf16-true"), ("rwkv", "bf16-true"), ("rwkv", "bf16-mixed")}


# Operators that read values, which are none here, or whose scratch is stated by cuSOLVER, a stub.
READ_VALUES = {"_segment_reduce.lengths", "cholesky", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.pinv.hermitian",
               "linalg.householder_product", "linalg.qr", "matrix_exp", "normal", "ormqr", "pca_lowrank", "polar", "qr",
               "svd_lowrank"}


def names():
    return [name for name in ARCHITECTURES if name not in REFUSED]


def train(name, precision):
    """Plans and runs four steps; captures begin at the third."""
    make, loss, batch = ARCHITECTURES[name]()
    samples = next(iter(batch.values())).shape[0]
    static = [key for key, tensor in batch.items() if tensor.shape[0] != samples]
    plan = pl.plan(make, loss, batch, memory="8GiB", device="cuda", precision=precision, compile=False, static=static,
                   optimizer=pl.AdamW(1e-3))
    with pl.Trainer(plan) as trainer:
        for _ in range(4):
            trainer.step(batch)


def environment(build):
    libraries = pathlib.Path(build).resolve() / "tests" / "cuda_dry"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries), "OMP_NUM_THREADS": "1",
            "LD_PRELOAD": f"{libraries / 'libcuda_dry.so'} {libraries / 'libnvrtc.so.13'}"}


def outcome_of_sample(sample):
    """Takes the place of survey's: a step runs, whatever its values are."""
    batch = {"x": torch.zeros(1, 1)}
    try:
        plan = pl.plan(sample.module(), lambda module, batch: module(), batch, memory="1GiB", device="cuda", compile=False,
                       optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
    except pl.UserError as error:
        return survey.REFUSED, survey.line_of(error)
    except Exception as error:
        return survey.FAULT, f"{type(error).__name__}: {survey.line_of(error)}"
    try:
        with pl.Trainer(plan) as trainer:
            trainer.step(batch)
    except Exception as error:
        return survey.FAULT, f"after planning: {type(error).__name__}: {survey.line_of(error)}"
    return survey.WORKS, ""


def faults_of_operators(build):
    """Returns the operators that fail and the reasons, and how many work."""
    survey.__file__ = __file__  # its workers are processes of this script
    survey.SECONDS = 600  # of an operator: none takes one, but the machine may be busy
    before = dict(os.environ)
    os.environ.update(environment(build))
    try:
        rows = list(survey.survey(sorted(survey.operators())))
    finally:
        os.environ.clear()
        os.environ.update(before)
    faults = {row["operator"]: row["why"] for row in rows if row["outcome"] == survey.FAULT and row["operator"] not in READ_VALUES}
    return faults, sum(row["outcome"] == survey.WORKS for row in rows)


def fault_of(build, name, precision):
    """Returns what failed, in a process of its own; "" if nothing did."""
    done = subprocess.run([sys.executable, __file__, "--one", name, precision], env=environment(build), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout[-600:]}"


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--one":
        return train(*sys.argv[2:4])
    if sys.argv[1] == "--work":
        survey.outcome_of_sample = outcome_of_sample
        return survey.work()
    build, wanted = sys.argv[1], sys.argv[2:] or names()
    if wanted == ["--operators"]:
        faults, works = faults_of_operators(build)
        print(*(f"{name}: {why}" for name, why in faults.items()), f"{works} operators work", sep="\n")
        return 1 if faults else 0
    faults = 0
    for name in wanted:
        for precision in PRECISIONS:
            if (name, precision) in WITHOUT:
                continue
            fault = fault_of(build, name, precision)
            faults += bool(fault)
            print(f"{name} {precision}: {fault or 'runs'}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
