"""Small models of many kinds, each with its loss and an example batch."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 4))

    def forward(self, x):
        return self.layers(x)


class Tied(nn.Module):
    """Embedding and head share one weight; a buffer that is not persistent and one that is."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(16))
        self.register_buffer("shift", torch.zeros(16), persistent=False)

    def forward(self, tokens):
        return self.head(torch.tanh(self.mix(self.embed(tokens))) * self.scale + self.shift)


class Normed(nn.Module):
    """Batch norms, whose buffers change in every step."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                  nn.Flatten(), nn.Linear(8, 4))

    def forward(self, x):
        return self.body(x)


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x > 0)


class Custom(nn.Module):
    """A custom autograd function, a frozen layer, a part under no_grad."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.frozen = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(8, 8)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            x = x + self.frozen(x)
        return self.second(Clamp.apply(self.first(x)))


class Spectral(nn.Module):
    """Spectral norms of both kinds, whose buffers change in forward, and a weight norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.utils.spectral_norm(nn.Linear(8, 16))
        self.second = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16))
        self.third = nn.utils.parametrizations.weight_norm(nn.Linear(16, 4))

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])


class Bags(nn.Module):
    """Embedding bags of each mode."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, 8, mode=mode, padding_idx=pad)
                                  for mode, pad in (("sum", None), ("mean", 4), ("max", None), ("max", 5)))
        self.weighted = nn.EmbeddingBag(50, 8, mode="sum", padding_idx=3)
        self.head = nn.Linear(160, 4)

    def forward(self, tokens):
        weights = tokens.float().softmax(-1)
        parts = [bag(tokens) for bag in self.bags] + [self.weighted(tokens, per_sample_weights=weights)]
        # Bags of several sizes: of a sample's 12 tokens, 5, none and 7.
        begins = torch.arange(len(tokens), device=tokens.device).mul(12).unsqueeze(1)
        begins = torch.cat([begins, begins + 5, begins + 5], 1).flatten()
        parts += [bag(tokens.flatten(), begins).view(len(tokens), -1) for bag in self.bags]
        parts.append(self.weighted(tokens.flatten(), begins, weights.flatten()).view(len(tokens), -1))
        return self.head(torch.cat(parts, 1))


def classified(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def batch_of(samples=8, seed=1):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(samples, 8, generator=g), "y": torch.randint(0, 4, (samples,), generator=g)}


def tokens_of(samples=4, seed=1):
    g = torch.Generator().manual_seed(seed)
    return {"tokens": torch.randint(0, 50, (samples, 12), generator=g)}


def next_tokens(model, batch):
    logits = model(batch["tokens"])[:, :-1]
    return {"loss": F.cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten()), "metric": logits.mean()}


def pictures_of(samples=4, seed=1):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(samples, 3, 8, 8, generator=g), "y": torch.randint(0, 4, (samples,), generator=g)}


def sequences_of(samples=4, seed=1):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(samples, 6, 8, generator=g), "y": torch.randint(0, 4, (samples,), generator=g)}


KINDS = {
    "net": (Net, classified, batch_of),
    "tied": (Tied, next_tokens, tokens_of),
    "normed": (Normed, classified, pictures_of),
    "custom": (Custom, classified, batch_of),
    "spectral": (Spectral, classified, batch_of),
    "bags": (Bags, lambda model, batch: model(batch["tokens"]).square().mean(), tokens_of),
    "recurrent": (Recurrent, classified, sequences_of),
}
