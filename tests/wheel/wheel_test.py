#!/usr/bin/env python3
"""Makes the wheel of a build, installs it into fresh environments, and trains there as README shows.

    tests/wheel/wheel_test.py BUILD...       BUILD: the folder of a release build; several for other torches make one wheel

An environment has the wheel, Python and a PATH without a compiler. No network is needed and nothing large is copied: the torch that
the build is linked with is made visible by symbolic links, as if pip had put it there, or by a .pth file. scripts/setup-wheel.sh
installs the tools that make a wheel. Without them, or on a system other than Debian 12, the test is skipped (exit code 77), unless
PLIMSOLL_REQUIRE_WHEEL is set.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ranks"))
from launchers import make_stand_ins  # noqa: E402

# README's job in three steps, and small: the micro batch is fixed, because the planner chooses it by measured times.
STEPS = ["max_steps=3", "scheduler.warmup_steps=1", "batch_size=4", "micro_batch_size=2", "threads=1"]
VIDEO_JOB = """\
model: {type: video_llm, image_size: 48, tokens_per_frame: 4, vision: {patch: 12, width: 64, depth: 1, num_heads: 4},
        llm: {hidden_size: 32, num_layers: 1, num_heads: 2, num_kv_heads: 2}}
data: {type: clips, list: clips.tsv, clip_seconds: 0.5, clip_stride: 0.25, max_frames: 4, sequence_length: 72}
micro_batch_size: 1
max_steps: 1
"""
# A driver for CUDA 11.4 that has a version and nothing else.
OLD_DRIVER = """\
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { *version = 11040; return 0; }
int cuGetProcAddress_v2(const char* name, void** found, int version, unsigned long flags, int* result) {
  *found = !strcmp(name, "cuInit") ? (void*)cuInit : !strcmp(name, "cuDriverGetVersion") ? (void*)cuDriverGetVersion
         : !strcmp(name, "cuGetProcAddress") ? (void*)cuGetProcAddress_v2 : 0;
  return *found ? 0 : 500;
}
int cuGetProcAddress(const char* name, void** found, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, found, version, flags, 0);
}
"""


def cached(build, name):
    return re.search(rf"^{name}:[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.M)[1]


def wheel_script():
    spec = importlib.util.spec_from_file_location("wheel", ROOT / "scripts" / "wheel.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def reason_to_skip():
    """What a wheel cannot be made without on this machine; empty if all is there."""
    if not (ROOT / ".venv-wheel" / "bin" / "auditwheel").exists():
        return "scripts/setup-wheel.sh was not run"
    if os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36" or not shutil.which("dpkg-query"):
        return "wheels are made on Debian 12: libraries of a newer system need a newer glibc than the wheel's name says"
    return ""


class Wheel(unittest.TestCase):
    build, further = None, []

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.torch = pathlib.Path(cached(cls.build, "PLIMSOLL_TORCH_DIR"))
        made = subprocess.run([sys.executable, ROOT / "scripts" / "wheel.py", "--build", cls.build, *cls.further, "--out",
                               cls.folder / "dist", "--any-architectures"],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.wheel = next((cls.folder / "dist").glob("*.whl"))
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "env"], check=True)
        cls.bin = cls.folder / "env" / "bin"
        cls.site = pathlib.Path(subprocess.run([cls.bin / "python", "-c", "import site; print(site.getsitepackages()[0])"],
                                               capture_output=True, text=True, check=True).stdout.strip())
        subprocess.run([cls.bin / "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", cls.wheel],
                       check=True)
        text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("concepts.md", "job-file.md"))
        (cls.folder / "my.txt").write_text(text, encoding="utf-8")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (cls.folder / "my.yaml").write_text(re.search(r"^```yaml\n(.*?)^```$", readme, re.M | re.S)[1], encoding="utf-8")

    def plimsoll(self, *words, program=None, **variables):
        """Runs the environment's program. Its PATH has no compiler, and no variable of this process."""
        environment = {"PATH": str(self.bin), "HOME": str(self.folder / "home"), **variables}
        return subprocess.run([program or self.bin / "plimsoll", *words], cwd=self.folder, env=environment, capture_output=True,
                              text=True)

    @contextlib.contextmanager
    def torch_beside(self, torch=None):
        """torch, its metadata and its CUDA libraries, where pip puts them: beside the package plimsoll."""
        links = []
        for pattern in ("torch", "nvidia", "torch-*.dist-info"):
            for path in (torch or self.torch).parent.glob(pattern):
                links.append(self.site / path.name)
                links[-1].symlink_to(path)
        try:
            yield
        finally:
            for link in links:
                link.unlink()

    @contextlib.contextmanager
    def on_python_path(self, folder):
        path = self.site / "elsewhere.pth"
        path.write_text(f"{folder}\n")
        try:
            yield
        finally:
            path.unlink()

    def losses(self, name, **arguments):
        report = self.folder / f"{name}.json"
        done = self.plimsoll("train", "my.yaml", *STEPS, f"checkpoint.directory={name}", "--json", report, **arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = json.loads(report.read_text())["losses"]
        self.assertEqual(len(losses), 3)
        return losses

    def test_same_losses_as_the_build(self):
        expected = self.losses("built", program=self.build / "plimsoll")
        with self.torch_beside():
            self.assertEqual(self.losses("beside"), expected)
        with self.on_python_path(self.torch.parent):
            self.assertEqual(self.losses("elsewhere"), expected)
        for number, build in enumerate(self.further):
            torch = pathlib.Path(cached(build, "PLIMSOLL_TORCH_DIR"))
            expected = self.losses(f"built {number}", program=build / "plimsoll")
            with self.torch_beside(torch):
                self.assertEqual(self.losses(f"beside {number}"), expected)
                version = self.plimsoll("--version").stdout
            self.assertIn(f"libtorch      {wheel_script().Build(build).series}.", version)

    def test_no_path_of_this_machine(self):
        with zipfile.ZipFile(self.wheel) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                for folder in {ROOT, self.build.resolve(), self.torch}:
                    self.assertNotIn(f"{folder}/".encode(), data, name)

    def test_files(self):
        self.assertRegex(self.wheel.name, r"^plimsoll-\d+\.\d+\.\d+-py3-none-manylinux_2_35_x86_64\.whl$")
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        for name in ("plimsoll/bin/plimsoll", "plimsoll/lib/libplimsoll.so.0", "plimsoll/include/plimsoll/training.h"):
            self.assertIn(name, names)
        for name in ("bash-completion/completions/plimsoll", "zsh/site-functions/_plimsoll", "fish/vendor_completions.d/plimsoll.fish",
                     "man/man1/plimsoll.1"):
            self.assertTrue((self.bin.parent / "share" / name).stat().st_size > 1000, name)
        requirement = r"==\d+\.\d+\.\*" if not self.further else r">=\d+\.\d+,<\d+\.\d+.*"
        self.assertRegex(metadata, rf"(?m)^Requires-Dist: torch{requirement}$")
        libs = [pathlib.Path(name).name for name in names if name.startswith("plimsoll.libs/")]
        bundled = {re.sub(r"-[0-9a-f]{8}\.so.*", "", name) for name in libs}
        self.assertEqual(bundled, {"libyaml-cpp", "libsentencepiece", "libutf8proc", "libpcre2-8"})
        licenses = [name for name in names if "/licenses/" in name]
        for library in bundled:
            self.assertTrue(any(library in name for name in licenses), f"{library}: {licenses}")
        for name in licenses:
            self.assertIn(f"License-File: {pathlib.Path(name).name}\n", metadata)
        # Each library once: a wheel has no symbolic links.
        libraries = [name for name in names if name.startswith("plimsoll/lib/libplimsoll")]
        self.assertTrue(all(re.search(r"\.so\.\d+$", name) for name in libraries), libraries)

    def test_module(self):
        done = self.plimsoll("-c", "import plimsoll, sys, pathlib; assert 'torch' not in sys.modules\n"
                                   "print(plimsoll.__version__)\n"
                                   "for path in (plimsoll.cmake_path(), plimsoll.include_path(), plimsoll.library_path(), "
                                   "plimsoll.program_path()): assert pathlib.Path(path).exists(), path",
                             program=self.bin / "python")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.strip(), cached(self.build, "CMAKE_PROJECT_VERSION"))
        with self.torch_beside():
            done = self.plimsoll("-m", "plimsoll", "gpus", program=self.bin / "python")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def refused(self, *words, **arguments):
        done = self.plimsoll(*words, **arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("plimsoll: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return lines[0]

    def test_no_torch(self):
        line = self.refused("gpus")
        self.assertIn("torch is not installed for ", line)
        self.assertIn(f"{self.bin}/python", line)

    def test_another_torch(self):
        other = self.folder / "other"
        (other / "torch").mkdir(parents=True)
        (other / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
        (other / "torch-2.10.0.dist-info").mkdir()
        (other / "torch-2.10.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n")
        with self.on_python_path(other):
            line = self.refused("gpus")
        torches = " or ".join(wheel_script().Build(build).series for build in (self.build, *self.further))
        self.assertIn(f"torch is 2.10.0 in {other}/torch; torch {torches} is needed", line)

    def test_no_ffmpeg(self):
        stand_ins = self.folder / "no-ffmpeg"
        stand_ins.mkdir()
        # A file that is no library is an error of loading, as no file is; the system's FFmpeg is not looked for any more.
        media = self.site / "plimsoll" / "lib" / "libplimsoll_media.so.0"
        needed = subprocess.run(["readelf", "-d", media], capture_output=True, text=True, check=True).stdout
        avformat = re.search(r"\[(libavformat\.so\.(\d+))\]", needed)
        (stand_ins / avformat[1]).write_text("no library")
        (self.folder / "video.yaml").write_text(VIDEO_JOB)
        (self.folder / "clips.tsv").write_text("film.mp4\ta film\n")
        (self.folder / "film.mp4").touch()
        with self.torch_beside():
            line = self.refused("train", "video.yaml", LD_LIBRARY_PATH=str(stand_ins))
        self.assertIn(f"the libraries of FFmpeg {int(avformat[2]) - 54}, which cannot be loaded", line)
        self.assertIn(f"install the Debian packages libavformat{avformat[2]} ", line)
        self.assertIn("libraries of these major versions", line)

    def test_old_driver(self):
        if not (self.site / "plimsoll" / "lib" / "libplimsoll_cuda.so.0").exists():
            self.skipTest("the build has no CUDA library")
        stand_ins = self.folder / "old-driver"
        stand_ins.mkdir()
        make_stand_ins(self.torch / "lib", stand_ins)
        (stand_ins / "driver.c").write_text(OLD_DRIVER)
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", stand_ins / "libcuda.so.1", stand_ins / "driver.c",
                        "-Wl,-soname,libcuda.so.1"], check=True)
        with self.torch_beside():
            line = self.refused("train", "my.yaml", *STEPS, "device=cuda", LD_LIBRARY_PATH=str(stand_ins))
        self.assertIn("the NVIDIA driver is for CUDA 11.4; a driver for CUDA 13 is needed (580 or later)", line)


class Script(unittest.TestCase):
    """Parts of scripts/wheel.py, on small trees."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_cmake_package_follows_the_libraries(self):
        stage, tree, script = self.folder / "stage", self.folder / "tree", wheel_script()
        package = stage / "lib" / "cmake" / "plimsoll"
        package.mkdir(parents=True)
        library = next(Wheel.build.glob("libplimsoll_media.so.*.*.*"))
        shutil.copy(library, stage / "lib")
        (stage / "lib" / "libplimsoll_media.so.0").symlink_to(library.name)
        (package / "targets.cmake").write_text(f"location ${{_IMPORT_PREFIX}}/lib/{library.name}\nsoname libplimsoll_media.so.0\n"
                                               f"torch /build/site-packages/torch/lib/libc10.so\n")
        (stage / "share" / "man").mkdir(parents=True)
        (stage / "share" / "man" / "plimsoll.1").write_text("manual")
        places = {name: place.format(data="plimsoll-1.data") for name, place in script.PLACES.items()}
        script.lay_out(stage, tree, pathlib.Path("/build/site-packages/torch"), places)
        self.assertEqual(sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()),
                         ["plimsoll-1.data/data/share/man/plimsoll.1", "plimsoll/lib/cmake/plimsoll/targets.cmake",
                          "plimsoll/lib/libplimsoll_media.so.0"])
        self.assertEqual((tree / "plimsoll" / "lib" / "cmake" / "plimsoll" / "targets.cmake").read_text(),
                         "location ${_IMPORT_PREFIX}/lib/libplimsoll_media.so.0\nsoname libplimsoll_media.so.0\n"
                         "torch ${CMAKE_CURRENT_LIST_DIR}/../../../../torch/lib/libc10.so\n")
        (stage / "etc").mkdir()
        (stage / "etc" / "new").touch()
        with self.assertRaisesRegex(script.Failure, "etc/new is installed, and .* has no place for it"):
            script.lay_out(stage, tree, pathlib.Path("/build/site-packages/torch"), places)

    def test_a_further_build_has_only_programs_and_libraries(self):
        stage, tree, script = self.folder / "stage", self.folder / "tree", wheel_script()
        (stage / "lib" / "cmake").mkdir(parents=True)
        (stage / "include").mkdir()
        for text in (stage / "lib" / "cmake" / "targets.cmake", stage / "include" / "plan.h"):
            text.write_text("text")
        library = next(Wheel.build.glob("libplimsoll_media.so.*.*.*"))
        shutil.copy(library, stage / "lib")
        places = {name: place.format(series="2.15") for name, place in script.FURTHER_PLACES.items()}
        script.lay_out(stage, tree, pathlib.Path("/torch"), places)
        self.assertEqual([path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()],
                         ["plimsoll/torch-2.15/lib/libplimsoll_media.so.0"])

    def test_requirements_name_the_torches(self):
        script = wheel_script()
        self.assertEqual(script.requirement_for(["2.11"]), "==2.11.*")
        self.assertEqual(script.requirement_for(["2.15", "2.11"]), ">=2.11,<2.16,!=2.12.*,!=2.13.*,!=2.14.*")
        self.assertEqual(script.requirement_for(["2.14", "2.15"]), ">=2.14,<2.16")
        with self.assertRaisesRegex(script.Failure, "one major version"):
            script.requirement_for(["2.15", "3.0"])

    def test_paths_are_found(self):
        (self.folder / "good").write_text("plimsoll/src/run.cpp /home/build/src2 x/home/build/src/a\n")
        (self.folder / "bad").write_bytes(b"\0\1/home/build/src/run.cpp\0")
        left = wheel_script().paths_left(self.folder, [pathlib.Path("/home/build/src")])
        self.assertEqual(left, ["bad: /home/build/src/run.cpp"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    builds = [pathlib.Path(word).resolve() for word in sys.argv[1:] if (pathlib.Path(word) / "CMakeCache.txt").exists()]
    Wheel.build, *Wheel.further = builds
    del sys.argv[1:1 + len(builds)]
    if reason_to_skip() and not os.environ.get("PLIMSOLL_REQUIRE_WHEEL"):
        print(f"skipped: {reason_to_skip()}")
        sys.exit(77)
    unittest.main()
