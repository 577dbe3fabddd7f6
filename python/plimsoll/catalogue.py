"""The devices that a plan can be made for without having one."""

from __future__ import annotations

import json
from typing import Any

from plimsoll import _binding


def devices() -> list[dict[str, Any]]:
    """Returns the catalogue: a list of dicts with id, name, vendor, memory_bytes."""
    torch = _binding.load()
    found: list[dict[str, Any]] = json.loads(torch.ops.plimsoll_python.devices())
    return found
