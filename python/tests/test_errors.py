"""Mistakes end in one exception that says what to do; the user's own exceptions are raised as they are."""
import functools
import traceback
import unittest

import torch

import models
import plimsoll as pl


def planned(make=models.Net, loss=models.classified, batch=None, **options):
    return pl.plan(make, loss, models.batch_of() if batch is None else batch, **options)


class ErrorsTest(unittest.TestCase):
    def refused(self, words, *args, **options):
        with self.assertRaises(pl.UserError) as caught:
            planned(*args, **options)
        self.assertRegex(str(caught.exception), words)
        return caught.exception

    def test_exceptions_of_the_user_keep_type_and_traceback(self):
        def wrong(model, batch):
            return batch["no such input"]

        try:
            planned(loss=wrong)
        except KeyError as error:
            self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].name, "wrong")
        else:
            self.fail("nothing was raised")

        class Unmade(torch.nn.Module):
            def __init__(self):
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            planned(make=Unmade)

    def test_options_are_checked_as_keys_of_a_job_file(self):
        self.refused("allowed: auto, 32-true", precision="float33")
        self.refused("gradient_checkpointing", gradient_checkpointin="on")
        self.refused("bytes", memory="8 gigs")
        self.refused("AdamW", optimizer="adamw")
        self.refused("unknown GPU", device="rtx9999")

    def test_batches_are_checked(self):
        self.refused("no tensor", batch={"x": 1})
        self.refused(r"static=\['y'\]", batch={"x": torch.zeros(8, 8), "y": torch.zeros(3, dtype=torch.int64)})
        plan = planned()
        with pl.Trainer(plan) as trainer:
            for batch, words in (
                (models.batch_of(5), "5 samples"),
                ({"x": torch.zeros(8, 8)}, "missing y"),
                ({"x": torch.zeros(8, 9), "y": torch.zeros(8, dtype=torch.int64)}, "sizes"),
                ({"x": torch.zeros(8, 8).double(), "y": torch.zeros(8, dtype=torch.int64)}, "float64"),
            ):
                with self.assertRaisesRegex(pl.UserError, words):
                    trainer.step(batch)
            self.assertGreater(trainer.step(models.batch_of()), 0)  # nothing is broken

    def test_what_cannot_be_recorded_is_named(self):
        def reads(model, batch):
            loss = models.classified(model, batch)
            return loss if loss.item() > 0 else -loss

        error = self.refused("_local_scalar_dense cannot be recorded.*reads a value", loss=reads)
        self.assertIn("if loss.item() > 0", str(error))  # the user's line
        self.assertNotIn("Exception raised from", str(error))

    def test_embedding_bags_that_change_weights_are_refused(self):
        def make():
            return torch.nn.EmbeddingBag(50, 4, max_norm=1.0)

        self.refused("cannot be recorded", make=make, loss=lambda m, b: m(b["tokens"]).mean(),
                     batch={"tokens": torch.zeros(6, 8, dtype=torch.int64)})

    def test_lengths_of_a_ctc_loss_are_numbers(self):
        def loss(model, batch, inputs=tuple, targets=tuple):
            probabilities = model(batch["x"]).log_softmax(-1).unsqueeze(1)
            return torch.nn.functional.ctc_loss(probabilities, batch["y"].unsqueeze(0), inputs([6]), targets([2]))

        batch = {"x": torch.zeros(6, 8), "y": torch.ones(2, dtype=torch.int64)}
        self.refused("ctc_loss cannot be recorded: its lengths are tensors of the step", batch=batch, static=["y"],
                     loss=lambda model, batch: loss(model, batch, torch.tensor, lambda numbers: batch["y"][:1] + 1))
        for lengths in (tuple, torch.tensor, functools.partial(torch.tensor, device="cpu")):
            pl.plan(models.Net, functools.partial(loss, inputs=lengths, targets=lengths), batch, static=["y"])

    def test_a_model_from_outside_is_refused(self):
        model = models.Net()
        self.refused("inside the model function", make=lambda: model)
        self.refused("not a torch.nn.Module", make=lambda: 3)

    def test_a_plan_that_does_not_fit_has_its_minimum_and_advice(self):
        plan = planned(batch=models.batch_of(256), memory="16KiB")
        self.assertFalse(plan.fits)
        with self.assertRaises(pl.PlanDoesNotFit) as caught:
            pl.Trainer(plan)
        self.assertEqual(caught.exception.minimum, plan.minimum)
        plan = planned(batch=models.batch_of(4096), memory="256KiB")
        self.assertFalse(plan.fits)
        advice = plan.advice()
        self.assertTrue(advice)
        for change, with_change in advice:
            self.assertTrue(with_change.fits and with_change.peak <= 256 * 1024, change)

    def test_weights_are_checked(self):
        with pl.Trainer(planned()) as trainer:
            state = trainer.state_dict()
            with self.assertRaisesRegex(pl.UserError, "missing layers.0.bias"):
                trainer.load_state_dict({k: v for k, v in state.items() if k != "layers.0.bias"})
            self.assertEqual(trainer.load_state_dict({}, strict=False)[0], list(state))
            with self.assertRaisesRegex(pl.UserError, "sizes"):
                trainer.load_state_dict(state | {"layers.0.bias": torch.zeros(3)})
        with self.assertRaisesRegex(pl.UserError, "closed"):
            trainer.step(models.batch_of())

    def test_a_refused_load_changes_nothing(self):
        with pl.Trainer(planned()) as trainer:
            before = trainer.state_dict()
            for wrong in ({"more": torch.zeros(1)}, {"layers.3.bias": torch.zeros(9)}):
                changed = {name: torch.zeros_like(tensor) for name, tensor in before.items()} | wrong
                with self.assertRaises(pl.UserError):
                    trainer.load_state_dict(changed)
                for name, tensor in trainer.state_dict().items():
                    self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_batches_that_differ_in_what_is_recorded_are_refused(self):
        batch = models.batch_of() | {"weight": 1.0}

        def loss(model, b):
            return models.classified(model, b) * b["weight"]

        with pl.Trainer(planned(loss=loss, batch=batch)) as trainer:
            with self.assertRaisesRegex(pl.UserError, "weight is 2.0, and was 1.0"):
                trainer.step(batch | {"weight": 2.0})
            with self.assertRaisesRegex(pl.UserError, "different numbers of samples: x 8, y 4"):
                trainer.fit([{"x": torch.zeros(8, 8), "y": torch.zeros(4, dtype=torch.int64), "weight": 1.0}], progress=False)

    def test_first_mistakes_are_named(self):
        self.refused("pass a function that makes the module", make=models.Net())
        self.refused("optimizer=plimsoll.AdamW", lr=3)
        self.refused("lora is a key of job files only.*peft", lora={"modules": ["*"]})
        self.refused("quantize is a key of job files only", quantize="4bit")
        self.refused("CUDA_VISIBLE_DEVICES", device="cuda:3")
        self.refused("no amount of memory", memory=[1])
        self.refused("static names 'temp'", static="temp")
        with pl.Trainer(planned()) as trainer:
            with self.assertRaisesRegex(pl.UserError, "evaluate=True"):
                trainer.evaluate([models.batch_of()])
            with self.assertRaisesRegex(pl.UserError, "read once"):
                trainer.fit(iter([models.batch_of()]), epochs=2, progress=False)
        with self.assertRaisesRegex(pl.UserError, "runs a plan"):
            pl.Trainer(models.Net())

    def test_plans_of_devices_that_are_not_here(self):
        plan = planned(device="rtx4090")
        self.assertTrue(plan.fits)
        self.assertIn("4090", str(plan))
        with self.assertRaisesRegex(pl.UserError, "not here"):
            pl.Trainer(plan)
        self.assertIn("<html", plan.page())
        self.assertGreater(plan.to_json()["peak_bytes"], 0)
        self.assertTrue(pl.fits(models.Net, models.classified, models.batch_of(), "1GiB"))
        self.assertIn("rtx4090", [each["id"] for each in pl.devices()])


if __name__ == "__main__":
    unittest.main()
