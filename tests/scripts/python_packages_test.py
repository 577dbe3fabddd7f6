#!/usr/bin/env python3
"""Python packages come as wheels with known hashes: the files of scripts/requirements, and scripts/wheels.sh on made-up packages.

    tests/scripts/python_packages_test.py

Needs no network. Tests that call pip are skipped if this Python has none.
"""
import hashlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = sorted((ROOT / "scripts" / "requirements").glob("*.txt"))
WHEELS = ROOT / "scripts" / "wheels.sh"

sys.path.insert(0, str(ROOT / "scripts"))
spec = importlib.util.spec_from_file_location("pin_python", ROOT / "scripts" / "pin-python.py")
pin_python = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pin_python)


def joined_lines(text):
    """The lines of a file without comments, where a backslash joins a line with the next."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [line for line in plain.replace("\\\n", " ").splitlines() if line.strip()]


class RequirementsTest(unittest.TestCase):
    def test_every_line_has_an_exact_version_and_hashes(self):
        self.assertGreaterEqual(len(REQUIREMENTS), 5)
        for file in REQUIREMENTS:
            lines = joined_lines(file.read_text(encoding="utf-8"))
            self.assertTrue(lines, file)
            for line in lines:
                with self.subTest(file=file.name, line=line[:60]):
                    self.assertRegex(line, r'^[\w.-]+==[\w.]+( ; python_version [<>=]+ "3\.\d+")?(\s+--hash=sha256:[0-9a-f]{64})+$')

    def test_setup_installs_what_the_files_list(self):
        script = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
        for name in ("torch.txt", "torch-gpu.txt", "cuda-compiler.txt"):
            self.assertIn(name, script)
            self.assertTrue((ROOT / "scripts" / "requirements" / name).is_file())

    def test_only_wheels_sh_calls_pip(self):
        """No script installs or downloads past the hashes."""
        call = re.compile(r"""(-m["', ]+pip|bin/pip3?|\bpip3?)["', ]+(install|download|wheel)\b""")
        folders = [ROOT / name for name in ("scripts", "examples", ".ci", "cmake", "bench")]
        files = [ROOT / "Makefile"] + [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        found = []
        for path in files:
            if path.suffix in {".md", ".html", ".svg", ".png", ".json", ".pyc"}:
                continue
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                # A comment, or an answer that advises a user.
                if call.search(line) and not line.lstrip().startswith("#"):
                    found.append(f"{path.relative_to(ROOT)}: {line.strip()}")
        advised = [line for line in found if "--only-binary=:all:" in line and "fixtures.py" in line]
        others = [line for line in found if line not in advised and "was not found. Install torch" not in line]
        self.assertEqual(others, [])
        text = WHEELS.read_text(encoding="utf-8")
        for option in ("--require-hashes", "--only-binary=:all:", "--no-deps"):
            self.assertIn(option, text)


class PinTest(unittest.TestCase):
    class Index:
        def __init__(self, *names):
            self.names = names

        def files(self, project):
            return [{"filename": name, "hashes": {"sha256": hashlib.sha256(name.encode()).hexdigest()}} for name in self.names]

    def hashes(self, *names):
        return [hashlib.sha256(name.encode()).hexdigest() for name in names]

    def test_takes_wheels_for_linux_and_supported_pythons(self):
        index = self.Index("a_b-1.0-cp310-abi3-manylinux_2_28_x86_64.whl", "a_b-1.0-cp310-abi3-manylinux2014_aarch64.whl",
                           "a_b-1.0-cp310-abi3-win_amd64.whl", "a_b-1.0-cp39-cp39-manylinux_2_28_x86_64.whl", "a_b-1.0.tar.gz",
                           "a_b-1.1-py3-none-any.whl", "a_b-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl")
        text = pin_python.pinned(index, "# head\na-b==1.0 --hash=sha256:00\n")
        one, other = self.hashes(*sorted(index.names[:2]))
        self.assertEqual(text, f"# head\na-b==1.0 \\\n    --hash=sha256:{one} \\\n    --hash=sha256:{other}\n")
        self.assertEqual(pin_python.pinned(index, text), text)

    def test_refuses_a_version_without_a_wheel_for_a_supported_python(self):
        index = self.Index(*(f"a-1.0-cp3{minor}-cp3{minor}-manylinux_2_28_{machine}.whl"
                             for minor in range(10, 14) for machine in ("x86_64", "aarch64")), "a-1.0.tar.gz")
        with self.assertRaisesRegex(pin_python.IndexFailure, "a==1.0 has no wheel for Python 3.14 on Linux x86_64"):
            pin_python.pinned(index, "a==1.0\n")
        self.assertIn('a==1.0 ; python_version < "3.14" \\', pin_python.pinned(index, 'a==1.0 ; python_version < "3.14"\n'))

    def test_refuses_lines_that_are_no_requirements(self):
        for line in ("a>=1.0", "-r other.txt", "--index-url https://example.org", "a"):
            with self.assertRaises(pin_python.IndexFailure):
                pin_python.pinned(self.Index(), line + "\n")


class WheelsTest(unittest.TestCase):
    """scripts/wheels.sh with a folder of packages in place of an index."""

    def setUp(self):
        # Debian's python3 has no pip; that of .venv has.
        candidates = [sys.executable, *map(str, ROOT.glob(".venv/bin/python"))]
        self.python = next((each for each in candidates if subprocess.run(
            [each, "-m", "pip", "--version"], capture_output=True).returncode == 0), None)
        if self.python is None:
            self.skipTest("no Python with pip")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.packages = self.folder / "packages"
        self.packages.mkdir()
        self.ran = self.folder / "setup-ran"

    def wheel(self):
        path = self.packages / "plimsoll_probe-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("plimsoll_probe.py", "")
            info = "plimsoll_probe-1.0.dist-info/"
            archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: plimsoll-probe\nVersion: 1.0\n")
            archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(info + "RECORD", "")
        return path

    def source_archive(self):
        path = self.packages / "plimsoll-probe-1.0.tar.gz"
        setup = self.folder / "setup.py"
        setup.write_text(f"open({str(self.ran)!r}, 'w').close()\nfrom setuptools import setup\n"
                         "setup(name='plimsoll-probe', version='1.0')\n")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(setup, "plimsoll-probe-1.0/setup.py")
        return path

    def download(self, digest):
        file = self.folder / "probe.txt"
        file.write_text(f"plimsoll-probe==1.0 --hash=sha256:{digest}\n")
        to = self.folder / "to"
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages), "PIP_NO_BINARY": "plimsoll-probe",
                       "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run([WHEELS, "download", sys.executable, to, file], capture_output=True, text=True, env=environment)
        return done, sorted(path.name for path in to.glob("*")) if to.is_dir() else []

    def test_takes_a_wheel_by_its_hash(self):
        wheel = self.wheel()
        done, files = self.download(hashlib.sha256(wheel.read_bytes()).hexdigest())
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(files, [wheel.name])

    def test_another_hash_is_one_clear_line(self):
        wheel = self.wheel()
        done, files = self.download("0" * 64)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(files, [])
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("the wheel of plimsoll-probe==1.0 has sha256 " + hashlib.sha256(wheel.read_bytes()).hexdigest(), done.stderr)
        self.assertIn("probe.txt does not list", done.stderr)

    def test_runs_nothing_of_a_source_archive(self):
        """Not even with its own hash, and with PIP_NO_BINARY in the environment."""
        archive = self.source_archive()
        done, files = self.download(hashlib.sha256(archive.read_bytes()).hexdigest())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(files, [])
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(self.ran.exists())

    def test_a_file_that_is_not_there_is_one_line(self):
        done = subprocess.run([WHEELS, "install", sys.executable, self.folder / "none.txt"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"wheels: {self.folder}/none.txt cannot be read\n")


if __name__ == "__main__":
    unittest.main()
