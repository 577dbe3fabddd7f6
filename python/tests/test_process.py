"""Budgets of the whole process: what the kernel counts beside what was planned."""
import json
import subprocess
import sys
import unittest

import torch
from torch import nn

import plimsoll as pl

PROGRAM = """
import json, sys
import torch
from torch import nn
import plimsoll as pl

def model():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 8))

def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"])

def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))

torch.manual_seed(0)
batch = {"x": torch.randn(512, 256), "y": torch.randint(8, (512,))}
before = resident("VmRSS")
budget = before + int(sys.argv[1]) * 2**20
try:
    plan = pl.plan(model, loss, batch, process_memory=budget)
    plan.require()
except pl.PlanDoesNotFit as error:
    print(json.dumps({"fits": False, "message": str(error)}))
    sys.exit()
with pl.Trainer(plan) as trainer:
    losses = [trainer.step(batch) for _ in range(3)]
print(json.dumps({"fits": True, "budget": budget, "before": before, "peak": resident("VmHWM"), "losses": losses, **plan.process}))
"""
MIB = 2**20


def trained(room):
    """Returns what a process says that trains with `room` MiB beside what it has after its imports."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(room)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class ProcessTest(unittest.TestCase):
    def test_the_process_keeps_its_budget_and_its_plan(self):
        wide, narrow = trained(400), trained(210)
        self.assertTrue(wide["fits"] and narrow["fits"], (wide, narrow))
        self.assertLessEqual(narrow["peak"], narrow["budget"] * 1.02)
        self.assertLessEqual(narrow["planned_bytes"], narrow["budget"])
        self.assertLess(abs(narrow["peak"] - narrow["planned_bytes"]), max(8 * MIB, 0.03 * narrow["planned_bytes"]))
        self.assertEqual(wide["losses"], narrow["losses"])

    def test_too_small_a_budget_is_refused_before_the_training(self):
        refused = trained(2)
        self.assertFalse(refused["fits"])
        self.assertRegex(refused["message"], "process")


class ProcessArgumentTest(unittest.TestCase):
    def planned(self, **options):
        return pl.plan(lambda: nn.Linear(8, 8), lambda model, batch: model(batch["x"]).mean(), {"x": torch.zeros(4, 8)}, **options)

    def test_too_small_a_memory_is_not_the_process(self):
        plan = self.planned(memory=64, process_memory="64GiB")
        with self.assertRaisesRegex(pl.PlanDoesNotFit, "the training needs at least"):
            plan.require()

    def test_fits_answers_and_wrong_values_are_named(self):
        self.assertFalse(pl.fits(lambda: nn.Linear(8, 8), lambda model, batch: model(batch["x"]).mean(), {"x": torch.zeros(4, 8)},
                                 process_memory="1MiB"))
        for value in (True, "lots", 1.5, 0):
            with self.assertRaisesRegex(pl.UserError, "process_memory"):
                self.planned(process_memory=value)


if __name__ == "__main__":
    unittest.main()
