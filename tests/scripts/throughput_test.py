#!/usr/bin/env python3
"""bench/throughput.py with programs that train, fail and do not fit."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLIMSOLL = """#!/bin/sh
[ "$1" != plan ] || { echo '{"parameters": 1000, "choices": {"micro_batch_size": 4}}'; exit 0; }
[ -z "$FAILS" ] || { echo "operator aten::mm failed" >&2; exit 1; }
echo '{"fits": true, "step_seconds": 2, "measured_peak_bytes": 9, "planned_peak_bytes": 9, "choices": {"micro_batch_size": 8}}'
"""
# What is in the results so far goes to a file: a run that is ended has lost nothing.
PEER = """#!/bin/sh
cp "$RESULTS/throughput-h200.md" "$RESULTS/before.md" 2>/dev/null
case "$*" in *"--micro-batches 1 "*) echo '{"fits": false}';; *) echo '{"fits": true, "step_seconds": 4, "peak_bytes": 9}';; esac
"""


class Throughput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("plimsoll", PLIMSOLL), ("python", PEER)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def run_it(self, *flags, **env):
        done = subprocess.run([sys.executable, ROOT / "bench/throughput.py", "--jobs", "qwen2.5-0.5b", "--batch", "8", "--length", "10",
                               "--rounds", "1", "--plimsoll", self.folder / "plimsoll", "--python", self.folder / "python", "--results",
                               self.folder, *flags], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "RESULTS": str(self.folder), **env})
        path = self.folder / "throughput-h200.json"
        rows = json.loads(path.read_text())["rows"] if path.exists() else []
        return done.returncode, {row["program"]: row for row in rows}, done.stdout + done.stderr

    def test_peers_begin_with_the_micro_batch_of_the_run(self):
        code, rows, text = self.run_it("--columns", "plimsoll", "eager")
        self.assertEqual(code, 0, text)
        self.assertEqual(rows["Plimsoll"]["tokens_per_second"], 40)
        self.assertEqual(rows["PyTorch eager"]["micro_batch_size"], 4)  # 8 at once do not fit
        self.assertIn("| Plimsoll |", (self.folder / "before.md").read_text())

    def test_peers_alone_have_the_micro_batch_of_the_plan(self):
        code, rows, text = self.run_it("--columns", "compiled")
        self.assertEqual((code, list(rows)), (0, ["PyTorch compiled"]), text)
        self.assertEqual(rows["PyTorch compiled"]["micro_batch_size"], 4)

    def test_a_failure_is_in_the_table_and_the_others_run(self):
        code, rows, _ = self.run_it("--columns", "plimsoll", "eager", FAILS="1")
        self.assertEqual(code, 1)
        self.assertEqual(rows["Plimsoll"]["failure"], "exit code 1: operator aten::mm failed")
        self.assertEqual(rows["PyTorch eager"]["micro_batch_size"], 4)
        self.assertIn("| exit code 1: operator aten::mm failed |", (self.folder / "throughput-h200.md").read_text())

    def test_flags_that_measure_nothing_are_refused(self):
        for flags in (("--columns", "eager", "--budgets", "8GiB"), ("--columns", "compiled", "--python", "")):
            code, _, text = self.run_it(*flags)
            self.assertEqual(code, 2)
            self.assertIn("error: ", text)


if __name__ == "__main__":
    unittest.main()
