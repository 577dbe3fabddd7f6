"""Convolutions with channels last, and norms recorded as plimsoll::group_norm: values and files of torch's layout and norms."""
import pathlib
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll as pl

OFF = {"channels_last": False, "norms": False}


class Block(nn.Module):
    """A block of a residual network, with a strided and a depthwise convolution."""

    def __init__(self, inner, outer):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(inner, outer, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outer)
        self.deep, self.norm2 = nn.Conv2d(outer, outer, 5, padding=2, groups=outer, bias=False), nn.BatchNorm2d(outer)
        self.last, self.norm3 = nn.Conv2d(outer, outer, 1), nn.BatchNorm2d(outer)
        self.short = nn.Conv2d(inner, outer, 1, stride=2)

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)), inplace=True)
        y = self.norm3(self.last(F.silu(self.norm2(self.deep(y)))))
        return F.relu(y + self.short(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(16)
        self.blocks, self.head = nn.Sequential(Block(16, 32), Block(32, 48)), nn.Linear(48, 5)

    def features(self, x):
        return self.blocks(F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class Viewing(Net):
    """Code that needs torch's layout."""

    def forward(self, x):
        y = self.features(x)
        return self.head(y.view(len(y), -1).view(len(y), 48, -1).mean(2))


class Instances(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(16, affine=True)


class Resnet(nn.Module):
    """A block of a U-Net: group norms, SiLU, time."""

    def __init__(self, inner, outer, inplace=False):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.time, self.short, self.act = nn.Linear(12, outer), nn.Conv2d(inner, outer, 1), nn.SiLU(inplace)

    def forward(self, x, t):
        y = self.conv1(self.act(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(self.act(self.norm2(y))) + self.short(x)


class UNet(nn.Module):
    def __init__(self, inplace=False):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), Resnet(16, 32, inplace)
        self.middle, self.up = Resnet(32, 32, inplace), Resnet(48, 16, inplace)
        self.norm, self.last = nn.GroupNorm(4, 16), nn.Conv2d(16, 5, 3, padding=1)

    def forward(self, x):
        t = x.mean((2, 3)).repeat(1, 4)
        first = self.first(x)
        y = self.middle(self.down(F.avg_pool2d(first, 2), t), t)
        y = self.up(torch.cat([F.interpolate(y, scale_factor=2.0), first], 1), t)
        return self.last(F.silu(self.norm(y))).mean((2, 3))


class Penalized(UNet):
    """A second derivative of norms, which only torch's operators have."""

    def forward(self, x):
        out = super().forward(x)
        (slope,) = torch.autograd.grad(out.square().sum(), self.first.weight, create_graph=True)
        return out + slope.square().mean()


class Strided(Net):
    """Code that reads elements in the order of torch's layout, without an error where they have another."""

    def forward(self, x):
        y = self.features(x)
        places = y.shape[2] * y.shape[3]
        return self.head(y.as_strided((len(y), 48, places), (48 * places, places, 1)).mean(2))


class Asserting(Net):
    def forward(self, x):
        y = self.features(x)
        assert y.is_contiguous(), "in my layout, please"
        return self.head(y.mean((2, 3)))


class Sharing(Net):
    """A linear layer with the memory of a convolution's weight."""

    def __init__(self):
        super().__init__()
        self.reader = nn.Linear(147, 16, bias=False)
        self.reader.weight = nn.Parameter(self.stem.weight.data.view(16, 147))

    def forward(self, x):
        return super().forward(x) + self.reader(x[:, :, :7, :7].flatten(1)).mean()


class ViewingAndPenalized(Viewing):
    def __init__(self):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(5))

    def forward(self, x):
        out = super().forward(x)
        normed = F.group_norm(out[:, :, None] * torch.arange(1.0, 4.0, device=out.device), 5, self.gain, self.shift)
        (slope,) = torch.autograd.grad(normed.square().sum(), self.gain, create_graph=True)
        return out + slope.square().mean() + normed.mean(2)


class Transposed(nn.Module):
    """A group norm over three dimensions, viewed."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(64, 8), nn.GroupNorm(2, 8), nn.Linear(8 * 192, 5)

    def forward(self, x):
        y = self.norm(self.first(x.flatten(1, 2)).transpose(1, 2))
        return self.head(y.view(len(y), -1))


class InPlace(UNet):
    def __init__(self):
        super().__init__(inplace=True)


def loss_of(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def batch_of(step, dtype=torch.float32):
    g = torch.Generator().manual_seed(step)
    return {"x": torch.randn(4, 3, 64, 64, generator=g).to(dtype), "y": torch.randint(0, 5, (4,), generator=g)}


def weights_of(make=Net):
    torch.manual_seed(3)
    return make().state_dict()


def plan_of(make=Net, **keys):
    return pl.plan(make, loss_of, batch_of(0), **({"optimizer": pl.SGD(1.0)} | keys))


def is_last(plan):
    return any(decision == "replace: channels_last" for decision, _ in plan.reasons)


def has(plan, name):
    return any(decision == f"replace: {name}" for decision, _ in plan.reasons)


def gradients(plan, weights):
    """Returns the loss, and the gradients by a step of rate 1."""
    with pl.Trainer(plan) as trainer:
        trainer.load_state_dict(weights)
        loss, after = trainer.step(batch_of(0)), trainer.state_dict()
    return loss, {name: weights[name].double() - value.double() for name, value in after.items() if "running" not in name
                  and "tracked" not in name}


def eager(weights, dtype, make=Net):
    model = make().to(dtype).train()
    model.load_state_dict(weights)
    loss = loss_of(model, batch_of(0, dtype))
    loss.backward()
    return loss.item(), {name: parameter.grad.double() for name, parameter in model.named_parameters()}


class Layout(unittest.TestCase):
    def test_gradients_are_as_exact_as_those_of_torchs_operators(self):
        choices = (True, {"channels_last": False}, {"norms": False})
        for make, replace in [(Net, each) for each in choices] + [(UNet, each) for each in choices] + [(InPlace, True)]:
            with self.subTest(make=make.__name__, replace=replace):
                weights = weights_of(make)
                plan, plain = plan_of(make, replace=replace), plan_of(make, replace=OFF)
                self.assertEqual(is_last(plan), make is Net and replace != {"channels_last": False})
                self.assertEqual(has(plan, "norms"), replace != {"norms": False} and (make is not Net or replace is True))
                self.assertFalse(is_last(plain) or has(plain, "norms"))
                (loss, mine), (own_loss, own) = gradients(plan, weights), gradients(plain, weights)
                true_loss, true = eager(weights, torch.float64, make)
                self.assertEqual(own_loss, eager(weights, torch.float32, make)[0])
                self.assertAlmostEqual(loss, true_loss, delta=max(1e-6, 2 * abs(own_loss - true_loss)))
                for name, gradient in true.items():
                    off = (mine[name] - gradient).norm().item()
                    self.assertLessEqual(off, 2 * (own[name] - gradient).norm().item() + 1e-5 * gradient.norm().item() + 1e-6, name)

    def test_code_that_needs_torchs_layout_has_it(self):
        for make in (Strided, Asserting, ViewingAndPenalized, Transposed):
            with self.subTest(make.__name__):
                weights = weights_of(make)
                plan = plan_of(make)
                self.assertFalse(is_last(plan))
                loss, mine = gradients(plan, weights)
                true_loss, true = eager(weights, torch.float64, make)
                self.assertAlmostEqual(loss, true_loss, delta=1e-4)
                for name in mine:
                    off = (mine[name] - true[name]).norm().item()
                    self.assertLessEqual(off, 1e-2 * true[name].norm().item() + 1e-3, name)

    def test_parameters_that_share_memory_share_it_still(self):
        losses = []
        for replace in (True, OFF):
            plan = plan_of(Sharing, optimizer=pl.SGD(0.1), replace=replace)
            self.assertEqual(is_last(plan), replace is True)
            with pl.Trainer(plan) as trainer:
                with self.assertRaisesRegex(pl.UserError, "lies in the memory of another parameter"):
                    trainer.load_state_dict(weights_of(Sharing))
                losses.append([trainer.step(batch_of(step)) for step in range(3)])
        for mine, own in zip(*losses, strict=True):
            self.assertAlmostEqual(mine, own, delta=1e-4)

    def test_a_group_of_one_value_is_torchs_error(self):
        with self.assertRaisesRegex(Exception, "Expected more than 1 value per channel"):
            pl.plan(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.GroupNorm(8, 8)),
                    lambda model, batch: model(batch["x"]).square().mean(), {"x": torch.randn(1, 3, 8, 8)})

    def test_the_micro_batch_is_that_of_the_fastest_plan(self):
        fastest, lean = (pl.plan(Net, loss_of, batch_of(0), micro_batch="auto", max_slowdown=part) for part in (0, 0.5))
        self.assertEqual(lean.micro_batch, fastest.micro_batch)

    def test_running_statistics_are_torchs(self):
        weights = weights_of()
        with pl.Trainer(plan_of(optimizer=pl.SGD(1e-3))) as mine, pl.Trainer(plan_of(optimizer=pl.SGD(1e-3), replace=OFF)) as own:
            for trainer in (mine, own):
                trainer.load_state_dict(weights)
                for step in range(3):
                    trainer.step(batch_of(step))
            mine, own = mine.state_dict(), own.state_dict()
        for name, value in own.items():
            if "running" in name or "tracked" in name:
                torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-5, msg=name)

    def test_norms_keep_only_their_input(self):
        def loss(model, batch):
            return model(batch["x"]).square().mean()

        batch = {"x": torch.randn(4, 16, 64, 64)}
        parts = {"silu": lambda: nn.Sequential(nn.Conv2d(16, 16, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 16, 1))}
        for name, make in parts.items():
            plan, plain = (pl.plan(make, loss, batch, max_slowdown=0, replace=replace) for replace in (True, {"norms": False}))
            self.assertLess(plan.peak, plain.peak - 4 * 16 * 64 * 64 * 4 * 0.9, name)

    def test_plans_are_exact_and_bits_do_not_depend_on_the_budget(self):
        plan, losses = plan_of(optimizer=pl.AdamW(1e-3)), []
        for each in (plan, plan_of(optimizer=pl.AdamW(1e-3), memory=int(plan.minimum * 1.05))):
            self.assertTrue(is_last(each))
            with pl.Trainer(each) as trainer:
                losses.append([trainer.step(batch_of(step)) for step in range(3)])
                self.assertEqual(trainer.used, each.peak)
        self.assertEqual(*losses)

    def test_initial_weights_are_those_of_torchs_layout(self):
        with pl.Trainer(plan_of()) as last, pl.Trainer(plan_of(replace=OFF)) as plain:
            mine, own = last.state_dict(), plain.state_dict()
        for name, value in own.items():
            self.assertTrue(mine[name].is_contiguous(), name)
            self.assertTrue(torch.equal(mine[name], value), name)

    def test_files_hold_torchs_layout_and_a_training_goes_on_in_either(self):
        with tempfile.TemporaryDirectory() as folder:
            file, other = pathlib.Path(folder) / "last", pathlib.Path(folder) / "plain"
            with pl.Trainer(plan_of(optimizer=pl.AdamW(1e-3))) as trainer:
                trainer.load_state_dict(weights_of())
                trainer.step(batch_of(0))
                trainer.save(file)
                saved, ahead = trainer.state_dict(), trainer.step(batch_of(1))
            with pl.Trainer(plan_of(optimizer=pl.AdamW(1e-3), replace=OFF)) as trainer:
                trainer.load(file)
                trainer.save(other)
                for name, value in trainer.state_dict().items():
                    self.assertTrue(torch.equal(value, saved[name]), name)
                self.assertAlmostEqual(trainer.step(batch_of(1)), ahead, delta=1e-4)
            with pl.Trainer(plan_of(optimizer=pl.AdamW(1e-3))) as trainer:
                trainer.load(other)
                self.assertEqual(trainer.step(batch_of(1)), ahead)

    def test_models_and_optimizers_that_need_torchs_layout_keep_it(self):
        self.assertFalse(is_last(plan_of(Viewing)))
        self.assertFalse(is_last(plan_of(Instances)))
        self.assertFalse(is_last(plan_of(UNet)))
        for optimizer in (pl.Adafactor(), pl.Muon(), pl.AdamW(state="8bit"), pl.AdamW(state="auto")):
            self.assertFalse(is_last(plan_of(optimizer=optimizer)), optimizer)
        self.assertFalse(is_last(plan_of(device="rtx4090")) or has(plan_of(device="rtx4090"), "norms"))

    def test_second_derivatives_have_torchs_norms(self):
        plan, weights = plan_of(Penalized), weights_of(Penalized)
        self.assertFalse(has(plan, "norms"))
        self.assertAlmostEqual(gradients(plan, weights)[0], eager(weights, torch.float64, Penalized)[0], delta=1e-4)


if __name__ == "__main__":
    unittest.main()
