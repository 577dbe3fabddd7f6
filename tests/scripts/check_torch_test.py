#!/usr/bin/env python3
"""scripts/check-torch.py on a small build: another torch that has all, one with another declaration, and one without a symbol."""
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_torch", ROOT / "scripts/check-torch.py")
check_torch = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_torch)

HEADER = "int kept(int);\nint changed(int);\n"
SOURCES = {
    "src/record/record.cpp": "#include <at.h>\nint other_room();\nint record() { return kept(1) + changed(2) + other_room(); }\n",
    "src/models/model.cpp": "#include <at.h>\nint model() { return not_in_any_torch(); }\n",  # of another room
}


class CheckTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in SOURCES.items():
            self.write(name, text)
        own = self.torch("2.1.0", HEADER, "int kept(int) { return 0; } int changed(int) { return 0; }")
        objects = "src/CMakeFiles/plimsoll_engine_torch.dir"
        self.write(f"build/{objects}/cmake_pch.hxx", "#include <at.h>\n")
        self.write("build/CMakeCache.txt", f"PLIMSOLL_TORCH_DIR:PATH={own}\n")
        command = f"c++ -isystem {own}/include -O3 -DNDEBUG -fPIC -Winvalid-pch -include {self.root}/build/{objects}/cmake_pch.hxx"
        entries = [("Unity/unity_record_0_cxx.cxx", "src/record/record.cpp"), ("models/model.cpp", "src/models/model.cpp")]
        self.write("build/compile_commands.json", json.dumps([
            {"directory": f"{self.root}/build", "file": f"{self.root}/{source}",
             "command": f"{command} -o {objects}/{name}.o -c {self.root}/{source}"} for name, source in entries]))
        self.library("build/libplimsoll.so", "int other_room() { return 0; }")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def library(self, name, text):
        source = self.write(f"{name}.cpp", text)
        subprocess.run(["c++", "-shared", "-fPIC", "-o", self.root / name, source], check=True)

    def torch(self, version, header, definitions):
        folder = f"of-{version}/site-packages/torch"
        self.write(f"{folder}/version.py", f"__version__ = '{version}+cpu'\n")
        self.write(f"{folder}/include/at.h", header)
        (self.root / folder / "lib").mkdir()
        self.library(f"{folder}/lib/libtorch_cpu.so", definitions)
        self.library(f"{folder}/lib/libc10.so", "")
        return self.root / folder

    def check(self, torch):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            check_torch.check(self.root / "build", torch)
        return output.getvalue()

    def test_rooms(self):
        for name in ("Unity/unity_record_0_cxx.cxx.o", "Unity/unity_run_search_0_cxx.cxx.o", "collectives/gloo_group.cpp.o"):
            self.assertTrue(check_torch.in_rooms(name), name)
        for name in ("Unity/unity_ops_0_cxx.cxx.o", "ops/run_cpu.cpp.o", "Unity/unity_recorder_0_cxx.cxx.o"):
            self.assertFalse(check_torch.in_rooms(name), name)

    def test_another_torch_with_all_that_is_used(self):
        torch = self.torch("2.2.0", "int added();\n" + HEADER, "int kept(int) { return 0; } int changed(int) { return 0; }")
        self.assertIn("torch 2.2.0+cpu: 1 objects of record, device, run, collectives compile and link", self.check(torch))
        self.assertEqual([path.name for path in (self.root / "build").iterdir() if path.is_dir()], ["src"])

    def test_a_declaration_that_changed(self):
        torch = self.torch("2.3.0", "struct Number {};\nint kept(int);\nint changed(Number);\n", "int kept(int) { return 0; }")
        with self.assertRaisesRegex(check_torch.Failure, "src/record/record.cpp: exit code 1\n(?s:.*)could not convert"):
            self.check(torch)

    def test_a_symbol_that_is_gone(self):
        torch = self.torch("2.4.0", HEADER, "int kept(int) { return 0; }")
        with self.assertRaisesRegex(check_torch.Failure, r"linking plimsoll_engine_torch: (?s:.*)undefined reference to `changed\(int\)'"):
            self.check(torch)

    def test_no_build(self):
        with self.assertRaisesRegex(check_torch.Failure, "there is no build here; run 'make build'"):
            check_torch.Check(self.root, self.root, self.root)


if __name__ == "__main__":
    unittest.main()
