"""Trains the models of architectures/ beside eager PyTorch: first loss, gradients, 20 steps of AdamW, bytes.

    PYTHONPATH=build/python .venv-python/bin/python python/tests/sweep.py [NAME...]   writes bench/results/architectures.{md,jsonl}

With names it prints the rows of these models and writes nothing. Each step has another batch. The columns:

first loss   difference from eager's, relative.
gradients    of each parameter, norm of the difference from float64, in units of eager's or of FLOOR times the gradient's
             norm, whichever is larger; the parameter with the most. Eager's is the largest of one thread, two threads,
             attention by matrix products and channels last, which differ in rounding. Ours are read from a step of SGD.
             A gradient that is rounding alone, as that of a bias of keys, which softmax takes away, is an arbitrary number
             in eager PyTorch too: FLOOR is times the norm of the largest gradient of the parameter's module there. The
             error of a gradient of less than FEW values is one of a few draws: it may be twice as large.
losses       of 20 steps, the largest relative difference from eager's, with one or two threads, or channels last; losses
             below a tenth of the first one count as a tenth.
eager's      the largest of the same between eager PyTorch with two threads and these.

The losses have the same bits at 1.05 times the minimum budget, and each training takes the planned bytes."""
import argparse
import contextlib
import gc
import json
import pathlib
import time
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

import plimsoll as pl
from architectures import ARCHITECTURES, WEIGHTS

STEPS = 20
FIRST = 2e-6  # of the first loss, relative: attention adds up in another order than eager's
FLOOR = 1e-6  # of a gradient's norm: rounding of a few float32 operations
FEW = 16
NARROW, WIDE = 1e-4, 5e-3  # differences of losses that are allowed; the wide one if eager's threads differ as much
RATE = 2.0**60  # of the SGD step: a power of two, so large that the rounding of the weights does not hide them
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "results"


class InDouble(TorchFunctionMode):
    """Computes in float64 where a model asks for float32."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def widened(value):
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        if function is torch._grouped_mm:  # libtorch has none in float64
            rows, weights = args
            ends = kwargs["offs"].tolist()
            return torch.cat([rows[begin:end] @ weight for begin, end, weight in zip([0, *ends], ends, weights)])
        return function(*map(widened, args), **{name: widened(value) for name, value in (kwargs or {}).items()})


def moved(batch, step, static=()):
    """Returns the batch of a step: the elements along the last dimension moved by `step` places."""
    return {name: tensor if name in static or name == "mask" else tensor.roll(step, -1) for name, tensor in batch.items()}


class Model:
    """An architecture with initial weights."""

    def __init__(self, name):
        torch.manual_seed(0)
        self.name = name
        self.make, self.loss, self.batch = ARCHITECTURES[name]()
        samples = next(iter(self.batch.values())).shape[0]
        self.static = [key for key, tensor in self.batch.items() if tensor.shape[0] != samples]
        self.weights = None
        self.rate = 2e-5 if name in WEIGHTS else 1e-3

    def batches(self, steps):
        return [moved(self.batch, step, self.static) for step in range(steps)]

    def plan(self, memory=None):
        options = {"static": self.static, "optimizer": pl.AdamW(self.rate, weight_decay=0.0)}
        return pl.plan(self.make, self.loss, self.batch, memory, **options)

    def trainer(self, plan, optimizer=None):
        trainer = pl.Trainer(plan, optimizer)
        if self.weights is not None:
            trainer.load_state_dict(self.weights)
        elif self.name in WEIGHTS:
            trainer.load_state_dict(WEIGHTS[self.name](), strict=False)
        if self.weights is None:
            self.weights = trainer.state_dict()
        return trainer

    def eager_model(self, last=False):
        torch.manual_seed(0)
        model = self.make().train()
        model.load_state_dict(self.weights)
        return model.to(memory_format=torch.channels_last) if last else model

    def gradients(self, plan):
        """Returns the gradients of a planned step."""
        with self.trainer(plan, pl.SGD(RATE, momentum=0.0, weight_decay=0.0)) as trainer:
            before = trainer.state_dict()
            trainer.step(self.batch)
            after = trainer.state_dict()
        return {name: (before[name].double() - after[name].double()) * (1 / RATE) for name in before}

    def eager_gradients(self, threads=None, products=False, last=False):
        """Returns the gradients of eager PyTorch; threads None: in float64; products: attention by matrix products; last:
        weights with channels last."""
        model, batch = self.eager_model(last), self.batch
        if threads is not None:
            with using_threads(threads), sdpa_kernel(SDPBackend.MATH) if products else contextlib.nullcontext():
                self.loss(model, batch).backward()
        else:
            model.double()
            batch = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
            torch.set_default_dtype(torch.float64)
            try:
                with InDouble():
                    self.loss(model, batch).backward()
            finally:
                torch.set_default_dtype(torch.float32)
        return {name: torch.zeros_like(p, dtype=torch.float64) if p.grad is None else p.grad.double()
                for name, p in model.named_parameters() if p.requires_grad}

    def eager_losses(self, steps, threads, last=False):
        model = self.eager_model(last)
        optimizer = adamw(model, self.rate)
        with using_threads(threads):
            return [eager_step(model, optimizer, self.loss, batch) for batch in self.batches(steps)]

    def worst_gradient(self, plan):
        """Returns the largest error of a parameter's gradient, in units of the half of what is allowed, and its name."""
        ours, true = self.gradients(plan), self.eager_gradients()
        eager = [self.eager_gradients(1), self.eager_gradients(2), self.eager_gradients(2, products=True)]
        if is_channels_last(plan):
            eager.append(self.eager_gradients(2, last=True))
        norms = {name: gradient.norm().item() for name, gradient in true.items()}
        ratios = {}
        for name, gradient in true.items():
            off, *theirs = ((each[name] - gradient).norm().item() for each in (ours, *eager))
            scale = norms[name]
            if scale < max(theirs):
                module = name.rpartition(".")[0]
                scale = max(norm for each, norm in norms.items() if each.rpartition(".")[0] == module)
            few = 2 if gradient.numel() < FEW else 1
            ratios[name] = off / (few * max(*theirs, FLOOR * scale)) if off != 0 else 0.0
        worst = max(ratios, key=ratios.get)
        return ratios[worst], worst


def is_channels_last(plan):
    return any(decision == "replace: channels_last" for decision, _ in plan.reasons)


@contextlib.contextmanager
def using_threads(count):
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def adamw(model, rate=1e-3):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], rate, weight_decay=0.0)


def eager_step(model, optimizer, loss_of, batch):
    loss = loss_of(model, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def difference(losses, others):
    """Returns the largest difference, relative to the loss or to a tenth of the first one: rounding does not shrink with it."""
    return max(abs(mine - theirs) / max(abs(theirs), abs(others[0]) / 10) for mine, theirs in zip(losses, others, strict=True))


def row_of(name, losses, again, eager, plans, used):
    """Returns a row without gradients: losses here, at the small budget, and of eager PyTorch with one thread, with two and
    in other ways; plans and their used bytes."""
    two = eager[1]
    return {
        "model": name, "outcome": "", "first_loss": abs(losses[0] - two[0]) / abs(two[0]),
        "losses": min(difference(losses, each) for each in eager), "threads": max(difference(each, two) for each in eager),
        "peak_bytes": [plan.peak for plan in plans], "used_bytes": used, "same_bits": again == losses,
        "minimum_bytes": sum(plan.minimum for plan in plans[: len(plans) // 2]),
    }


def measured(name, steps=STEPS):
    """Returns the row of a model."""
    if name == "gan":
        return measured_gan(steps)
    model = Model(name)
    try:
        plan = model.plan()
    except pl.UserError as error:
        return {"model": name, "outcome": "refused", "why": " ".join(str(error).split("\n")[0].split())}
    plans = [plan, model.plan(small_budget(plan))]
    losses, used = [], []
    for each in plans:
        with model.trainer(each) as trainer:
            losses.append([trainer.step(batch) for batch in model.batches(steps)])
            used.append(trainer.used)
    eager = [model.eager_losses(steps, threads) for threads in (1, 2)]
    if is_channels_last(plan):
        eager.append(model.eager_losses(steps, 2, last=True))
    row = row_of(name, *losses, eager, plans, used)
    row["parameters"] = sum(p.numel() for p in model.eager_model().parameters())
    row["gradients"], row["gradient"] = model.worst_gradient(plan)
    row["outcome"] = "; ".join(faults(row)) or "works"
    gc.collect()
    return row


def names():
    """Returns the names of all rows."""
    return [*ARCHITECTURES, "gan"]


def small_budget(plan):
    return plan.minimum + plan.minimum // 20


def measured_gan(steps=STEPS):
    """Returns the row of two trainings, of a discriminator and a generator, that take turns. Each has the other part
    frozen, and gets its weights after each step."""
    models = [Model(f"gan_{part}") for part in ("discriminator", "generator")]
    free = [model.plan() for model in models]
    small = [model.plan(small_budget(plan)) for model, plan in zip(models, free)]
    losses, used = [], []
    for plans in (free, small):
        found = []
        with models[0].trainer(plans[0]) as first, pl.Trainer(plans[1]) as second:
            second.load_state_dict(models[0].weights)
            for batch in models[0].batches(steps):
                found.append(first.step(batch))
                second.load_state_dict(first.state_dict())
                found.append(second.step(batch))
                first.load_state_dict(second.state_dict())
            used += [first.used, second.used]
        losses.append(found)
    eager = []
    for threads in (1, 2):
        pair = [models[0].eager_model(), models[0].eager_model()]
        for model, part in zip(pair, ("generator", "discriminator")):
            model.requires_grad_(True)
            getattr(model, part).requires_grad_(False)
        optimizers, found = [adamw(model) for model in pair], []
        with using_threads(threads):
            for batch in models[0].batches(steps):
                found.append(eager_step(pair[0], optimizers[0], models[0].loss, batch))
                pair[1].load_state_dict(pair[0].state_dict())
                found.append(eager_step(pair[1], optimizers[1], models[1].loss, batch))
                pair[0].load_state_dict(pair[1].state_dict())
        eager.append(found)
    row = row_of("gan", *losses, eager, free + small, used)
    row["parameters"] = sum(tensor.numel() for tensor in pair[0].parameters())
    row["gradients"], row["gradient"] = max(model.worst_gradient(plan) for model, plan in zip(models, free))
    row["outcome"] = "; ".join(faults(row)) or "works"
    return row


def faults(row):
    """Returns what is wrong with a row."""
    found = []
    if row["first_loss"] > FIRST:
        found.append(f"first loss is off by {row['first_loss']:.1e}")
    if not row["gradients"] <= 2:
        found.append(f"gradient of {row['gradient']} is off by {row['gradients']:.2f} times eager's")
    if not row["losses"] <= NARROW and not (row["losses"] <= WIDE and row["threads"] >= row["losses"]):
        found.append(f"losses are off by {row['losses']:.1e}")
    if row["peak_bytes"] != row["used_bytes"]:
        found.append("the used bytes are not the planned ones")
    if not row["same_bits"]:
        found.append("other bits at the small budget")
    return found


def line_of(row):
    if row["outcome"] == "refused":
        return f"{row['model']}: refused: {row['why']}"
    return (f"{row['model']}: {row['outcome']}; first loss {row['first_loss']:.1e}, "
            f"gradients {row['gradients']:.2f} ({row['gradient']}), losses {row['losses']:.1e}, eager's {row['threads']:.1e}")


def page(rows):
    """Returns the page of the rows."""
    works = [row for row in rows if row["outcome"] != "refused"]
    version = torch.__version__.split("+")[0]
    lines = [
        "# Architectures",
        "",
        "Models of [architectures](../../python/tests/architectures), unchanged, in small sizes, beside eager PyTorch in",
        f"float32 and float64 (torch {version}, {torch.get_num_threads()} cores).",
        "[sweep.py](../../python/tests/sweep.py) says how, and wrote this page; each row is a line of",
        "[architectures.jsonl](architectures.jsonl). Every model took the planned bytes, and had the same bits at 1.05 times its",
        "smallest budget; the outcome says so if not.",
        "",
        "- first loss: relative difference from eager's.",
        "- gradients: of the worst parameter, error against float64 in units of eager's own (the largest of one thread, two",
        f"  threads and attention by matrix products), or of {FLOOR:.0e} of the gradient's norm if that is larger; for a gradient",
        f"  that is rounding alone, of its module's largest norm; twice that for less than {FEW} values. At most 2.",
        f"- losses: largest difference from eager's in {STEPS} steps of AdamW, relative to the loss or to a tenth of the first.",
        f"  At most {NARROW:.0e}, or {WIDE:.0e} if eager's own losses differ as much with one and with two threads.",
        "",
        "| model | parameters | first loss | gradients | losses | eager's own | smallest budget, MiB | outcome |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in works:
        numbers = [f"{row['first_loss']:.0e}", f"{row['gradients']:.2f}", f"{row['losses']:.0e}", f"{row['threads']:.0e}"]
        cells = [row["model"], f"{row['parameters']:,}", *numbers, f"{row['minimum_bytes'] / 2**20:.1f}", row["outcome"]]
        lines.append(f"| {' | '.join(cells)} |")
    refused = [row for row in rows if row["outcome"] == "refused"]
    lines += ["", "Refused while they are recorded, as they read values of the step:", "", "| model | message |", "|---|---|"]
    lines += [f"| {row['model']} | {row['why']} |" for row in refused]
    return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("models", nargs="*", help="names; none: all, and the results are written")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in given.models or names():
        begin = time.monotonic()
        rows.append(measured(name))
        print(line_of(rows[-1]), f"({time.monotonic() - begin:.1f} s)", flush=True)
    if not given.models:
        (RESULTS / "architectures.md").write_text(page(rows), encoding="utf-8")
        (RESULTS / "architectures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
