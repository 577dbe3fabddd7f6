"""Prompted segmentation's training step (examples/prompt-segmentation/tiny.yaml) in eager PyTorch: the peer of bench/step_time.py.

The model is src/models/prompt_segmentation.cpp as a PyTorch user would write it: conv2d on channels_last maps,
scaled_dot_product_attention, RMSNorm; the same losses (binary cross entropy and Dice over the masks).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import eager_common
from eager_common import rotate

IMAGE, CHANNELS, PROMPT, VOCAB = 96, 1, 24, 320
WIDTHS, DEPTHS, ENCODER_HEADS, WINDOWS, EXPANSION = [16, 32, 48, 64], [1, 1, 2, 1], [2, 3, 4], [4, 4, 4], 4
LLM_WIDTH, LLM_LAYERS, LLM_HEADS, LLM_KV_HEADS, LLM_INNER = 64, 2, 4, 2, 192
WIDTH, DEPTH, HEADS, INNER = 64, 2, 4, 128
SIDE = IMAGE // 16


def norm(width):
    return nn.RMSNorm(width, eps=1e-5)


class Conv(nn.Module):
    """On [B, H, W, C]."""

    def __init__(self, into, out, kernel, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups)

    def forward(self, x):
        return self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class ConvNorm(Conv):
    def __init__(self, into, out, kernel, stride=1, groups=1):
        super().__init__(into, out, kernel, stride, groups)
        self.norm = norm(out)

    def forward(self, x):
        return self.norm(super().forward(x))


class MbConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = width * EXPANSION
        self.widen, self.widen_norm = nn.Linear(width, inner, bias=False), norm(inner)
        self.depthwise = ConvNorm(inner, inner, 3, groups=inner)
        self.narrow, self.narrow_norm = nn.Linear(inner, width, bias=False), norm(width)

    def forward(self, x):
        wide = F.gelu(self.widen_norm(self.widen(x)))
        return F.gelu(x + self.narrow_norm(self.narrow(F.gelu(self.depthwise(wide)))))


class PatchMerge(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.first, self.first_norm = nn.Linear(into, out, bias=False), norm(out)
        self.depthwise = ConvNorm(out, out, 3, stride, groups=out)
        self.last, self.last_norm = nn.Linear(out, out, bias=False), norm(out)

    def forward(self, x):
        return self.last_norm(self.last(F.gelu(self.depthwise(F.gelu(self.first_norm(self.first(x)))))))


class WindowBlock(nn.Module):
    def __init__(self, width, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.norm, self.mlp_norm = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.local = ConvNorm(width, width, 3, groups=width)
        self.up, self.down = nn.Linear(width, EXPANSION * width, bias=False), nn.Linear(EXPANSION * width, width, bias=False)

    def mixed(self, x):
        batch, height, length, width = x.shape
        w = self.window
        x = F.pad(x, (0, 0, 0, -length % w, 0, -height % w))
        rows, columns = x.shape[1] // w, x.shape[2] // w
        x = x.view(batch, rows, w, columns, w, width).transpose(2, 3).reshape(-1, w * w, width)
        q, k, v = self.qkv(x).view(-1, w * w, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, w * w, width))
        x = x.view(batch, rows, columns, w, w, width).transpose(2, 3).reshape(batch, rows * w, columns * w, width)
        return x[:, :height, :length]

    def forward(self, x):
        y = self.local(x + self.mixed(self.norm(x)))
        return y + self.down(F.gelu(self.up(self.mlp_norm(y))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.stem_last = Conv(CHANNELS, WIDTHS[0] // 2, 3, 2), Conv(WIDTHS[0] // 2, WIDTHS[0], 3, 2)
        self.first = nn.Sequential(*(MbConv(WIDTHS[0]) for _ in range(DEPTHS[0])))
        layers = []
        for stage, width in enumerate(WIDTHS):
            if stage > 0:
                layers.extend(WindowBlock(width, ENCODER_HEADS[stage - 1], WINDOWS[stage - 1]) for _ in range(DEPTHS[stage]))
            if stage + 1 < len(WIDTHS):
                layers.append(PatchMerge(width, WIDTHS[stage + 1], 2 if stage + 2 < len(WIDTHS) else 1))
        self.stages = nn.Sequential(*layers)
        self.neck, self.neck_norm = nn.Linear(WIDTHS[-1], WIDTH, bias=False), norm(WIDTH)
        self.neck_last = ConvNorm(WIDTH, WIDTH, 3)

    def forward(self, image):
        fine = self.first(self.stem_last(F.gelu(self.stem(image))))
        return fine, self.neck_last(self.neck_norm(self.neck(self.stages(fine))))


class LlmBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.dim = LLM_WIDTH // LLM_HEADS
        self.norm1, self.norm2 = norm(LLM_WIDTH), norm(LLM_WIDTH)
        self.qkv = nn.Linear(LLM_WIDTH, (LLM_HEADS + 2 * LLM_KV_HEADS) * self.dim, bias=False)
        self.out = nn.Linear(LLM_HEADS * self.dim, LLM_WIDTH, bias=False)
        self.up, self.down = nn.Linear(LLM_WIDTH, 2 * LLM_INNER, bias=False), nn.Linear(LLM_INNER, LLM_WIDTH, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([n * self.dim for n in (LLM_HEADS, LLM_KV_HEADS, LLM_KV_HEADS)], dim=-1)
        q = rotate(q.view(batch, length, LLM_HEADS, self.dim).transpose(1, 2), cos, sin)
        k = rotate(k.view(batch, length, LLM_KV_HEADS, self.dim).transpose(1, 2), cos, sin)
        v = v.view(batch, length, LLM_KV_HEADS, self.dim).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class Llm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, LLM_WIDTH)
        self.blocks = nn.ModuleList(LlmBlock() for _ in range(LLM_LAYERS))
        self.norm = norm(LLM_WIDTH)  # no head: the text loss, whose weight is 0, alone would read it
        dim = LLM_WIDTH // LLM_HEADS
        angle = torch.outer(torch.arange(PROMPT), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.norm(x)


class Attention(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, inner) for _ in range(3))
        self.out = nn.Linear(inner, WIDTH)

    def forward(self, q, k, v):
        def split(x):
            return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(split(self.q(q)), split(self.k(k)), split(self.v(v)))
        return self.out(mixed.transpose(1, 2).reshape(q.shape[0], q.shape[1], -1))


class TwoWayBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.among, self.to_image, self.from_image = Attention(WIDTH), Attention(WIDTH // 2), Attention(WIDTH // 2)
        self.among_norm, self.to_image_norm, self.mlp_norm, self.from_image_norm = (norm(WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, tokens, image, asked, positions):
        named = tokens + asked
        tokens = self.among_norm(tokens + self.among(named, named, tokens))
        placed = image + positions
        tokens = self.to_image_norm(tokens + self.to_image(tokens + asked, placed, image))
        tokens = self.mlp_norm(tokens + self.down(F.gelu(self.up(tokens))))
        return tokens, self.from_image_norm(image + self.from_image(placed, tokens + asked, tokens))


class Upscale(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.pixels = nn.Linear(into, 4 * out)

    def forward(self, x):
        batch, height, width, _ = x.shape
        x = self.pixels(x).view(batch, height, width, 2, 2, -1).transpose(2, 3)
        return x.reshape(batch, 2 * height, 2 * width, -1)


def sinusoids(side, width):
    waves = width // 4
    rate = (torch.arange(waves) * (-math.log(10000) / waves)).exp()
    angle = torch.arange(side).unsqueeze(1) * rate
    one = torch.cat([angle.sin(), angle.cos()], 1)
    both = [one.unsqueeze(1).expand(side, side, -1), one.unsqueeze(0).expand(side, side, -1)]
    return torch.cat(both, 2).reshape(side * side, width)


class MaskDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask_token = nn.Parameter(torch.empty(1, 1, WIDTH).normal_(std=0.02))
        self.register_buffer("positions", sinusoids(SIDE, WIDTH))
        self.blocks = nn.ModuleList(TwoWayBlock() for _ in range(DEPTH))
        self.last, self.last_norm = Attention(WIDTH // 2), norm(WIDTH)
        self.upscale, self.upscale_norm = Upscale(WIDTH, WIDTH // 4), norm(WIDTH // 4)
        self.upscale_last = Upscale(WIDTH // 4, WIDTH // 8)
        self.fine = nn.Linear(WIDTHS[0], WIDTH // 8)
        self.filter = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(),
                                    nn.Linear(WIDTH, WIDTH // 8))

    def forward(self, fine, features, prompt):
        batch = features.shape[0]
        asked = torch.cat([self.mask_token.to(prompt.dtype).expand(batch, 1, WIDTH), prompt], 1)
        positions = self.positions.to(features.dtype)
        tokens, image = asked, features.reshape(batch, SIDE * SIDE, WIDTH)
        for block in self.blocks:
            tokens, image = block(tokens, image, asked, positions)
        tokens = self.last_norm(tokens + self.last(tokens + asked, image + positions, image))
        pixels = self.upscale_norm(self.upscale(image.view(batch, SIDE, SIDE, WIDTH)))
        pixels = F.gelu(self.upscale_last(F.gelu(pixels)) + self.fine(fine))
        return torch.bmm(pixels.view(batch, -1, WIDTH // 8), self.filter(tokens[:, 0]).unsqueeze(2)).view(
            batch, 4 * SIDE, 4 * SIDE)


class Segmentation(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.llm, self.mask_decoder = Encoder(), Llm(), MaskDecoder()
        self.prompt_projection = nn.Sequential(nn.Linear(LLM_WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.prompt_norm = norm(WIDTH)

    def forward(self, image, tokens, read_at):
        (fine, features), hidden = self.encoder(image), self.llm(tokens)
        asked = torch.bmm(read_at.to(hidden.dtype).unsqueeze(1), hidden)
        small = self.mask_decoder(fine, features, self.prompt_norm(self.prompt_projection(asked)))
        return F.interpolate(small.float().unsqueeze(1), (IMAGE, IMAGE), mode="bilinear", align_corners=False).squeeze(1)


def main():
    options = eager_common.parser(__doc__, batch=16).parse_args()
    eager_common.prepare(options)

    def make_batch():
        batch = options.batch
        return (torch.randn(batch, IMAGE, IMAGE, CHANNELS), torch.randint(VOCAB, (batch, PROMPT)),
                F.one_hot(torch.randint(PROMPT, (batch,)), PROMPT).float(), torch.randint(2, (batch, IMAGE, IMAGE)).float())

    def loss_of(model, batch):
        image, tokens, read_at, mask = batch
        logits = model(image, tokens, read_at)
        entropy = F.binary_cross_entropy_with_logits(logits, mask, reduction="none").mean((1, 2))
        found = logits.sigmoid()
        dice = (2 * (found * mask).sum((1, 2)) + 1) / (found.sum((1, 2)) + mask.sum((1, 2)) + 1)
        return (entropy + 1 - dice).mean()

    eager_common.run(options, Segmentation(), make_batch, loss_of, learning_rate=2e-3, weight_decay=0.05)


if __name__ == "__main__":
    main()
