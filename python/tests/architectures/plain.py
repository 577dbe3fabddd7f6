"""Models of torch's own modules."""
import torch
import torch.nn.functional as F
from torch import nn

from .common import architecture, draws, squared


@architecture
def encoder():
    layer = {"dropout": 0.0, "batch_first": True}
    return (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, **layer), 2)), (
        lambda m, b: F.mse_loss(m(b["x"]), b["x"].flip(-1))), {
        "x": torch.randn(2, 10, 32, generator=draws())}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        return self.norm(self.linear(torch.fft.fft2(x).real))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(4, 8, 5, padding=2)
        self.back = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)
        self.pool = nn.MaxPool1d(2)
        self.three = nn.Conv3d(1, 4, 3, padding=1)

    def forward(self, x, v):
        return self.back(self.pool(F.elu(self.one(x)))).square().mean() + self.three(v).abs().mean()


@architecture
def attention():
    return Attention, squared, {"x": torch.randn(2, 10, 32, generator=draws())}


@architecture
def fourier():
    return Fourier, squared, {"x": torch.randn(2, 10, 32, generator=draws())}


@architecture
def convolutions():
    g = draws()
    batch = {"x": torch.randn(2, 4, 32, generator=g), "v": torch.randn(1, 1, 6, 6, 6, generator=g)}
    return Convolutions, (lambda m, b: m(b["x"], b["v"])), batch
