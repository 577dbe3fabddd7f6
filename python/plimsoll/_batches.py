"""Batches as DataLoaders give them: tensors in dicts, lists and tuples. Each tensor is one input of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from plimsoll import errors


def name_of(path: Iterable[Any]) -> str:
    """Returns the name of an input: "input_ids", "1", "image.pixels"."""
    words = []
    for key in path:
        for attribute in ("key", "idx", "name"):
            if hasattr(key, attribute):
                words.append(str(getattr(key, attribute)))
                break
    return ".".join(words) or "batch"


def _plain(value: Any) -> Any:
    """Returns a batch whose mappings are dicts: tokenizers return mappings of their own."""
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


class BatchShape:
    """The structure of a batch, and the sizes and dtypes of its tensors.

    Attributes:
        samples: first size of the tensors that are not static.
        names: of the inputs, in order.
    """

    def __init__(self, torch: Any, example: Any, static: Iterable[str] = ()) -> None:
        import torch.utils._pytree as pytree

        self._torch, self._pytree = torch, pytree
        static = [static] if isinstance(static, str) else list(static)
        leaves, self._structure = pytree.tree_flatten_with_path(_plain(example))
        self._constants: dict[int, Any] = {}  # leaves that are no tensors, by place
        self._numbers: dict[str, Any] = {}  # numbers of the example batch, which are recorded as they are
        self.names: list[str] = []
        self.sizes: list[list[int]] = []
        self.dtypes: list[Any] = []
        for place, (path, leaf) in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                self.names.append(name_of(path))
                self.sizes.append(list(leaf.shape))
                self.dtypes.append(leaf.dtype)
            else:
                self._constants[place] = leaf
                if isinstance(leaf, (bool, int, float)):
                    self._numbers[name_of(path)] = leaf
        self._leaves = len(leaves)
        unknown = set(static) - set(self.names)
        if unknown:
            raise errors.UserError(
                f"static names {', '.join(map(repr, sorted(unknown)))}, which is no input; inputs: {', '.join(self.names)}"
            )
        if not self.names:
            raise errors.UserError(
                f"the example batch ({type(example).__name__}) has no tensor in dicts, lists or tuples: make arrays tensors with "
                "torch.as_tensor(), and objects dicts"
            )
        if len(set(self.names)) < len(self.names):
            raise errors.UserError("two tensors of the example batch have the same name")
        self.static = set(static) | {name for name, size in zip(self.names, self.sizes) if not size}
        firsts = {name: size[0] for name, size in zip(self.names, self.sizes) if name not in self.static}
        self.samples = next(iter(firsts.values())) if firsts else 1
        odd = [name for name, first in firsts.items() if first != self.samples]
        if odd:
            raise errors.UserError(
                f"the first size of {odd[0]} is {firsts[odd[0]]}, and that of {next(iter(firsts))} is {self.samples}: the "
                f"first size is the number of samples; name inputs without it in static=[{odd[0]!r}]"
            )

    def specification(self, numbers: dict[Any, int]) -> list[tuple[str, list[int], int]]:
        """Returns (name, sizes with -1 for samples, number of the dtype) of each input."""
        result = []
        for name, sizes, dtype in zip(self.names, self.sizes, self.dtypes):
            if dtype not in numbers:
                raise errors.UserError(f"{name} is {dtype}; inputs may be {', '.join(map(str, numbers))}")
            sizes = list(sizes)
            if name not in self.static:
                sizes[0] = -1
            result.append((name, sizes, numbers[dtype]))
        return result

    def rebuilt(self, tensor_of: Callable[[str], Any]) -> Any:
        """Returns a batch of this structure with the tensor `tensor_of(name)` of each input."""
        names = iter(self.names)
        leaves = [
            self._constants[place] if place in self._constants else tensor_of(next(names))
            for place in range(self._leaves)
        ]
        return self._pytree.tree_unflatten(leaves, self._structure)

    def tensors_of(self, batch: Any) -> dict[str, Any]:
        """Returns the tensors of a batch by name, on the CPU. Raises UserError if it has another structure."""
        leaves, _ = self._pytree.tree_flatten_with_path(_plain(batch))
        for path, leaf in leaves:
            name = name_of(path)
            if name in self._numbers and not isinstance(leaf, self._torch.Tensor) and leaf != self._numbers[name]:
                raise errors.UserError(
                    f"{name} is {leaf!r}, and was {self._numbers[name]!r} in the example batch: numbers are recorded as they are; "
                    f"pass a tensor, and name it in static=[{name!r}]"
                )
        given = {name_of(path): leaf for path, leaf in leaves if isinstance(leaf, self._torch.Tensor)}
        missing = [name for name in self.names if name not in given]
        unexpected = [name for name in given if name not in self.names]
        if missing or unexpected:
            raise errors.UserError(
                "the batch is not like the example batch: "
                + "; ".join(
                    ([f"missing {', '.join(missing)}"] if missing else [])
                    + ([f"unexpected {', '.join(unexpected)}"] if unexpected else [])
                )
            )
        for name, sizes, dtype in zip(self.names, self.sizes, self.dtypes):
            tensor = given[name]
            if tensor.dtype != dtype:
                raise errors.UserError(f"{name} is {tensor.dtype}; the example batch has {dtype}")
            from_size = 0 if name in self.static else 1
            if list(tensor.shape[from_size:]) != sizes[from_size:] or tensor.dim() != len(sizes):
                raise errors.UserError(
                    f"{name} has sizes {list(tensor.shape)}; the example batch has {sizes}"
                    + ("" if name in self.static else ", and only the first size, of samples, may differ")
                )
            given[name] = tensor.detach().to("cpu").contiguous()
        firsts = {name: int(given[name].shape[0]) for name in self.names if name not in self.static}
        if len(set(firsts.values())) > 1:
            raise errors.UserError(
                "the inputs of the batch have different numbers of samples: "
                + ", ".join(f"{name} {count}" for name, count in firsts.items())
            )
        return given

    def joined(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns several batches as one."""
        if len(parts) == 1:
            return parts[0]
        for name in self.static:
            if name in parts[0] and any(not self._torch.equal(parts[0][name], each[name]) for each in parts[1:]):
                raise errors.UserError(
                    f"{name} is static and differs between the batches of one step: give batches with the samples of a step"
                )
        return {
            name: parts[0][name] if name in self.static else self._torch.cat([each[name] for each in parts])
            for name in self.names
        }

    def samples_of(self, tensors: dict[str, Any]) -> int:
        """Returns the samples of a batch by name."""
        for name in self.names:
            if name not in self.static:
                return int(tensors[name].shape[0])
        return 1

    def parts(self, tensors: dict[str, Any], size: int) -> list[dict[str, Any]]:
        """Returns the batch in parts of `size` samples; the last may be smaller."""
        samples = self.samples_of(tensors)
        return [
            {name: tensor if name in self.static else tensor[first : first + size] for name, tensor in tensors.items()}
            for first in range(0, samples, size)
        ]
