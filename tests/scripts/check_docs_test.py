#!/usr/bin/env python3
"""The check of documents finds commands, options, keys, targets and paths that do not exist, and no others."""
import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_docs", ROOT / "scripts/check-docs.py")
docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs)
FACTS = importlib.util.spec_from_file_location("what_is_read", ROOT / "scripts/what-is-read.py")
facts = importlib.util.module_from_spec(FACTS)
FACTS.loader.exec_module(facts)


def faults(code, answer=""):
    return [target for target, _ in docs.faults_of_code(code, answer)]


class Facts(unittest.TestCase):
    def rows(self, text):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder) / "a_facts.h"
            header.write_text(text, encoding="utf-8")
            facts.ROOT, before = pathlib.Path(folder), facts.ROOT
            try:
                return facts.rows_of(header)
            finally:
                facts.ROOT = before

    def test_a_row_has_texts_and_constants(self):
        head = 'constexpr std::string_view kA = "a; \\"b\\"", kUsed = kTreatments[0];\ninline constexpr FileFact kFacts[] = {\n'
        self.assertEqual(self.rows(head + '    {kA, "x, y", kUsed,  // why\n     "one "\n     "two"},\n};\n'),
                         [['a; "b"', "x, y", "applied", "one two"]])
        for wrong in ['{kA, "x", "taken", "why"}', '{kA, "x", kUsed}', '{kA, kB, kUsed, "why"}', '{kA, 3, kUsed, "why"}']:
            with self.assertRaises(SystemExit, msg=wrong):
                self.rows(head + wrong + "};\n")

    def test_the_page_has_every_table(self):
        lines = {}  # of each format and treatment
        for line in facts.page().splitlines():
            if line.startswith("### "):
                name = line[4:]
            elif line.partition(":")[0].lower() in facts.TREATMENTS:  # a single fact is in this line
                treatment, _, fact = line.partition(":")
                lines.setdefault((name, treatment.lower()), []).extend([f"-{fact}"] if fact else [])
            elif line.startswith("- **"):
                lines.setdefault((name, treatment.lower()), []).append(line)
        headers = [path for path in ROOT.glob("src/**/*.h") if "FileFact kFacts[]" in path.read_text(encoding="utf-8")]
        self.assertGreater(len(headers), 10)
        for header in headers:
            for row in facts.rows_of(header):
                field, note = facts.cell(row[1]), facts.cell(row[3])
                self.assertTrue(any(line.endswith(f"**: {note}") and field in line[4:].split("**: ")[0]
                                    for line in lines[row[0], row[2]]), row)


class Commands(unittest.TestCase):
    def test_what_exists_passes(self):
        for code in ["make test", "ARGS=--all make bench-step", "build/plimsoll plan my.yaml memory_budget=64MiB --by module | head",
                     "plimsoll train job.yaml --use-amp trainer.max_steps=3 training.num_workers=2  # it's --short",
                     "plan --gpu NAME", "plimsoll gpus a6000", "plimsoll --help", "optimizer.name=sgd", "key.path=value",
                     "scripts/check-docs.py FILE", "examples/*/README.md", "examples/SYSTEM/", "build/bench/x", "zero_optimization.any=1"]:
            self.assertEqual(faults(code), [], code)

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(faults("make tests"), ["make tests"])
        self.assertEqual(faults("make setup && make nothing"), ["make nothing"])
        self.assertEqual(faults("plimsoll generate job.yaml"), ["plimsoll generate"])
        self.assertEqual(faults("build/plimsoll plan a.yaml --fronteer 3"), ["--fronteer"])
        self.assertEqual(faults("plimsoll train a.yaml --frontier"), ["--frontier"])  # an option of another command
        self.assertEqual(faults("trace --hottest 3"), ["--hottest"])
        self.assertEqual(faults("plimsoll plan a.yaml optimizer.lerning_rate=1 \"lora.module=['*']\""),
                         ["optimizer.lerning_rate", "lora.module"])
        self.assertEqual(faults("memory_bugdet=1GiB"), ["memory_bugdet=1GiB"])
        self.assertEqual(faults("python3 scripts/none.py bench/none.py"), ["scripts/none.py", "bench/none.py"])

    def test_a_command_with_the_error_it_causes_may_be_wrong(self):
        self.assertEqual(faults("plimsoll plan a.yaml nonsense=1", "plimsoll: command line: nonsense=1: unknown key"), [])
        self.assertEqual(faults("plimsoll plan a.yaml --nonsense", "| `plimsoll plan a.yaml --nonsense` | exit code 2 |"), [])

    def test_code_is_found_in_blocks_and_in_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("Use `make a`, or ``make `b` ``.\n\n    make c \\\n      d\n\n```text\n$ make e\nplimsoll: no\n```\nmake f\n")
            self.assertEqual([code for _, code, _ in docs.code_of(page)],
                             ["make c d", "d", "make e", "plimsoll: no", "make a", "make `b`"])

    def test_excerpts_are_in_their_files(self):
        def faults_of(path, *lines):
            with tempfile.TemporaryDirectory() as folder:
                page = pathlib.Path(folder) / "page.md"
                page.write_text("\n".join([f"<!-- excerpt of {path} -->", "```python", *lines, "```", ""]))
                return len(list(docs.faults_of_excerpts(page)))

        own = "tests/scripts/check_docs_test.py"
        self.assertEqual(faults_of(own, "import pathlib", "import tempfile", "…", "  class Commands(unittest.TestCase):"), 0)
        self.assertEqual(faults_of(own, "import pathlib", "import unittest"), 1)  # not one after the other
        self.assertEqual(faults_of(own, "class Commands(unittest.TestCase):", "…", "import pathlib"), 1)  # in another order
        self.assertEqual(faults_of("tests/scripts/none.py", "import pathlib"), 1)


if __name__ == "__main__":
    unittest.main()
