#!/usr/bin/env python3
"""Sources that changed are compiled alone: which ones are chosen, and that one that includes too little is a fault."""
import importlib.util
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_alone", ROOT / "scripts/check-alone.py")
alone = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(alone)

FILES = {
    "src/a/size.h": "#pragma once\nusing Size = unsigned long;\n",
    "src/a/first.cpp": '#include "a/size.h"\nSize first() { return 1; }\n',
    "src/a/second.cpp": "Size second() { return 2; }\n",  # compiles only behind first.cpp
    "src/b/third.cpp": '#include "a/size.h"\nSize third() { return 3; }\n',
    "src/b/other.cpp": "int other() { return 0; }\n",
    "notes/page.txt": "text\n",
}


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            self.write(name, text)
        self.git("init", "-q", "-b", "main")
        self.commit()
        build = self.root / "build-dev"
        build.mkdir()
        entries = []
        for name in FILES:
            if name.endswith(".cpp"):
                file = str(self.root / name)
                plain = f"c++ -std=c++20 -I{self.root}/src -o build-dev/x.o -c {file}"
                entries += [{"file": file, "directory": str(self.root), "command": plain.replace("-o", "-fsanitize=address -o")},
                            {"file": file, "directory": str(self.root), "command": plain}]
        (build / "compile_commands.json").write_text(json.dumps(entries))
        self.commands = alone.commands_of(build)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", "src", "notes")
        self.git("commit", "-qm", "x")

    def chosen(self, base=""):
        names = alone.changed_files(self.root, base)
        return [str(pathlib.Path(source).relative_to(self.root)) for source in alone.sources_of(self.root, names, self.commands)]

    def test_a_source_that_changed_is_chosen(self):
        self.write("src/b/other.cpp", "int other() { return 1; }\n")
        self.write("notes/page.txt", "more\n")
        self.commit()
        self.assertEqual(self.chosen(), ["src/b/other.cpp"])

    def test_a_header_stands_for_the_sources_of_its_folder(self):
        self.write("src/a/size.h", FILES["src/a/size.h"] + "\n")
        self.commit()
        self.assertEqual(self.chosen(), ["src/a/first.cpp"])

    def test_a_header_that_no_neighbor_includes_stands_for_one_other_source(self):
        self.write("src/a/first.cpp", "int first() { return 1; }\n")
        self.commit()
        self.write("src/a/size.h", FILES["src/a/size.h"] + "\n")
        self.commit()
        self.assertEqual(self.chosen(), ["src/b/third.cpp"])

    def test_the_base_counts_all_commits_since(self):
        self.git("branch", "before")
        for name in ("src/b/other.cpp", "src/b/third.cpp"):
            self.write(name, FILES[name] + "\n")
            self.commit()
        self.assertEqual(self.chosen(), ["src/b/third.cpp"])
        self.assertEqual(self.chosen("before"), ["src/b/other.cpp", "src/b/third.cpp"])
        with self.assertRaises(SystemExit):
            self.chosen("nowhere")

    def test_without_a_parent_there_is_a_sample(self):
        self.assertIsNone(alone.changed_files(self.root))
        chosen = alone.sample(self.root, self.commands)
        self.assertEqual(set(chosen), set(self.commands))
        self.assertEqual(chosen, alone.sample(self.root, dict(reversed(self.commands.items()))))

    def test_what_a_neighbor_includes_is_missed(self):
        faults, left = alone.check(sorted(self.commands), self.commands, 60, 2)
        self.assertEqual([pathlib.Path(source).name for source, _ in faults], ["second.cpp"])
        self.assertIn("Size", faults[0][1])
        self.assertEqual(left, [])
        self.assertFalse((self.root / "build-dev/x.o").exists())

    def test_headers_that_the_build_writes_are_those_of_the_release_build(self):
        self.write("build/made.h", "using Made = int;\n")
        self.write("src/b/other.cpp", "#include <made.h>\nMade other() { return 0; }\n")
        source = str(self.root / "src/b/other.cpp")
        directory, command = self.commands[source]
        commands = {source: (directory, [*command, f"-I{self.root}/build-dev"])}
        self.assertEqual(alone.check([source], commands, 60, 1), ([], []))

    def test_no_file_is_begun_after_the_time(self):
        faults, left = alone.check(sorted(self.commands), self.commands, -1, 1)
        self.assertEqual((faults, left), ([], sorted(self.commands)))


if __name__ == "__main__":
    unittest.main()
