"""The rest of the process goes on as before: nothing of torch changes outside of recording."""
import io
import os
import pickle
import subprocess
import sys
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

    def test_workers_of_dataloaders(self):
        data = TensorDataset(torch.randn(16, 4))
        for context in ("fork", "spawn"):
            batches = list(DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context))
            self.assertEqual(len(batches), 4)

    def test_save_and_pickle(self):
        buffer = io.BytesIO()
        torch.save(self.trainer.state_dict(), buffer)
        buffer.seek(0)
        self.assertEqual(list(torch.load(buffer)), list(self.trainer.state_dict()))
        pickle.loads(pickle.dumps(torch.nn.Linear(2, 2)))

    def test_compile(self):
        compiled = torch.compile(torch.nn.Linear(4, 4), backend="eager")
        self.assertEqual(compiled(torch.ones(2, 4)).shape, (2, 4))

    def test_another_private_backend_is_not_disturbed(self):
        code = ("import torch; torch.utils.rename_privateuse1_backend('npu'); import plimsoll, models; "
                "print(plimsoll.fits(models.Net, models.classified, models.batch_of()), "
                "torch._C._get_privateuse1_backend_name())")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual(done.stdout.split(), ["True", "npu"])


if __name__ == "__main__":
    unittest.main()
