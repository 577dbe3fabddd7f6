"""The small language model's training step in eager PyTorch, from the same wheel: the peer of bench/step_time.py.

The model is the decoder of src/models/decoder.cpp as a PyTorch user would write it: fused scaled_dot_product_attention, F.rms_norm,
F.cross_entropy, AdamW, clipping.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import eager_common
from eager_common import rotate

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER = 50304, 448, 6, 7, 1, 64, 1088


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.out = nn.Linear(HEADS * HEAD_DIM, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM], dim=-1)
        q = rotate(q.view(batch, length, HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        k = rotate(k.view(batch, length, KV_HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        v = v.view(batch, length, KV_HEADS, HEAD_DIM).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class Decoder(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        frequency = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angle = torch.outer(torch.arange(length), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.linear(self.norm(x), self.embedding.weight)


def main():
    flags = eager_common.parser(__doc__, batch=2)
    flags.add_argument("--length", type=int, default=512)
    options = flags.parse_args()
    eager_common.prepare(options)

    def make_batch():
        return torch.randint(VOCAB, (options.batch, options.length + 1))

    def loss_of(model, tokens):
        logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))

    eager_common.run(options, Decoder(options.length), make_batch, loss_of, learning_rate=6e-4)


if __name__ == "__main__":
    main()
