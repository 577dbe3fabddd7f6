"""Models of well-known libraries train as in eager PyTorch (sweep.py), with the planned bytes and the same bits at a small
budget; those that read values of the step are refused by name.

A third of them, drawn by PLIMSOLL_TEST_SEED (the day by default). PLIMSOLL_ARCHITECTURES=llama,vit or all: these."""
import datetime
import os
import random
import unittest
import warnings

import sweep
from architectures import REFUSED

STEPS = 5


def drawn():
    """Returns the names of the architectures of this run, and how they were chosen."""
    wanted = os.environ.get("PLIMSOLL_ARCHITECTURES", "")
    if wanted:
        return sweep.names() if wanted == "all" else wanted.split(","), "as asked"
    seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
    names = sorted(sweep.names())
    return sorted(random.Random(seed).sample(names, (len(names) + 2) // 3)), f"seed {seed}"


class ArchitecturesTest(unittest.TestCase):
    def test_they_train_as_eager(self):
        warnings.simplefilter("ignore")
        names, how = drawn()
        print(f"{', '.join(names)} ({how})")
        for name in names:
            with self.subTest(name):
                row = sweep.measured(name, STEPS)
                if name in REFUSED:
                    self.assertEqual(row["outcome"], "refused")
                    self.assertIn(REFUSED[name], row["why"])
                else:
                    self.assertEqual(row["outcome"], "works")


if __name__ == "__main__":
    unittest.main()
