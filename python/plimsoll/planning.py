"""Plans of a training: does it fit, what it takes, and what would make it fit."""

from __future__ import annotations

import dataclasses
import html
import json
import operator
import pathlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from plimsoll import _binding, _layout, errors, optimizers
from plimsoll._batches import BatchShape

_LOCAL = ("cpu", "cuda", "rocm", "mps", "xpu")
_REPLACEMENTS = ("attention", "cross_entropy", "channels_last", "norms", "loss_rows")


def plan(
    model: Callable[[], Any],
    loss: Callable[[Any, Any], Any],
    example_batch: Any,
    memory: str | int | None = None,
    *,
    device: str = "cpu",
    precision: str = "32-true",
    optimizer: optimizers.Optimizer | None = None,
    batch_size: int | None = None,
    micro_batch: int | str | None = None,
    accumulate: int | None = None,
    host_memory: str | int | None = None,
    process_memory: str | int | None = None,
    disk: str | int | None = None,
    devices: int = 1,
    compile: bool | str = "auto",
    max_grad_norm: float = 0,
    static: Iterable[str] = (),
    evaluate: bool = False,
    seed: int = 0,
    threads: int = 0,
    replace: bool | dict[str, bool] = True,
    max_slowdown: float = 0.02,
    on_schedule: Callable[[], None] | None = None,
    **options: Any,
) -> Plan:
    """Records a training step without running it and plans it inside `memory`.

    Args:
        model: function that returns the torch.nn.Module. It is called on a device without memory: a 70 B model takes
            none. Weights come later, with Trainer.load_state_dict().
        loss: function of the module and a batch that returns the mean loss of the batch, a scalar, or a dict, tuple or
            object whose first entry, "loss" or .loss is that.
        example_batch: a micro batch as a DataLoader gives it: tensors in dicts, lists or tuples. Only names, sizes and
            dtypes count; the first size is the number of samples.
        memory: budget, "8GiB" or bytes; None: as little as costs almost no time (`max_slowdown`), at most what the device
            has free.
        device: "cpu" or "cuda" of this machine, or a device by name ("rtx4090", "h100"), which need not be here.
        precision: "32-true", "bf16-mixed", "16-mixed", "bf16-true" or "auto".
        optimizer: of plimsoll.optimizers; None: AdamW().
        batch_size: samples of an optimizer step; None: those of the micro batch times `accumulate`.
        micro_batch: samples that are computed at a time; None: as the example; "auto": the fastest size that fits.
        accumulate: micro batches of a step; None: batch_size / micro_batch.
        process_memory: budget of the resident memory of this process as the operating system counts it: Python, libraries
            and data as they are now, and what the training adds; "auto": the limit of the container, or what the machine
            has free. On the CPU `memory` is at most what it leaves.
        host_memory, disk: budgets for offloaded values and state; None: nothing is offloaded.
        devices: devices that train together; the plan is that of one of them.
        compile: "auto", True or False: whether chains of pointwise operators run as one.
        max_grad_norm: clips the norm of all gradients; 0: no clipping.
        static: names of inputs whose first size is not the number of samples.
        evaluate: True: Trainer.evaluate() will be called.
        seed: of the initialization and of random operators, which do not depend on the budget.
        threads: CPU threads; 0: all cores.
        replace: whether operators of torch are recorded as operators of plimsoll with the same mathematics, and rounded
            differently; {"attention": False}: not scaled_dot_product_attention; {"cross_entropy": False}: not linear layers
            with cross entropy; {"channels_last": False}: torch's layout of convolutions; {"norms": False}: torch's group
            and RMS norms; {"loss_rows": False}: not other losses of large linear layers, which may run in chunks of tokens; False:
            none, which gives eager's bits.
        max_slowdown: without `memory`, the plan takes the fewest bytes with which a step is predicted to take at most this
            part longer than the fastest one; 0: the fastest.
        on_schedule: called before each candidate schedule is computed; an exception from it ends the planning.
        options: other keys of the job file: gradient_checkpointing="on", freeze=["*embed*"] (docs/job-file.md).

    Returns:
        a Plan; its `fits` says whether the budget is enough.

    Raises:
        UserError for a wrong option, batch or model; an exception of model or loss as it was raised; PlanDoesNotFit if not even
        the planning fits into `process_memory`.
    """
    torch = _binding.load()
    if isinstance(model, torch.nn.Module) or not callable(model):
        raise errors.UserError(
            f"model is {type(model).__name__}: pass a function that makes the module, such as lambda: MyModel(config); its weights "
            "are loaded with Trainer.load_state_dict()"
        )
    if "lr" in options or "learning_rate" in options:
        raise errors.UserError("the learning rate is the optimizer's: optimizer=plimsoll.AdamW(1e-3)")
    for key in ("lora", "quantize"):
        if key in options:
            raise errors.UserError(
                f"{key} is a key of job files only: change the modules in the model function, such as peft.get_peft_model() or "
                "modules of your own with requires_grad_(False) on the base"
            )
    device = _device_of(str(device))
    shape = BatchShape(torch, example_batch, static)
    optimizer = optimizer if optimizer is not None else optimizers.AdamW()
    if not isinstance(optimizer, optimizers.Optimizer):
        raise errors.UserError(
            f"optimizer is {type(optimizer).__name__}; write for example optimizer=plimsoll.AdamW(1e-3)"
        )
    keys = {
        "data.type": "synthetic",
        "device": device if device in _LOCAL else "cuda",
        "precision": precision,
        "memory_budget": _bytes(memory) if memory is not None else "auto",
        "optimizer": optimizer.options(),
        "max_grad_norm": max_grad_norm,
        "compile": compile,
        "devices": devices,
        "seed": seed,
        "threads": threads,
        "replace": replace,
        "max_slowdown": max_slowdown,
    }
    if host_memory is not None:
        keys["host_memory_budget"] = _bytes(host_memory)
    if disk is not None:
        keys["disk_budget"] = _bytes(disk)
    if process_memory is not None:
        keys["process_budget"] = process_memory if process_memory == "auto" else _bytes(process_memory, "process_memory")
    keys |= _batch_keys(shape.samples, batch_size, micro_batch, accumulate)
    keys |= options
    return Plan(model, loss, shape, device, keys, optimizer, evaluate, on_schedule)


def fits(
    model: Callable[[], Any],
    loss: Callable[[Any, Any], Any],
    example_batch: Any,
    memory: str | int | None = None,
    **options: Any,
) -> bool:
    """Returns whether the training fits; arguments as for plan()."""
    try:
        return plan(model, loss, example_batch, memory, **({"max_slowdown": 0} | options)).fits
    except errors.PlanDoesNotFit:  # not even its planning fits into `process_memory`
        return False


def _replacements_of(replace: Any) -> dict[str, bool]:
    """Returns whether each replacement is made."""
    if isinstance(replace, bool):
        return dict.fromkeys(_REPLACEMENTS, replace)
    if not isinstance(replace, dict) or not all(isinstance(value, bool) for value in replace.values()):
        raise errors.UserError(f'replace is {replace!r}; allowed: True, False, or a dict such as {{"attention": False}}')
    for name in replace:
        if name not in _REPLACEMENTS:
            raise errors.UserError(f"replace has {name!r}; allowed: {', '.join(_REPLACEMENTS)}")
    return {name: replace.get(name, True) for name in _REPLACEMENTS}


def _slowdown_of(part: Any) -> float:
    if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 <= part <= 1:
        raise errors.UserError(f"max_slowdown is {part!r}; allowed: from 0 to 1, such as 0.02")
    return float(part)


def _device_of(name: str) -> str:
    if name in ("cuda:0", "cpu:0"):
        return name[:-2]
    if ":" in name:
        raise errors.UserError(f"device is {name}: a training runs on the first device; set CUDA_VISIBLE_DEVICES to choose another")
    return name


def _bytes(amount: Any, name: str = "memory") -> str:
    if isinstance(amount, str):
        return amount
    if isinstance(amount, float) and amount.is_integer():
        amount = int(amount)
    try:
        if isinstance(amount, bool):
            raise TypeError
        return f"{operator.index(amount)}B"
    except TypeError:
        raise errors.UserError(f'{amount!r} is no amount of memory; write for example {name}="8GiB", or bytes') from None


def _batch_keys(
    samples: int, batch_size: int | None, micro_batch: int | str | None, accumulate: int | None
) -> dict[str, Any]:
    """Returns the keys of the batch."""
    if micro_batch == "auto":
        whole = batch_size if batch_size is not None else samples * (accumulate or 1)
        return {"batch_size": whole, "micro_batch_size": "auto", "gradient_accumulation_steps": "auto"}
    if micro_batch is not None and not isinstance(micro_batch, int):
        raise errors.UserError(f'micro_batch is {micro_batch!r}; it is a number of samples, or "auto"')
    size = micro_batch if micro_batch is not None else samples
    if batch_size is None:
        return {"micro_batch_size": size, "gradient_accumulation_steps": accumulate or 1}
    if accumulate is not None and size * accumulate != batch_size:
        raise errors.UserError(
            f"batch_size is {batch_size}, and {accumulate} micro batches of {size} samples are {size * accumulate}: leave "
            "out one of batch_size, micro_batch and accumulate"
        )
    return {"batch_size": batch_size, "micro_batch_size": min(size, batch_size)}


def _loss_of(result: Any, torch: Any) -> Any:
    """Returns the loss of what a loss function returned."""
    if isinstance(result, torch.Tensor):
        return result
    if isinstance(result, dict):
        found = result.get("loss")
        found = next(iter(result.values()), None) if found is None else found
    else:
        found = getattr(result, "loss", None)
        if found is None and isinstance(result, (tuple, list)) and result:
            found = result[0]
    if not isinstance(found, torch.Tensor):
        raise errors.UserError(
            f"the loss function returned {type(result).__name__}: return a scalar tensor, or a dict, tuple or object with "
            "the loss first or named loss"
        )
    return found


def _format_bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    if unit == "B":
        return f"{count} B"
    return f"{size:.2f} {unit}" if size < 10 else f"{size:.1f} {unit}" if size < 100 else f"{size:.0f} {unit}"


def _format_seconds(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


class Plan:
    """A planned training step.

    Attributes:
        fits: whether the budget is enough.
        peak: bytes that the training takes: it takes exactly these.
        minimum: bytes of the smallest budget that fits, over every choice that was left open.
        budget: bytes; None: no limit is known.
        process: bytes of resident memory, with `process_memory`: budget_bytes, planned_bytes, minimum_bytes, and binds: True if it
            leaves less than `memory` allows; else empty.
        breakdown: bytes at the peak by kind.
        modules: the same by first part of the model.
        reasons: list of (decision, why).
        step_seconds: predicted seconds of a step.
        micro_batch, accumulate: samples at a time, and micro batches of a step.
    """

    def __init__(
        self,
        model: Callable[[], Any],
        loss: Callable[[Any, Any], Any],
        shape: BatchShape,
        device: str,
        keys: dict[str, Any],
        optimizer: optimizers.Optimizer,
        evaluates: bool,
        on_schedule: Callable[[], None] | None = None,
    ) -> None:
        self._parts = (model, loss, shape, device, evaluates, on_schedule)
        keys = keys | {"replace": _replacements_of(keys["replace"]), "max_slowdown": _slowdown_of(keys["max_slowdown"])}
        self._keys, self.optimizer = keys, optimizer
        torch = _binding.load()
        names: dict[str, str] = {}

        wanted = torch.get_default_dtype()
        replaced, here = keys["replace"], device == "cpu"
        layout = _layout.Layout(replaced["channels_last"] and here and _layout.is_free(keys), replaced["norms"] and here)

        def make() -> Any:
            recorders = torch.get_default_dtype()
            if recorders == torch.float32:  # other precisions make weights of 16 bits
                torch.set_default_dtype(wanted)
            try:
                made = model()
            finally:
                torch.set_default_dtype(recorders)
            if isinstance(made, torch.nn.Module):
                names.update(_names_of(made))
                layout.apply(torch, made)
            return made

        def compute(module: Any, tensor_of: Callable[[str], Any]) -> Any:
            return _loss_of(loss(module, shape.rebuilt(tensor_of)), torch)

        stopped: list[BaseException] = []

        def scheduled() -> None:
            try:
                if on_schedule:
                    on_schedule()
            except BaseException as error:
                stopped.append(error)
                raise

        self._shape, self._names = shape, names
        self._trainer: weakref.ref[Any] | None = None  # that uses the session
        self._session = _binding.Session(
            make, compute, keys, shape.specification(_numbers(torch)),
            "" if device in _LOCAL else device, evaluates, scheduled, layout,
        )
        while True:
            try:
                self._session.call("plan", keys["max_slowdown"])
                break
            except Exception as error:
                if stopped or not layout.gives_way(error):
                    raise
        self._report: dict[str, Any] = json.loads(self._session.call("report"))
        report = self._report
        self.fits: bool = report["fits"]
        self.peak: int = report["peak_bytes"]
        self.minimum: int = report["minimum_budget_bytes"]
        self.budget: int | None = report["budget_bytes"]
        self.process: dict[str, int | bool] = dict(report["process"])
        self.breakdown: dict[str, int] = dict(report["breakdown"])
        self.modules: dict[str, dict[str, int]] = dict(report["modules"])
        self.reasons: list[tuple[str, str]] = [(each["decision"], each["why"]) for each in report["reasons"]]
        self.reasons += layout.reasons()
        if self._session.checkpoints:
            self.reasons.append((
                "torch.utils.checkpoint", "seen through: the budget decides what is recomputed "
                '(gradient_checkpointing="on": for each layer)'))
        if self._session.counters:
            self.reasons.append((
                "numbers of modules", f"forward changes {', '.join(sorted(self._session.counters))}; each step has the value "
                "from while it was recorded (a tensor of register_buffer counts steps)"))
        self.step_seconds: float = report["step_seconds"]
        self.micro_batch: int = report["micro_batch"]
        self.accumulate: int = report["accumulate"]

    def changed(self, optimizer: optimizers.Optimizer | None = None, **keys: Any) -> Plan:
        """Returns the plan of the same model with other options, named as in the job file."""
        model, loss, shape, device, evaluates, on_schedule = self._parts
        optimizer = optimizer or self.optimizer
        return Plan(model, loss, shape, device, self._keys | {"optimizer": optimizer.options()} | keys, optimizer,
                    evaluates, on_schedule)

    @property
    def batch_size(self) -> int:
        """Samples of an optimizer step."""
        last = self._report["last_micro_batch"]
        return self.micro_batch * self.accumulate - (self.micro_batch - last if last else 0)

    def __reduce__(self) -> Any:
        raise TypeError("a Plan holds a recording and cannot be pickled or copied: keep to_json(), or plan again")

    def require(self) -> Plan:
        """Returns this plan. Raises PlanDoesNotFit if it does not fit."""
        if self.fits:
            return self
        needed, budget, bound = self._need()
        raise errors.PlanDoesNotFit(
            f"the {bound} needs at least {_format_bytes(needed)}, and the budget is "
            f"{_format_bytes(budget)}; plan.advice() looks for changes that fit",
            needed, self,
        )

    def advice(self, most: int = 4) -> list[tuple[dict[str, Any], Plan]]:
        """Returns changes that make the training fit, each planned, those that change the result least first.

        Each is a pair: options for plan() or changed(), and the plan with them."""
        found = []
        for change in self._changes():
            optimizer = change.get("optimizer")
            keys = {key: value for key, value in change.items() if key != "optimizer"}
            planned = self.changed(optimizer, **keys)
            if planned.fits:
                found.append((change, planned))
            if len(found) == most:
                break
        return found

    def _changes(self) -> Iterator[dict[str, Any]]:
        keys = self._keys
        batch = self.batch_size
        open_batch: dict[str, Any] = {"batch_size": batch, "micro_batch_size": "auto", "gradient_accumulation_steps": "auto"}
        small = dataclasses.replace(self.optimizer, state="8bit")
        mixed: dict[str, Any] = {"precision": "bf16-mixed"} if keys["precision"] == "32-true" else {}
        singles: list[dict[str, Any]] = [open_batch] if keys.get("micro_batch_size") != "auto" and batch > 1 else []
        singles += [mixed] if mixed else []
        singles += [{"optimizer": small}] if self.optimizer.state not in ("8bit", "4bit", "auto") else []
        yield from singles
        for i, first in enumerate(singles):
            for second in singles[i + 1 :]:
                yield first | second
        if len(singles) > 2:
            yield singles[0] | singles[1] | singles[2]
        yield open_batch | {"precision": "bf16-true", "optimizer": dataclasses.replace(
            self.optimizer, state="8bit"), "gradient_accumulation_dtype": "8bit"}

    def frontier(self, points: int = 8) -> list[tuple[int, float]]:
        """Returns `points` pairs of a budget in bytes and the predicted seconds of a step with it."""
        return [tuple(point) for point in self._session.call("frontier", points)]

    def to_json(self) -> dict[str, Any]:
        """Returns the plan as a dict of numbers, strings and lists."""
        copied: dict[str, Any] = json.loads(json.dumps(self._report))
        return copied

    def page(self, path: str | pathlib.Path | None = None) -> str:
        """Returns the page of the plan as HTML (a timeline of the memory), and writes it to `path` if one is given."""
        text = str(self._session.call("page", "plimsoll", self._verdict()))
        if path is not None:
            pathlib.Path(path).write_text(text, encoding="utf-8")
        return text

    def _need(self) -> tuple[int, int, str]:
        """Returns the smallest budget that fits, the budget, and what it bounds."""
        if self.process.get("binds"):
            return self.process["minimum_bytes"], self.process["budget_bytes"], "process"
        return self.minimum, self.budget or 0, "training"

    def _verdict(self) -> str:
        if self.fits:
            budget = "no budget" if self.budget is None else _format_bytes(self.budget)
            return f"fits: {_format_bytes(self.peak)} of {budget}"
        needed, limit, bound = self._need()
        of = " of the process" if bound == "process" else ""
        return f"does not fit: {_format_bytes(needed)} at least, budget{of} {_format_bytes(limit)}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        report = self._report
        yield "device", report["device"]
        yield "precision", report["precision"]
        yield "optimizer", f"{report['optimizer']}, state {report['state_dtype']}"
        yield "batch", f"{self.batch_size} samples: micro batches of {self.micro_batch} x {self.accumulate}"
        trained = f"{report['parameters']:,}"
        if report["parameters"] != report["model_parameters"]:
            trained += f" of {report['model_parameters']:,}"
        yield "trained parameters", trained
        yield "smallest budget", _format_bytes(self.minimum)
        for kind, count in self.breakdown.items():
            if count:
                yield kind.replace("_", " "), _format_bytes(count)
        if report["host_bytes"]:
            yield "host memory", _format_bytes(report["host_bytes"])
        if report["disk_bytes"]:
            yield "disk", _format_bytes(report["disk_bytes"])
        yield "predicted step", f"{_format_seconds(self.step_seconds)} ({report['rates']} rates)"

    def __str__(self) -> str:
        rows = list(self._rows())
        width = max(len(name) for name, _ in rows)
        lines = [self._verdict()] + [f"  {name:<{width}}  {value}" for name, value in rows]
        return "\n".join(lines + [f"  {decision}: {why}" for decision, why in self.reasons])

    def __repr__(self) -> str:
        return f"<plimsoll.Plan {self._verdict()}>"

    def _repr_html_(self) -> str:
        frame = html.escape(self.page(), quote=True)
        return f'<pre>{html.escape(str(self))}</pre><iframe style="width:100%;height:640px;border:0" srcdoc="{frame}"></iframe>'


def _numbers(torch: Any) -> dict[Any, int]:
    """Returns libtorch's number of each dtype that an input may have."""
    return {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
            torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15}


def _names_of(module: Any) -> dict[str, str]:
    """Returns for each name of the model's state_dict the first name of the same tensor, and its dtype."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        first.setdefault(id(tensor), name)
    for prefix, part in module.named_modules(remove_duplicate=False):
        kept = {name: value for name, value in part._buffers.items() if name not in part._non_persistent_buffers_set}
        for name, tensor in (part._parameters | kept).items():
            if tensor is not None:
                whole = f"{prefix}.{name}" if prefix else name
                names[whole] = first.setdefault(id(tensor), whole)
    return names
