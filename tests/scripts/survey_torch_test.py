#!/usr/bin/env python3
"""The surveys of torch are compared as their lines say, and bench/results/torch/versions.md is the page of the committed ones."""
import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("survey_torch", ROOT / "scripts" / "survey-torch.py")
survey = importlib.util.module_from_spec(spec)
spec.loader.exec_module(survey)

BEFORE = [
    "processor AVX512",
    "autocast CPU aten::mm",
    "operator aten::add(Tensor self) -> Tensor | CPU Meta",
    "operator aten::qr(Tensor self) -> Tensor | CPU",
    "case aten.add.default float32[2] -> float32[2] | meta: same | scratch: 0",
    "case aten.old.default float32[2] -> float32[2] | meta: same | scratch: 0",
]
AFTER = [
    "processor AVX512",
    "autocast CPU aten::add",
    "operator aten::add(Tensor self, bool fast=False) -> Tensor | CPU",
    "operator aten::mm(Tensor self) -> Tensor | CPU",
    "case aten.add.default float32[2] -> float32[2]/2 | meta: float32[2] | scratch: 64",
]


class SurveyTest(unittest.TestCase):
    def test_every_kind_of_difference_is_found(self):
        found = survey.differences(BEFORE, AFTER)
        self.assertEqual(found["operator gone"], ["aten::qr"])
        self.assertEqual(found["operator new"], ["aten::mm"])
        self.assertEqual(found["autocast gone"], ["CPU aten::mm"])
        self.assertEqual(found["autocast new"], ["CPU aten::add"])
        self.assertEqual(found["arguments or results of an operator"],
                         ["aten::add(Tensor self) -> Tensor\n    aten::add(Tensor self, bool fast=False) -> Tensor"])
        self.assertEqual(found["kernels of an operator"], ["aten::add: CPU Meta → CPU"])
        self.assertEqual(found["result"], ["aten.add.default float32[2]: float32[2] → float32[2]/2"])
        self.assertEqual(found["Meta kernel"], ["aten.add.default float32[2]: meta: same → meta: float32[2]"])
        self.assertEqual(found["scratch"], ["aten.add.default float32[2]: scratch: 0 → scratch: 64"])
        self.assertFalse(any(survey.differences(BEFORE, BEFORE).values()))

    def test_scratch_of_another_processor_is_not_compared(self):
        self.assertEqual(survey.differences(BEFORE, ["processor AVX2", *AFTER[1:]])["scratch"], [])

    def test_a_later_version_is_stored_as_its_changes(self):
        with tempfile.TemporaryDirectory() as temporary:
            kept, survey.FOLDER = survey.FOLDER, pathlib.Path(temporary)
            self.addCleanup(setattr, survey, "FOLDER", kept)
            self.assertEqual(survey.write("2.9", BEFORE).name, "2.9.txt")
            self.assertEqual(survey.write("2.11", ["processor AVX2", *AFTER[1:]]).name, "2.11.diff")
            surveys = survey.committed()
        self.assertEqual(list(surveys), ["2.9", "2.11"])
        self.assertEqual(surveys["2.9"], BEFORE)
        self.assertEqual(surveys["2.11"][0], "processor AVX2")
        self.assertEqual(sorted(surveys["2.11"][1:]), sorted(AFTER[1:]))

    def test_the_page_is_that_of_the_surveys(self):
        self.assertEqual(survey.PAGE.read_text(encoding="utf-8"), survey.page(survey.committed()),
                         "bench/results/torch/versions.md is stale: run scripts/survey-torch.py --page")


if __name__ == "__main__":
    unittest.main()
