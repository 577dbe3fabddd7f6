#!/usr/bin/env python3
"""The check of words finds each fault in a small tree, none in a clean one, and none in the repository."""
import contextlib
import importlib.util
import io
import pathlib
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_words", ROOT / "scripts/check-words.py")
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)

CLEAN = {
    "include/plimsoll/plan.h": """\
// Declares the planner.
//
// Of this block only the first line counts.
#pragma once

/// Returns the plan.
/// Of this block too.
int plan();  ///< bytes

struct Plan {
  int bytes;  ///< predicted; at most as many as
              ///< which the budget has
};
""",
    "src/plan/planner.cpp": """\
// Of a source, plain comments are free.
#include "beside/treatment.h"
const char* text = "/// Of \\" a text"; /* A block. */
const char* raw = R"(/// Whether it is a comment)";
const int million = 1'000'000;  // of a number
""",
}


class Tree(unittest.TestCase):
    def run_on(self, changes, *options):
        """The exit code and the output for CLEAN with other files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changes}.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = words.main(["--root", folder, *options])
            return code, output.getvalue()

    def faults(self, changes, *options):
        code, output = self.run_on(changes, *options)
        *lines, last = output.splitlines()
        self.assertEqual(code, 1 if lines else 0, output)
        self.assertRegex(last, r"^words: \d+ files, (no fault|1 fault|\d+ faults)$")
        return lines

    def places(self, text, *options, file="src/base/new.h"):
        """LINE: WORD of each fault in a file."""
        return [line.removeprefix(file + ":").split(": write ")[0] for line in self.faults({file: text}, *options)]


class Fragments(Tree):
    def test_a_clean_tree_passes(self):
        self.assertEqual(self.run_on({}), (0, "words: 2 files, no fault\n"))

    def test_a_header_that_opens_with_a_fragment(self):
        for opening in ["Of", "What", "Whether", "Where", "As", "Which", "How", "Who", "So", "Those", "That", "Such"]:
            found = self.faults({"src/base/new.h": f"// {opening} a plan is made.\n#pragma once\n"})
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"src/base/new.h:1: {opening}: write a subject and a verb ("), found)
            self.assertTrue(found[0].endswith(" instead"), found)
        self.assertEqual(self.places("#pragma once\n\n// What a plan has.\n"), ["3: What"])
        self.assertEqual(self.places("// What a plan has.\n", file="src/base/new.cuh"), ["1: What"])
        self.assertEqual(self.places("/* What a plan has. */\n"), ["1: What"])
        # Words that begin like one, and sources.
        self.assertEqual(self.places("// Offsets, asynchronous copies.\n"), [])
        self.assertEqual(self.places("// What a plan has.\n", file="src/base/new.cpp"), [])

    def test_a_doc_comment_that_opens_with_a_fragment(self):
        self.assertEqual(self.places("// Declares.\n\n/// Whether it fits.\nbool fits;\n"), ["3: Whether"])
        self.assertEqual(self.places("/// whether it fits\n", file="src/base/new.cpp"), ["1: whether"])
        self.assertEqual(self.places("int a;  ///< of the plan\nint b;  ///< that of a\n", file="src/base/new.cu"),
                         ["1: of", "2: that"])
        # Two fields in a row are two comments; a line without code goes on with the one above.
        self.assertEqual(self.places("// Declares.\nint a;  ///< bytes\n        ///< of the plan\nint b;  ///< of b\n"), ["4: of"])
        self.assertEqual(self.places("// Declares.\n/// Returns a plan\n/// that fits.\n"), [])
        # A plain comment before a doc comment is a block of its own.
        self.assertEqual(self.places("// Declares.\n// Notes.\n/// As before.\n"), ["3: As"])

    def test_an_allowed_doc_comment(self):
        text = "// Declares.\n/// Whether it fits.\n"
        with unittest.mock.patch.object(words, "ALLOWED", {"Whether it fits.": "the name of a field"}):
            self.assertEqual(self.places(text), [])
            found = self.faults({})
            self.assertEqual(len(found), 1, found)
            self.assertIn("remove it from ALLOWED", found[0])
            self.assertEqual(len(self.faults({"src/base/new.h": "// Whether it fits.\n"})), 1)  # headers are never allowed
        many = {f"Of {number}": "a reason" for number in range(words.MAX_ALLOWED)}
        with unittest.mock.patch.object(words, "ALLOWED", many):
            found = self.faults({"src/base/new.h": "// Declares.\n" + "".join(f"/// {each}\nint a;\n" for each in many)})
            self.assertEqual(len(found), 1, found)
            self.assertIn("allowed: fewer than 20", found[0])


class Counts(Tree):
    def test_counts(self):
        code, output = self.run_on({"src/base/new.h": "// What lies beside.\n/// Of a, beside b.\n/// Returns c.\n"}, "--count")
        lines = [line.strip() for line in output.splitlines()]
        self.assertEqual(code, 0)
        self.assertIn("1 of 2 headers open with a fragment", lines)
        self.assertIn("1 of 4 doc comments do, 0 of them allowed", lines)
        self.assertIn("1   What", lines)

    def test_a_folder_without_sources_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as errors, \
                self.assertRaises(SystemExit) as ended:
            words.main(["--root", folder])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("has no folder include", errors.getvalue())


class Repository(unittest.TestCase):
    def test_the_repository_has_no_fault(self):
        faults = words.Words(ROOT).faults()
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_the_repository_is_spelled_in_american_english(self):
        faults = words.spelling_faults()
        if faults is None:
            self.skipTest("codespell is not installed, or this is no checkout")
        self.assertFalse(faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
