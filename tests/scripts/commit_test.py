#!/usr/bin/env python3
"""The build states the commit of its sources: cmake/Commit.cmake in small repositories.

    tests/scripts/commit_test.py cmake
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "cmake" / "Commit.cmake"
CMAKE = "cmake"
GIT = shutil.which("git")


class CommitTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.sources = self.folder / "sources"
        self.sources.mkdir()
        (self.sources / "a.txt").write_text("a\n")
        self.header = self.folder / "commit.h"

    def git(self, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run([GIT, "-C", self.sources, "-c", "user.name=n", "-c", "user.email=e@example.org", *words],
                              capture_output=True, text=True, env=environment, check=True)
        return done.stdout.strip()

    def commit(self):
        if GIT is None:
            self.skipTest("git is not installed")
        self.git("init", "--quiet")
        self.git("add", "a.txt")
        self.git("commit", "--quiet", "--message", "first")

    def stated(self, sources=None, git=GIT):
        subprocess.run([CMAKE, f"-DSOURCE={sources or self.sources}", f"-DHEADER={self.header}", f"-DGIT={git or ''}", "-P", SCRIPT],
                       check=True)
        return self.header.read_text()

    def test_commit(self):
        self.commit()
        hash = self.git("rev-parse", "--short=9", "HEAD")
        self.assertEqual(self.stated(), f'#define PLIMSOLL_COMMIT "{hash}"\n')
        (self.sources / "new.txt").write_text("no part of the commit\n")
        self.assertEqual(self.stated(), f'#define PLIMSOLL_COMMIT "{hash}"\n')
        (self.sources / "a.txt").write_text("b\n")
        self.assertEqual(self.stated(), f'#define PLIMSOLL_COMMIT "{hash}, modified"\n')

    def test_header_is_written_only_when_the_commit_changes(self):
        self.commit()
        self.stated()
        os.utime(self.header, (1, 1))
        self.stated()
        self.assertEqual(self.header.stat().st_mtime, 1)
        self.git("commit", "--quiet", "--allow-empty", "--message", "second")
        self.stated()
        self.assertNotEqual(self.header.stat().st_mtime, 1)

    def test_unknown(self):
        self.assertEqual(self.stated(), '#define PLIMSOLL_COMMIT "unknown"\n')  # no repository
        self.commit()
        self.assertEqual(self.stated(git=None), '#define PLIMSOLL_COMMIT "unknown"\n')
        # An unpacked archive inside of the repository of another project.
        inside = self.sources / "plimsoll-0.1.0"
        inside.mkdir()
        self.assertEqual(self.stated(inside), '#define PLIMSOLL_COMMIT "unknown"\n')


if __name__ == "__main__":
    CMAKE = sys.argv.pop(1)
    unittest.main()
