"""Training from Python is that of PyTorch, in the planned bytes, at any budget."""
import collections
import gc
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import torch

import models
import plimsoll as pl


def trained(plan, batches, weights=None, lr=1e-2):
    with pl.Trainer(plan) as trainer:
        if weights is not None:
            trainer.load_state_dict(weights)
        losses = [trainer.step(batch, lr=lr) for batch in batches]
        assert trainer.used == plan.peak, (trainer.used, plan.peak)
        return losses, trainer.state_dict()


def eager(make, loss, batches, weights, lr=1e-2):
    model = make()
    model.load_state_dict(weights)
    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    rest = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": rest, "weight_decay": 0.0}], lr)
    losses = []
    for batch in batches:
        result = loss(model, batch)
        result = result["loss"] if isinstance(result, dict) else result
        optimizer.zero_grad()
        result.backward()
        optimizer.step()
        losses.append(result.item())
    return losses, model.state_dict()


# A training in a process of its own that is interrupted: prints "ready" in step 5, then its steps and the next loss.
INTERRUPTED = """
import itertools, signal, sys
import models, plimsoll as pl
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with SIGINT ignored
def ready(trainer, step, loss):
    if step == 5:
        print("ready", flush=True)
trainer = pl.Trainer(pl.plan(models.Net, models.classified, models.batch_of(256)))
try:
    trainer.fit(itertools.repeat(models.batch_of(256)), epochs=1, callbacks=[ready], progress=False)
except KeyboardInterrupt:
    trainer.save(sys.argv[1])
    print(trainer.steps, repr(trainer.step(models.batch_of(256))))
"""


class TrainingTest(unittest.TestCase):
    def test_a_tied_parameter_counts_once(self):
        report = pl.plan(models.Tied, models.next_tokens, models.tokens_of()).to_json()
        count = sum(p.numel() for p in models.Tied().parameters())
        self.assertEqual((report["parameters"], report["model_parameters"]), (count, count))

    def test_each_kind_trains_as_eager_and_at_any_budget(self):
        for name, (make, loss, batch_of) in models.KINDS.items():
            with self.subTest(name):
                torch.manual_seed(0)
                weights = make().state_dict()
                batches = [batch_of(seed=seed) for seed in range(3)]
                plan = pl.plan(make, loss, batches[0])
                ours, state = trained(plan, batches, weights)
                theirs, expected = eager(make, loss, batches, weights)
                for a, b in zip(ours, theirs):
                    self.assertLess(abs(a - b), 1e-6 * abs(b) + 1e-7)
                self.assertEqual(list(state), list(expected))
                for key, tensor in expected.items():
                    self.assertEqual(state[key].dtype, tensor.dtype)
                    torch.testing.assert_close(state[key], tensor, rtol=1e-4, atol=1e-5)
                small = pl.plan(make, loss, batches[0], memory=plan.minimum + plan.minimum // 20)
                self.assertTrue(small.fits)
                self.assertEqual(trained(small, batches, weights)[0], ours)

    def test_a_profile_has_the_next_steps_op_by_op(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        with tempfile.TemporaryDirectory() as folder, pl.Trainer(plan) as trainer:
            trainer.step(models.batch_of())
            for name, steps in (("first.json", 2), ("second.json", 1)):
                file = pathlib.Path(folder) / name
                trainer.profile(file, steps)
                losses = [trainer.step(models.batch_of()) for _ in range(steps)]
                events = json.loads(file.read_text())["traceEvents"]
                self.assertEqual(sum(event.get("cat") == "step" for event in events), len(losses))
                self.assertGreater(sum("op" in event.get("args", {}) for event in events), 10 * steps)
                self.assertIn("layers.0", {event["args"].get("module") for event in events if event["ph"] == "X"})
            with self.assertRaisesRegex(pl.UserError, "steps is 0"):
                trainer.profile(file, 0)

    def test_without_a_budget_a_plan_takes_what_costs_almost_no_time(self):
        def make():
            return torch.nn.Sequential(*(part for _ in range(6) for part in (torch.nn.Linear(32, 32), torch.nn.GELU())))

        def loss(model, batch):
            return model(batch["x"]).square().mean()

        batch = {"x": torch.randn(512, 32)}
        fastest, lean = (pl.plan(make, loss, batch, max_slowdown=part) for part in (0, 0.5))
        self.assertLess(lean.peak, fastest.peak)
        self.assertLessEqual(lean.step_seconds, 1.5 * fastest.step_seconds)
        self.assertIn("none is stated", str(lean.reasons))
        stated = pl.plan(make, loss, batch, memory=fastest.peak, max_slowdown=0.5)
        self.assertEqual(stated.peak, fastest.peak)
        weights = make().state_dict()
        self.assertEqual(trained(lean, [batch] * 2, weights)[0], trained(fastest, [batch] * 2, weights)[0])
        for wrong in (-1, 1.5, True, "2 %", float("nan")):
            with self.assertRaisesRegex(pl.UserError, "max_slowdown is .*; allowed: from 0 to 1"):
                pl.plan(make, loss, batch, max_slowdown=wrong)

    def test_the_micro_batch_is_the_planners_choice(self):
        whole = pl.plan(models.Net, models.classified, models.batch_of(64), micro_batch="auto")
        self.assertEqual((whole.micro_batch, whole.accumulate, whole.batch_size), (64, 1, 64))
        small = pl.plan(models.Net, models.classified, models.batch_of(64), memory=whole.minimum * 21 // 20,
                        micro_batch="auto")
        self.assertLess(small.micro_batch, 64)
        self.assertEqual(small.batch_size, 64)
        weights = models.Net().state_dict()
        batches = [models.batch_of(64, seed) for seed in range(3)]
        for a, b in zip(trained(whole, batches, weights)[0], trained(small, batches, weights)[0]):
            self.assertLess(abs(a - b), 1e-5)

    def test_batches_are_as_dataloaders_give_them(self):
        x, y = models.batch_of()["x"], models.batch_of()["y"]
        for batch, loss in (
            ((x, y), lambda model, b: torch.nn.functional.cross_entropy(model(b[0]), b[1])),
            ({"in": {"x": x}, "y": [y], "word": "kept"}, self.nested),
            (x, lambda model, b: (model(b).square().mean(), None)),
        ):
            plan = pl.plan(models.Net, loss, batch)
            with pl.Trainer(plan) as trainer:
                self.assertGreater(trainer.step(batch), 0)

    @staticmethod
    def nested(model, batch):
        assert batch["word"] == "kept"
        return torch.nn.functional.cross_entropy(model(batch["in"]["x"]), batch["y"][0])

    def test_fit_joins_batches_evaluates_and_calls_back(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of(8), accumulate=2, evaluate=True)
        self.assertEqual(plan.batch_size, 16)
        loader = [models.batch_of(8, seed) for seed in range(5)]
        seen = []
        with pl.Trainer(plan, optimizer=pl.AdamW(1e-2)) as trainer:
            result = trainer.fit(loader, epochs=2, evaluate=loader[:1], progress=False,
                                 callbacks=[lambda trainer, step, loss: seen.append(step)])
            self.assertEqual(seen, [1, 2, 3, 4])
            self.assertEqual(len(result["evaluations"]), 2)
            self.assertEqual(result["left_out"], 16)
            self.assertEqual(trainer.steps, 4)
            more = trainer.fit(loader, steps=3, progress=False, callbacks=[lambda t, step, loss: step < 2])
            self.assertEqual(len(more["losses"]), 2)
            with self.assertRaisesRegex(pl.UserError, "less than the 16 samples"):
                trainer.fit(loader[:1], progress=False)

    def test_a_saved_training_goes_on_with_the_same_bits(self):
        plan = pl.plan(models.Normed, models.classified, models.pictures_of())
        batches = [models.pictures_of(seed=seed) for seed in range(6)]
        with tempfile.TemporaryDirectory() as folder, pl.Trainer(plan) as first:
            file = pathlib.Path(folder) / "training.safetensors"
            for batch in batches[:3]:
                first.step(batch)
            first.save(file)
            expected = [first.step(batch) for batch in batches[3:]]
            again = pl.plan(models.Normed, models.classified, models.pictures_of())
            with pl.Trainer(again) as second:
                second.load(file)
                self.assertEqual(second.steps, 3)
                self.assertEqual([second.step(batch) for batch in batches[3:]], expected)

    def test_schedules_are_functions_or_those_of_the_job_file(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        with pl.Trainer(plan, optimizer=pl.AdamW(1e-2), schedule={"name": "linear", "min_lr_ratio": 0, "steps": 4}) as t:
            self.assertAlmostEqual(t._rate(2), 1e-2 * 2 / 3)
        with self.assertRaisesRegex(pl.UserError, "scheduler"):
            pl.Trainer(pl.plan(models.Net, models.classified, models.batch_of()), schedule={"nam": "x", "steps": 4})
        with self.assertRaisesRegex(pl.UserError, "length of the training"):
            pl.Trainer(plan.changed(), schedule="cosine")

    def test_another_optimizer_plans_again(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        with pl.Trainer(plan, optimizer=pl.SGD(1e-2)) as trainer:
            self.assertLess(trainer.plan.peak, plan.peak)
            self.assertGreater(trainer.step(models.batch_of()), 0)

    def test_random_operators_do_not_depend_on_the_budget(self):
        def make():
            return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 4))

        plan = pl.plan(make, models.classified, models.batch_of(), seed=3)
        small = pl.plan(make, models.classified, models.batch_of(), memory=plan.minimum, seed=3)
        batches = [models.batch_of(seed=seed) for seed in range(3)]
        self.assertEqual(trained(plan, batches)[0], trained(small, batches)[0])

    def test_two_trainers_of_one_plan_have_memory_of_their_own(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        batch = models.batch_of()
        with pl.Trainer(plan) as first, pl.Trainer(plan) as second:
            losses = [first.step(batch, lr=1e-2) for _ in range(3)]
            self.assertEqual([second.step(batch, lr=1e-2) for _ in range(3)], losses)
            second.close()
            self.assertLess(first.step(batch), losses[0])
        with pl.Trainer(plan) as third:  # the plan is free again
            self.assertEqual(third.step(batch, lr=1e-2), losses[0])

    def test_threads_wait_for_each_other(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        trainer, ended = pl.Trainer(plan), []

        def train():
            try:
                while True:
                    trainer.step(models.batch_of())
            except pl.UserError as error:
                ended.append(str(error))

        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        while trainer.steps < 20:
            pass
        trainer.close()
        for thread in threads:
            thread.join()
        self.assertEqual(ended, ["the trainer is closed"] * 2)

    def test_parts_in_evaluation_mode_stay_in_it(self):
        def make():
            torch.manual_seed(0)
            model = models.Normed()
            model.body[1].eval()
            return model

        weights, batch = make().state_dict(), models.pictures_of()
        ours, state = trained(pl.plan(make, models.classified, batch), [batch], weights)
        theirs, _ = eager(make, models.classified, [batch], weights)
        self.assertLess(abs(ours[0] - theirs[0]), 1e-6)
        self.assertEqual(int(state["body.1.num_batches_tracked"]), 0)

    def test_batches_of_tokenizers_are_mappings(self):
        batch = collections.UserDict(models.tokens_of())
        with pl.Trainer(pl.plan(models.Tied, models.next_tokens, batch)) as trainer:
            self.assertGreater(trainer.step(batch), 0)

    def test_weights_of_16_bits(self):
        weights, batch = models.Net().state_dict(), models.batch_of()
        plan = pl.plan(models.Net, models.classified, batch, precision="bf16-true", optimizer=pl.AdamW(1e-2))
        whole = pl.plan(models.Net, models.classified, batch, optimizer=pl.AdamW(1e-2))
        # Of the peak these two: processors without matmuls of 16 bits convert operands to float32, in scratch.
        for kind in ("parameters", "optimizer_state"):
            self.assertLess(plan.breakdown[kind], 0.6 * whole.breakdown[kind])
        losses, state = trained(plan, [batch] * 5, weights)
        self.assertEqual({tensor.dtype for tensor in state.values()}, {torch.bfloat16})
        for a, b in zip(losses, trained(whole, [batch] * 5, weights)[0]):
            self.assertLess(abs(a - b), 0.05)

    def test_the_default_dtype_is_the_users(self):
        torch.set_default_dtype(torch.float64)
        try:
            batch = {"x": torch.randn(8, 8), "y": torch.zeros(8, dtype=torch.int64)}
            with pl.Trainer(pl.plan(models.Net, models.classified, batch)) as trainer:
                self.assertEqual(trainer.state_dict()["layers.0.weight"].dtype, torch.float64)
        finally:
            torch.set_default_dtype(torch.float32)

    def test_ctrl_c_ends_after_the_step_and_the_trainer_can_be_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "training.safetensors"
            child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, file], stdout=subprocess.PIPE, text=True,
                                     cwd=pathlib.Path(__file__).parent)
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(signal.SIGINT)
            steps, following = (float(word) for word in child.communicate()[0].split())
            self.assertEqual(child.returncode, 0)
            self.assertGreaterEqual(steps, 5)
            plan = pl.plan(models.Net, models.classified, models.batch_of(256))
            with pl.Trainer(plan) as trainer, pl.Trainer(plan) as again:
                for _ in range(int(steps)):  # the same steps without an interruption
                    trainer.step(models.batch_of(256))
                self.assertEqual(trainer.step(models.batch_of(256)), following)
                again.load(file)
                self.assertEqual(again.steps, steps)
                self.assertEqual(again.step(models.batch_of(256)), following)

    def test_a_dropped_trainer_frees_its_memory(self):
        plan = pl.plan(models.Net, models.classified, models.batch_of())
        trainer = pl.Trainer(plan)
        gone = weakref.ref(trainer), weakref.ref(plan), weakref.ref(plan._session)
        gc.collect()
        gc.disable()
        try:
            del trainer, plan
            self.assertEqual([each() for each in gone], [None, None, None])  # no cycle keeps them
        finally:
            gc.enable()


if __name__ == "__main__":
    unittest.main()
