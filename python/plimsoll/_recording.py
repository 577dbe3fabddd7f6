"""What torch answers while the library records a model, and only on the thread that records."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from plimsoll import errors
from plimsoll._draws import DRAW_WITH_TORCH
from plimsoll._layout import Layout

DEVICE = "ipu"  # torch's name of the slot that plan tensors are in
_MODE = "TESTING_ONLY_GenericMode"  # dispatch key that is included on a thread while it records


@contextlib.contextmanager
def recording(
    torch: Any, autocast_device: str, on_checkpoint: Callable[[], None], computes: bool, layout: Layout
) -> Iterator[None]:
    """Makes tensors of factory functions plan tensors, and lets libraries see that the model is being traced.

    Args:
        autocast_device: torch's type of the device that the step is planned for, whose autocast blocks have an effect.
        on_checkpoint: called for each call of torch.utils.checkpoint, whose function is recorded as if called itself.
        computes: a step is computed, and not the model made.
        layout: that of the model. With `norms`, group norms, and batch norms with channels last, are recorded as the library's
            own operator.
    """
    # torch imports it when it first calls a shape rule in Python. In 2.15 the import reads Tensor.__new__, which is replaced below.
    importlib.import_module("torch._dynamo")
    name = f"torch.{DEVICE}"
    nested = hasattr(torch, DEVICE)
    compiling = torch.compiler._is_compiling_flag
    if not nested:
        module = _device_module(torch)
        setattr(torch, DEVICE, module)
        sys.modules[name] = module
    torch.compiler._is_compiling_flag = _OnThread(_records(torch))
    try:
        with contextlib.ExitStack() as blocks:
            blocks.enter_context(torch.device(DEVICE))
            for block in (_autocast(torch, autocast_device), _checkpoint(torch, on_checkpoint), _experts(torch), _bags(torch),
                          _variances(torch), _distributions(torch), _averages(torch), _sizes(torch), _truncated_normals(torch)):
                blocks.enter_context(block)
            if computes:
                blocks.enter_context(_draws(torch))
            if computes and layout.norms:
                blocks.enter_context(_norms(torch))
            if computes and layout.weights > 0:
                blocks.enter_context(_strides(torch))
            yield
    finally:
        torch.compiler._is_compiling_flag = compiling
        if not nested:
            delattr(torch, DEVICE)
            sys.modules.pop(name, None)


def _device_module(torch: Any) -> Any:
    """Returns a stand-in for torch.cuda of the plan device."""
    module: Any = types.ModuleType(f"torch.{DEVICE}")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._lazy_init = lambda: None
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda *args: torch.zeros(1, dtype=torch.uint8)
    module.set_rng_state = lambda *args: None
    return module


def _records(torch: Any) -> Callable[[], bool]:
    """Returns a function that says whether the calling thread records."""
    key = torch._C._dispatch_key_parse(_MODE)
    return lambda: bool(torch._C._dispatch_tls_is_dispatch_key_included(key))


class _OnThread:
    """A flag of torch's that is set on the recording thread only. It is used like a bool."""

    def __init__(self, records: Callable[[], bool]) -> None:
        self._records = records

    def __bool__(self) -> bool:
        return self._records()

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __ror__, __rand__ = __or__, __and__
    __hash__ = None  # type: ignore[assignment]


@contextlib.contextmanager
def _replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Sets attributes of `owner` while the block runs."""
    before = {name: owner.__dict__.get(name) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextlib.contextmanager
def _autocast(torch: Any, target: str) -> Iterator[None]:
    """Makes autocast blocks for the device of plan tensors blocks for the device that is planned for.

    The library applies the autocast state of `target` to plan tensors. `torch.autocast(x.device.type)` names the plan
    device, and torch turns blocks for CUDA off on a machine without it."""
    records = _records(torch)
    block = torch.amp.autocast_mode.autocast
    original = block.__init__

    @functools.wraps(original)
    def begin(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not records():
            original(self, device_type, dtype, enabled, cache_enabled)
            return
        device_type = target if device_type == DEVICE else device_type
        absent = device_type == target == "cuda" and not torch.cuda.is_available()
        original(self, device_type, dtype, enabled and not absent, cache_enabled)
        if absent:
            self._enabled = enabled

    def of_target(function: Callable[..., Any]) -> Callable[..., Any]:
        def swap(each: Any) -> Any:
            return target if isinstance(each, str) and each == DEVICE else each

        return lambda *args, **named: function(*map(swap, args), **{name: swap(each) for name, each in named.items()})

    mode = torch.amp.autocast_mode
    cast = mode._cast

    def cast_plan(value: Any, device_type: str, dtype: Any) -> Any:
        return cast(value, DEVICE if records() and device_type == target else device_type, dtype)

    names = ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype")
    states = {name: of_target(getattr(torch, name)) for name in names}
    with _replaced(block, __init__=begin), _replaced(mode, _cast=cast_plan), _replaced(torch, **states):
        yield


@contextlib.contextmanager
def _checkpoint(torch: Any, on_call: Callable[[], None]) -> Iterator[None]:
    """Lets torch.utils.checkpoint.checkpoint() call its function: the budget decides what is recomputed.

    Libraries import the function by name. torch's wrapper around it calls what its attribute __dynamo_disable has."""
    import torch.utils.checkpoint

    records = _records(torch)
    checkpoint = torch.utils.checkpoint.checkpoint.__wrapped__
    own = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}

    def call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if not records():
            return torch._dynamo.disable(checkpoint, wrapping=False)(function, *args, **options)
        on_call()
        return function(*args, **{name: value for name, value in options.items() if name not in own})

    with _replaced(checkpoint, __dynamo_disable=call):
        yield


@contextlib.contextmanager
def _experts(torch: Any) -> Iterator[None]:
    """Lets mixtures of transformers compute their experts by one grouped product.

    While a model is traced, and with weights other than bfloat16, transformers loops over the experts and reads how many
    rows each has."""
    module = sys.modules.get("transformers.integrations.moe")
    original = getattr(module, "_can_use_grouped_mm", None)
    if original is None:
        yield
        return
    records = _records(torch)
    with _replaced(module, _can_use_grouped_mm=lambda *args: records() or original(*args)):
        yield


@contextlib.contextmanager
def _sizes(torch: Any) -> Iterator[None]:
    """Makes torch.Tensor(sizes) a plan tensor: the old constructor takes no notice of the default device."""
    records, tensor_class = _records(torch), torch.Tensor
    original = tensor_class.__new__

    def make(owner: Any, *args: Any, **options: Any) -> Any:
        sizes = args[0] if len(args) == 1 and isinstance(args[0], torch.Size) else args
        if owner is tensor_class and args and not options and all(type(each) is int for each in sizes) and records():
            return torch.empty(tuple(sizes), device=DEVICE)
        return original(owner, *args, **options)

    with _replaced(tensor_class, __new__=staticmethod(make)):
        yield


@contextlib.contextmanager
def _bags(torch: Any) -> Iterator[None]:
    """Computes embedding bags by an embedding and a sum, mean or maximum over each bag.

    The sizes of further results of torch's own operator depend on the kernel that runs."""
    records, functional = _records(torch), torch.nn.functional
    original = functional.embedding_bag

    @functools.wraps(original)
    def bag(input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
            scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
            include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
        given = {"max_norm": max_norm is not None, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        if records() and any(given.values()):
            names = " and ".join(name for name, value in given.items() if value)
            raise errors.UserError(f"operator aten::_embedding_bag cannot be recorded with {names}: leave it out")
        ours = records() and input.dim() == (2 if offsets is None else 1)
        if not ours or mode not in ("sum", "mean", "max") or (per_sample_weights is not None and mode != "sum"):
            return original(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
                            include_last_offset, padding_idx)
        rows = functional.embedding(input, weight)
        counted = torch.ones_like(input, dtype=torch.float32)
        if padding_idx is not None:
            counted = (input != padding_idx % weight.shape[0]).float()
            counts = counted.to(rows.dtype).unsqueeze(-1)
            rows = rows * counts if mode != "max" else rows.masked_fill(counts == 0, -math.inf)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        if offsets is None:
            if mode == "max":
                highest = rows.max(1).values
                return highest.masked_fill(highest == -math.inf, 0)
            total = rows.sum(1)
            return total if mode == "sum" else (total / counted.sum(1).clamp(min=1).unsqueeze(-1)).to(rows.dtype)
        bags, length = offsets.shape[0] - include_last_offset, input.shape[0]
        begins = offsets.new_zeros(length + 1).index_add(0, offsets[:bags], torch.ones_like(offsets[:bags]))
        bag_of = begins.cumsum(0)[:length] - 1
        zeros = rows.new_zeros(bags, rows.shape[1])
        if mode == "max":
            highest = zeros.scatter_reduce(0, bag_of.unsqueeze(-1).expand_as(rows), rows, "amax", include_self=False)
            return highest.masked_fill(highest == -math.inf, 0)
        total = zeros.index_add(0, bag_of, rows)
        if mode == "sum":
            return total
        numbers = counted.new_zeros(bags).index_add(0, bag_of, counted).clamp(min=1)
        return (total / numbers.unsqueeze(-1)).to(rows.dtype)

    with _replaced(functional, embedding_bag=bag):
        yield


@contextlib.contextmanager
def _variances(torch: Any) -> Iterator[None]:
    """Computes gaussian_nll_loss() without torch's check that no variance is negative, which reads values."""
    records, functional = _records(torch), torch.nn.functional
    original = functional.gaussian_nll_loss

    @functools.wraps(original)
    def loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
        if not records() or isinstance(var, float) or reduction not in ("none", "mean", "sum"):
            return original(input, target, var, full, eps, reduction)
        if var.shape != input.shape:
            differing = [size for of_input, size in zip(input.shape, var.shape) if of_input != size]
            if var.shape == input.shape[:-1]:
                var = var.unsqueeze(-1)
            elif input.ndim != var.ndim or sum(differing) != 1:
                raise ValueError("var is of incorrect size")
        var = var.clone()
        with torch.no_grad():
            var.clamp_(min=eps)
        losses = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
        if full:
            losses = losses + 0.5 * math.log(2 * math.pi)
        return {"none": lambda: losses, "mean": losses.mean, "sum": losses.sum}[reduction]()

    with _replaced(functional, gaussian_nll_loss=loss):
        yield


@contextlib.contextmanager
def _distributions(torch: Any) -> Iterator[None]:
    """Lets torch.distributions leave out their checks of arguments, which read values, unless the caller asks for them."""
    records, owner = _records(torch), torch.distributions.Distribution
    checks = owner._validate_args
    with _replaced(owner, _validate_args=_OnThread(lambda: bool(checks) and not records())):
        yield


@contextlib.contextmanager
def _draws(torch: Any) -> Iterator[None]:
    """Refuses random numbers of Python and NumPy: drawn while a step is recorded, they would be the same in each step."""
    records = _records(torch)

    def refused(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(draw)
        def call(*args: Any, **options: Any) -> Any:
            if records():
                raise errors.UserError(
                    f"{name}() cannot be recorded: each step would have the number that it returns now; {DRAW_WITH_TORCH}")
            return draw(*args, **options)

        return call

    modules = {"random": getattr(sys.modules.get("random"), "_inst", None),
               "numpy.random": getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)}
    kept = {"seed", "getstate", "setstate", "get_state", "set_state"}
    with contextlib.ExitStack() as blocks:
        for name, generator in modules.items():
            if generator is not None:
                found = {key: value for key, value in vars(sys.modules[name]).items()
                         if getattr(value, "__self__", None) is generator and key not in kept}
                blocks.enter_context(_replaced(
                    sys.modules[name], **{key: refused(f"{name}.{key}", value) for key, value in found.items()}))
        yield


@contextlib.contextmanager
def _averages(torch: Any) -> Iterator[None]:
    """Lets batch norms with momentum=None average over all steps by their counter, which torch's own code reads."""
    records, owner = _records(torch), torch.nn.modules.batchnorm._BatchNorm
    original = owner.forward

    @functools.wraps(original)
    def forward(self: Any, input: Any) -> Any:
        if not records() or self.momentum is not None or not self.training or self.num_batches_tracked is None:
            return original(self, input)
        self._check_input_dim(input)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            part = 1.0 / self.num_batches_tracked.float()
            dims = [dim for dim in range(input.dim()) if dim != 1]
            variance, mean = torch.var_mean(input.float(), dims)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
            self.running_var.lerp_(variance.to(self.running_var.dtype), part)
        return torch.nn.functional.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)

    with _replaced(owner, forward=forward):
        yield


@contextlib.contextmanager
def _norms(torch: Any) -> Iterator[None]:
    """Records group norms, and batch norms with channels last, as plimsoll::group_norm, which computes an activation
    behind it too."""
    records, functional, ops = _records(torch), torch.nn.functional, torch.ops.plimsoll
    group_norm, batch_norm = functional.group_norm, functional.batch_norm

    def takes(input: Any, weight: Any, bias: Any) -> bool:
        return (records() and weight is not None and bias is not None and input.device.type == DEVICE and input.numel() > 0
                and input.is_floating_point() and (input.dtype == torch.float64) == (weight.dtype == torch.float64)
                and not torch._C._are_functorch_transforms_active() and torch.autograd.forward_ad._current_level < 0)

    @functools.wraps(group_norm)
    def of_groups(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        if not takes(input, weight, bias) or input.dim() < 3 or input.shape[1] % num_groups != 0:
            return group_norm(input, num_groups, weight, bias, eps)
        if input.numel() == input.shape[0] * num_groups:  # one value a group: torch's error
            return group_norm(input, num_groups, weight, bias, eps)
        result = ops.group_norm(input, weight, bias, num_groups, eps)[0]
        return result if input.dim() in (4, 5) else result.contiguous()  # torch knows channels last of pictures and volumes only

    @functools.wraps(batch_norm)
    def of_batch(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
                 momentum: float = 0.1, eps: float = 1e-5) -> Any:
        if (not training or not takes(input, weight, bias) or input.dim() != 4 or input.is_contiguous()
                or not input.is_contiguous(memory_format=torch.channels_last) or (running_mean is None) != (running_var is None)):
            return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        channels, count = input.shape[1], input.numel() // input.shape[1]
        out, mean, variance = ops.group_norm(input, weight, bias, channels, eps, True)
        if running_mean is not None:
            with torch.no_grad():
                running_mean.mul_(1 - momentum).add_(mean[0], alpha=momentum)
                running_var.mul_(1 - momentum).add_(variance[0], alpha=momentum * count / (count - 1))
        return out

    with _replaced(functional, group_norm=of_groups, batch_norm=of_batch):
        yield


@contextlib.contextmanager
def _strides(torch: Any) -> Iterator[None]:
    """Refuses as_strided() of tensors that have channels last because their weights have: it would read another order."""
    records = _records(torch)

    def checked(original: Any) -> Any:
        @functools.wraps(original)
        def as_strided(input: Any, *args: Any, **kwargs: Any) -> Any:
            if records() and input.device.type == DEVICE and not input.is_contiguous():
                raise errors.UserError("as_strided() of a tensor that is not contiguous")
            return original(input, *args, **kwargs)

        return as_strided

    with _replaced(torch, as_strided=checked(torch.as_strided)), \
            _replaced(torch.Tensor, as_strided=checked(torch.Tensor.as_strided)):
        yield


@contextlib.contextmanager
def _truncated_normals(torch: Any) -> Iterator[None]:
    """Draws truncated normal numbers by the inverse of their distribution, as torch 2.11 does.

    torch 2.15 draws again while a number is out of range, which reads values."""
    records, owner = _records(torch), torch.nn.init
    original = owner._no_grad_trunc_normal_

    def below(bound: float) -> float:
        return (1.0 + math.erf(bound / math.sqrt(2.0))) / 2.0

    @functools.wraps(original)
    def draw(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None) -> Any:
        if not records():
            return original(tensor, mean, std, a, b, generator=generator)
        with torch.no_grad():
            tensor.uniform_(2 * below((a - mean) / std) - 1, 2 * below((b - mean) / std) - 1, generator=generator)
            return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)

    with _replaced(owner, _no_grad_trunc_normal_=draw):
        yield
