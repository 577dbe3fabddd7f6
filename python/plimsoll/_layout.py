"""Weights of convolutions with channels last, the layout that oneDNN computes fastest in networks with batch norms."""

from __future__ import annotations

from typing import Any


def is_free(keys: dict[str, Any]) -> bool:
    """Returns whether the layout of weights changes nothing but speed and rounding, by the keys of the job file.

    State of 8 or 4 bits, Adafactor and Muon go by rows or blocks of numbers as they lie in memory."""
    optimizer = keys["optimizer"]
    return (keys["device"] == "cpu" and keys["devices"] == 1 and optimizer["name"] in ("adamw", "lion", "sgd")
            and optimizer["state_dtype"] in ("parameters", "float32", "bfloat16"))


def store_channels_last(torch: Any, model: Any) -> int:
    """Changes the layout of the convolutions' weights in a network with batch norms; returns how many have changed.

    Results of convolutions, norms, pooling and pointwise operators follow the weights. On 2 cores with AVX-512, forward
    and backward of 10 networks of timm took 0.62 to 0.9 times as long with batch norms, and as long without. torch's
    backward of a group norm takes 20 times as long with channels last, and an instance norm copies its input: models with
    these keep their layout."""
    layers = torch.nn
    if not any(isinstance(part, layers.BatchNorm2d) for part in model.modules()):
        return 0
    if any(isinstance(part, (layers.GroupNorm, layers.InstanceNorm2d)) for part in model.modules()):
        return 0
    changed = 0
    for part in model.modules():
        weight = part._parameters.get("weight") if isinstance(part, layers.Conv2d) else None
        if weight is None or weight.dim() != 4 or weight.is_contiguous(memory_format=torch.channels_last):
            continue
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        changed += 1
    return changed


def is_of_layout(error: Exception) -> bool:
    """Returns whether code of the model needs the layout that torch gives it, such as x.view(len(x), -1)."""
    text = str(error)
    return "view size is not compatible" in text or "contiguous" in text or "stride" in text


def reason(weights: int) -> tuple[str, str]:
    which = f"{weights} convolutions are" if weights > 1 else "1 convolution is"
    return (
        "replace: channels_last",
        f"the weight{'s' if weights > 1 else ''} of {which} stored with channels last, in which convolutions, batch norms and "
        'pooling are faster; results are rounded differently, and replace={"channels_last": False} keeps PyTorch\'s layout',
    )
