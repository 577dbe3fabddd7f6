"""Models run by libtorch's CUDA code, without a device (dry_cuda.py): two, and two by PLIMSOLL_TEST_SEED (default: the day)."""
import datetime
import os
import pathlib
import random
import unittest

import dry_cuda

BUILD = pathlib.Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]).parent


@unittest.skipUnless((BUILD / "tests/cuda_dry/libcuda_dry.so").exists(), "this build has no CUDA")
class DryCudaTest(unittest.TestCase):
    def test_models_run(self):
        seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
        drawn = random.Random(seed).sample(dry_cuda.names(), 2)
        print(f"{', '.join(drawn)} (seed {seed})")
        for name in ["bert", "sam", *drawn]:
            for precision in dry_cuda.PRECISIONS:
                if (name, precision) not in dry_cuda.WITHOUT:
                    with self.subTest(name, precision=precision):
                        self.assertEqual(dry_cuda.fault_of(BUILD, name, precision), "")

    def test_operators_run(self):
        faults, works = dry_cuda.faults_of_operators(BUILD)
        self.assertEqual(faults, {})
        self.assertGreater(works, 450)


if __name__ == "__main__":
    unittest.main()
