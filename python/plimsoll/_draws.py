"""Refuses steps that draw random numbers of Python or NumPy, by the states of their generators."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

from plimsoll import errors

DRAW_WITH_TORCH = "draw with torch (torch.rand(…, device=x.device)) and choose by torch.where()"
_MAX_DEPTH = 3  # of containers in attributes


@contextlib.contextmanager
def no_draws(model: Any) -> Iterator[None]:
    """Refuses a block that draws random numbers of Python or NumPy: each recorded step would have those drawn now."""
    generators = _generators() | {f"'{name}' of the model": value for name, value in _attributes(model)}
    states = {name: state for name, value in generators.items() if (state := _state_of(value)) is not None}
    yield
    for name, state in states.items():
        if _state_of(generators[name]) != state:
            raise errors.UserError(
                f"random numbers of {name} cannot be recorded: each step would have those that were drawn now; {DRAW_WITH_TORCH}")


def _attributes(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields name and value of what the modules have as attributes, and of what is in containers there."""
    for prefix, part in model.named_modules():
        for key, value in vars(part).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                yield from _contents(f"{prefix}.{key}" if prefix else key, value, _MAX_DEPTH)


def _contents(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (dict, list, tuple)):
        yield name, value
    elif depth > 0:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _contents(f"{name}[{key!r}]", each, depth - 1)


def _generators() -> dict[str, Any]:
    """Returns the generators behind functions of modules, whatever name a program has imported them by."""
    found = {"random": getattr(random, "_inst", None),
             "numpy.random": getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)}
    return {name: generator for name, generator in found.items() if generator is not None}


def _state_of(value: Any) -> Any:
    """Returns the state of a random number generator; None: it is none, or the system's."""
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else value.getstate()
    numpys = sys.modules.get("numpy.random")
    if numpys is None:
        return None
    if isinstance(value, numpys.RandomState):
        return _comparable(value.get_state(legacy=False))
    if isinstance(value, numpys.Generator):
        value = value.bit_generator
    return _comparable(value.state) if isinstance(value, numpys.BitGenerator) else None


def _comparable(state: Any) -> Any:
    """Returns a state of NumPy's with bytes in place of arrays."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state
