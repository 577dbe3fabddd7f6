"""Tries every operator of torch's own list that has a gradient: recorded, planned, one step, compared with eager PyTorch.

    PYTHONPATH=build/python .venv-python/bin/python python/tests/survey.py [NAME...]    writes bench/results/operators.{md,jsonl}

With names it prints the outcomes of these operators and writes nothing. An operator runs on at most two of torch's samples
of arguments. Its float tensors are parameters, other tensors buffers; the loss is a weighted sum of its outputs. The loss
and the gradients (read from an SGD step) may be off from float64 by twice what eager's are, plus EPSILON times the largest.

Outcomes: works; refused (while it is recorded, by name); not applicable; FAULT (wrong value, crash, internal error, an
error after planning, an error that does not say what to do)."""
import argparse
import collections
import json
import os
import pathlib
import select
import subprocess
import sys
import time
import types
import unittest
import warnings

import torch
from torch.utils import _pytree

import plimsoll as pl

EPSILON = 1e-6
RATE = 4096.0  # of the SGD step: a power of two, so large that the weights' rounding does not hide the gradients
SECONDS = 60.0  # an operator that takes longer is a fault
LARGEST = 20000  # elements of a sample's tensors
WORKS, REFUSED, NOT_APPLICABLE, FAULT = "works", "refused", "not applicable", "FAULT"
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "results"


def operators():
    """Returns torch's list of operators with a gradient, by name."""
    # A package that torch's tests want, and the list does not use.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
    from torch.testing._internal import common_methods_invocations as invocations

    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # would hide which are random
    named = {}
    for op in invocations.op_db:
        if op.supports_autograd:
            named[f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name] = op
    return named


class Inapplicable(Exception):
    """A sample that cannot be compared."""


def pairs_of(tensor):
    """Returns a complex tensor as pairs of real numbers; parameters are real."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class Sample:
    """An operator with arguments: those that have a gradient, other tensors, and the rest."""

    def __init__(self, op, sample):
        self.scratch = 0  # bytes that kernels without a rule took in the first step
        self.op, self.process = op, sample.output_process_fn_grad
        leaves, self.tree = _pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.trained = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        self.fixed = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and not leaf.requires_grad]
        tensors = [self.leaves[i] for i in self.trained + self.fixed]
        if not self.trained:
            raise Inapplicable("no argument with a gradient")
        if any(t.layout != torch.strided for t in tensors):
            raise Inapplicable("sparse tensors")
        if any(t.numel() == 0 for t in tensors) or sum(t.numel() for t in tensors) > LARGEST:
            raise Inapplicable("no small arguments")

    def values(self, double=False):
        """Returns the tensors by the names that the module has."""
        wide = {torch.float32: torch.float64, torch.complex64: torch.complex128} if double else {}
        named = {f"p{i}": pairs_of(self.leaves[i]) for i in self.trained} | {f"b{i}": self.leaves[i] for i in self.fixed}
        return {name: t.clone(memory_format=torch.contiguous_format).to(wide.get(t.dtype, t.dtype)) for name, t in named.items()}

    def loss(self, tensor_of):
        leaves = list(self.leaves)
        for i in self.trained:
            leaf = tensor_of(f"p{i}")
            leaf = torch.view_as_complex(leaf) if self.leaves[i].is_complex() else leaf
            leaves[i] = leaf.clone() if self.writes() else leaf
        for i in self.fixed:
            leaves[i] = tensor_of(f"b{i}")
        input, args, kwargs = _pytree.tree_unflatten(leaves, self.tree)
        outputs = self.process(self.op(input, *args, **kwargs))
        total = None
        for output in _pytree.tree_leaves(outputs):
            if not isinstance(output, torch.Tensor) or not output.dtype.is_floating_point and not output.dtype.is_complex:
                continue
            if not output.requires_grad:
                continue
            if output.dtype.is_complex:
                output = pairs_of(output)
            flat = output.reshape(-1)
            weights = torch.cos(torch.arange(1, flat.numel() + 1, dtype=flat.dtype, device=flat.device))
            part = (flat * weights).sum()
            total = part if total is None else total + part
        if total is None:
            raise Inapplicable("no output with a gradient")
        return total

    def largest_of(self, name):
        """Returns the largest value of a parameter; 0 for the loss."""
        return self.values()[name].nan_to_num(0, 0, 0).abs().max().item() if name[0] == "p" else 0.0

    def writes(self):
        return self.op.name.endswith("_") and not self.op.name.endswith("__")

    def module(self):
        sample = self
        values = {name: (t.shape, t.dtype) for name, t in self.values().items()}

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for name, (shape, dtype) in values.items():
                    tensor = torch.zeros(shape, dtype=dtype)
                    if name[0] == "p":
                        self.register_parameter(name, torch.nn.Parameter(tensor))
                    else:
                        self.register_buffer(name, tensor)

            def forward(self):
                return sample.loss(lambda name: getattr(self, name))

        return Module

    def eager(self, double, seed=0):
        """Returns loss and gradients."""
        torch.manual_seed(seed)
        tensors = self.values(double)
        for i in self.trained:
            tensors[f"p{i}"].requires_grad_()
        loss = self.loss(tensors.__getitem__)
        names = [f"p{i}" for i in self.trained]
        gradients = torch.autograd.grad(loss, [tensors[n] for n in names], allow_unused=True)
        found = {n: torch.zeros_like(tensors[n]) if g is None else g for n, g in zip(names, gradients, strict=True)}
        found["loss"] = loss.detach()
        return found

    def step(self):
        """Returns loss and gradients of a planned step."""
        batch = {"x": torch.zeros(1, 1)}
        optimizer = pl.SGD(RATE, momentum=0.0, weight_decay=0.0)
        plan = pl.plan(self.module(), lambda module, batch: module(), batch, optimizer=optimizer)
        try:
            with pl.Trainer(plan) as trainer:
                before = self.values()
                trainer.load_state_dict(before)
                loss = trainer.step(batch)
                after = trainer.state_dict()
                if trainer.skipped:
                    raise AfterPlanning("gradients that are not finite")
                self.scratch = trainer.used - plan.peak
        except AfterPlanning:
            raise
        except Exception as error:
            raise AfterPlanning(f"{type(error).__name__}: {line_of(error)}") from error
        found = {}
        for name in (f"p{i}" for i in self.trained):
            gradient = (before[name].double() - after[name].double()) / RATE
            found[name] = torch.where(before[name].isfinite(), gradient, 0.0)
        found["loss"] = torch.tensor(loss, dtype=torch.float64)
        return found


class AfterPlanning(Exception):
    """A step of a plan failed."""


def line_of(error):
    return " ".join(str(error).split("\n\n")[0].split("\n")[0].split())[:400]


def difference(values, reference):
    """Returns the largest error of each tensor and its largest value."""
    return {name: ((values[name].to(t.dtype) - t).abs().max().item(), t.abs().max().item()) for name, t in reference.items()}


def outcome_of_sample(sample):
    """Returns (outcome, reason)."""
    reference = sample.eager(double=True)
    if not all(torch.isfinite(t).all() for t in reference.values()):
        raise Inapplicable("values that are not finite")
    once, *others = [sample.eager(double=False, seed=seed) for seed in range(6)]
    random = any(not torch.equal(once[name], other[name]) for other in others for name in once)
    try:
        ours = sample.step()
    except AfterPlanning as error:
        return FAULT, f"after planning: {error}"
    except pl.UserError as error:
        line = line_of(error)
        torchs = line.startswith("operator") and "cannot be recorded" not in line
        unnamed = torchs or line.startswith("the step cannot be recorded")
        return (FAULT if unnamed else REFUSED), line
    except pl.InternalError as error:
        return FAULT, f"internal error: {line_of(error)}"
    except Exception as error:
        return FAULT, f"{type(error).__name__}: {line_of(error)}"
    if random:
        return NOT_APPLICABLE, "random; it runs"
    eager = difference(once, reference)
    for name, (error, largest) in difference(ours, reference).items():
        rounding = sample.largest_of(name) / RATE  # of the weights, from whose change the gradients are read
        allowed = 2 * eager[name][0] + EPSILON * max(1.0, largest, rounding)
        if not error <= allowed:
            what = "loss" if name == "loss" else "gradient"
            return FAULT, f"{what} is off by {error:.3g} from float64 (largest {largest:.3g}), eager's by {eager[name][0]:.3g}"
    return WORKS, f"scratch of {sample.scratch} bytes is measured in the first step" if sample.scratch else ""


def samples_of(op, most=2):
    """Returns samples of small arguments: the first, and those with the most arguments."""
    dtypes = op.supported_backward_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.complex64) if d in dtypes), None)
    if dtype is None:
        raise Inapplicable("no gradient in float32 or complex64")
    found, why = [], "no samples"
    for given in op.sample_inputs("cpu", dtype, requires_grad=True):
        try:
            sample = Sample(op, given)
        except Inapplicable as error:
            why = str(error)
            continue
        found.append(sample)
        if len(found) == 40:
            break
    if not found:
        raise Inapplicable(why)
    return found[:1] + sorted(found[1:], key=lambda sample: -len(sample.leaves))[:most - 1]


def outcome_of(op, most):
    """Returns the outcome of an operator: the worst of its samples."""
    order = [FAULT, REFUSED, WORKS, NOT_APPLICABLE]
    worst = (NOT_APPLICABLE, "no samples")
    torch.manual_seed(0)
    try:
        samples = samples_of(op, most)
    except Inapplicable as error:
        return NOT_APPLICABLE, str(error)
    except Exception as error:
        return NOT_APPLICABLE, f"torch makes no samples: {type(error).__name__}: {line_of(error)}"
    for sample in samples:
        try:
            found = outcome_of_sample(sample)
        except Inapplicable as error:
            found = (NOT_APPLICABLE, str(error))
        except Exception as error:  # of eager
            found = (NOT_APPLICABLE, f"eager PyTorch: {type(error).__name__}: {line_of(error)}")
        if order.index(found[0]) < order.index(worst[0]) or worst[1] == "no samples":
            worst = found
    return worst


def work():
    """Answers names on stdin by outcomes on stdout, in a child process."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    named = operators()
    pl.plan(lambda: torch.nn.Linear(1, 1), lambda module, batch: module(batch["x"]).mean(), {"x": torch.zeros(1, 1)})
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        name, most = line.split()
        outcome, why = outcome_of(named[name], int(most))
        print(json.dumps({"outcome": outcome, "why": why}), file=answers, flush=True)


class Worker:
    """A child process that tries operators; a crash of it is an outcome."""

    def __init__(self, samples):
        self.child, self.samples = None, samples

    def read(self, seconds):
        ready = select.select([self.child.stdout], [], [], seconds)[0]
        return self.child.stdout.readline() if ready else None

    def outcome(self, name):
        if self.child is None:
            self.child = subprocess.Popen([sys.executable, __file__, "--work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            if self.read(300) != "ready\n":
                raise RuntimeError("the worker did not start: run python/tests/survey.py --work")
        print(name, self.samples, file=self.child.stdin, flush=True)
        line = self.read(SECONDS)
        if line:
            return json.loads(line)
        if line is None:
            self.child.kill()
        status = self.child.wait()
        self.child = None
        return {"outcome": FAULT, "why": f"no answer in {SECONDS:.0f} s" if line is None else f"crash: status {status}"}

    def close(self):
        if self.child is not None:
            self.child.stdin.close()
            self.child.wait()


def survey(names, samples=2):
    """Yields the outcomes of operators."""
    worker = Worker(samples)
    try:
        for name in names:
            begin = time.monotonic()
            yield {"operator": name} | worker.outcome(name) | {"seconds": round(time.monotonic() - begin, 2)}
    finally:
        worker.close()


def page(rows):
    """Returns the page of the outcomes."""
    counts = collections.Counter(row["outcome"] for row in rows)
    lines = [
        "# Operators",
        "",
        f"Every operator with a gradient in the list of torch {torch.__version__.split('+')[0]} (`op_db` of",
        "`torch.testing._internal.common_methods_invocations`), trained for one step on two samples of arguments and compared with",
        "eager PyTorch. An operator is refused if one of the samples is. [survey.py](../../python/tests/survey.py) says",
        "how, and wrote this page; each outcome is a line of [operators.jsonl](operators.jsonl).",
        "",
        "| works | refused | not applicable | fault |",
        "|---|---|---|---|",
        "| " + " | ".join(str(counts[each]) for each in (WORKS, REFUSED, NOT_APPLICABLE, FAULT)) + " |",
    ]
    for outcome, title in ((FAULT, "Faults"), (REFUSED, "Refused while the step is recorded"), (NOT_APPLICABLE, "Not applicable")):
        if counts[outcome]:
            lines += ["", f"## {title}", "", "| operator | message |", "|---|---|"]
            lines += [f"| {row['operator']} | {row['why']} |" for row in rows if row["outcome"] == outcome]
    lines += ["", "## Works", "", ", ".join(f"`{row['operator']}`" for row in rows if row["outcome"] == WORKS) + "."]
    return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("operators", nargs="*", help="names; none: all, and the results are written")
    arguments.add_argument("--samples", type=int, default=2, help="of each operator (2)")
    arguments.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.work:
        work()
        return
    rows = []
    for each in survey(given.operators or sorted(operators()), given.samples):
        rows.append(each)
        print(f"{each['operator']}: {each['outcome']} {each['why']} ({each['seconds']} s)", flush=True)
    print(", ".join(f"{outcome}: {count}" for outcome, count in collections.Counter(row["outcome"] for row in rows).items()))
    if not given.operators and given.samples == 2:
        (RESULTS / "operators.md").write_text(page(rows), encoding="utf-8")
        kept = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
        (RESULTS / "operators.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
