#!/usr/bin/env python3
"""The check of layers finds each fault in a small tree, none in a clean one, and none in the repository."""
import contextlib
import importlib.util
import io
import json
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts/check-layers.py")
layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(layers)

TABLE = """\
# A comment.

ground  base       -      bytes      | bytes

engine  plan       -      plan,trace | the plan
engine  ops        torch  -          | operators
engine  record     torch  -          | the recorder
engine  device     torch  -          | backends

jobs    job        -      -          | the job file
jobs    cli        torch  -          | commands
"""
CLEAN = {
    "src/rooms.txt": TABLE,
    "include/plimsoll/bytes.h": "#include <string>\n",
    "include/plimsoll/plan.h": '#include "plimsoll/bytes.h"\n',
    "include/plimsoll/trace.h": "",
    "src/base/file.cpp": '#include "plimsoll/bytes.h"\n#include "base/file.h"\n',
    "src/base/file.h": "",
    "src/plan/planner.cpp": '#include "plimsoll/plan.h"\n#include "base/file.h"\n',
    "src/ops/op.h": "#include <ATen/ATen.h>\n",
    "src/ops/kernel.cu": '#include "op.h"\n#include <cuda_bf16.h>\n#include "cuda_on_cpu/cuda_on_cpu.h"\n',
    "src/record/record.cpp": '#include "ops/op.h"\n',
    "src/device/backend.h": '#include <c10/core/Allocator.h>\n#include "plimsoll/plan.h"\n',
    "src/device/sizes.h": "",
    "src/job/reader.cpp": '#include "device/sizes.h"\n',
    "src/cli/main.cpp": '// Text\n#include "plimsoll/plan.h"\n\n#include "base/file.h"\n',
    "src/job/reader.h": "",
    "src/CMakeLists.txt": "",
}


class Tree(unittest.TestCase):
    def run_on(self, changes, *options):
        """The exit code and the output for CLEAN with other files; None removes a file."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changes}.items():
                if text is not None:
                    path = pathlib.Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = layers.main(["--root", folder, *options])
            return code, output.getvalue()

    def faults(self, changes):
        code, output = self.run_on(changes)
        *lines, last = output.splitlines()
        self.assertEqual(code, 1 if lines else 0, output)
        self.assertRegex(last, r"^layers: \d+ rooms, \d+ files, \d+ arrows, (no fault|1 fault|\d+ faults)$")
        return lines

    def expect_one(self, changes, where, *texts):
        """Exactly one fault, at FILE:LINE, with these texts."""
        found = self.faults(changes)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(where + ": "), found)
        for text in texts:
            self.assertIn(text, found[0])

    def with_row(self, row):
        return {"src/rooms.txt": TABLE + row + "\n"}


class Includes(Tree):
    def test_a_clean_tree_passes(self):
        self.assertEqual(self.run_on({}), (0, "layers: 7 rooms, 14 files, 6 arrows, no fault\n"))

    def test_an_arrow_up(self):
        up = {"src/ops/new.cpp": '\n#include "device/backend.h"\n'}
        self.expect_one(up, "src/ops/new.cpp:2", "ops includes device/backend.h of device", "arrow up")
        self.expect_one({"src/plan/new.cpp": '# include "record/new.h"', "src/record/new.h": ""}, "src/plan/new.cpp:1", "arrow up")
        found = self.faults({"include/plimsoll/bytes.h": '#include "plimsoll/trace.h"\n'})  # and a circle
        self.assertTrue(found[0].startswith("include/plimsoll/bytes.h:1: base includes plimsoll/trace.h of plan, but ground "
                                            "includes nothing of engine; "), found)
        # Also next to the file, and with brackets.
        self.expect_one({"src/ops/new.h": '#include "../device/backend.h"'}, "src/ops/new.h:1", "arrow up")
        self.expect_one({"src/ops/new.h": "#include <device/backend.h>"}, "src/ops/new.h:1", "arrow up")

    def test_a_comment_is_no_include(self):
        self.assertEqual(self.faults({"src/ops/new.h": '// #include "device/backend.h"\nconst char* s = "#include \\"x.h\\"";\n'}), [])

    def test_the_engine_includes_nothing_of_the_jobs(self):
        self.expect_one({"src/ops/new.cpp": '#include "job/reader.h"\n'}, "src/ops/new.cpp:1",
                        "engine includes nothing of jobs")

    def test_record_and_plan_include_no_device_and_plan_no_operator(self):
        # In whatever order the table has them.
        order = ["ground  base    -  bytes  | b", "engine device torch - | d", "engine ops torch - | o", "engine record torch - | r",
                 "engine plan - plan,trace | p", "jobs job - - | j", "jobs cli torch - | c"]
        table = {"src/rooms.txt": "\n".join(order) + "\n", "src/device/backend.h": "", "src/ops/op.h": ""}
        self.assertEqual(self.faults(table), [])
        self.expect_one({**table, "src/record/new.h": '#include "device/sizes.h"'}, "src/record/new.h:1", "no device")
        self.expect_one({**table, "src/plan/new.h": '#include "device/sizes.h"'}, "src/plan/new.h:1", "no device")
        self.expect_one({**table, "src/plan/new.h": '#include "ops/op.h"'}, "src/plan/new.h:1", "no operator")
        below = {**table, "src/rooms.txt": table["src/rooms.txt"].replace("jobs job", "engine plan/passes - - | p\njobs job", 1),
                 "src/plan/passes/new.h": '#include "ops/op.h"'}
        self.expect_one(below, "src/plan/passes/new.h:1", "plan/passes includes ops/op.h", "no operator")

    def test_a_circle_is_a_group_of_includes(self):
        found = self.faults({"src/ops/up.h": '#include "record/up.h"', "src/record/up.h": '\n#include "device/up.h"',
                             "src/device/up.h": "", "src/device/down.h": '#include "ops/op.h"'})
        self.assertEqual([line.split(":")[0] for line in found[:2]], ["src/ops/up.h", "src/record/up.h"])
        circle = found.index("src/rooms.txt:6: circle of rooms: ops -> record -> ops; remove one of its arrows:")
        self.assertEqual(found[circle + 1:circle + 3], ["    src/ops/up.h:1: ops -> record: includes record/up.h",
                                                        "    src/record/record.cpp:1: record -> ops: includes ops/op.h"])
        longer = found.index("src/rooms.txt:7: circle of rooms: record -> device -> ops -> record; remove one of its arrows:")
        self.assertEqual(found[longer + 1:], ["    src/record/up.h:2: record -> device: includes device/up.h",
                                              "    src/device/down.h:1: device -> ops: includes ops/op.h",
                                              "    src/ops/up.h:1: ops -> record: includes record/up.h"])

    def test_an_arrow_up_alone_is_no_circle(self):
        found = self.faults({"src/ops/new.h": '#include "device/sizes.h"'})
        self.assertFalse(any("circle" in line for line in found), found)

    def test_the_program_includes_public_headers(self):
        for header in ["device/sizes.h", "job/reader.h"]:
            self.expect_one({"src/cli/new.cpp": f'#include "{header}"'}, "src/cli/new.cpp:1", "only public headers")

    def test_an_include_that_names_no_file(self):
        self.expect_one({"src/cli/new.cpp": '#include "cli/none.h"\n#include <cli/of_others.h>\n'}, "src/cli/new.cpp:1",
                        '"cli/none.h" names no file')


class Libtorch(Tree):
    def test_directly(self):
        for header in ["torch/torch.h", "ATen/ATen.h", "c10/util/Half.h"]:
            self.expect_one({"src/plan/new.cpp": f"#include <{header}>\n"}, "src/plan/new.cpp:1", f"<{header}>", "without libtorch")
        self.expect_one({"include/plimsoll/plan.h": "\n\n#include <torch/types.h>\n"}, "include/plimsoll/plan.h:3", "plan is without")

    def test_through_other_headers(self):
        self.expect_one({"src/job/new.cpp": '#include "device/far.h"\n', "src/device/far.h": '#include "device/backend.h"\n'},
                        "src/job/new.cpp:1", "device/far.h -> device/backend.h -> <c10/core/Allocator.h>")

    def test_the_header_that_brings_it_is_named_once(self):
        self.expect_one({"src/job/reader.h": '#include "device/backend.h"\n', "src/job/a.cpp": '#include "job/reader.h"\n'},
                        "src/job/reader.h:1", "<c10/core/Allocator.h>")
        # Headers that include each other do no harm.
        self.assertEqual(self.faults({"src/job/reader.cpp": '#include "device/a.h"\n', "src/device/a.h": '#include "device/b.h"\n',
                                      "src/device/b.h": '#include "device/a.h"\n'}), [])


class Places(Tree):
    def test_a_file_outside_the_rooms(self):
        self.expect_one({"src/plan/deep/new.cpp": ""}, "src/plan/deep/new.cpp:1", "src/plan/deep is not a room")
        self.expect_one({"src/new.cuh": ""}, "src/new.cuh:1", "src is not a room")
        self.expect_one({"include/plimsoll/deep/new.h": ""}, "include/plimsoll/deep/new.h:1", "public headers are")
        self.expect_one({"include/plimsoll/new.cpp": ""}, "include/plimsoll/new.cpp:1", "public headers are")

    def test_public_headers_are_listed_once(self):
        self.expect_one({"include/plimsoll/new.h": ""}, "include/plimsoll/new.h:1", "does not list", "add new to")
        self.expect_one({"src/rooms.txt": TABLE.replace("job        -      -   ", "job        -      plan")}, "src/rooms.txt:10",
                        "include/plimsoll/plan.h is also a header of plan (line 5)")
        self.expect_one({"include/plimsoll/trace.h": None}, "src/rooms.txt:5", "include/plimsoll/trace.h does not exist")

    def test_a_room_has_at_most_40_files_and_a_folder(self):
        many = {f"src/base/{number}.cpp": "" for number in range(38)}
        self.assertEqual(self.faults(many), [])  # 40 with those of CLEAN; its public header is not in the folder
        self.expect_one({**many, "src/base/more.h": ""}, "src/rooms.txt:3", "room base has 41 files", "at most 40")
        self.expect_one(self.with_row("jobs    none  -  -  | nothing"), "src/rooms.txt:12", "no sources in src/none")


class Table(Tree):
    def test_lines_that_are_no_room(self):
        for row in ["jobs  new  -  -", "jobs  new  yes  -  | text", "jobs  new  -  a.h  | text", "lower  new  -  -  | text",
                    "jobs  new  -  -  | a; b", "jobs  new  -  -  | [a]", "jobs new/ - - | a/b\\c"]:
            self.expect_one(self.with_row(row), "src/rooms.txt:12", "is not a room")

    def test_rooms_are_listed_once_and_by_library(self):
        self.expect_one(self.with_row("jobs  cli  torch  -  | again"), "src/rooms.txt:12", "also in line 11")
        self.expect_one({**self.with_row("engine  new  -  -  | late"), "src/new/new.cpp": ""}, "src/rooms.txt:12",
                        "room new of engine follows a room of jobs")
        self.expect_one({"src/rooms.txt": TABLE.replace("comment", "c\u00f6mment")}, "src/rooms.txt:1", "not ASCII")

    def test_a_tree_without_a_table_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as ended:
            self.run_on({"src/rooms.txt": None})
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("has no src/rooms.txt", errors.getvalue())


class Output(Tree):
    def test_list_has_a_line_for_each_room_bottom_up(self):
        code, output = self.run_on({}, "--list")
        lines = output.splitlines()
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[1] for line in lines[1:8]], ["base", "plan", "ops", "record", "device", "job", "cli"])
        self.assertEqual(lines[7].split(), ["jobs", "cli", "torch", "1", "4", "base:1", "plan:1"])
        self.assertEqual(lines[1].split(), ["ground", "base", "-", "3", "3", "-"])
        self.assertEqual(lines[8], "lines: ground 3, engine 10, jobs 5")

    def test_json_has_the_rooms_and_the_faults(self):
        code, output = self.run_on({"src/ops/new.cpp": '#include "device/sizes.h"'}, "--json")
        answer = json.loads(output)
        self.assertEqual(code, 1)
        self.assertEqual(len(answer["faults"]), 1)
        self.assertEqual(answer["rooms"][1], {"room": "plan", "library": "engine", "torch": False, "subject": "the plan",
                                              "headers": ["plimsoll/plan.h", "plimsoll/trace.h"], "files": 3, "lines": 3,
                                              "includes": {"base": 2}})
        self.assertEqual(answer["rooms"][2]["includes"], {"device": 1})


class Repository(unittest.TestCase):
    def test_the_repository_has_no_fault(self):
        faults = layers.Layers(ROOT).texts()
        self.assertFalse(faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
