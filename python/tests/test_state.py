"""State that changes in forward has the values of eager PyTorch after the same micro batches, of which the last may be
smaller, and the same bits at a budget near the minimum."""
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import models
import plimsoll as pl


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.instances = nn.InstanceNorm2d(8, affine=True, track_running_stats=True)
        self.mix, self.average, self.head = nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=None), nn.Linear(16, 4)

    def forward(self, x):
        h = self.instances(F.gelu(self.norm(self.conv(x)))).abs().mean((2, 3))
        return self.head(torch.tanh(self.average(self.mix(h))))


class Twice(nn.Module):
    """One norm that is called twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        h = torch.tanh(self.norm(self.first(x)))
        return self.head(torch.tanh(self.norm(self.second(h))))


class Layers(nn.Module):
    """Two layers; `between` gets what is between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.between(torch.tanh(self.first(x))))


class Average(Layers):
    """A moving average of the activations without its bias, a counter of calls, a warm-up by it, and an extreme."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(16))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("largest", torch.zeros((), dtype=torch.float32), persistent=False)

    def between(self, h):
        with torch.no_grad():
            self.calls += 1
            self.average.mul_(0.9).add_(h.mean(0), alpha=0.1)
            self.largest.copy_(torch.maximum(self.largest, h.abs().max()))
        return (h - self.average / (1 - 0.9 ** self.calls.float())) * (self.calls / 5).clamp(max=1) / self.largest


class Assigned(Layers):
    """Buffers that are replaced instead of written. The gradient of the product needs the scale from before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(16))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("a", torch.zeros(2))
        self.register_buffer("b", torch.ones(2))

    def between(self, h):
        scaled = h * self.scale
        self.scale = 0.9 * self.scale + 0.1 * h.detach().abs().mean(0)
        self.calls = self.calls + 1
        self.a, self.b = self.b, self.a + self.calls
        return scaled


class OfData(Layers):
    """A frozen parameter and a frozen layer that forward changes by .data."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(16), requires_grad=False)
        self.teacher = nn.Linear(8, 16).requires_grad_(False)

    def forward(self, x):
        for mine, its in zip(self.first.parameters(), self.teacher.parameters()):
            its.data = its.data * 0.9 + mine.data * 0.1
        return super().forward(x) + self.teacher(x)[:, :4]

    def between(self, h):
        self.mean.data = 0.9 * self.mean.data + 0.1 * h.detach().mean(0)
        return h - self.mean


class Codebook(Layers):
    """Vectors that follow the averages of the activations next to them, as in VQ-VAE."""

    def __init__(self):
        super().__init__()
        vectors = torch.linspace(-1, 1, 10 * 16).view(10, 16)
        for name, values in (("vectors", vectors), ("sums", vectors), ("sizes", torch.ones(10))):
            self.register_buffer(name, values.clone())

    def between(self, h):
        nearest = torch.cdist(h.detach(), self.vectors).argmin(1)
        chosen = F.embedding(nearest, self.vectors)
        if self.training:
            ones = F.one_hot(nearest, 10).to(h.dtype)
            self.sizes.data.mul_(0.8).add_(ones.sum(0), alpha=0.2)
            self.sums.data.mul_(0.8).add_(ones.t() @ h.detach(), alpha=0.2)
            self.vectors.data.copy_(self.sums / (self.sizes + 1e-3).unsqueeze(1))
        return h + (chosen - h).detach()


class Queue(Layers):
    """The last 12 activations, as in MoCo, with a place that is a tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(12, 16))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    def between(self, h):
        with torch.no_grad():
            self.rows[(self.place + torch.arange(len(h), device=h.device)) % 12] = h
            self.place.add_(len(h)).remainder_(12)
        return h - self.rows.mean(0)


class SpectralConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 8, 3), n_power_iterations=2)
        self.head = nn.utils.spectral_norm(nn.Linear(8, 4))

    def forward(self, x):
        return self.head(torch.tanh(self.conv(x)).mean((2, 3)))


KINDS = [Norms, Twice, Average, Assigned, OfData, Codebook, Queue, models.Spectral, SpectralConvolution]


def batch_of(kind, samples, seed):
    return (models.pictures_of if kind in (Norms, SpectralConvolution) else models.batch_of)(samples, seed)


def eager(kind, weights, batches, size):
    """Returns losses and state of plain gradient descent on micro batches of at most `size` samples."""
    model = kind()
    model.load_state_dict(weights)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        losses.append(0.0)
        samples = len(batch["y"])
        for begin in range(0, samples, size):
            part = {name: tensor[begin : begin + size] for name, tensor in batch.items()}
            loss = models.classified(model, part) * (len(part["y"]) / samples)
            loss.backward()
            losses[-1] += loss.item()
        optimizer.step()
    return losses, model.state_dict()


def trained(plan, batches, weights):
    with pl.Trainer(plan) as trainer:
        trainer.load_state_dict(weights)
        return [trainer.step(batch) for batch in batches], trainer.state_dict()


class StateTest(unittest.TestCase):
    def test_it_is_that_of_eager(self):
        for kind in KINDS:
            for samples in (4, 12, 10):
                with self.subTest(kind.__name__, samples=samples):
                    self.compare(kind, samples, 4)

    def compare(self, kind, samples, size):
        torch.manual_seed(0)
        weights = {name: tensor.clone() for name, tensor in kind().state_dict().items()}
        batches = [batch_of(kind, samples, seed) for seed in range(4)]
        options = {"optimizer": pl.SGD(0.1, momentum=0.0, weight_decay=0.0), "batch_size": samples, "micro_batch": size}
        plan = pl.plan(kind, models.classified, batch_of(kind, size, 0), **options)
        losses, state = trained(plan, batches, weights)
        expected, states = eager(kind, weights, batches, size)
        for ours, theirs in zip(losses, expected):
            self.assertLess(abs(ours - theirs), 1e-5)
        self.assertEqual(list(state), list(states))
        for name, tensor in states.items():
            self.assertEqual(state[name].dtype, tensor.dtype)
            torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
        for budget in (plan.minimum, plan.minimum + plan.minimum // 20):
            small = pl.plan(kind, models.classified, batch_of(kind, size, 0), memory=budget, **options)
            again, again_state = trained(small, batches, weights)
            self.assertEqual(again, losses)
            for name, tensor in state.items():
                self.assertTrue(torch.equal(again_state[name], tensor), name)

    def test_an_evaluation_leaves_norms_as_they_are(self):
        plan = pl.plan(Norms, models.classified, models.pictures_of(4), evaluate=True)
        with pl.Trainer(plan) as trainer:
            trainer.step(models.pictures_of(4))
            before = trainer.state_dict()
            trainer.evaluate([models.pictures_of(4)])
            for name, tensor in trainer.state_dict().items():
                self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_state_that_is_not_registered_is_refused(self):
        class Kept(Layers):
            def __init__(self):
                super().__init__()
                self.mean, self.seen = torch.zeros(16), torch.zeros(16)

            def between(self, h):
                self.seen = h  # is written and not read: it is no state
                self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
                return h - self.mean

        class Seen(Layers):
            def between(self, h):
                self.seen = h
                return h

        class Hidden(Layers):
            hidden = None

            def between(self, h):
                h = h if self.hidden is None else h + self.hidden
                self.hidden = h.detach().mean(0)
                return h

        class Growing(Layers):
            def __init__(self):
                super().__init__()
                self.register_buffer("rows", torch.zeros(1, 16))

            def between(self, h):
                self.rows = torch.cat([self.rows, h.detach()])
                return h

        for kind, message in ((Kept, "'mean' and replaces it.*register_buffer"), (Hidden, "'hidden' and replaces it"),
                              (Growing, r"'rows' is replaced in forward by a tensor of Float \[5, 16\]")):
            with self.assertRaisesRegex(pl.UserError, message):
                pl.plan(kind, models.classified, models.batch_of(4), accumulate=2)
        pl.plan(Seen, models.classified, models.batch_of(4), accumulate=2)

    def test_numbers_that_change_are_told(self):
        class Counting(Layers):
            calls = 0

            def between(self, h):
                self.calls += 1
                return h * self.calls

        self.assertIn("forward changes calls", str(pl.plan(Counting, models.classified, models.batch_of(4))))
        self.assertNotIn("forward changes", str(pl.plan(Average, models.classified, models.batch_of(4))))


if __name__ == "__main__":
    unittest.main()
