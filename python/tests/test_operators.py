"""Operators of torch's own list have the outcomes that bench/results/operators.jsonl has: 60 of them, drawn by
PLIMSOLL_TEST_SEED (the day by default). python/tests/survey.py tries all, and writes the file."""
import datetime
import json
import os
import random
import unittest
import warnings

import survey
import torch


class OperatorsTest(unittest.TestCase):
    def test_outcomes_are_the_committed_ones(self):
        rows = [json.loads(line) for line in (survey.RESULTS / "operators.jsonl").read_text(encoding="utf-8").splitlines()]
        expected = {row["operator"]: row["outcome"] for row in rows}
        series = ".".join(torch.__version__.split(".")[:2])
        names = survey.operators()
        if f"torch {series}." in (survey.RESULTS / "operators.md").read_text(encoding="utf-8"):
            self.assertEqual(sorted(expected), sorted(names), "torch's list has changed: run python/tests/survey.py")
        self.assertNotIn(survey.FAULT, expected.values())
        expected = {name: outcome for name, outcome in expected.items() if name in names}  # the file is that of one version
        seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
        names = sorted(random.Random(seed).sample(sorted(expected), 60))
        print(f"{', '.join(names)} (seed {seed})")
        warnings.simplefilter("ignore", ResourceWarning)  # of the child's pipes
        for found in survey.survey(names):
            with self.subTest(found["operator"]):
                self.assertEqual(found["outcome"], expected[found["operator"]], found["why"])


if __name__ == "__main__":
    unittest.main()
