"""Loads the libraries when they are first needed, and passes calls between Python and the recorder.

The library records a model on a device of its own, in a slot of torch that nothing else uses (IPU). torch.accelerator,
torch.compile and others go on as before: outside of `recording()` nothing of torch is changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import re
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from plimsoll import errors
from plimsoll._draws import no_draws
from plimsoll._layout import Layout
from plimsoll._recording import DEVICE, recording

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)
MAKE_MODEL, COMPUTE_LOSS, TRAINING_MODE, EVALUATION_MODE, SCHEDULE = range(5)
# How the recorder refuses a call.
_REFUSAL = re.compile(r"cannot be recorded|^operator aten::|was made on the plan device|while it is recorded")

_lock = threading.Lock()
_loaded = False


def load() -> Any:
    """Imports torch and loads the libraries; returns torch. Raises UserError if this process cannot have them."""
    global _loaded
    import torch

    with _lock:
        if _loaded:
            return torch
        library = _library(torch)
        try:
            torch.classes.load_library(str(library))
        except OSError as error:
            raise errors.UserError(f"plimsoll's library cannot be loaded: {error.__cause__ or error}") from None
        _loaded = True
        return torch


def _library(torch: Any) -> pathlib.Path:
    """Returns the library for this torch. Raises UserError if the package has no build for it."""
    from plimsoll._build import TORCHES
    from plimsoll.launcher import series_of

    found = torch.__version__.split("+")[0]
    if series_of(found) not in TORCHES:
        raise errors.UserError(
            f"this build of plimsoll is for torch {' or '.join(TORCHES)}, and torch {found} is installed: "
            f"pip install 'torch=={list(TORCHES)[-1]}.*'"
        )
    return pathlib.Path(__file__).resolve().parent / str(TORCHES[series_of(found)]) / "lib" / "libplimsoll_python.so.0"


def _answer_of(reference: weakref.ref[Session], request: int) -> int:
    session = reference()
    return session._answer(request) if session is not None else 1


class Session:
    """One training of the library, and the Python functions that it calls.

    `make` returns a module; `compute` takes the module and a function from an input's name to its tensor, and returns
    the loss. Both run while the step is recorded, on plan tensors. `options`: keys of the job file, "replace", whether each
    replacement is made, and "max_slowdown".

    Attributes:
        checkpoints: calls of torch.utils.checkpoint so far.
        counters: names of Python numbers of modules that have changed in forward.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        compute: Callable[[Any, Callable[[str], Any]], Any],
        options: dict[str, Any],
        inputs: list[tuple[str, list[int], int]],
        device: str,
        evaluates: bool,
        on_schedule: Callable[[], None] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._torch = load()
        self.checkpoints = 0
        self._make, self._compute, self._on_schedule = make, compute, on_schedule
        self._layout = layout or Layout(wanted=False, norms=False)
        self._model: Any = None
        self._error: BaseException | None = None
        me = weakref.ref(self)  # a cycle would keep the memory of a dropped trainer
        self._callback = _CALLBACK(lambda request: _answer_of(me, request))
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self._one_at_a_time = threading.RLock()
        self._modes: dict[Any, bool] = {}
        self.counters: dict[str, None] = {}
        self._autocast_device = {"cpu": "cpu", "mps": "mps"}.get(options["device"], "cuda")  # torch's name of ROCm too
        self._norms: bool = options["replace"]["norms"]
        self._session: Any = None
        keys = {key: value for key, value in options.items() if key not in ("replace", "max_slowdown")}
        self._session = self._checked(
            self._torch.classes.plimsoll_python.Session, address, json.dumps(keys), inputs, device, evaluates,
            [name for name, on in options["replace"].items() if on],
        )

    def call(self, name: str, *args: Any) -> Any:
        """Calls a method of the library's session, and raises the user's or plimsoll's own exception."""
        with self._one_at_a_time:  # a step of one thread and a close() of another
            return self._checked(getattr(self._session, name), *args)

    def _checked(self, function: Callable[..., Any], *args: Any) -> Any:
        self._error = None
        try:
            return function(*args)
        except RuntimeError as error:
            if self._error is not None:
                raised, self._error = self._error, None
                raise named_at_its_line(raised)  # noqa: B904  (its own cause stays)
            raise error_of(self._torch, error) from None
        finally:
            self._model, self._modes = None, {}

    def _answer(self, request: int) -> int:
        try:
            if request == SCHEDULE:
                if self._on_schedule:
                    self._on_schedule()
            elif request == MAKE_MODEL:
                self._make_model()
            elif request == COMPUTE_LOSS:
                self._torch.ops.plimsoll_recorder.replace_norms(self._norms)
                with self._recording(computes=True), self._state(), no_draws(self._model):
                    loss = self._compute(self._model, self._session.input)
                self._session.set_loss(loss)
            else:
                self._model.train(request == TRAINING_MODE)
                if request == TRAINING_MODE:  # parts that the model function set to evaluation stay in it
                    for part, training in self._modes.items():
                        part.training = training
            return 0
        except BaseException as error:  # raised again where the library was called
            self._error = error
            return 1

    def _recording(self, computes: bool) -> contextlib.AbstractContextManager[None]:
        return recording(self._torch, self._autocast_device, self._note_checkpoint, computes, self._layout)

    def _note_checkpoint(self) -> None:
        self.checkpoints += 1

    @contextlib.contextmanager
    def _state(self) -> Iterator[None]:
        """Notes what a forward pass puts in the place of the model's state, so that the next one begins with its values."""
        torch, modules = self._torch, dict(self._model.named_modules())
        before = {name: (dict(module._buffers), {
            key: value for key, value in vars(module).items() if isinstance(value, (torch.Tensor, int, float))
        }) for name, module in modules.items()}
        yield
        for path, module in modules.items():
            buffers, attributes = before[path]
            for key, buffer in buffers.items():
                value = module._buffers.get(key)
                if value is buffer or buffer is None:
                    continue
                if value is None:
                    raise errors.UserError(f"forward removes the buffer '{_joined(path, key)}': set it to values, or leave it")
                module._buffers[key] = buffer
                self._session.assign(buffer, value)
            for key, now in list(vars(module).items()):
                was = attributes.get(key, getattr(type(module), key, None))
                if isinstance(was, torch.Tensor):
                    if now is not was and self._session.reads(was):
                        raise errors.UserError(f"forward reads the tensor '{_joined(path, key)}' and replaces it: make it with "
                                               "register_buffer(), so that the next step and checkpoints have it")
                elif isinstance(was, (int, float)) and isinstance(now, (int, float)) and now != was:
                    self.counters[_joined(path, key)] = None

    def _make_model(self) -> None:
        torch = self._torch
        with self._recording(computes=False):
            self._model = self._make()
        if not isinstance(self._model, torch.nn.Module):
            raise errors.UserError(f"the model function returned {type(self._model).__name__}, not a torch.nn.Module")
        self._modes = {part: part.training for part in self._model.modules()} if self._model.training else {}
        for members, is_parameter in (
            (self._model.named_parameters(remove_duplicate=False), True),
            (self._model.named_buffers(remove_duplicate=False), False),
        ):
            for name, tensor in members:
                if tensor.device.type != DEVICE:
                    raise errors.UserError(
                        f"{name} is on {tensor.device}: make the model inside the model function, and leave out the "
                        "device; weights are loaded with Trainer.load_state_dict()"
                    )
                self._session.add(name, tensor, is_parameter)
        _name_modules(torch, self._model)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _name_modules(torch: Any, model: Any) -> None:
    """Lets the recorder know whose forward runs: an op belongs to that module."""
    running = [""]

    def enter(name: str) -> Callable[..., None]:
        def hook(module: Any, *args: Any) -> None:
            running.append(name)
            torch.ops.plimsoll_python.set_module(name)

        return hook

    def leave(module: Any, *args: Any) -> None:
        running.pop()
        torch.ops.plimsoll_python.set_module(running[-1])

    for name, module in model.named_modules():
        module.register_forward_pre_hook(enter(name))
        module.register_forward_hook(leave, always_call=True)


def named_at_its_line(error: BaseException) -> BaseException:
    """Returns a refusal of the recorder as UserError with the user's line; other exceptions as they are."""
    text = str(error).split("\nException raised from")[0]
    if type(error) is not RuntimeError or not _REFUSAL.search(text):
        return error
    ours, torchs = str(pathlib.Path(__file__).parent), f"{os.sep}torch{os.sep}"
    lines = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours) and torchs not in frame.filename
    ]
    place = f"\n  {lines[-1].filename}:{lines[-1].lineno}: {lines[-1].line}" if lines else ""
    return errors.UserError(text + place).with_traceback(error.__traceback__)


def error_of(torch: Any, error: RuntimeError) -> Exception:
    """Returns plimsoll's exception for an error of the library."""
    text = torch.ops.plimsoll_python.last_error()
    if not text:
        named = named_at_its_line(error)
        return named if isinstance(named, Exception) else error
    found = json.loads(text)
    message = re.sub(r"options(:\d+)*: ", "", found["text"]).strip().replace("process_budget", "process_memory")
    kinds: dict[str, type[Exception]] = {
        "usage": errors.UserError,
        "failure": errors.RunError,
        "does_not_fit": errors.PlanDoesNotFit,
    }
    return kinds.get(found["kind"], errors.InternalError)(message)
