"""Trains PyTorch models inside a memory budget that is stated in bytes.

    plan = plimsoll.plan(make_model, compute_loss, example_batch, memory="8GiB")
    trainer = plimsoll.Trainer(plan, optimizer=plimsoll.AdamW(2e-4))
    for batch in loader:
        loss = trainer.step(batch)
    model.load_state_dict(trainer.state_dict())

The package also has Plimsoll's program, libraries and headers:

    plimsoll.__version__       the version
    plimsoll.cmake_path()      a folder for CMAKE_PREFIX_PATH; find_package(plimsoll) finds the package in it
    plimsoll.include_path()    the folder of the C++ headers
    plimsoll.library_path()    the folder of libplimsoll
    plimsoll.program_path()    the program that the command `plimsoll` starts

Importing this module does not import torch and loads no library; the first plan() does.
"""
from __future__ import annotations

import importlib
import os

from plimsoll._build import VERSION as __version__
from plimsoll.errors import InternalError, PlanDoesNotFit, RunError, UserError

TYPE_CHECKING = False  # importing typing and pathlib would take most of the time of this import
if TYPE_CHECKING:
    from typing import Any

    from plimsoll.catalogue import devices
    from plimsoll.optimizers import SGD, Adafactor, AdamW, Lion, Muon
    from plimsoll.planning import Plan, fits, plan
    from plimsoll.trainer import Trainer

__all__ = [
    "Adafactor",
    "AdamW",
    "InternalError",
    "Lion",
    "Muon",
    "Plan",
    "PlanDoesNotFit",
    "RunError",
    "SGD",
    "Trainer",
    "UserError",
    "__version__",
    "cmake_path",
    "devices",
    "fits",
    "include_path",
    "library_path",
    "plan",
    "program_path",
]

_FOLDER = os.path.dirname(os.path.realpath(__file__))
# What is imported when it is first used, by module.
_LATER = {
    **dict.fromkeys(("Adafactor", "AdamW", "Lion", "Muon", "SGD"), "optimizers"),
    **dict.fromkeys(("Plan", "fits", "plan"), "planning"),
    "Trainer": "trainer",
    "devices": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")
    return getattr(importlib.import_module(f"plimsoll.{_LATER[name]}"), name)


def cmake_path() -> str:
    """Returns the folder to put into CMAKE_PREFIX_PATH."""
    return _FOLDER


def include_path() -> str:
    """Returns the folder of the C++ headers: #include "plimsoll/training.h" starts from it."""
    return os.path.join(_FOLDER, "include")


def _build_folder() -> str:
    """Returns the folder of the build for the installed torch; that of the first one where no build is for it."""
    from plimsoll import launcher
    from plimsoll._build import TORCHES

    torch = launcher.find_torch(launcher.FOLDER)
    series = launcher.series_of(launcher.version_of(torch)) if torch else ""
    return os.path.join(_FOLDER, str(TORCHES.get(series, "")))


def library_path() -> str:
    """Returns the folder of libplimsoll, for the installed torch, and of the libraries that it loads on demand."""
    return os.path.join(_build_folder(), "lib")


def program_path() -> str:
    """Returns the program for the installed torch. It finds libtorch by itself only if torch is installed in the folder that has
    this package."""
    return os.path.join(_build_folder(), "bin", "plimsoll")
