"""Values of operators at inputs that torch's own samples do not have, next to eager."""
import math
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll as pl


class Weight(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(value.shape))


def first_loss(value, loss, **options):
    """Returns the loss of a step of the recorded function at a parameter with this value."""
    def with_batch(model, batch):
        return loss(model.weight) + 0 * batch["x"].mean()

    plan = pl.plan(lambda: Weight(value), with_batch, {"x": torch.zeros(1, 1)}, **options)
    with pl.Trainer(plan) as trainer:
        trainer.load_state_dict({"weight": value})
        return trainer.step({"x": torch.zeros(1, 1)}, lr=0.0)


class ValuesTest(unittest.TestCase):
    def test_a_decomposition_that_fails_is_not_finite(self):
        indefinite = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
        self.assertFalse(math.isfinite(first_loss(indefinite, lambda w: torch.linalg.cholesky(w).sum())))
        definite = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
        self.assertAlmostEqual(first_loss(definite, lambda w: torch.linalg.cholesky(w).sum()),
                               torch.linalg.cholesky(definite).sum().item(), places=6)

    def test_medians_of_large_and_infinite_values(self):
        self.assertEqual(first_loss(torch.full((100,), 1000.0), lambda w: w.half().median().float()), 1000)
        self.assertEqual(first_loss(torch.full((5,), math.inf), lambda w: torch.exp(-w.median())), 0)
        values = torch.tensor([1.0, math.nan, 3.0])
        self.assertEqual(first_loss(values, lambda w: w.nanmedian()), values.nanmedian().item())

    def test_the_mean_of_a_long_bag_of_16_bit_weights(self):
        tokens = torch.zeros(1, 1000, dtype=torch.int64)

        def loss(model, batch):
            return F.embedding_bag(batch["tokens"], model.weight, mode="mean").float().mean()

        plan = pl.plan(lambda: Weight(torch.ones(4, 8)), loss, {"tokens": tokens}, precision="bf16-true")
        with pl.Trainer(plan) as trainer:
            trainer.load_state_dict({"weight": torch.ones(4, 8)})
            self.assertEqual(trainer.step({"tokens": tokens}, lr=0.0), 1)

    def test_a_covariance_with_a_correction_above_its_observations(self):
        values = torch.tensor([[1.0, 2.0, 4.0]])
        self.assertEqual(first_loss(values, lambda w: torch.cov(w, correction=5)), math.inf)
        self.assertAlmostEqual(first_loss(values, torch.cov), torch.cov(values).item(), places=5)

    def test_writing_into_a_conjugate_is_refused(self):
        def loss(w):
            z = torch.complex(w, w)
            z.conj().mul_(2)
            return z.real.mean()

        with self.assertRaisesRegex(pl.UserError, "writes into a conjugate"):
            first_loss(torch.ones(3), loss)
        self.assertEqual(first_loss(torch.ones(3), lambda w: torch.complex(w, w).conj().real.mean()), 1)

    def test_a_variance_of_another_size_is_refused(self):
        with self.assertRaisesRegex(ValueError, "var is of incorrect size"):
            first_loss(torch.ones(4, 3), lambda w: F.gaussian_nll_loss(w, torch.zeros(4, 3), torch.ones(3)))

    def test_values_computed_from_numbers_are_read(self):
        class Staged(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.Tensor(3).fill_(2))
                self.rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
                self.register_buffer("count", torch.ones(1))

            def forward(self):
                count = torch.as_tensor([0.5, 7.0], device=self.weight.device).clamp(min=1).add_(1)
                first, second = count.tolist()
                kept = torch.eye(3, device=self.weight.device, dtype=torch.bool).nonzero()
                rows = self.weight[torch.arange(3, device=self.weight.device) != 1]
                assert torch.equal(kept[:, 0], kept[:, 1]) and rows.shape == (2,)
                return (rows.sum() * first + self.weight[kept[:, 1]].sum() * second) * sum(self.rates)

        batch = {"x": torch.zeros(1, 1)}
        plan = pl.plan(Staged, lambda model, batch: model(), batch)
        with pl.Trainer(plan) as trainer:
            self.assertEqual(trainer.step(batch), (4 * 2 + 6 * 8) * 0.75)

        def reads(value_of):
            return lambda model, batch: model() * value_of(model).item()

        for value_of in (lambda m: m.count, lambda m: m.weight[0], lambda m: torch.rand(1, device=m.weight.device),
                         lambda m: torch.ones(1, device=m.weight.device).mul_(m.count)):
            with self.assertRaisesRegex(pl.UserError, "_local_scalar_dense.* reads a value"):
                pl.plan(Staged, reads(value_of), batch)

    def test_gradients_of_a_table_have_the_same_bits_in_each_run(self):
        rows = torch.randint(0, 2, (1000000,), generator=torch.Generator().manual_seed(1))
        batch = {"rows": rows, "x": torch.randn(1000000, 1, generator=torch.Generator().manual_seed(2))}

        def loss(model, batch):
            return (model.weight[batch["rows"]] * batch["x"]).mean()

        plan = pl.plan(lambda: Weight(torch.zeros(2, 1)), loss, batch, optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
        found = set()
        with pl.Trainer(plan) as trainer:
            for _ in range(30):
                trainer.load_state_dict({"weight": torch.zeros(2, 1)})
                trainer.step(batch)
                found.add(trainer.state_dict()["weight"].numpy().tobytes())
        self.assertEqual(len(found), 1)

    def test_checks_that_values_are_finite_pass(self):
        def loss(w):
            if not torch.isfinite(w).all() or torch.isnan(w).any() or torch.isinf(w * 2).any() or (~torch.isfinite(w)).any():
                w = w * 0
            return w.mean()

        self.assertEqual(first_loss(torch.tensor([1.0, 3.0]), loss), 2)
        self.assertEqual(first_loss(torch.tensor([1.0, math.inf]), loss), math.inf)
        with self.assertRaisesRegex(pl.UserError, "reads a value"):
            first_loss(torch.ones(2), lambda w: loss(w.half()).float())
        with self.assertRaisesRegex(pl.UserError, "reads a value"):
            first_loss(torch.ones(2), lambda w: w.mean() * torch.isfinite(w).sum().item())
        with self.assertRaisesRegex(pl.UserError, "reads a value"):
            pl.plan(lambda: Weight(torch.ones(2)), lambda model, batch: model.weight.sum() * bool(batch["x"].isnan().any()),
                    {"x": torch.ones(1, 1)})


if __name__ == "__main__":
    unittest.main()
