"""The rest of the process goes on as before: nothing of torch changes outside of recording."""
import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

import torch
from torch.utils.data import DataLoader, TensorDataset

import models
import plimsoll as pl


def facts():
    """What torch says about devices."""
    return (torch.accelerator.is_available(), torch.accelerator.current_accelerator(), torch.get_default_device(),
            torch._C._get_privateuse1_backend_name(), hasattr(torch, "ipu"), "torch.ipu" in sys.modules,
            torch.compiler.is_compiling(), torch.get_default_dtype(), torch.is_grad_enabled(),
            torch.__future__.get_swap_module_params_on_conversion())


BEFORE = facts()
BATCH = models.batch_of()


def check_worker(index):
    """Runs in a worker of a DataLoader, whose process is a fork of this one or a new one."""
    assert facts() == BEFORE, facts()
    assert torch.nn.Linear(4, 4)(torch.ones(2, 4)).device.type == "cpu"


class CitizenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = pl.plan(models.Net, models.classified, models.batch_of())
        cls.trainer = pl.Trainer(cls.plan)

    @classmethod
    def tearDownClass(cls):
        cls.trainer.close()

    def test_import_loads_nothing(self):
        code = ("import sys, time; begin = time.perf_counter(); import plimsoll; "
                "print(time.perf_counter() - begin, 'torch' in sys.modules, 'plimsoll' in open('/proc/self/maps').read())")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(out[1:], ["False", "False"])

    def test_nothing_changes(self):
        self.assertEqual(facts(), BEFORE)
        state = torch.get_rng_state()
        pl.plan(models.Net, models.classified, models.batch_of())
        self.assertEqual(facts(), BEFORE)
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        with self.assertRaises(ZeroDivisionError):
            pl.plan(models.Net, lambda model, batch: 1 / 0, models.batch_of())
        self.assertEqual(facts(), BEFORE)

    def test_eager_training_goes_on(self):
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        self.assertEqual(model.weight.device.type, "cpu")

    def test_a_plan_after_eager_training(self):
        code = ("import torch, models, plimsoll as pl; torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward(); "
                "print(pl.plan(models.Net, models.classified, models.batch_of()).peak); "
                "torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()")
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(int(out), self.plan.peak)

    def test_another_thread_trains_while_a_step_is_planned(self):
        stop, counted, failed = threading.Event(), [0], []

        def train():
            model = torch.nn.Linear(4, 4)
            try:
                while not stop.is_set():
                    loss = model(torch.ones(2, 4)).sum()
                    assert loss.device.type == "cpu"
                    loss.backward()
                    counted[0] += 1
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        thread = threading.Thread(target=train)
        thread.start()
        try:
            for _ in range(3):
                pl.plan(models.Net, models.classified, models.batch_of())
            for _ in range(20):
                self.trainer.step(models.batch_of())
        finally:
            stop.set()
            thread.join()
        self.assertEqual(failed, [])
        self.assertGreater(counted[0], 0)

    def test_the_default_device_is_the_users(self):
        with torch.device("meta"):  # a block around the calls
            self.assertEqual(pl.plan(models.Net, models.classified, BATCH).peak, self.plan.peak)
            self.assertEqual(torch.empty(1).device.type, "meta")
        torch.set_default_device("meta")
        try:
            self.assertEqual(pl.plan(models.Net, models.classified, BATCH).peak, self.plan.peak)
            self.assertEqual(torch.get_default_device().type, "meta")
        finally:
            torch.set_default_device(None)
        self.trainer.step(BATCH)
        self.assertEqual(torch.empty(1).device.type, "cpu")

    def test_autograd_goes_on(self):
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                self.trainer.step(BATCH)
                self.assertEqual(torch.is_grad_enabled(), mode is torch.enable_grad)
                self.assertEqual(torch.is_inference_mode_enabled(), mode is torch.inference_mode)
        x = torch.ones(3, requires_grad=True)
        (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        self.assertTrue(torch.equal(second, torch.full((3,), 6.0)))
        with torch.autograd.detect_anomaly(check_nan=True), torch.autograd.graph.save_on_cpu():
            torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()

    def test_workers_of_dataloaders(self):
        data = TensorDataset(torch.randn(16, 8), torch.zeros(16, dtype=torch.int64))
        plan = pl.plan(models.Net, lambda model, b: torch.nn.functional.cross_entropy(model(b[0]), b[1]), list(data[:8]))
        for context in ("fork", "spawn"):  # after steps, whose threads a fork does not have
            with self.subTest(context), pl.Trainer(plan) as trainer:
                trainer.step(data[:8])
                loader = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context,
                                    worker_init_fn=check_worker)
                self.assertEqual(len(trainer.fit(loader, progress=False)["losses"]), 2)

    def test_save_and_pickle(self):
        buffer = io.BytesIO()
        state = self.trainer.state_dict()
        torch.save(state, buffer)
        self.trainer.step(BATCH, lr=1.0)  # what was saved stays
        buffer.seek(0)
        loaded = torch.load(buffer)
        self.assertEqual(list(loaded), list(self.trainer.state_dict()))
        for name, tensor in loaded.items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
        self.assertFalse(torch.equal(state["layers.0.weight"], self.trainer.state_dict()["layers.0.weight"]))
        model = copy.deepcopy(pickle.loads(pickle.dumps(models.Net())))
        model.load_state_dict(state)
        self.assertEqual(model.layers[0].weight.device.type, "cpu")
        with self.assertRaisesRegex(TypeError, "to_json"):
            pickle.dumps(self.plan)
        optimizer = pl.AdamW(1e-3, state="8bit")
        self.assertEqual(pickle.loads(pickle.dumps(optimizer)), optimizer)
        with self.assertRaises(pl.PlanDoesNotFit) as caught:
            pl.Trainer(pl.plan(models.Net, models.classified, models.batch_of(256), "16KiB"))
        passed = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(passed), passed.minimum), (str(caught.exception), caught.exception.minimum))

    def test_compile(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        x = torch.randn(2, 4, requires_grad=True)
        compiled(x).sum().backward()
        first, x.grad = x.grad, None
        model(x).sum().backward()
        torch.testing.assert_close(first, x.grad)
        self.trainer.step(BATCH)
        pl.plan(models.Net, models.classified, BATCH)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        compiled(x.detach().requires_grad_()).sum().backward()
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], graphs)  # nothing is compiled again

    def test_the_trainer_of_transformers(self):
        import transformers

        from architectures import ARCHITECTURES

        make, loss, batch = ARCHITECTURES["llama"]()
        rows = [{name: tensor[i] for name, tensor in batch.items()} for i in range(2)] * 4
        plan = pl.plan(make, loss, batch)

        def trained(folder):
            transformers.set_seed(0)
            arguments = transformers.TrainingArguments(folder, max_steps=3, per_device_train_batch_size=2, report_to="none",
                                                       disable_tqdm=True, save_strategy="no", dataloader_pin_memory=False)
            trainer = transformers.Trainer(make(), arguments, train_dataset=rows)
            result = trainer.train()
            return result.training_loss, trainer.args.device.type, str(trainer.accelerator.device)

        with tempfile.TemporaryDirectory() as folder:
            before = trained(folder)
            with pl.Trainer(plan) as trainer:
                trainer.step(batch)
                self.assertEqual(trained(folder), before)
                self.assertGreater(trainer.step(batch), 0)

    def test_another_private_backend_is_not_disturbed(self):
        rename = "torch.utils.rename_privateuse1_backend('npu'); "
        train = "import plimsoll, models; fits = plimsoll.fits(models.Net, models.classified, models.batch_of()); "
        for code in (rename + train, train + rename):  # before, and after
            done = subprocess.run(
                [sys.executable, "-c", f"import torch; {code} print(fits, torch._C._get_privateuse1_backend_name())"],
                capture_output=True, text=True, check=True, cwd=os.path.dirname(os.path.abspath(__file__)))
            self.assertEqual(done.stdout.split(), ["True", "npu"])


if __name__ == "__main__":
    unittest.main()
