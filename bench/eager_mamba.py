"""The gesture classifier's training step (examples/gesture-ssm/tiny.yaml) in eager PyTorch: the peer of bench/step_time.py.

The model is src/models/gesture_ssm.cpp as a PyTorch user without a kernel for the scan would write it: Mamba-2's scan in chunks
(T. Dao and A. Gu 2024, "Transformers are SSMs", listing 1) of einsum and cumsum, conv1d, the sequence flipped for the way back.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import eager_common

CHANNELS, CLASSES, VECTORS = 6, 4, 20
WIDTH, LAYERS, STATE, EXPAND, HEAD_DIM, TAPS, CHUNK, DROPOUT = 64, 6, 32, 2, 16, 4, 16, 0.1
POOLING = [2, 2]
INNER = EXPAND * WIDTH
HEADS = INNER // HEAD_DIM


def differences(logs):
    """[..., L] -> [..., L, L]: the sum of logs over (j, i], -inf where j > i."""
    sums = logs.cumsum(-1)
    below = torch.ones(logs.shape[-1], logs.shape[-1], dtype=torch.bool).tril()
    return (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(~below, -math.inf)


def scan(x, dt, a, b, c, d):
    """x [B, T, H, P], dt [B, T, H], a and d [H], b and c [B, T, N] -> [B, T, H, P]."""
    batch, time, heads, width = x.shape
    chunks = -(-time // CHUNK)
    pad = chunks * CHUNK - time
    taken, logs = x * dt.unsqueeze(-1), dt * a
    if pad > 0:  # a step of 0 leaves the state as it is
        taken, logs = F.pad(taken, (0, 0, 0, 0, 0, pad)), F.pad(logs, (0, 0, 0, pad))
        b, c = F.pad(b, (0, 0, 0, pad)), F.pad(c, (0, 0, 0, pad))
    taken = taken.view(batch, chunks, CHUNK, heads, width)
    logs = logs.view(batch, chunks, CHUNK, heads).permute(0, 3, 1, 2)  # [B, H, K, L]
    b, c = b.view(batch, chunks, CHUNK, -1), c.view(batch, chunks, CHUNK, -1)
    sums = logs.cumsum(-1)
    within = differences(logs).exp()
    scores = torch.einsum("bkin,bkjn->bkij", c, b)
    inside = torch.einsum("bkij,bhkij,bkjhp->bkihp", scores, within, taken)
    to_end = (sums[..., -1:] - sums).exp()
    states = torch.einsum("bkjn,bhkj,bkjhp->bkhpn", b, to_end, taken)
    between = differences(F.pad(sums[..., -1], (1, 0))).exp()  # [B, H, K + 1, K + 1]
    before = torch.einsum("bhzk,bkhpn->bzhpn", between[:, :, :-1, 1:], states)
    carried = torch.einsum("bkin,bkhpn,bhki->bkihp", c, before, sums.exp())
    y = (inside + carried).reshape(batch, chunks * CHUNK, heads, width)[:, :time]
    return (y + d.unsqueeze(-1) * x).to(x.dtype)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        convolved = INNER + 2 * STATE
        self.into = nn.Linear(WIDTH, INNER + convolved + HEADS, bias=False)
        self.conv = nn.Conv1d(convolved, convolved, TAPS, groups=convolved, padding=TAPS - 1)
        step = torch.empty(HEADS).uniform_(math.log(1e-3), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.a_log = nn.Parameter(torch.empty(HEADS).uniform_(1, 16).log())
        self.d = nn.Parameter(torch.ones(HEADS))
        self.norm = nn.RMSNorm(INNER, eps=1e-5)
        self.out = nn.Linear(INNER, WIDTH, bias=False)
        nn.init.normal_(self.into.weight, std=0.02)
        nn.init.normal_(self.out.weight, std=0.02 / math.sqrt(2 * LAYERS))

    def one_way(self, gate, xbc, dt):
        batch, time, _ = xbc.shape
        xbc = F.silu(self.conv(xbc.transpose(1, 2))[..., :time].transpose(1, 2))
        x, b, c = xbc.split([INNER, STATE, STATE], dim=-1)
        y = scan(x.view(batch, time, HEADS, HEAD_DIM), dt, -self.a_log.float().exp(), b, c, self.d)
        return self.norm(y.reshape(batch, time, INNER) * gate)

    def forward(self, x):
        z, xbc, dt = self.into(x).split([INNER, INNER + 2 * STATE, HEADS], dim=-1)
        gate, dt = F.silu(z), F.softplus(dt.float() + self.dt_bias)
        back = self.one_way(gate.flip(1), xbc.flip(1), dt.flip(1)).flip(1)
        return self.out(self.one_way(gate, xbc, dt) + back)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(WIDTH, eps=1e-5), Mixer()

    def forward(self, x):
        return x + F.dropout(self.mixer(self.norm(x)), DROPOUT, self.training)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        stages = len(POOLING) + 1
        self.embed = nn.Linear(CHANNELS + 1, WIDTH)
        nn.init.normal_(self.embed.weight, std=1 / math.sqrt(CHANNELS + 1))
        nn.init.zeros_(self.embed.bias)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(stages))
        self.head = nn.Linear(stages * WIDTH, CLASSES)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, vectors):
        stages = len(self.norms)
        x, summaries = self.embed(vectors), []
        for stage in range(stages):
            if stage > 0:  # means of pairs; of one vector where one is left over
                x = F.avg_pool1d(x.transpose(1, 2), POOLING[stage - 1], ceil_mode=True).transpose(1, 2)
            for block in self.blocks[stage * LAYERS // stages:(stage + 1) * LAYERS // stages]:
                x = block(x)
            summaries.append(self.norms[stage](x).mean(1))
        return self.head(torch.cat(summaries, 1))


def main():
    options = eager_common.parser(__doc__, batch=10).parse_args()
    eager_common.prepare(options)

    def make_batch():
        return torch.randn(options.batch, VECTORS, CHANNELS + 1), torch.randint(CLASSES, (options.batch,))

    def loss_of(model, batch):
        return F.cross_entropy(model(batch[0]).float(), batch[1])

    eager_common.run(options, Classifier(), make_batch, loss_of, learning_rate=2e-3, weight_decay=0.05)


if __name__ == "__main__":
    main()
