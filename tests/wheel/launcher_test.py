#!/usr/bin/env python3
"""The checks of the wheel's command (python/plimsoll/launcher.py), each with a stand-in for a machine that fails it."""
import importlib.machinery
import importlib.util
import os
import pathlib
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python" / "plimsoll" / "launcher.py"
# By its path: the package also needs a file that scripts/wheel.py writes.
spec = importlib.util.spec_from_file_location("launcher", SOURCE)
launcher = importlib.util.module_from_spec(spec)
spec.loader.exec_module(launcher)


def make_torch(folder, version, metadata=True, library=True):
    """A package torch of some version, with an empty library."""
    torch = folder / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    (torch / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\ndebug = False\n")
    if library:
        (torch / "lib" / "libtorch_cpu.so").touch()
    if metadata:
        info = folder / f"torch-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return torch


def found_elsewhere(torch):
    return lambda name: importlib.machinery.PathFinder.find_spec(name, [str(torch.parent)])


class Launcher(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.package = self.folder / "site" / "plimsoll"
        self.package.mkdir(parents=True)

    def refusal(self, check, *arguments):
        with self.assertRaises(launcher.Refusal) as caught:
            check(*arguments)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        return text

    def test_torch_beside_the_package_comes_first(self):
        beside = make_torch(self.package.parent, "2.11.0")
        other = make_torch(self.folder / "other", "2.10.0")
        self.assertEqual(launcher.find_torch(self.package, found_elsewhere(other)), beside)
        self.assertEqual(launcher.version_of(beside), "2.11.0")
        launcher.check_torch(beside, "2.11.0", ["2.11"])
        self.assertEqual(launcher.environment_for(beside, self.package, {"A": "b"}), {"A": "b"})

    def test_torch_elsewhere_gets_into_the_library_path(self):
        other = make_torch(self.folder / "other", "2.11.1+cpu")
        self.assertEqual(launcher.find_torch(self.package, found_elsewhere(other)), other)
        launcher.check_torch(other, launcher.version_of(other), ["2.11"])
        library = str(other / "lib")
        self.assertEqual(launcher.environment_for(other, self.package, {}), {"LD_LIBRARY_PATH": library})
        self.assertEqual(launcher.environment_for(other, self.package, {"LD_LIBRARY_PATH": "/x:/y"}),
                         {"LD_LIBRARY_PATH": f"{library}:/x:/y"})

    def test_version_without_metadata(self):
        self.assertEqual(launcher.version_of(make_torch(self.folder, "2.11.0a0+git", metadata=False)), "2.11.0a0+git")

    def test_no_torch(self):
        self.assertIsNone(launcher.find_torch(self.package, lambda name: None))
        (self.folder / "empty" / "torch").mkdir(parents=True)  # a folder of that name is no package
        self.assertIsNone(launcher.find_torch(self.package, found_elsewhere(self.folder / "empty" / "torch")))
        text = self.refusal(launcher.check_torch, None, "", ["2.11"], "/env/bin/python")
        self.assertEqual(text, "torch is not installed for /env/bin/python; torch 2.11 is needed, because libtorch is in it; "
                               "install it: /env/bin/python -m pip install 'torch==2.11.*'")

    def test_another_torch(self):
        for version in ("2.10.0", "2.12.0+cu130", "2.1.1", "3.11.0", "2.110.0", ""):
            torch = make_torch(self.folder / f"of {version}", version)
            text = self.refusal(launcher.check_torch, torch, launcher.version_of(torch), ["2.11"], "python3")
            self.assertIn(f"torch is {version or 'of an unknown version'} in {torch}; torch 2.11 is needed", text)
            self.assertIn("python3 -m pip install 'torch==2.11.*'", text)

    def test_a_wheel_for_several_torches(self):
        torches = {"2.11": "", "2.15": "torch-2.15"}
        for version in ("2.11.0", "2.15.1+cpu"):
            launcher.check_torch(make_torch(self.folder / version, version), version, torches)
        torch = make_torch(self.folder / "between", "2.13.0")
        text = self.refusal(launcher.check_torch, torch, "2.13.0", torches, "python3")
        self.assertIn("torch 2.11 or 2.15 is needed", text)
        self.assertIn("python3 -m pip install 'torch==2.15.*'", text)

    def test_torch_without_libraries(self):
        torch = make_torch(self.folder, "2.11.0", library=False)
        self.assertIn("has no lib/libtorch_cpu.so", self.refusal(launcher.check_torch, torch, "2.11.0", ["2.11"]))

    def test_c_library(self):
        for good in ("glibc 2.35", "glibc 2.36", "glibc 2.100", "glibc 3.0"):
            launcher.check_c_library(good, "2.35")
        for bad in ("glibc 2.34", "glibc 2.4", "glibc 1.99", ""):
            text = self.refusal(launcher.check_c_library, bad, "2.35")
            self.assertIn(f"the C library of this system is {bad or 'not glibc'}; glibc 2.35 or newer is needed", text)
        self.assertEqual(launcher.c_library().split()[0], "glibc")

    def test_processor(self):
        cpuinfo = "processor\t: 0\nmodel name\t: stand-in\nflags\t\t: fpu sse4_2 {}avx\nbugs\t\t: avx2\n"
        self.assertEqual(launcher.cpu_note(cpuinfo.format("avx2 ")), "")
        self.assertEqual(launcher.cpu_note(""), "")  # /proc is not mounted
        self.assertIn("this processor has no AVX2", launcher.cpu_note(cpuinfo.format("")))
        self.assertNotIn("\n", launcher.cpu_note(cpuinfo.format("")))

    def test_unreadable_file(self):
        self.assertEqual(launcher.read_text(os.fspath(self.folder / "missing")), "")


if __name__ == "__main__":
    unittest.main()
