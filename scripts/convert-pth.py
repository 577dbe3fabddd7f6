#!/usr/bin/env python3
"""Converts the weights in a PyTorch file (.pth, .pt, .bin) to safetensors, with the names that they have.

    scripts/convert-pth.py tinysam.pth tinysam.safetensors [--only image_encoder.]

Plimsoll reads no pickles: they can run any program. This reads them without running anything, as torch.load does with
weights_only=True: of the functions that a pickle may call only those that make tensors and dictionaries are there, and
everything else becomes an object that does nothing. It takes Python's standard library alone. Weights that lie under
"model" or "state_dict" are found there. --only leaves out all names that do not begin so. Files from before PyTorch 1.6
(2020), which are no zip archives, are refused.
"""
import argparse
import collections
import json
import math
import os
import pickle
import struct
import sys
import tempfile
import zipfile

# Storages by their names in torch: the type in safetensors, and bytes of an element.
TYPES = {"Double": ("F64", 8), "Float": ("F32", 4), "Half": ("F16", 2), "BFloat16": ("BF16", 2), "Long": ("I64", 8),
         "Int": ("I32", 4), "Short": ("I16", 2), "Char": ("I8", 1), "Byte": ("U8", 1), "Bool": ("BOOL", 1)}


class Inert:
    """Stands for whatever else a pickle names."""

    def __init__(self, *_, **__):
        pass

    def __setstate__(self, _):
        pass

    def append(self, _):
        pass

    def extend(self, _):
        pass

    def __setitem__(self, _, __):
        pass


class Tensor:
    def __init__(self, storage, offset, sizes, strides):
        self.storage, self.offset, self.sizes, self.strides = storage, offset, tuple(sizes), tuple(strides)

    def count(self):
        return math.prod(self.sizes)


def rebuilt_tensor(storage, offset, sizes, strides, *_):
    return Tensor(storage, offset, sizes, strides)


def rebuilt_parameter(data, *_):
    return data


def untagged(value, _):
    return value


KNOWN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): rebuilt_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuilt_parameter,
    ("torch.jit._pickle", "restore_type_tag"): untagged,  # as C++ programs save dictionaries
}


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module == "torch" and name.endswith("Storage") and name[:-7] in TYPES:
            return name[:-7]
        return KNOWN.get((module, name), Inert)

    def persistent_load(self, pid):
        kind, type_name, key, _, count = pid
        if kind != "storage" or type_name not in TYPES:
            raise pickle.UnpicklingError(f"a storage of {type_name}")
        return type_name, str(key), int(count)


def fail(text):
    sys.exit(f"convert-pth: {text}")


def tensors_of(path):
    """Tensors by name, and the archive that their numbers lie in."""
    try:
        archive = zipfile.ZipFile(path)
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = pickled[: -len("data.pkl")]
        # PyTorch compresses nothing; what is, may be as large as it likes.
        if any(each.file_size > each.compress_size for each in archive.infolist()):
            fail(f"{path} is compressed, which no PyTorch file is")
        if folder + "byteorder" in archive.namelist() and archive.read(folder + "byteorder") != b"little":
            fail(f"{path} is of the other byte order")
        with archive.open(pickled) as file:
            loaded = Unpickler(file).load()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    except (zipfile.BadZipFile, StopIteration):
        fail(f"{path} is no PyTorch file of version 1.6 or newer")
    except Exception as error:  # whatever a damaged pickle makes of it
        fail(f"{path} is damaged, or holds what is no tensor: {error}")
    for key in ("model", "state_dict"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict):
        fail(f"{path} holds no tensors by name")
    tensors = {name: value for name, value in loaded.items() if isinstance(value, Tensor)}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not sound(tensor):
            fail(f"{name} reaches beyond its numbers: the file is damaged")
    # Several may lie in one storage; that many times the file's size is what no weights are.
    if sum(tensor.count() * TYPES[tensor.storage[0]][1] for tensor in tensors.values()) > 4 * os.path.getsize(path):
        fail(f"{path} holds more numbers by name than it has: the file is damaged")
    return tensors, archive, folder


def sound(tensor):
    """Whether it lies within its storage, each number once."""
    try:
        (_, _, numbers), sizes, strides = tensor.storage, tensor.sizes, tensor.strides
        whole = all(type(each) is int and each >= 0 for each in (numbers, tensor.offset, *sizes, *strides))
        if not whole or len(sizes) != len(strides):
            return False
        if 0 in sizes:
            return True
        last = tensor.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        return last < numbers and tensor.count() <= numbers
    except (TypeError, ValueError):
        return False


def bytes_of(name, tensor, archive, folder):
    type_name, key, count = tensor.storage
    element = TYPES[type_name][1]
    try:
        data = archive.read(f"{folder}data/{key}")
    except (KeyError, zipfile.BadZipFile) as error:
        fail(f"{name}: its numbers are not there, or damaged: {error}")
    if len(data) != count * element:
        fail(f"{name} has {len(data)} bytes of numbers where {count * element} are told: the file is damaged")
    total, step, plain = tensor.count(), 1, True
    for size, stride in zip(reversed(tensor.sizes), reversed(tensor.strides)):
        plain = plain and (size == 1 or stride == step)
        step *= size
    if plain:
        return data[tensor.offset * element : (tensor.offset + total) * element]
    places = [tensor.offset]
    for size, stride in zip(tensor.sizes, tensor.strides):
        places = [place + i * stride for place in places for i in range(size)]
    return b"".join(data[place * element : (place + 1) * element] for place in places)


def main():
    arguments = argparse.ArgumentParser(description="PyTorch weights to safetensors")
    arguments.add_argument("weights")
    arguments.add_argument("out")
    arguments.add_argument("--only", default="", help="names that begin so, for example image_encoder.")
    given = arguments.parse_args()
    tensors, archive, folder = tensors_of(given.weights)
    tensors = {name: tensor for name, tensor in sorted(tensors.items()) if name.startswith(given.only)}
    if not tensors:
        fail(f"{given.weights} has no tensor whose name begins with '{given.only}'")
    header, offset = {}, 0
    for name, tensor in tensors.items():
        type_name, element = TYPES[tensor.storage[0]]
        size = tensor.count() * element
        header[name] = {"dtype": type_name, "shape": list(tensor.sizes), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    directory = os.path.dirname(os.path.abspath(given.out))
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
        try:
            file.write(struct.pack("<Q", len(text)) + text)
            for name, tensor in tensors.items():
                file.write(bytes_of(name, tensor, archive, folder))
        except BaseException:
            os.unlink(file.name)
            raise
    os.chmod(file.name, 0o644)
    os.replace(file.name, given.out)
    print(f"convert-pth: {len(header)} tensors, {offset} bytes in {given.out}")


if __name__ == "__main__":
    main()
