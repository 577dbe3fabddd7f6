"""Optimizers by PyTorch's names and defaults. Their state may be stored in fewer bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers have.

    Attributes:
        lr: learning rate of a step that states none.
        weight_decay: decoupled decay; not applied to norms and biases.
        state: storage of the running means: "parameters" (the dtype of the parameter), "float32", "bfloat16", "8bit",
            "4bit", or "auto": the most exact with which the plan fits.
        weight_update: what an update below the last bit of a 16-bit parameter does: "nearest", "stochastic", "kahan",
            "split", "master" or "auto" (docs/optimizers.md).
    """

    lr: float = 1e-3
    weight_decay: float = 1e-2
    state: str = "parameters"
    weight_update: str = "stochastic"

    def options(self) -> dict[str, Any]:
        """Returns the keys of section `optimizer` of a job file."""
        return {
            "name": type(self).__name__.lower(),
            "learning_rate": self.lr,
            "weight_decay": self.weight_decay,
            "state_dtype": self.state,
            "weight_update": self.weight_update,
        }

    def memory_options(self) -> dict[str, Any]:
        """Returns the keys that decide the bytes of a plan: all but the learning rate."""
        return {key: value for key, value in self.options().items() if key != "learning_rate"}


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), with the defaults of torch.optim.AdamW."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def options(self) -> dict[str, Any]:
        return super().options() | {"betas": list(self.betas), "eps": self.eps}


@dataclass(frozen=True)
class Lion(Optimizer):
    """Sign of an interpolated momentum (Chen et al. 2023)."""

    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)

    def options(self) -> dict[str, Any]:
        return super().options() | {"betas": list(self.betas)}


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum; its weight decay is decoupled, unlike torch.optim.SGD's."""

    weight_decay: float = 0.0
    momentum: float = 0.0

    def options(self) -> dict[str, Any]:
        return super().options() | {"momentum": self.momentum}


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adam with factored second moments (Shazeer and Stern 2018): almost no state."""


@dataclass(frozen=True)
class Muon(Optimizer):
    """Orthogonalized momentum for matrices (Jordan et al. 2024); embeddings, heads and vectors get AdamW."""

    momentum: float = 0.95

    def options(self) -> dict[str, Any]:
        return super().options() | {"momentum": self.momentum}
