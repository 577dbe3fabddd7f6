"""A decoder's training step in PyTorch as its users write it, eager or compiled: the peer of bench/throughput.py.

RMSNorm, rotary positions, grouped queries through scaled_dot_product_attention, SwiGLU, F.cross_entropy over all logits,
AdamW(fused=True), clipping at 1. Of any shape, on any device of PyTorch's. One JSON line comes out; where memory does not
suffice it says so in place of figures.
"""
import argparse
import json
import os
import statistics
import time

from eager_common import rotate

STEPS_NOT_TIMED = 2


def parser():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("vocab", "width", "layers", "heads", "kv-heads", "head-dim", "inner", "batch", "length"):
        flags.add_argument(f"--{name}", type=int, required=True)
    flags.add_argument("--micro-batches", type=int, default=1)
    flags.add_argument("--tied", action="store_true")
    flags.add_argument("--qkv-bias", action="store_true")
    flags.add_argument("--precision", choices=["32-true", "bf16-mixed", "bf16-true"], default="bf16-mixed")
    flags.add_argument("--device", default="cuda")
    flags.add_argument("--steps", type=int, default=10)
    flags.add_argument("--compile", action="store_true")
    flags.add_argument("--checkpoint", action="store_true", help="keep each layer's input only")
    return flags


def main():
    options = parser().parse_args()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    o, device = options, torch.device(options.device)
    torch.manual_seed(0)
    if o.precision == "bf16-true":
        torch.set_default_dtype(torch.bfloat16)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(o.width, eps=1e-6), nn.RMSNorm(o.width, eps=1e-6)
            self.qkv = nn.Linear(o.width, (o.heads + 2 * o.kv_heads) * o.head_dim, bias=o.qkv_bias)
            self.out = nn.Linear(o.heads * o.head_dim, o.width, bias=False)
            self.up, self.down = nn.Linear(o.width, 2 * o.inner, bias=False), nn.Linear(o.inner, o.width, bias=False)

        def forward(self, x, cos, sin):
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).split([each * o.head_dim for each in (o.heads, o.kv_heads, o.kv_heads)], dim=-1)
            q = rotate(q.view(batch, length, o.heads, o.head_dim).transpose(1, 2), cos, sin)
            k = rotate(k.view(batch, length, o.kv_heads, o.head_dim).transpose(1, 2), cos, sin)
            v = v.view(batch, length, o.kv_heads, o.head_dim).transpose(1, 2)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=o.heads != o.kv_heads)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
            gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
            return x + self.down(F.silu(gate) * value)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(o.vocab, o.width)
            nn.init.normal_(self.embedding.weight, std=0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(o.layers))
            self.norm = nn.RMSNorm(o.width, eps=1e-6)
            self.head = nn.Linear(o.width, o.vocab, bias=False)
            if o.tied:
                self.head.weight = self.embedding.weight
            angle = torch.outer(torch.arange(o.length).float(), 10000.0 ** (-torch.arange(0, o.head_dim, 2).float() / o.head_dim))
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False) if o.checkpoint else block(x, self.cos, self.sin)
            return self.head(self.norm(x))

    report = {"torch": torch.__version__, "fits": True}
    try:
        with device:
            model = Decoder()
        report["parameters"] = sum(p.numel() for p in model.parameters())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)

        def loss_of(tokens):
            with torch.autocast(device.type, torch.bfloat16, enabled=o.precision == "bf16-mixed"):
                logits = model(tokens[:, :-1])
                return F.cross_entropy(logits.reshape(-1, o.vocab).float(), tokens[:, 1:].reshape(-1)) / o.micro_batches

        forward = torch.compile(loss_of) if o.compile else loss_of
        on_gpu = device.type == "cuda"
        times, losses = [], []
        for _ in range(o.steps):
            if on_gpu:
                torch.cuda.synchronize()
            begin, loss = time.perf_counter(), 0.0
            for _ in range(o.micro_batches):
                part = forward(torch.randint(o.vocab, (o.batch, o.length + 1), device=device))
                part.backward()
                loss = loss + part.detach()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            times.append(time.perf_counter() - begin)
        report.update({"step_seconds": statistics.median(times[STEPS_NOT_TIMED:] or times), "first_step_seconds": times[0],
                       "losses": losses})
        if on_gpu:
            report.update({"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()})
    except RuntimeError as error:  # OutOfMemoryError is one; a library's own allocation fails with its words
        if not isinstance(error, torch.OutOfMemoryError) and not any(
                words in str(error) for words in ("out of memory", "ALLOC_FAILED", "NOT_INITIALIZED")):
            raise
        report["fits"] = False
    print(json.dumps(report))


if __name__ == "__main__":
    main()
