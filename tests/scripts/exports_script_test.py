#!/usr/bin/env python3
"""The names that the libraries export for users: a fixed list of names, and a library that lost one.

    tests/scripts/exports_script_test.py
"""
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("exports", ROOT / "scripts/exports.py")
exports = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exports)

PUBLIC = ["plimsoll::Planner::plan(std::optional<long>) const", "plimsoll::plan_training(plimsoll::StepOfSize const&)",
          "vtable for plimsoll::UserError", "typeinfo for plimsoll::Training", "plimsoll::Training::~Training()",
          "plimsoll::read_job[abi:cxx11](std::filesystem::__cxx11::path const&)"]
OWN = ["plimsoll::Planner::Impl::plan()", "plimsoll::find_fault(plimsoll::Plan const&)", "plimsoll::ops::add_rows(int)",
       "void plimsoll::check<int>(int)", "std::vector<plimsoll::Plan>::push_back(plimsoll::Plan&&)", "other::plan_training()"]


class Names(unittest.TestCase):
    def test_declarations_of_public_headers_are_public(self):
        declared = exports.declared_names()
        for name in PUBLIC:
            self.assertTrue(exports.is_public(name, *declared), name)
        for name in OWN:
            self.assertFalse(exports.is_public(name, *declared), name)


class Libraries(unittest.TestCase):
    def checked(self, source, exported):
        """Returns check() for libraries of `source`; the exported ones have only the symbols `exported`."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "exported").mkdir()
            (folder / "a.cpp").write_text(source)
            (folder / "list").write_text(f"V {{ global: {exported} local: *; }};")
            for library in ("libplimsoll.so", "libplimsoll_jobs.so"):
                compiler = ["g++", "-shared", "-fPIC", folder / "a.cpp", "-o"]
                subprocess.run([*compiler, folder / library], check=True)
                subprocess.run([*compiler, folder / "exported" / library, f"-Wl,--version-script={folder / 'list'}"], check=True)
            with mock.patch("builtins.print"):
                return exports.check(folder)

    def test_a_public_name_that_is_not_exported_is_a_fault(self):
        source = "namespace plimsoll { int plan_training(int a) { return a; } int own(int a) { return a; } }"
        self.assertFalse(self.checked(source, "_ZN8plimsoll13plan_trainingEi;"))
        self.assertTrue(self.checked(source, "_ZN8plimsoll3ownEi;"))

    def test_a_library_without_a_public_name_is_a_fault(self):
        self.assertTrue(self.checked("namespace plimsoll { int own(int a) { return a; } }", "_ZN8plimsoll3ownEi;"))


if __name__ == "__main__":
    unittest.main()
