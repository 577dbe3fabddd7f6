#!/usr/bin/env python3
"""The mutants that scripts/mutate.py draws, and what it keeps of them."""

import argparse
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutant_choice  # noqa: E402
import mutant_results  # noqa: E402
import mutants  # noqa: E402
import mutate  # noqa: E402
import threshold_tests  # noqa: E402


class Mutants(unittest.TestCase):
    def of(self, text):
        """The mutants of a source in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            root, kept = Path(folder), mutants.ROOT
            (root / "src/plan").mkdir(parents=True)
            (root / "src/plan/one.cpp").write_text(text)
            mutants.ROOT = root
            try:
                return [mutant.strip() for *_, found in mutants.candidates_of("plan") for *_, mutant in found]
            finally:
                mutants.ROOT = kept

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
            "while (b) if (a) break;": "while (b) if (a) continue;",
            "if (f(a)) {": "if (false) {",
        }.items():
            self.assertIn(mutant, self.of(line), line)

    def test_text_and_messages_are_passed_over(self):
        for line in ['x("a < b");', "// a < b", "#include <a>", 'throw UserError("a" + b);', "std::vector<int> list;"]:
            self.assertEqual([m for m in self.of(line) if m != ";"], [], line)

    def test_a_statement_is_left_out_only_where_it_is_whole(self):
        source = """void f() {
  first();
  x = a +
      second(b);
  call([&] {
    third();
  });
  if (a &&
      b)
    fourth();
  switch (a) {
    case 1:
      fifth();
      break;
  }
  throw Bad(a,
            sixth(b));
#define HOLD(x) \\
  seventh(x);
  eighth();
}"""
        left_out = [name for name in ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
                    if ";" in self.of_line(source, name)]
        self.assertEqual(left_out, ["first", "third", "fourth", "fifth", "eighth"])

    def of_line(self, source, name):
        """The mutants of the line of a source with this text."""
        lines = source.split("\n")
        i = next(i for i, line in enumerate(lines) if name in line)
        place = mutants.places_in(lines)[i]
        return [replacement for operator, pattern, replacement in mutants.OPERATORS if isinstance(replacement, str)
                for match in re.finditer(pattern, lines[i]) if mutants.fits(operator, match, place, False)]

    def test_a_break_continues_only_in_a_loop(self):
        self.assertNotIn("continue", self.of_line("switch (a) {\n  case 1:\n    break;\n}", "break"))
        self.assertIn("continue", self.of_line("for (;;) {\n  switch (a) {\n    case 1:\n      break;\n  }\n}", "break"))

    def test_a_path_is_no_quotient(self):
        self.assertEqual(self.of("  x = folder / name;"), [";"])
        self.assertIn("x = a * b;", self.of("  x = a / b;"))

    def test_the_seed_decides_what_is_drawn(self):
        draw = lambda seed, known=(): mutants.drawn(["plan", "record"], 10, seed, known=known)
        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual([m["id"] for m in draw(1)], [m["id"] for m in draw(2)])
        known = {mutants.key_of(m) for m in draw(1)}
        again = {mutants.key_of(m) for m in draw(1, known)}
        self.assertEqual((len(known), len(again), known & again), (10, 10, set()))

    def test_folders_share_a_draw(self):
        folders = [m["folder"] for m in mutants.drawn(["plan", "record", "run"], 10, 1)]
        self.assertEqual(sorted(map(folders.count, ["plan", "record", "run"])), [3, 3, 4])
        self.assertEqual(mutants.shares(["plan", "record", "run"], 12, {"run": 7}), {"plan": 3, "record": 2, "run": 7})
        self.assertEqual(mutate.pair("run=7"), ("run", 7))
        for wrong in ("run", "run=", "walk=7", "run=-1"):
            self.assertRaises(argparse.ArgumentTypeError, mutate.pair, wrong)

    def test_no_source_of_a_device_is_changed(self):
        for folder in mutants.FOLDERS:
            for source in mutants.sources_of(folder):
                self.assertNotIn("cuda", str(source.relative_to(ROOT)))

    def test_a_mutant_whose_line_moved_is_put_where_the_line_is(self):
        mutant = {"line": 1, "before": "x = a + b;", "after": "x = a - b;"}
        self.assertEqual(mutants.mutated(mutant, "// new\n  x = a + b;\n}\n\n\n  x = a + b;\n"),
                         "// new\n  x = a - b;\n}\n\n\n  x = a + b;\n")
        self.assertIsNone(mutants.mutated(mutant, "  x = a + c;\n"))


class Choices(unittest.TestCase):
    def choice(self, line, operator, after, around="{}"):
        """The line of a source with the mutant as choice 1; `around`: the source, with {} for the line."""
        line_number = around[:around.index("{}")].count("\n") + 1
        column = next(i for i in range(len(line) + 1) if line[:i] != after[:i]) if line != after else 0
        for at in range(column + 1, 0, -1):  # the operator's match may begin before the first difference
            mutant = {"file": "src/a.cpp", "line": line_number, "operator": operator, "before": line.strip(),
                      "after": after.strip(), "id": f"a.cpp:{line_number}:{at} {operator}"}
            text, spans = mutant_choice.with_choices(around.replace("{}", line), {1: mutant}, "h.h")
            if spans:
                return "\n".join(text.split("\n")[line_number + 1:][:spans[1][1] - spans[1][0] + 1])
        return None

    def test_the_expression_that_contains_the_change_is_chosen(self):
        for line, operator, after, wanted in (
                ("  x = f(a, b < c);", "comparison", "  x = f(a, b <= c);",
                 "  x = f(a, (plimsoll_mutant(1) ? (b <= c) : (b < c)));"),
                ("  return a == b && c;", "equality", "  return a != b && c;",
                 "  return (plimsoll_mutant(1) ? (a != b) : (a == b)) && c;"),
                ("  return a && b ? c : d;", "logic", "  return a || b ? c : d;",
                 "  return (plimsoll_mutant(1) ? (a || b) : (a && b)) ? c : d;"),
                ("  if (a && !b.c()) {", "negation", "  if (a && b.c()) {",
                 "  if (a && (plimsoll_mutant(1) ? static_cast<bool>(b.c()) : static_cast<bool>(!b.c()))) {"),
                ("  if (T x = f()) return;", "condition", "  if (false) return;",
                 "  if (T x = f(); plimsoll_mutant(1) ? false : static_cast<bool>(x)) return;"),
                ("  f(x);", "statement", "  ;", "  { if (!plimsoll_mutant(1)) f(x); }"),
                ("  if (a) break;", "jump", "  if (a) continue;", "  if (a) { if (plimsoll_mutant(1)) continue; break; }"),
                ("  x += f(b);", "sum", "  x -= f(b);", "  (plimsoll_mutant(1) ? (x -= f(b)) : (x += f(b)));"),
                ("  f(/*a=*/true);", "boolean", "  f(/*a=*/false);", "  f(/*a=*/(plimsoll_mutant(1) ? (false) : (true)));")):
            around = "for (;;) {\n{}\n}" if operator in ("statement", "jump") else "{}\n"
            self.assertEqual(self.choice(line, operator, after, around), wanted, line)

    def test_an_expression_of_several_lines_keeps_their_number(self):
        text, spans = mutant_choice.with_choices("  x = a &&\n      b || // why\n      d;\n}\n", {1: {
            "line": 2, "before": "b || // why", "after": "b && // why", "id": "a.cpp:2:9 logic", "operator": "logic"}}, "h.h")
        self.assertEqual(text, '#include "h.h"\n#line 1\n  x = (plimsoll_mutant(1) ? (a &&       b &&        d) : (a &&\n'
                               "      b || // why\n      d));\n}\n")
        self.assertEqual(spans, {1: (1, 3)})

    def test_a_value_that_the_compiler_needs_is_no_choice(self):
        self.assertIsNone(self.choice("constexpr int a = 1;", "number", "constexpr int a = 2;"))

    def test_what_does_not_compile_is_taken_out(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src").mkdir()
            source = "int f(int a) {\n  return a + 2;\n}\nint g[3];\n"
            (root / "src/a.cpp").write_text(source)
            found = [{"file": "src/a.cpp", "line": line, "operator": operator, "before": before, "after": after,
                      "id": f"a.cpp:{line}:{column} {operator}"}
                     for line, column, operator, before, after in ((2, 12, "sign", "return a + 2;", "return a - 2;"),
                                                                   (4, 7, "number", "int g[3];", "int g[4];"))]
            choices = mutant_choice.ChosenMutants(root, found, root / "h.h")
            choices.write()
            self.assertEqual([choices.number_of(m) for m in found], [1, 2])
            self.assertIn("#line 1\nint f(", (root / "src/a.cpp").read_text())
            self.assertEqual(choices.take_out("../src/a.cpp:4:9: error: array bound is no constant"), 1)
            self.assertEqual([choices.number_of(m) for m in found], [1, None])
            text = (root / "src/a.cpp").read_text()
            self.assertIn("return (plimsoll_mutant(1) ? (a - 2) : (a + 2));", text)
            self.assertIn("int g[3];", text)
            choices.restore()
            self.assertEqual((root / "src/a.cpp").read_text(), source)


class Programs(unittest.TestCase):
    def test_own_tests_run_first_and_then_those_of_the_folders_above(self):
        rooms = [line.split()[1].split("/")[0] for line in (ROOT / "src/rooms.txt").read_text().splitlines()
                 if re.match(r"(ground|engine|jobs) ", line)]
        # ranks_tests has tests of run and train.
        places = {f"{room}_tests": i for i, room in enumerate(rooms)} | {"ranks_tests": rooms.index("train") - 0.5}
        order = places.__getitem__
        self.assertEqual(set(mutants.PROGRAMS), {top for tops in mutants.FOLDERS.values() for top in tops})
        for top, (own, *above) in mutants.PROGRAMS.items():
            self.assertEqual(own, f"{top}_tests")
            self.assertEqual(above, sorted(above, key=order), top)
            for program in above:
                tests = ROOT / "tests" / program.removesuffix("_tests")
                names = any(f'#include "{top}/' in test.read_text() for test in tests.rglob("*.*"))
                self.assertTrue(order(program) > rooms.index(top) or names, f"{program} is below {top}")

    def test_tests_that_name_the_source_are_near(self):
        near = lambda file, program="plan_tests": mutants.near_suites(file, program)
        self.assertIn("Complaints", near("src/plan/placement/validator.cpp"))
        self.assertNotIn("Complaints", near("src/plan/passes/fold_casts.cpp"))
        self.assertEqual(near("src/plan/passes/fold_casts.cpp", "cost_tests"), set())

    def test_near_and_quick_tests_run_first(self):
        tests = {"A.slow": 1, "B.quick": 0.1, "In/C.near/1": 0.1, "D/0.near": 2}
        self.assertEqual(mutate.in_order(tests, {"C", "D"}), [["In/C.near/1"], ["D/0.near"], ["B.quick"], ["A.slow"]])

    def test_a_failure_of_any_shard_ends_the_others(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
            program = Path(folder) / "one_tests"
            text = "[ RUN      ] A.b\\n[  FAILED  ] A.b (1 ms)\\n"
            program.write_text(f"#!/bin/sh\n[ $GTEST_SHARD_INDEX = 0 ] && exec sleep 60\nprintf '{text}'; exit 1\n")
            program.chmod(0o755)
            self.assertEqual(mutate.Programs(Path(folder), 2, {}).run_some("one_tests", "*", log, 30), "A.b")
            self.assertEqual(mutate.Programs(Path(folder), 1, {}).run_some("one_tests", "*", log, 0.1), "hangs")
            program.write_text("#!/bin/sh\nexit 0\n")
            self.assertIsNone(mutate.Programs(Path(folder), 2, {}).run_some("one_tests", "*", log, 30))


class Results(unittest.TestCase):
    def results(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mutants.jsonl"
            one = {"folder": "plan", "file": "src/plan/a.cpp", "line": 3, "operator": "logic", "after": "y", "seed": 1}
            file.write_text("".join(json.dumps(one | line) + "\n" for line in lines))
            return list(mutant_results.read_results(file).values())

    def test_the_last_result_of_a_mutant_counts(self):
        results = self.results(*({"before": "x", "outcome": o} for o in ("survived", "killed")))
        self.assertEqual([(r["outcome"], r["at_first"]) for r in results], [("killed", "survived")])

    def test_tables_tell_own_tests_from_those_above(self):
        results = self.results(
            {"before": "a", "outcome": "killed", "program": "plan_tests", "test": "A.a", "commit": "12345678"},
            {"before": "b || c", "outcome": "survived"},
            {"before": "c", "outcome": "survived"},
            {"before": "c", "outcome": "killed", "program": "run_tests", "test": "C.c"},
            {"before": "d", "outcome": "survived"},
            {"before": "d", "outcome": "equivalent", "why": "d | e"},
            {"before": "e", "outcome": "not reached", "why": "another processor", "seed": 2},
            {"before": "f", "outcome": "not compiling"})
        page = mutant_results.markdown(results)
        self.assertIn("## Seed 1\n\nCommit 12345678.\n\n| folder | drawn | compiling | equivalent | not reached | "
                      "killed by own tests | killed above | survived | killed % |\n", page)
        self.assertIn("| plan | 5 | 4 | 1 | 0 | 1 | 1 | 1 | 67 |\n| all | 5 | 4 | 1 | 0 | 1 | 1 | 1 | 67 |\n", page)
        self.assertIn("## Seed 2\n", page)
        self.assertIn("| all | 1 | 1 | 0 | 1 | 0 | 0 | 0 | - |\n", page)
        survivors, equivalents = page[page.index("## Survivors"):].split("## Equivalent mutants")
        self.assertIn("| src/plan/a.cpp:3 | `b \\|\\| c` | `y` | survives |\n", survivors)
        self.assertIn("| src/plan/a.cpp:3 | `c` | `y` | killed since by `C.c` of run_tests |\n", survivors)
        self.assertNotIn("`d`", survivors)
        self.assertIn("| src/plan/a.cpp:3 | `d` | `y` | d \\| e |\n", equivalents)
        self.assertIn("another processor", equivalents)
        self.assertIn("survived: src/plan/a.cpp:3 (logic)\n  - b || c\n  + y", mutant_results.text_table(results))

    def test_the_committed_page_is_that_of_the_results(self):
        results = list(mutant_results.read_results(mutate.COMMITTED).values())
        self.assertEqual(mutate.COMMITTED.with_suffix(".md").read_text(), mutant_results.markdown(results))


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
