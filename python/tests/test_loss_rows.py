"""Losses of a large linear layer in chunks of tokens: eager's values, gradients and a smaller budget."""
import functools
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll as pl

WORDS, WIDTH, TOKENS = 20_000, 32, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """A small GPT-2; `teacher` is a frozen head."""

    def __init__(self, teacher=False):
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        self.lm_head.weight = self.words.weight
        if teacher:
            self.teacher = nn.Linear(WIDTH, WORDS)
            self.teacher.requires_grad_(False)

    def hidden(self, tokens):
        return self.norm(self.blocks(self.words(tokens) + self.positions.weight[: tokens.shape[1]]))

    def forward(self, tokens):
        return self.lm_head(self.hidden(tokens))


def smoothed(model, batch):
    return F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1)


def with_z_loss(model, batch):
    logits = model(batch["tokens"]).flatten(0, 1)
    return F.cross_entropy(logits, batch["labels"].flatten()) + 1e-4 * logits.logsumexp(-1).square().mean()


def distilled(model, batch):
    x = model.hidden(batch["tokens"])
    with torch.no_grad():
        teacher = F.softmax(model.teacher(x) / 2, -1)
    return F.kl_div(F.log_softmax(model.lm_head(x) / 2, -1), teacher, reduction="batchmean")


def preferred(model, batch):
    logits, labels = model(batch["tokens"])[:, :-1], batch["labels"][:, 1:]
    counted = labels != -100
    chosen = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[..., None])[..., 0]
    sums = (chosen * counted).sum(-1)
    return -F.logsigmoid(0.1 * (sums[0::2] - sums[1::2])).mean()


def masked(model, batch):
    labels = batch["labels"].flatten()
    losses = F.cross_entropy(model(batch["tokens"]).flatten(0, 1), labels, reduction="none")
    mask = (labels % 3 != 0).float()
    return (losses * mask).sum() / mask.sum()


def capped(model, batch):
    logits = 3 * torch.tanh(model(batch["tokens"]) / 3)
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())


def binary(model, batch):
    logits = model(batch["tokens"])
    return F.binary_cross_entropy_with_logits(logits, F.one_hot(batch["tokens"], WORDS).float())


def padded(model, batch):
    """The last classes are padding of the layer."""
    logits = model(batch["tokens"])[..., : WORDS - 1000]
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten().clamp(max=WORDS - 1001), label_smoothing=0.1)


def penalized(model, batch):
    """With means whose kernels use scratch."""
    logits = model(batch["tokens"])
    rows = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none", label_smoothing=0.1)
    return rows.mean() + 0.01 * logits.abs().mean() + 0.01 * logits.amax(-1).square().mean()


def batch():
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(WORDS, (4, TOKENS), generator=generator)
    labels = tokens.clone()
    labels[:, :5] = -100
    return {"tokens": tokens, "labels": labels}


def planned(loss, model, **options):
    optimizer = pl.SGD(0.1, momentum=0.0, weight_decay=0.0)
    return pl.plan(model, loss, batch(), micro_batch=4, optimizer=optimizer, **options)


def is_sliced(plan):
    return any(decision == "loss_rows: on" for decision, _ in plan.reasons)


class LossRowsTest(unittest.TestCase):
    def test_has_the_loss_and_the_gradients_of_eager_in_a_smaller_budget(self):
        for loss in (smoothed, with_z_loss, distilled, preferred, masked, capped, binary, padded, penalized):
            with self.subTest(loss.__name__):
                model = functools.partial(Model, teacher=loss is distilled)
                free = planned(loss, model, max_slowdown=0)
                plan = planned(loss, model, memory=free.minimum)
                whole = planned(loss, model, replace={"loss_rows": False})
                self.assertTrue(is_sliced(plan), plan.reasons)
                self.assertLess(plan.peak, whole.minimum - 4 * TOKENS * WORDS * 4)
                with pl.Trainer(plan) as trainer:
                    ours = model()
                    ours.load_state_dict(trainer.state_dict(), strict=False)
                    ours.train()
                    value = loss(ours, batch())
                    value.backward()
                    self.assertAlmostEqual(value.item(), trainer.step(batch()), delta=max(5e-6, 2e-6 * value.item()))
                    self.assertLessEqual(trainer.used, plan.peak)
                    after = trainer.state_dict()
                    for key, parameter in ours.named_parameters():
                        if parameter.grad is not None:
                            torch.testing.assert_close(after[key], (parameter - 0.1 * parameter.grad).detach(), rtol=0, atol=5e-6)

    def test_classes_before_tokens_run_in_chunks_in_mixed_precision(self):
        def loss(model, batch):
            return F.cross_entropy(model(batch["tokens"]).transpose(1, 2), batch["labels"], label_smoothing=0.1)

        free = planned(loss, Model, max_slowdown=0, precision="bf16-mixed")
        plan = planned(loss, Model, memory=free.minimum, precision="bf16-mixed")
        self.assertTrue(is_sliced(plan), plan.reasons)
        with pl.Trainer(plan) as trainer:
            ours = Model()
            ours.load_state_dict(trainer.state_dict(), strict=False)
            self.assertAlmostEqual(loss(ours, batch()).item(), trainer.step(batch()), delta=5e-3)

    def test_means_of_large_values_are_finite_in_16_bits(self):
        def loss(model, batch):
            logits = model(batch["tokens"])
            return smoothed(model, batch) + 0.01 * logits.abs().mean() + 0.01 * logits.square().mean(dim=(0, 2)).mean()

        for precision in ("16-mixed", "bf16-mixed"):
            with self.subTest(precision):
                free = planned(loss, Model, max_slowdown=0, precision=precision)
                plan = planned(loss, Model, memory=free.minimum, precision=precision)
                self.assertTrue(is_sliced(plan), plan.reasons)
                with pl.Trainer(plan) as trainer:
                    ours = Model()
                    ours.load_state_dict(trainer.state_dict(), strict=False)
                    self.assertAlmostEqual(loss(ours, batch()).item(), trainer.step(batch()), delta=5e-3)

    def test_sums_over_chunks_in_16_bits_lose_nothing(self):
        """Gradients of a bfloat16 model, against those of float32: no worse than with all logits."""
        start, errors = None, {}
        for precision, replace in (("32-true", False), ("bf16-true", False), ("bf16-true", True)):
            options = {"precision": precision, "replace": {"loss_rows": replace, "cross_entropy": False}}
            optimizer = pl.SGD(2.0**20, momentum=0.0, weight_decay=0.0)  # the update is the gradient
            tokens = {name: torch.cat([values] * 4) for name, values in batch().items()}
            plan = pl.plan(Model, smoothed, tokens, micro_batch=16, optimizer=optimizer, **options)
            if replace:
                plan = pl.plan(Model, smoothed, tokens, micro_batch=16, optimizer=optimizer, memory=plan.minimum, **options)
            self.assertEqual(is_sliced(plan), replace)
            with pl.Trainer(plan) as trainer:
                start = start or {name: x.bfloat16().float() for name, x in trainer.state_dict().items()}
                trainer.load_state_dict({name: x.to(trainer.state_dict()[name].dtype) for name, x in start.items()})
                trainer.step(tokens)
                after = trainer.state_dict()["words.weight"].double()
            update = after - start["words.weight"].double()
            if precision == "32-true":
                exact = update
            else:
                errors[replace] = ((update - exact).norm() / exact.norm()).item()
        self.assertLess(errors[True], 1.2 * errors[False])

    def test_without_it_the_logits_are_whole(self):
        whole = planned(smoothed, Model, replace={"loss_rows": False})
        self.assertFalse(is_sliced(whole), whole.reasons)
        with pl.Trainer(whole) as trainer:
            ours = Model()
            ours.load_state_dict(trainer.state_dict(), strict=False)
            ours.train()
            self.assertAlmostEqual(smoothed(ours, batch()).item(), trainer.step(batch()), delta=2e-6)


if __name__ == "__main__":
    unittest.main()
