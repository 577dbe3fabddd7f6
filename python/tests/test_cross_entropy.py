"""A linear layer with cross entropy is recorded as plimsoll::linear_cross_entropy: eager's values, and no logits in memory."""
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll as pl

WORDS, WIDTH, TOKENS = 30_000, 16, 48
OFF = {"cross_entropy": False, "loss_rows": False}  # neither, or the logits would be in chunks of rows


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        return self.head(self.mix(self.words(tokens)).tanh())


def mean(model, batch):
    return F.cross_entropy(model(batch["tokens"]).view(-1, WORDS), batch["tokens"].view(-1))


def batch():
    return {"tokens": torch.randint(WORDS, (2, TOKENS), generator=torch.Generator().manual_seed(3))}


def planned(loss, model=Model, **options):
    return pl.plan(model, loss, batch(), micro_batch=2, optimizer=pl.SGD(0.1, momentum=0.0, weight_decay=0.0), **options)


def is_replaced(plan):
    return any(decision == "replace: cross_entropy" for decision, _ in plan.reasons)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def of_transformers(model, batch):
    return model(input_ids=batch["tokens"], labels=batch["tokens"]).loss


class CrossEntropyTest(unittest.TestCase):
    def test_has_the_loss_of_eager_and_no_logits(self):
        for name, loss, model in [("F.cross_entropy", mean, Model), ("transformers", of_transformers, gpt2)]:
            with self.subTest(name):
                plan, whole = planned(loss, model), planned(loss, model, replace=OFF)
                self.assertTrue(is_replaced(plan), plan.reasons)
                self.assertFalse(is_replaced(whole))
                self.assertLess(plan.peak, whole.peak)
                with pl.Trainer(plan) as trainer, pl.Trainer(whole) as other:
                    other.load_state_dict(trainer.state_dict())
                    ours = model()
                    ours.load_state_dict(trainer.state_dict(), strict=False)
                    ours.train()
                    self.assertAlmostEqual(loss(ours, batch()).item(), trainer.step(batch()), delta=2e-6)
                    other.step(batch())
                    for key, value in trainer.state_dict().items():
                        torch.testing.assert_close(value, other.state_dict()[key], rtol=0, atol=2e-6)

    def test_logits_that_are_read_elsewhere_are_whole(self):
        def loss(model, batch):
            logits = model(batch["tokens"])
            return F.cross_entropy(logits.view(-1, WORDS), batch["tokens"].view(-1)) + 1e-4 * logits.logsumexp(-1).square().mean()

        self.assertFalse(is_replaced(planned(loss)))

    def test_a_second_derivative_is_refused_with_what_to_do(self):
        def loss(model, batch):
            value = mean(model, batch)
            (gradient,) = torch.autograd.grad(value, [model.mix.weight], create_graph=True)
            return value + gradient.square().sum()

        with self.assertRaisesRegex(pl.UserError, "no second derivative.*cross_entropy"):
            planned(loss)
        self.assertFalse(is_replaced(planned(loss, replace=OFF)))


if __name__ == "__main__":
    unittest.main()
