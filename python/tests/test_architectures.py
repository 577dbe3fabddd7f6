"""Models of well-known libraries train as in eager PyTorch, with the planned bytes and the same bits at a small budget.

A third of them, drawn by PLIMSOLL_TEST_SEED (the day by default). PLIMSOLL_ARCHITECTURES=llama,vit or all: these."""
import datetime
import os
import random
import unittest

import torch

import plimsoll as pl
from architectures import ARCHITECTURES


def drawn():
    """Returns the names of the architectures of this run, and how they were chosen."""
    wanted = os.environ.get("PLIMSOLL_ARCHITECTURES", "")
    if wanted:
        return list(ARCHITECTURES) if wanted == "all" else wanted.split(","), "as asked"
    seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
    names = sorted(ARCHITECTURES)
    return sorted(random.Random(seed).sample(names, (len(names) + 2) // 3)), f"seed {seed}"


class ArchitecturesTest(unittest.TestCase):
    def test_they_train_as_eager(self):
        names, how = drawn()
        print(f"{', '.join(names)} ({how})")
        for name in names:
            with self.subTest(name):
                self.compare(name)

    def compare(self, name):
        torch.manual_seed(0)
        make, loss, batch = ARCHITECTURES[name]()
        samples = next(iter(batch.values())).shape[0]
        static = [key for key, tensor in batch.items() if tensor.shape[0] != samples]
        options = {"static": static, "optimizer": pl.AdamW(1e-3, weight_decay=0.0)}
        plan = pl.plan(make, loss, batch, **options)
        with pl.Trainer(plan) as trainer:
            weights = trainer.state_dict()
            ours = [trainer.step(batch) for _ in range(3)]
            self.assertEqual(trainer.used, plan.peak)
        model = make().train()
        model.load_state_dict(weights)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0)
        for i, mine in enumerate(ours):
            theirs = loss(model, batch)
            optimizer.zero_grad()
            theirs.backward()
            optimizer.step()
            self.assertLess(abs(mine - theirs.item()), 1e-6 * abs(theirs.item()), f"{name}, step {i + 1}")
        small = pl.plan(make, loss, batch, memory=plan.minimum + plan.minimum // 20, **options)
        with pl.Trainer(small) as trainer:
            self.assertEqual([trainer.step(batch) for _ in range(3)], ours, f"{name} at its small budget")


if __name__ == "__main__":
    unittest.main()
