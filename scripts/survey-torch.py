#!/usr/bin/env python3
"""Compares an installed torch with the committed survey of its version: operators, autocast, Meta kernels, scratch on the CPU.

    PYTHON scripts/survey-torch.py            prints what differs from the survey; exits with 1 if something does
    PYTHON scripts/survey-torch.py --write    writes the survey of the installed torch into bench/results/torch
    PYTHON scripts/survey-torch.py --page     writes bench/results/torch/versions.md from the committed surveys

PYTHON is a Python whose environment has torch with its dependencies and numpy; --page needs none. The survey of the first version
is a file of lines, 2.11.txt. The survey of each later version is a file of the lines that go and come, 2.15.diff. A line is one of

    operator SCHEMA | KEYS           an operator of aten that has no `out`, and those of CPU, Meta and composites that have a kernel
    autocast TARGET NAME             an operator that autocast has a kernel for
    case CALL -> OUTPUTS | meta: OUTPUTS or its error | scratch: bytes

A call is one that torch's own samples of operators (torch.testing) make, forward and backward, at most two for each operator;
OUTPUTS are dtype, sizes, and strides if the tensor is not contiguous. Meta kernels of Python count, as they do in the package.
Scratch depends on the processor: it is compared if the instruction sets are those of the survey.
"""
import argparse
import collections
import os
import pathlib
import re
import sys
import types
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bench" / "results" / "torch"
PAGE = ROOT / "bench" / "results" / "torch" / "versions.md"
# What tests have found that a survey does not see, by the later version.
FOUND = {"2.15": [
    "`torch.nn.init.trunc_normal_` draws again while a number is out of range, which reads values. A recording draws by the inverse of",
    "  the distribution, as 2.11 does (`python/plimsoll/_recording.py`): a model of Python has other initial weights than in eager PyTorch.",
    "`scaled_dot_product_attention` of three dimensions keeps its result for the backward pass: eager PyTorch refuses to write into it.",
    "The first import of `torch._dynamo` reads `Tensor.__new__`; it comes before a recording replaces that.",
    "Losses and checkpoints of 12 steps of `examples/small-lm/quickstart.yaml` (float32 and bf16-mixed, 100 and 60 MiB), and losses of 3 steps",
    "  of the other four examples' `tiny.yaml`, have the same bits, and the planned bytes are the used ones in both (AVX-512, 2 cores).",
]}
KEYS = ["CPU", "Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd"]
MAX_CASES = 2
# Results are of no fixed size, or bits of another run: nothing of a survey.
LEFT_OUT = re.compile(r"^(empty|new_empty|_local_scalar_dense|nonzero|unique|_unique|masked_select|record_stream|_print)")


def operators(torch):
    lines = []
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or any(argument.is_out for argument in schema.arguments):
            continue
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        try:
            keys = [key for key in KEYS if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)]
        except RuntimeError:  # an operator of TorchScript, which the dispatcher does not have
            continue
        lines.append(f"operator {schema} | {' '.join(keys)}")
        for target in ("CPU", "CUDA"):
            if torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autocast" + target):
                lines.append(f"autocast {target} {name}")
    return sorted(set(lines))


def text_of(torch, value):
    """Returns a tensor as its dtype, sizes and strides; lists of values as lists; other values as Python writes them."""
    if isinstance(value, torch.Tensor):
        text = f"{str(value.dtype)[6:]}{list(value.shape)}".replace(" ", "")
        if value.layout != torch.strided:
            return text + str(value.layout)[6:]
        return text if value.is_contiguous() else f"{text}/{','.join(map(str, value.stride()))}"
    if isinstance(value, (list, tuple)):
        return "(" + " ".join(text_of(torch, item) for item in value) + ")"
    return "generator" if isinstance(value, torch.Generator) else str(value).replace(" ", "")


def on_meta(torch, value):
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return type(value)([on_meta(torch, item) for item in value])
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value


def bytes_of(torch, value):
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes() if value.layout == torch.strided else 0
    return sum(bytes_of(torch, item) for item in value) if isinstance(value, (list, tuple)) else 0


def call_and_measure(torch, function, args, kwargs):
    """Returns the result of the call and the most bytes that it held at once. Allocations are those of the profiler."""
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        result = function(*args, **kwargs)
    held = peak = 0
    for event in profile.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return result, peak


def cases(torch):
    """Returns the lines of the calls that torch's samples make."""
    # torch.testing imports it for tests, which are not run here.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._python_dispatch import TorchDispatchMode

    lines, counts = {}, collections.Counter()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = str(function)
            if not name.startswith("aten.") or LEFT_OUT.match(name[5:]) or counts[name] >= MAX_CASES:
                return function(*args, **kwargs)
            words = [text_of(torch, value) for value in args]
            words += [f"{key}={text_of(torch, value)}" for key, value in kwargs.items()]
            call = f"{name} {' '.join(words)}"
            if call in lines or len(call) > 200:
                return function(*args, **kwargs)
            meta_args = on_meta(torch, list(args))
            meta_kwargs = {key: on_meta(torch, value) for key, value in kwargs.items()}
            result, peak = call_and_measure(torch, function, args, kwargs)
            outputs = text_of(torch, result)
            try:
                meta = text_of(torch, function(*meta_args, **meta_kwargs))
            except Exception as error:
                meta = type(error).__name__
            scratch = max(0, peak - bytes_of(torch, result))
            counts[name] += 1
            lines[call] = f"case {call} -> {outputs} | meta: {'same' if meta == outputs else meta} | scratch: {scratch}"
            return result

    for op in sorted(op_db, key=lambda op: op.full_name):
        if op.name.startswith("jiterator"):  # CUDA's
            continue
        torch.manual_seed(0)
        differentiable = torch.float32 in op.dtypes and op.supports_autograd
        dtype = torch.float32 if torch.float32 in op.dtypes else min(op.dtypes, key=str, default=torch.float32)
        try:
            for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable)):
                if number >= 4:
                    break
                with Recorder():
                    result = op(sample.input, *sample.args, **sample.kwargs)
                    outputs = [item for item in (result if isinstance(result, (list, tuple)) else [result])
                               if isinstance(item, torch.Tensor) and item.requires_grad and not item.is_complex()]
                    if outputs:
                        torch.autograd.backward(outputs, [torch.ones_like(item) for item in outputs])
        except Exception as error:  # samples of other devices, of packages that are not here
            print(f"survey: {op.full_name} is left out: {type(error).__name__}", file=sys.stderr)
    return sorted(lines.values())


def survey(torch):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return [f"processor {torch.backends.cpu.get_cpu_capability()}", *operators(torch), *cases(torch)]


def version_key(name):
    return tuple(map(int, name.split(".")))


def committed():
    """Returns the surveys by version, in the order of versions."""
    surveys = {}
    for path in sorted(FOLDER.glob("*.txt")):
        surveys[path.stem] = path.read_text(encoding="utf-8").splitlines()
    base = next(iter(surveys.values()), [])
    for path in FOLDER.glob("*.diff"):
        changes = path.read_text(encoding="utf-8").splitlines()
        gone = {line[2:] for line in changes if line.startswith("- ")}
        lines = [*(line for line in base if line not in gone), *(line[2:] for line in changes if line.startswith("+ "))]
        surveys[path.stem] = sorted(lines, key=lambda line: not line.startswith("processor"))
    return dict(sorted(surveys.items(), key=lambda item: version_key(item[0])))


def write(version, lines):
    FOLDER.mkdir(parents=True, exist_ok=True)
    bases = [path for path in FOLDER.glob("*.txt") if path.stem != version]
    if not bases:
        (FOLDER / f"{version}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return FOLDER / f"{version}.txt"
    base = bases[0].read_text(encoding="utf-8").splitlines()
    changes = [f"- {line}" for line in base if line not in set(lines)] + [f"+ {line}" for line in lines if line not in set(base)]
    (FOLDER / f"{version}.diff").write_text("\n".join(changes) + "\n", encoding="utf-8")
    return FOLDER / f"{version}.diff"


def by_subject(lines, same_processor=True):
    """Returns the lines as {kind: {subject: rest}}."""
    found = collections.defaultdict(dict)
    for line in lines:
        kind, rest = line.split(" ", 1)
        if kind == "operator":
            found[kind][rest.split("(", 1)[0]] = rest
        elif kind == "case":
            call, outputs = rest.split(" -> ", 1)
            outputs, meta, scratch = outputs.split(" | ")
            found["result"][call], found["Meta kernel"][call] = outputs, meta
            if same_processor:
                found["scratch"][call] = scratch
        elif kind == "autocast":
            found[kind][rest] = rest
    return found


def differences(before, after):
    """Returns lists of lines by kind: what went, came and changed. Calls that one survey alone has are not compared."""
    same = before[0] == after[0]
    old, new = by_subject(before, same), by_subject(after, same)
    found = {}
    for kind in ("operator", "autocast"):
        a, b = old[kind], new[kind]
        found[f"{kind} gone"] = sorted(a.keys() - b.keys())
        found[f"{kind} new"] = sorted(b.keys() - a.keys())
    both = sorted(old["operator"].keys() & new["operator"].keys())
    pairs = [(key, old["operator"][key].split(" | "), new["operator"][key].split(" | ")) for key in both]
    found["arguments or results of an operator"] = [f"{a[0]}\n    {b[0]}" for key, a, b in pairs if a[0] != b[0]]
    found["kernels of an operator"] = [f"{key}: {a[1] or 'none'} → {b[1] or 'none'}" for key, a, b in pairs if a[1] != b[1]]
    for kind in ("result", "Meta kernel", "scratch"):
        a, b = old[kind], new[kind]
        found[kind] = [f"{key}: {a[key]} → {b[key]}" for key in sorted(a.keys() & b.keys()) if a[key] != b[key]]
    return found


def page(surveys):
    versions = list(surveys)
    text = ["# Versions of torch", "",
            f"Plimsoll has been tested with libtorch {' and '.join(versions)}. `scripts/survey-torch.py` compares what plans rest on: operators and",
            "their signatures, the operators that autocast casts, results and Meta kernels (dtype, sizes, strides), and the bytes that kernels allocate",
            f"on the CPU beside their results. Each survey calls {MAX_CASES} samples of each operator, forward and backward. The surveys are in",
            "this folder. `src/ops/torch_version.h` lists what the sources do about the differences.", "",
            "For another version: `PYTHON scripts/survey-torch.py --write`, with a Python that has this torch, then `scripts/survey-torch.py --page`."]
    for before, after in zip(versions, versions[1:]):
        calls = [by_subject(surveys[version])["result"].keys() for version in (before, after)]
        both = len(calls[0] & calls[1])
        text += ["", f"## {before} to {after}", "", f"{both} calls are in both surveys."]
        if after in FOUND:
            text += ["", *(line if line.startswith("  ") else f"- {line}" for line in FOUND[after])]
        for kind, lines in differences(surveys[before], surveys[after]).items():
            text += ["", f"### {kind[0].upper()}{kind[1:]}: {len(lines) or 'no difference'}"]
            if lines:
                text += ["", "```text", *lines, "```"]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the survey of the installed torch")
    parser.add_argument("--page", action="store_true", help="write the page of the committed surveys")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page(committed()), encoding="utf-8")
        print(f"==> survey: {PAGE.relative_to(ROOT)}")
        return 0
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    lines = survey(torch)
    if arguments.write:
        print(f"==> survey: {write(version, lines).relative_to(ROOT)}, {len(lines)} lines")
        return 0
    surveys = committed()
    if version not in surveys:
        print(f"survey: there is no survey of torch {version}; the committed ones are of {', '.join(surveys) or 'no version'}; "
              "give --write, then --page, and read the page", file=sys.stderr)
        return 1
    found = differences(surveys[version], lines)
    for kind, changed in found.items():
        for line in changed:
            print(f"{kind}: {line}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
