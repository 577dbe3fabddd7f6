#!/usr/bin/env python3
"""scripts/gpu-check-run.py with a program and tests that pass, fail, hang, crash and are skipped."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTS = """#!/bin/sh
case "$1" in
  --gtest_list_tests) [ -z "$NO_LIST" ] || { echo 'undefined symbol: x'; exit 127; }
    printf 'CudaTraining.\\n  Fits\\nCudaLayers.\\n  Rope\\n  Swiglu\\n  Norm\\nOther.\\n  Test\\n'
    printf 'Families/CudaShapes.\\n  Are/0  # GetParam() = 0\\n  Are/1  # GetParam() = 1\\n';;
  *CudaShapes*) [ "$GTEST_TOTAL_SHARDS" = 8 ] || exit 1
    [ "$GTEST_SHARD_INDEX" != 3 ] || { printf 'b_test.cpp:4: Failure\\nNamed: aten::cumsum\\n'; exit 1; }
    echo '[  PASSED  ] 70 tests.';;
  *CudaTraining.Fits) echo "$FITS"; [ "$FITS" != gpu ] || [ -z "$PLIMSOLL_EXPECT_GPU" ] || echo '[  PASSED  ] 1 test.'
    exit ${FITS_CODE:-0};;
  *Rope) printf 'a_test.cpp:3: Failure\\nExpected: 1\\nActual: 2\\n'; exit 1;;
  *Swiglu) sleep 300 & sleep 300;;
  *Norm) kill -SEGV $$;;
  *) echo '[  PASSED  ] 1 test.';;
esac
"""
PROGRAM = """#!/bin/sh
[ "$1" != doctor ] || { echo "{\\"devices\\": [$DEVICES]}" > "$3"; exit 0; }
[ "$1" != train ] || [ -z "$REPORT" ] || { for last; do :; done; echo "$REPORT" > "$last"; exit 0; }
[ "$1" != train ] || { echo x > "$XDG_CACHE_HOME/x"; [ -z "$PLIMSOLL_WAIT_FOR_EACH_OP" ] || sleep ${WAITS:-0}; echo "device cuda cannot be used${PLIMSOLL_WAIT_FOR_EACH_OP:+ with PLIMSOLL_WAIT_FOR_EACH_OP=1}"; exit 1; }
"""
PASSES, SKIPS = "[  PASSED  ] 1 test.", "a_test.cpp:3: Skipped\nno driver\n[  SKIPPED ] 1 test, listed below:"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("bin", "bench/jobs", "python/torch/lib"):
            (self.folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "scripts/gpu-check-run.py", self.folder / "run.py")
        (self.folder / "commit").write_text("abc\n")
        (self.folder / "python/torch/__init__.py").write_text("")
        for name, text in (("cuda_tests", TESTS), ("plimsoll", PROGRAM)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)

    def run_it(self, *flags, device=False, **env):
        done = subprocess.run([sys.executable, self.folder / "run.py", "--device-file",
                               self.folder if device else self.folder / "none", *flags], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(self.folder / "python"), **env})
        path = self.folder / "results/results.json"
        rows = json.loads(path.read_text())["checks"] if path.exists() else []
        return done.returncode, {row["name"]: (row["outcome"], row["words"]) for row in rows}, done.stdout + done.stderr

    def test_without_a_device_nothing_passes_for_it(self):
        code, rows, _ = self.run_it("--only", "starts", "--only", "training", "--only", "small", "--only", "0.5b", "--only", "speed",
                                    FITS=SKIPS, FITS_CODE="77")
        self.assertEqual(code, 77)
        self.assertEqual(rows["training CudaTraining.Fits"], ("skipped", "no driver"))
        self.assertEqual(rows["small compile=auto"], ("skipped", "device cuda cannot be used"))
        self.assertEqual(rows["0.5b"], ("skipped", "no NVIDIA device"))
        self.assertEqual({outcome for name, (outcome, _) in rows.items() if not name.startswith("starts")}, {"skipped"})

    def test_skipped_tests_do_not_count_as_passed_with_exit_code_0(self):
        code, rows, _ = self.run_it("--only", "training", device=True, FITS=SKIPS)
        self.assertEqual((code, rows["training CudaTraining.Fits"][0]), (77, "skipped"))
        code, rows, _ = self.run_it("--only", "training", device=True, FITS=PASSES)
        self.assertEqual((code, rows["training CudaTraining.Fits"][0]), (0, "passed"))
        code, rows, _ = self.run_it("--only", "training", device=True, FITS="nothing")
        self.assertEqual((code, rows["training CudaTraining.Fits"]), (1, ("failed", "no test ran")))

    def test_a_failure_a_crash_and_a_hang_end_one_check_each(self):
        code, rows, text = self.run_it("--only", "test", "--seconds", "20", device=True)
        self.assertEqual(code, 1, text)
        self.assertEqual(rows["test CudaLayers.Rope"][0], "failed")
        self.assertIn("Expected: 1 Actual: 2", rows["test CudaLayers.Rope"][1])
        self.assertEqual(rows["test CudaLayers.Norm"], ("failed", "exit code -11: "))
        self.assertEqual(rows["test CudaLayers.Swiglu"][0], "timed out")
        self.assertNotIn("test Other.Test", rows)

    def test_a_job_that_the_device_refuses_fails(self):
        code, rows, _ = self.run_it("--only", "small compile=true", device=True)
        self.assertEqual((code, rows["small compile=true"]), (
            1, ("failed", "device cuda cannot be used; waiting for each op: device cuda cannot be used with PLIMSOLL_WAIT_FOR_EACH_OP=1")))

    def test_all_operators_are_tested_in_parts(self):
        code, rows, _ = self.run_it("--only", "test Families", device=True)
        self.assertEqual(len(rows), 8)
        self.assertEqual(rows["test Families/CudaShapes.* part 1 of 8"], ("passed", ""))
        self.assertEqual(rows["test Families/CudaShapes.* part 4 of 8"], ("failed", "exit code 1: b_test.cpp:4: Failure Named: aten::cumsum"))
        self.assertEqual(code, 1)

    def test_a_list_of_tests_that_cannot_be_read_fails(self):
        refused = ("failed", "undefined symbol: x")
        for only in ("starts: tests", "training", "test"):
            code, rows, text = self.run_it("--only", only, device=True, NO_LIST="1")
            self.assertEqual((code, list(rows.values())), (1, [refused]), text)
        code, rows, _ = self.run_it("--only", "starts: tests", device=True)
        self.assertEqual(rows["starts: tests"], ("passed", "4 tests and Families/CudaShapes.*"))

    def test_a_report_in_any_state_ends_one_check(self):
        odd = json.dumps({"step_seconds": None, "units_per_second": None, "unit": "tokens", "losses": []})
        code, rows, _ = self.run_it("--only", "small", device=True, REPORT=odd)
        self.assertEqual(code, 1)
        self.assertEqual(len(rows), 3)
        for outcome, words in rows.values():
            self.assertEqual(outcome, "failed")
            self.assertIn("its report cannot be read: TypeError", words)

    def test_a_repeated_check_keeps_to_the_time_of_all(self):
        begin = time.monotonic()
        code, rows, _ = self.run_it("--only", "small compile=true", "--seconds", "15", device=True, WAITS="300")
        self.assertLess(time.monotonic() - begin, 80)  # not the 90 seconds of the check
        self.assertEqual((code, rows["small compile=true"][0]), (1, "failed"))
        self.assertRegex(rows["small compile=true"][1], "waiting for each op: no end after 1?[0-9] s")

    def test_a_program_that_cannot_be_started_fails_its_checks_alone(self):
        (self.folder / "bin/plimsoll").chmod(0o644)
        code, rows, _ = self.run_it("--only", "small compile=true", "--only", "training", device=True, FITS=PASSES)
        self.assertIn("it cannot be run: ", rows["small compile=true"][1])
        self.assertEqual((code, rows["training CudaTraining.Fits"][0]), (1, "passed"))

    def test_tests_are_told_that_there_is_a_device(self):
        self.assertEqual(self.run_it("--only", "training", device=True, FITS="gpu")[1]["training CudaTraining.Fits"], ("passed", ""))
        self.assertEqual(self.run_it("--only", "training", FITS="gpu")[1]["training CudaTraining.Fits"][0], "failed")

    def test_results_of_a_run_before_do_not_pass_for_new_ones(self):
        self.run_it("--only", "small compile=auto", device=True)
        self.run_it("--only", "training", device=True, FITS=PASSES)
        with tarfile.open(self.folder / "results.tar.gz") as tar:
            self.assertEqual(sorted(tar.getnames()), ["results/results.json", "results/training-CudaTraining.Fits.log"])

    def test_one_file_has_all_results_and_no_cache(self):
        self.run_it("--only", "training", "--only", "small compile=auto", "--archive", self.folder / "out/all.tar.gz", device=True, FITS=PASSES)
        with tarfile.open(self.folder / "out/all.tar.gz") as tar:
            self.assertEqual(sorted(tar.getnames()), [
                "results/results.json", "results/small-compile=auto.log", "results/small-compile=auto.waiting.log",
                "results/training-CudaTraining.Fits.log"])
        self.assertEqual({each.suffix for each in (self.folder / "results").iterdir()}, {".json", ".log"})

    def test_doctor_must_find_the_device_and_train_on_it(self):
        def doctor(devices, device=True):
            rows = self.run_it("--only", "starts: doctor", device=device, DEVICES=devices)[1]
            return rows["starts: doctor"]
        good = '{"device": "cuda", "name": "H1", "failure": "", "work": {}, "rates": {"product": {"bfloat16": {"flops_per_second": 7e14}}}}'
        self.assertEqual(doctor(good), ("passed", "H1: 700 TFLOP/s in bfloat16 matmuls, {}"))
        self.assertEqual(doctor(good.replace('"failure": ""', '"failure": "no"')), ("failed", "cuda: no"))
        refused = good.replace('"work": {}', '"work": {}, "refused": ["matmul bfloat16: no kernel"]')
        self.assertEqual(doctor(refused), ("failed", "cuda, not measured: matmul bfloat16: no kernel"))
        self.assertEqual(doctor(""), ("failed", "doctor finds no device"))
        self.assertEqual(doctor("", device=False), ("passed", ""))

    def test_checks_that_the_time_does_not_allow_are_skipped(self):
        code, rows, _ = self.run_it("--only", "small", "--seconds", "1", device=True)
        self.assertEqual(rows["small compile=true"], ("skipped", "the time is up"))
        self.assertEqual(code, 77)


if __name__ == "__main__":
    unittest.main()
