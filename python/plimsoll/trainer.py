"""Runs a plan: steps, epochs, evaluation, weights in and out, files that a training goes on from."""

from __future__ import annotations

import json
import pathlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from plimsoll import _binding, errors, optimizers
from plimsoll.planning import Plan, _format_bytes


class Trainer:
    """A training in the memory that its plan states. Use it in a `with`, or close() it, to free the memory.

    Args:
        plan: a Plan that fits.
        optimizer: another optimizer than the plan's; if it takes other bytes, the step is planned again.
        schedule: learning rate by step: a function of the step (from 1), or a dict as section `scheduler` of a job file:
            {"name": "cosine", "warmup_steps": 100, "steps": 1000}. None: the optimizer's rate.

    Raises:
        PlanDoesNotFit if the plan does not fit.
    """

    def __init__(
        self,
        plan: Plan,
        optimizer: optimizers.Optimizer | None = None,
        schedule: Callable[[int], float] | dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(plan, Plan):
            raise errors.UserError(f"a Trainer runs a plan, and this is {type(plan).__name__}: plimsoll.plan() makes one")
        if optimizer is not None and not isinstance(optimizer, optimizers.Optimizer):
            raise errors.UserError("the optimizer is one of plimsoll's: write for example optimizer=plimsoll.AdamW(1e-3)")
        if plan._keys["devices"] != 1:
            raise errors.UserError("a plan for several devices cannot be run from Python yet: train with a job file")
        owner = plan._trainer() if plan._trainer is not None else None
        if owner is not None and not owner._closed:
            plan = plan.changed()  # each trainer has memory of its own
        if optimizer is not None and optimizer.memory_options() != plan.optimizer.memory_options():
            plan = plan.changed(optimizer)
        self.plan = plan.require()
        self.optimizer = optimizer or plan.optimizer
        self._session, self._shape, self._names = plan._session, plan._shape, dict(plan._names)
        self._rate = self._schedule(schedule)
        self._closed = False
        self._session.call("start")
        self.plan._trainer = weakref.ref(self)

    def _schedule(self, schedule: Callable[[int], float] | dict[str, Any] | None) -> Callable[[int], float]:
        if schedule is None:
            lr = self.optimizer.lr
            return lambda step: lr
        if callable(schedule):
            return schedule
        if not isinstance(schedule, dict) or not isinstance(schedule.get("steps"), int):
            raise errors.UserError(
                'schedule is a function of the step, or a dict such as {"name": "cosine", "warmup_steps": 100, '
                '"steps": 1000}; steps is the length of the training'
            )
        torch = _binding.load()
        keys = {key: value for key, value in schedule.items() if key != "steps"}
        options = json.dumps({"data.type": "synthetic", "scheduler": keys,
                              "optimizer": {"learning_rate": self.optimizer.lr}})

        length = schedule["steps"]

        def rate(step: int) -> float:
            try:
                return float(torch.ops.plimsoll_python.learning_rate(options, step, length))
            except RuntimeError as error:
                raise _binding.error_of(torch, error) from None

        rate(1)  # refuses wrong keys now
        return rate

    # Steps

    def step(self, batch: Any, lr: float | None = None) -> float:
        """Runs one optimizer step: forward, backward, clipping, update.

        Args:
            batch: like the example batch, with the samples of a whole step.
            lr: learning rate; None: that of the schedule.

        Returns:
            the mean loss, a float. A step with gradients that are not finite changes nothing and counts in `skipped`.
        """
        parts = self._parts_of(batch)
        rate = self._rate(self.steps + 1) if lr is None else lr
        loss, self.gradient_norm, skipped = self._session.call("step", parts, float(rate))
        self.skipped += skipped
        return float(loss)

    skipped: int = 0
    gradient_norm: float = 0.0

    def profile(self, path: str | pathlib.Path, steps: int = 3) -> None:
        """Times the next `steps` steps op by op. The last of them writes the file, in Chrome's trace event format
        (ui.perfetto.dev), with module, phase, bytes and arithmetic of each op."""
        if steps < 1:
            raise errors.UserError(f"steps is {steps}: profile 1 step or more")
        self._session.call("profile", str(path), steps)

    def _parts_of(self, batch: Any) -> list[dict[str, Any]]:
        size, whole = self.plan.micro_batch, self.plan.batch_size
        tensors = self._shape.tensors_of(batch)
        samples = self._shape.samples_of(tensors)
        if samples != whole:
            raise errors.UserError(f"the batch has {samples} samples; a step of this plan has {whole}")
        return self._shape.parts(tensors, size)

    def fit(
        self,
        loader: Iterable[Any],
        epochs: int | None = None,
        steps: int | None = None,
        evaluate: Iterable[Any] | None = None,
        evaluate_every: int | None = None,
        callbacks: Iterable[Callable[[Trainer, int, float], Any]] = (),
        progress: bool = True,
    ) -> dict[str, Any]:
        """Trains on the batches of `loader`, any iterable. Batches are joined until they have the samples of a step.

        Args:
            loader: a DataLoader or another iterable; it is iterated once an epoch.
            epochs, steps: length; with both, the shorter. None and None: one epoch.
            evaluate: loader of held-out batches, or None.
            evaluate_every: steps between evaluations; None: at the end of each epoch.
            callbacks: functions that are called after each step with the trainer, the step and the loss; one that
                returns False ends the training.
            progress: shows a bar if tqdm is installed.

        Returns:
            a dict: losses (of each step), evaluations (list of (step, loss)), left_out (samples at the end of epochs that
            did not make a step). Ctrl-C ends after the step that runs, and raises KeyboardInterrupt.
        """
        result: dict[str, Any] = {"losses": [], "evaluations": [], "left_out": 0}
        epochs = 1 if epochs is None and steps is None else epochs
        if isinstance(loader, Iterator) and epochs is not None and epochs > 1:
            raise errors.UserError("loader is an iterator, which can be read once: pass a DataLoader or a list, or epochs=1")
        if isinstance(evaluate, Iterator) and (evaluate_every or epochs != 1):
            raise errors.UserError("evaluate is an iterator, which can be read once: pass a DataLoader or a list")
        if evaluate is not None:
            self._require_evaluation()
        if steps == 0:
            return result
        bar = self._bar(steps, progress)
        try:
            epoch = 0
            while epochs is None or epoch < epochs:
                before = len(result["losses"])
                for joined in self._steps_of(loader, result):
                    loss = self.step(joined)
                    result["losses"].append(loss)
                    if bar is not None:
                        bar.update()
                        bar.set_postfix(loss=f"{loss:.4g}")
                    count = len(result["losses"])
                    if evaluate is not None and evaluate_every and count % evaluate_every == 0:
                        result["evaluations"].append((self.steps, self.evaluate(evaluate)))
                    if any(callback(self, count, loss) is False for callback in callbacks):
                        return result
                    if steps is not None and count >= steps:
                        return result
                if len(result["losses"]) == before:
                    if epoch > 0:  # an iterator has ended
                        return result
                    raise errors.UserError(f"an epoch of the loader has less than the {self.plan.batch_size} samples of a step")
                if evaluate is not None and not evaluate_every:
                    result["evaluations"].append((self.steps, self.evaluate(evaluate)))
                epoch += 1
            return result
        finally:
            if bar is not None:
                bar.close()

    def _bar(self, steps: int | None, progress: bool) -> Any:
        if not progress:
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm(total=steps, unit="step", dynamic_ncols=True)

    def _steps_of(self, loader: Iterable[Any], result: dict[str, Any]) -> Iterator[Any]:
        """Yields batches with the samples of a step."""
        waiting: list[dict[str, Any]] = []
        samples, whole = 0, self.plan.batch_size
        for batch in loader:
            tensors = self._shape.tensors_of(batch)
            waiting.append(tensors)
            samples += self._shape.samples_of(tensors)
            while samples >= whole:
                joined = self._shape.joined(waiting)
                head, rest = self._cut(joined, whole)
                samples -= whole
                waiting = [rest] if samples else []
                yield self._shape.rebuilt(head.__getitem__)
        result["left_out"] += samples

    def _cut(self, tensors: dict[str, Any], size: int) -> tuple[dict[str, Any], dict[str, Any]]:
        static = self._shape.static
        head = {name: tensor if name in static else tensor[:size] for name, tensor in tensors.items()}
        rest = {name: tensor if name in static else tensor[size:] for name, tensor in tensors.items()}
        return head, rest

    def evaluate(self, loader: Iterable[Any]) -> float:
        """Returns the mean loss of the batches of `loader` in evaluation mode, over whole micro batches: samples at the
        end that do not make one are left out."""
        self._require_evaluation()
        total, count, size = 0.0, 0, self.plan.micro_batch
        waiting: list[dict[str, Any]] = []
        for batch in loader:
            tensors = self._shape.tensors_of(batch)
            for part in self._shape.parts(tensors, size):
                samples = self._shape.samples_of(part)
                if samples < size:
                    waiting.append(part)
                    continue
                total += self._session.call("evaluate", part) * samples
                count += samples
        if waiting:
            for part in self._shape.parts(self._shape.joined(waiting), size):
                samples = self._shape.samples_of(part)
                if samples == size:
                    total += self._session.call("evaluate", part) * samples
                    count += samples
        if count == 0:
            raise errors.UserError(f"there is nothing to evaluate: a micro batch of this plan has {size} samples")
        return total / count

    def _require_evaluation(self) -> None:
        if not self.plan._parts[4]:
            raise errors.UserError("evaluation was not planned: plimsoll.plan(…, evaluate=True)")

    # Weights and files

    def state_dict(self) -> dict[str, Any]:
        """Returns copies of parameters and buffers on the CPU, in the model's own names and dtypes."""
        tensors = dict(self._session.call("state"))

        def copied(tensor: Any) -> Any:  # torch's layout of tensors: safetensors and numpy files hold no other
            return tensor.to("cpu", copy=True) if tensor.is_contiguous() else tensor.to("cpu").contiguous()

        return {name: copied(tensors[first].detach()) for name, first in self._names.items()}

    def load_state_dict(
        self, state: Mapping[str, Any] | str | pathlib.Path, strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Sets parameters and buffers.

        Args:
            state: names and tensors, or a safetensors file, or a folder with such files. Files are read tensor by tensor.
            strict: False: names that are missing or unexpected are ignored.

        Returns:
            lists of the missing and of the unexpected names.
        """
        tensors = dict(self._session.call("state"))
        torch = _binding.load()
        found: set[str] = set()
        unexpected: list[str] = []
        for name, shape in _shapes(state):  # nothing is changed before all is checked
            if name not in self._names:
                unexpected.append(name)
                continue
            target = tensors.get(self._names[name])
            if target is None:  # recorded by the other parameter's name
                if strict:
                    raise errors.UserError(
                        f"{name} lies in the memory of another parameter and has its values; strict=False leaves it out"
                    )
                continue
            if shape != list(target.shape):
                raise errors.UserError(f"{name} has sizes {shape}; the model's has {list(target.shape)}")
            found.add(self._names[name])
        missing = [name for name, first in self._names.items() if first not in found]
        if strict and (missing or unexpected):
            raise errors.UserError(
                "the weights are not the model's: "
                + "; ".join(
                    ([f"missing {_listed(missing)}"] if missing else [])
                    + ([f"unexpected {_listed(unexpected)}"] if unexpected else [])
                )
                + "; strict=False ignores them"
            )
        with torch.no_grad():
            for name, value in _items(state):
                if self._names.get(name) in tensors:
                    tensors[self._names[name]].copy_(value)
        return missing, unexpected

    def save(self, path: str | pathlib.Path) -> None:
        """Writes weights, optimizer state and counters to one safetensors file, completely or not at all."""
        self._session.call("save", str(path))

    def load(self, path: str | pathlib.Path) -> None:
        """Goes on from a file of save(): the next step has the bits that it would have had there."""
        self._session.call("load", str(path))

    # The rest

    @property
    def steps(self) -> int:
        """Optimizer steps so far, skipped steps included."""
        return int(self._session.call("steps"))

    @property
    def used(self) -> int:
        """Highest bytes in use so far: those of the plan."""
        return int(self._session.call("used_bytes"))

    def close(self) -> None:
        """Frees the memory."""
        if not self._closed:
            self._closed = True
            self._session.call("close")

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<plimsoll.Trainer {'closed' if self._closed else _format_bytes(self.plan.peak)}>"


def _files(state: str | pathlib.Path) -> Iterator[Any]:
    """Yields the opened safetensors files of a file or folder."""
    path = pathlib.Path(state)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise errors.UserError(f"{path}: there is no safetensors file")
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise errors.UserError("reading safetensors files needs: pip install safetensors") from None
    for file in files:
        try:
            opened = safe_open(str(file), framework="pt")
        except SafetensorError as error:
            raise errors.UserError(f"{file} is no safetensors file ({error}); load others with torch.load()") from None
        with opened as each:
            yield each


def _shapes(state: Mapping[str, Any] | str | pathlib.Path) -> Iterator[tuple[str, list[int]]]:
    """Yields the names and sizes of a mapping or of safetensors files."""
    if isinstance(state, Mapping):
        yield from ((name, list(value.shape)) for name, value in state.items())
        return
    for file in _files(state):
        for name in file.keys():  # noqa: SIM118  (an opened file is no dict)
            yield name, list(file.get_slice(name).get_shape())


def _items(state: Mapping[str, Any] | str | pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields the names and tensors of a mapping or of safetensors files."""
    if isinstance(state, Mapping):
        yield from state.items()
        return
    for file in _files(state):
        for name in file.keys():  # noqa: SIM118
            yield name, file.get_tensor(name)


def _listed(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
