"""Weights of convolutions with channels last, the layout that oneDNN computes fastest in networks with batch norms."""

from __future__ import annotations

import collections
from typing import Any

from plimsoll import errors


def is_free(keys: dict[str, Any]) -> bool:
    """Returns whether the layout of weights changes nothing but speed and rounding, by the keys of the job file.

    State of 8 or 4 bits, Adafactor and Muon go by rows or blocks of numbers as they lie in memory."""
    optimizer = keys["optimizer"]
    return (keys["device"] == "cpu" and keys["devices"] == 1 and optimizer["name"] in ("adamw", "lion", "sgd")
            and optimizer["state_dtype"] in ("parameters", "float32", "bfloat16"))


class Layout:
    """The layout of the weights of a plan's model: channels last in networks with batch norms, if `wanted`.

    Results of convolutions, norms, pooling and pointwise operators follow the weights. On 2 cores with AVX-512, forward
    and backward of 10 networks of timm took 0.62 to 0.9 times as long with batch norms, and as long without. A U-Net of
    diffusers with group norms took 1.01 times as long, and an instance norm copies its input: models with these keep their
    layout. `norms`: whether group norms are recorded as the library's operator."""

    def __init__(self, wanted: bool, norms: bool) -> None:
        self.wanted, self.norms, self.weights = wanted, norms, 0

    def apply(self, torch: Any, model: Any) -> None:
        layers, parts = torch.nn, list(model.modules())
        self.weights = 0
        if not self.wanted or not any(isinstance(part, layers.BatchNorm2d) for part in parts):
            return
        if any(isinstance(part, (layers.GroupNorm, layers.InstanceNorm2d)) for part in parts):
            return
        # `.data = ...` would end the sharing of memory with another parameter.
        parameters = collections.Counter(each.untyped_storage()._cdata for each in model.parameters())
        for part in parts:
            of_convolution = isinstance(part, (layers.Conv2d, layers.ConvTranspose2d))
            weight = part._parameters.get("weight") if of_convolution else None
            if weight is None or weight.dim() != 4 or weight.is_contiguous(memory_format=torch.channels_last):
                continue
            if parameters[weight.untyped_storage()._cdata] > 1:
                continue
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
            self.weights += 1

    def gives_way(self, error: Exception) -> bool:
        """Returns whether an error may be of code that needs torch's layout, such as x.view(len(x), -1) or an assertion of the
        model, or is of a second derivative of a norm; the next model has torch's layout or norms."""
        text = str(error)
        if self.norms and "group_norm_backward" in text:
            self.norms = False
            return True
        ours = isinstance(error, (errors.UserError, errors.RunError, errors.InternalError))
        about_layout = any(word in text for word in ("view size is not compatible", "contiguous", "stride"))
        if self.weights == 0 or (ours and not about_layout):
            return False
        self.wanted, self.weights = False, 0
        return True

    def reasons(self) -> list[tuple[str, str]]:
        if self.weights == 0:
            return []
        which = f"s of {self.weights} convolutions are" if self.weights > 1 else " of 1 convolution is"
        return [(
            "replace: channels_last",
            f"the weight{which} stored with channels last, in which convolutions, norms and pooling are faster; "
            'results are rounded differently, and replace={"channels_last": False} keeps PyTorch\'s layout',
        )]
