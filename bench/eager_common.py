"""What the eager PyTorch programs of bench/ share: flags, the training loop, what is measured and how.

A program gives a model, a function that makes a batch, and one from model and batch to the loss. One JSON line comes out.
Times are of whole steps: forward, backward, clipping, AdamW, zero_grad. Memory is the most that the process had resident, from
its start to its end, as the operating system counts it (ru_maxrss), which is what Plimsoll reports of itself.
"""
import argparse
import json
import os
import resource
import statistics
import time

STEPS_NOT_TIMED = 2  # as plimsoll train: they take pages, make plans, compile


def torch_adamw(groups, fused, **options):
    import torch

    return torch.optim.AdamW(groups, fused=fused, **options)


def torchao_adamw(name):
    def make(groups, fused, **options):
        import torchao.optim

        return getattr(torchao.optim, name)(groups, **options)

    return make


def bitsandbytes_adamw(groups, fused, **options):
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit(groups, **options)


OPTIMIZERS = {"adamw": torch_adamw, "torchao-8bit": torchao_adamw("AdamW8bit"), "torchao-4bit": torchao_adamw("AdamW4bit"),
              "bitsandbytes-8bit": bitsandbytes_adamw}


def parser(description, batch):
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--batch", type=int, default=batch)
    flags.add_argument("--precision", choices=["32-true", "bf16-mixed"], default="32-true")
    flags.add_argument("--steps", type=int, default=8)
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--fused-adamw", action="store_true")
    flags.add_argument("--optimizer", choices=list(OPTIMIZERS), default="adamw", help="AdamW of torch, torchao or bitsandbytes")
    flags.add_argument("--compile", action="store_true", help="forward and loss through torch.compile (inductor)")
    flags.add_argument("--products", action="store_true",
                       help="time the matrix products of one step alone, in place of the steps")
    return flags


def rotate(x, cos, sin):
    """Rotary positions of x (..., tokens, width), halves of a head against each other."""
    import torch

    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def resident_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bytes_of(value):
    """Of a tensor, or of those that a tensor of another library is made of."""
    import torch

    if not isinstance(value, torch.Tensor):
        return 0
    if hasattr(value, "__tensor_flatten__"):
        return sum(bytes_of(getattr(value, name)) for name in value.__tensor_flatten__()[0])
    return value.numel() * value.element_size()


def best_seconds(run, least=0.2, most_runs=20):
    """The least of a few runs after one that does not count."""
    run()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 2 or (spent < least and runs < most_runs):
        begin = time.perf_counter()
        run()
        seconds = time.perf_counter() - begin
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return best


def products_of(step):
    """The two-dimensional matrix products (mm, addmm) that a call of `step` makes, as {key: (run, flops, calls)}: linear
    layers and heads, forward and backward. Products inside attention and scans are not among them."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found = {}

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            name = function.overloadpacket.__name__
            if name in ("mm", "addmm"):
                a, b = arguments[-2:] if name == "mm" else arguments[1:3]
                key = (tuple(a.shape), a.stride(), tuple(b.shape), b.stride(), a.dtype)
                found[key] = found.get(key, 0) + 1
            return result

    with Record():
        step()
    products = {}
    for (a_shape, a_stride, b_shape, b_stride, dtype), calls in found.items():
        # Random operands: some kernels are faster on zeros.
        a, b = (torch.empty_strided(shape, stride, dtype=dtype).normal_()
                for shape, stride in ((a_shape, a_stride), (b_shape, b_stride)))
        out = torch.empty(a_shape[0], b_shape[1], dtype=dtype)
        flops = 2 * a_shape[0] * a_shape[1] * b_shape[1]
        products[f"{list(a_shape)} x {list(b_shape)} {str(dtype).split('.')[1]}"] = (
            lambda a=a, b=b, out=out: torch.mm(a, b, out=out), flops, calls)
    return products


def run(options, model, make_batch, loss_of, learning_rate, weight_decay=0.1, betas=(0.9, 0.95)):
    """`make_batch()` gives what `loss_of(model, batch)` takes."""
    import torch

    start_bytes = resident_bytes()  # interpreter, torch and the model's parameters
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = OPTIMIZERS[options.optimizer](groups, options.fused_adamw, lr=learning_rate, betas=betas)

    def loss_with_autocast(batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16-mixed"):
            return loss_of(model, batch)

    forward = torch.compile(loss_with_autocast) if options.compile else loss_with_autocast

    def forward_backward():
        loss = forward(make_batch())
        loss.backward()
        return loss

    report = {"parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__}
    if options.products:
        products = products_of(forward_backward)
        report["products_seconds"] = sum(best_seconds(run) * calls for run, _, calls in products.values())
        report["products_flops"] = sum(flops * calls for _, flops, calls in products.values())
        print(json.dumps(report))
        return
    times, losses = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        loss = forward_backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    timed = times[STEPS_NOT_TIMED:] or times
    tensors = {id(value): value for each in optimizer.state.values() for value in each.values()}  # tables may be shared
    state = sum(bytes_of(value) for value in tensors.values())
    report.update({"state_bytes": state, "step_seconds": statistics.median(timed), "first_step_seconds": times[0], "losses": losses,
                   "start_resident_bytes": start_bytes, "resident_bytes": resident_bytes()})
    print(json.dumps(report))


def prepare(options):
    """To be called before the model is made."""
    # Inductor's compilers in this process: memory is counted the same way for all.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
