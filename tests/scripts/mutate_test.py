#!/usr/bin/env python3
"""The mutants that scripts/mutate.py draws, and what it keeps of them."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutate  # noqa: E402
import threshold_tests  # noqa: E402


class Mutants(unittest.TestCase):
    def of(self, text):
        """The mutants of one line in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            root, kept = Path(folder), (mutate.ROOT, mutate.FOLDERS)
            (root / "src/plan").mkdir(parents=True)
            (root / "src/plan/one.cpp").write_text(text)
            mutate.ROOT, mutate.FOLDERS = root, {"plan": (["src/plan"], ["plan_tests"])}
            try:
                return [mutant.strip() for _, _, _, mutants in mutate.candidates_of("plan") for _, mutant in mutants]
            finally:
                mutate.ROOT, mutate.FOLDERS = kept

    def test_each_operator_changes_what_it_says(self):
        for line, mutant in {
            "if (a < b) return;": "if (a <= b) return;",
            "if (a >= b) continue;": "if (a > b) continue;",
            "x = a == b;": "x = a != b;",
            "x = a && !b;": "x = a || !b;",
            "x = f(!b);": "x = f(b);",
            "x = a + b;": "x = a - b;",
            "x = n - 1;": "x = n;",
            "x = std::min(a, b);": "x = std::max(a, b);",
            "x = true;": "x = false;",
            "x += b;": "x -= b;",
            "x = f(0, 7);": "x = f(0, 8);",
            "  list.push_back(x);": ";",
            "if (a) break;": "if (a) continue;",
            "if (f(a)) {": "if (false) {",
        }.items():
            self.assertIn(mutant, self.of(line), line)

    def test_text_and_messages_are_passed_over(self):
        for line in ['x("a < b");', "// a < b", "#include <a>", 'throw UserError("a" + b);', "std::vector<int> list;"]:
            self.assertEqual([m for m in self.of(line) if m != ";"], [], line)

    def test_the_seed_decides_what_is_drawn(self):
        draw = lambda seed: [m["id"] for m in mutate.drawn(["plan", "record"], 10, seed)]
        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual(draw(1), draw(2))
        folders = [m["folder"] for m in mutate.drawn(["plan", "record", "run"], 10, 1)]
        self.assertEqual(sorted(map(folders.count, ["plan", "record", "run"])), [3, 3, 4])

    def test_no_source_of_a_device_is_changed(self):
        for folder in mutate.FOLDERS:
            for source in mutate.sources_of(folder):
                self.assertNotIn("cuda", str(source.relative_to(ROOT)))

    def test_the_last_result_of_a_mutant_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mutants.jsonl"
            one = {"file": "a.cpp", "before": "x", "after": "y"}
            file.write_text("".join(json.dumps(one | {"outcome": o}) + "\n" for o in ("survived", "killed")))
            self.assertEqual([r["outcome"] for r in mutate.read_results(file).values()], ["killed"])


class ThresholdTests(unittest.TestCase):
    def test_those_that_call_the_checks_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder) / "tests/train"
            tests.mkdir(parents=True)
            (tests / "a_test.cpp").write_text(
                'TEST(A, One) {\n  expect_above("x", 1, 0);\n}\nTEST_F(B, Two) {\n  EXPECT_EQ(1, 1);\n}\n'
                'TEST(C, Three) {\n  expect_below("x", 1, 2);\n}\n')
            self.assertEqual(threshold_tests.threshold_tests(Path(folder)), {"train_tests": ["*A.One*", "*C.Three*"]})

    def test_the_project_has_some(self):
        self.assertGreater(len(threshold_tests.threshold_tests()["train_tests"]), 15)


if __name__ == "__main__":
    unittest.main()
