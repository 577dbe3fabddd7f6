#!/usr/bin/env python3
"""Sanitized programs have sanitized objects alone: small build.ninja files with faults in them."""
import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_sanitized", ROOT / "scripts/check-sanitized.py")
check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check)

CHECKED = "-O1 -fsanitize=address,undefined -fno-sanitize=vptr -D_GLIBCXX_ASSERTIONS"


def build(test=CHECKED, room=CHECKED, library="CXX_SHARED_LIBRARY_LINKER__rooms"):
    return f"""
build a_test.o: CXX_COMPILER__a /a_test.cpp | a.gch || order
  FLAGS = {test}

build room.o: CXX_COMPILER__rooms /room.cpp
  FLAGS = {room}

build librooms.so.0.1: {library} room.o | /usr/lib/libtorch.so || other.o
build other.o: CXX_COMPILER__other /other.cpp
  FLAGS = -O3

build a_tests: CXX_EXECUTABLE_LINKER__a a_test.o | librooms.so.0.1 $
    /usr/lib/libgtest.a || other.o
build plain_tests: CXX_EXECUTABLE_LINKER__b other.o
"""


class Sanitized(unittest.TestCase):
    def test_each_object_of_a_sanitized_program_is_sanitized(self):
        self.assertEqual(check.faults(build()), (["a_tests"], []))

    def test_an_object_of_a_library_without_sanitizers_is_a_fault(self):
        self.assertEqual(check.faults(build(room="-O3"))[1],
                         ["a_tests: room.o is compiled without -fsanitize=address,undefined"])

    def test_an_object_of_the_tests_with_one_of_the_two_is_a_fault(self):
        self.assertEqual(check.faults(build(test=CHECKED + " -fno-sanitize=undefined"))[1],
                         ["a_tests: a_test.o is compiled without -fsanitize=undefined"])

    def test_containers_of_two_kinds_are_a_fault(self):
        messages = check.faults(build(room=CHECKED.replace(" -D_GLIBCXX_ASSERTIONS", "")))[1]
        self.assertEqual(len(messages), 1)
        self.assertIn("room.o has -fsanitize=address,undefined -fno-sanitize=vptr; another object has", messages[0])

    def test_programs_without_sanitizers_are_not_looked_at(self):
        self.assertEqual(check.faults(build(test="-O3", room="-O1")), ([], []))


if __name__ == "__main__":
    unittest.main()
