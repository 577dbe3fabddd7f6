"""Blocks inside of models have the effect that they have in eager PyTorch: autocast, checkpoint."""
import functools
import threading
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import models
import plimsoll as pl
from test_training import eager, trained


class Scale(torch.autograd.Function):
    """A product whose two directions have autocast as it was in forward."""

    @staticmethod
    @functools.partial(torch.amp.custom_fwd, device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight)

    @staticmethod
    @functools.partial(torch.amp.custom_bwd, device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return F.linear(gradient, weight.t()), F.linear(gradient.t(), x.t())


class Cast(torch.autograd.Function):
    """A product whose inputs are cast to float32 inside of blocks."""

    @staticmethod
    @functools.partial(torch.amp.custom_fwd, device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight)

    backward = Scale.backward


class Blocks(nn.Module):
    """Three layers; `run` computes them with blocks of autocast."""

    def __init__(self, run):
        super().__init__()
        self.run = run
        self.first, self.second, self.third = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4)
        self.norm = nn.LayerNorm(32)
        self.seen = []

    def forward(self, x):
        return self.run(self, x)


def one_block(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = m.norm(m.first(x))
        m.seen.append((h.dtype, m.first(x).dtype))
    return m.third(F.gelu(m.second(h.float())))


def nested(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = m.first(x)
        with torch.autocast("cpu", enabled=False):
            h = m.second(m.norm(h.float()))
            m.seen.append(h.dtype)
            with torch.autocast("cpu"):
                m.seen.append(m.second(h).dtype)
        m.seen.append(m.second(h).dtype)
        return m.third(F.gelu(h)).float()


def half(m, x):
    with torch.autocast("cpu", dtype=torch.float16):
        h = m.first(x)
        m.seen.append(h.dtype)
    return m.third(m.second(h.float()))


def of_the_tensors_device(m, x):
    kind = x.device.type
    with torch.autocast(device_type=kind, dtype=torch.bfloat16):
        h = m.second(m.first(x))
        m.seen.append((h.dtype, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), torch.is_autocast_enabled("cpu")))
        with torch.autocast(kind, enabled=False):
            m.seen.append((torch.is_autocast_enabled(kind), m.second(h.float()).dtype))
    m.seen.append(torch.is_autocast_enabled(kind))
    return m.third(h.float())


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated(m, x):
    h = m.first(x)
    m.seen.append(h.dtype)
    return m.third(m.second(h)).float()


def of_another_device(m, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            h = m.first(x)
    m.seen.append(h.dtype)
    return m.third(m.second(h))


def custom(m, x):
    h = m.first(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = Scale.apply(h, m.second.weight)
        m.seen.append(h.dtype)
    return m.third(h.float())


def casting(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = Cast.apply(m.first(x), m.second.weight)
        m.seen.append((h.dtype, torch.is_autocast_enabled(device_type="cpu")))
    return m.third(h.float())


RUNS = (casting, one_block, nested, half, of_the_tensors_device, decorated, of_another_device, custom)


class AutocastTest(unittest.TestCase):
    def compare(self, run, loss=models.classified, **options):
        """Compares three steps, weights and what the model has seen with eager; returns the losses."""
        made = []

        def make():
            made.append(Blocks(run))
            return made[-1]

        torch.manual_seed(0)
        weights = Blocks(run).state_dict()
        batches = [models.batch_of(seed=seed) for seed in range(3)]
        plan = pl.plan(make, loss, batches[0], **options)
        ours, state = trained(plan, batches, weights)
        seen = made[0].seen
        made.clear()
        theirs, expected = eager(make, loss, batches, weights)
        self.assertEqual(seen, made[0].seen[: len(seen)])
        for a, b in zip(ours, theirs):
            self.assertLess(abs(a - b), 1e-6 * abs(b) + 1e-7)
        for key, tensor in expected.items():
            torch.testing.assert_close(state[key], tensor, rtol=1e-4, atol=1e-5)
        small = pl.plan(make, loss, batches[0], memory=plan.minimum + plan.minimum // 20, **options)
        self.assertEqual(trained(small, batches, weights)[0], ours)
        return ours

    def test_blocks_in_forward_are_those_of_eager(self):
        for run in RUNS:
            with self.subTest(run.__name__):
                self.compare(run)

    def test_a_block_in_the_loss(self):
        def loss(model, batch):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return models.classified(model, batch)

        narrow = self.compare(lambda m, x: m.third(m.second(m.first(x))), loss)
        self.assertNotEqual(narrow, self.compare(lambda m, x: m.third(m.second(m.first(x)))))

    def test_blocks_inside_of_mixed_precision(self):
        def run(m, x):
            h = m.first(x)
            with torch.autocast(x.device.type, enabled=False):
                h = m.second(h.float())
                m.seen.append(h.dtype)
            m.seen.append(m.second(h).dtype)
            return m.third(h).float()

        def loss(model, batch):
            with torch.autocast("cpu", dtype=torch.bfloat16):  # eager has it here, and the plan by precision=
                return models.classified(model, batch)

        self.compare(run, loss, precision="bf16-mixed")

    def test_a_block_around_the_plan_has_no_effect_on_it(self):
        weights, batch = models.Net().state_dict(), models.batch_of()
        plain = pl.plan(models.Net, models.classified, batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = pl.plan(models.Net, models.classified, batch)
            self.assertTrue(torch.is_autocast_enabled("cpu"))
            self.assertEqual(trained(inside, [batch] * 2, weights)[0], trained(plain, [batch] * 2, weights)[0])
        self.assertEqual(inside.peak, plain.peak)

    def test_blocks_of_a_gpu_that_is_not_here(self):
        made = []

        def run(m, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                h = m.first(x)
                m.seen.append((h.dtype, m.norm(h).dtype))  # norms are of float32 on a GPU
            return m.third(m.second(h.float()))

        def make():
            made.append(Blocks(run))
            return made[-1]

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pl.plan(make, models.classified, models.batch_of(), device="rtx4090")
        self.assertEqual(made[0].seen[0], (torch.bfloat16, torch.float32))

    def test_torch_is_as_before(self):
        before = (torch.amp.autocast_mode.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype,
                  checkpoint.__wrapped__.__dict__.get("__dynamo_disable"))
        pl.plan(functools.partial(Blocks, nested), models.classified, models.batch_of())
        self.assertEqual(before, (
            torch.amp.autocast_mode.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype,
            checkpoint.__wrapped__.__dict__.get("__dynamo_disable")))
        self.assertFalse(torch.is_autocast_enabled("cpu"))

    def test_another_thread_has_its_own_blocks(self):
        failed, counted = [], [0]

        def train():
            try:
                model, x = Blocks(nested), torch.ones(2, 8)
                assert x.device.type == "cpu" and not torch.compiler.is_compiling()
                h = checkpoint(model, x, use_reentrant=False)
                assert h.device.type == "cpu" and model.seen[-1] == torch.bfloat16
                once = len(model.seen)
                h.sum().backward()
                assert len(model.seen) > once  # it is computed again
                counted[0] += 1
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        def loss(model, batch):
            thread = threading.Thread(target=train)  # while this one records
            thread.start()
            thread.join()
            assert torch.compiler.is_compiling()
            return models.classified(model, batch)

        pl.plan(functools.partial(Blocks, nested), loss, models.batch_of())
        self.assertEqual(failed, [])
        self.assertGreater(counted[0], 0)


class CheckpointTest(unittest.TestCase):
    def test_a_checkpoint_is_seen_through(self):
        def through(model, batch, **options):
            return F.cross_entropy(checkpoint(model, batch["x"], **options), batch["y"])

        def in_parts(model, batch):
            return F.cross_entropy(checkpoint_sequential(model.layers, 2, batch["x"], use_reentrant=False), batch["y"])

        plain = pl.plan(models.Net, models.classified, models.batch_of())
        for loss in (functools.partial(through, use_reentrant=False), functools.partial(through, use_reentrant=True),
                     functools.partial(through, use_reentrant=False, preserve_rng_state=False, determinism_check="none"),
                     in_parts):
            plan = pl.plan(models.Net, loss, models.batch_of())
            self.assertEqual(plan.peak, plain.peak)
            self.assertIn("torch.utils.checkpoint: seen through", str(plan))
            self.assertEqual(trained(plan, [models.batch_of()])[0], trained(plain, [models.batch_of()])[0])
        self.assertNotIn("torch.utils.checkpoint", str(plain))

    def test_gradient_checkpointing_of_transformers(self):
        from architectures import ARCHITECTURES

        for name in ("llama", "bert", "t5"):
            with self.subTest(name):
                make, loss, batch = ARCHITECTURES[name]()

                def with_checkpoints(make=make):
                    model = make()
                    model.gradient_checkpointing_enable()
                    return model

                # T5 gives attention a bias of zeros that requires a gradient if it checkpoints: these calls are not replaced.
                plain, plan = (pl.plan(each, loss, batch, replace={"attention": False}) for each in (make, with_checkpoints))
                self.assertIn("torch.utils.checkpoint: seen through", str(plan))
                self.assertEqual(plan.peak, plain.peak)
                self.assertEqual(trained(plan, [batch])[0], trained(plain, [batch])[0])


if __name__ == "__main__":
    unittest.main()
