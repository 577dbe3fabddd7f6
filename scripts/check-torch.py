#!/usr/bin/env python3
"""Compiles the rooms that depend on the version of libtorch for another version than the build's, and links them.

    scripts/check-torch.py              each version that scripts/setup.sh has installed beside .venv (.venv-torch-2.15)
    scripts/check-torch.py TORCH        the torch folder of an installed wheel (…/site-packages/torch)

The commands are those of a finished release build (--build, default build), with the headers of the other torch and without
optimization. The objects are linked with the other torch and with the build's own libraries, which stand for the other rooms: a
declaration of libtorch that changed fails to compile, a symbol that is gone fails to link. Nothing is run; `make test TORCH=2.15` is
the whole suite. Exits with 1 and the compiler's messages if something fails.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("record", "device", "run", "collectives")
BYTES_PER_COMPILER = 2 << 30  # as in scripts/build.sh


class Failure(Exception):
    """The check failed; the text says where."""


def run(command, folder, name):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failure(f"{name}: exit code {done.returncode}\n{done.stdout}".rstrip())


def variables_of(build):
    try:
        text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        raise Failure(f"{build}: there is no build here; run 'make build'") from None
    return dict(re.findall(r"^([^#/\n][^:\n]*):[A-Z]+=(.*)$", text, re.M))


def in_rooms(path):
    """Whether an object of src/CMakeFiles/TARGET.dir is of one of the rooms: device/arena.cpp.o or Unity/unity_device_0_cxx.cxx.o."""
    return re.match(rf"(Unity/unity_)?({'|'.join(ROOMS)})[_/]", path) is not None


class Check:
    """The rooms for the torch in the folder `torch`; objects are written to `work`."""

    def __init__(self, build, torch, work):
        self.build, self.torch, self.work = build, torch, work
        variables = variables_of(build)
        self.own = variables["PLIMSOLL_TORCH_DIR"]
        ccache = variables.get("CCACHE", "")
        self.launcher = ["env", "CCACHE_SLOPPINESS=pch_defines,time_macros", ccache] if os.access(ccache, os.X_OK) else []
        self.header = work / "cmake_pch.hxx"

    def command(self, words, source, target):
        """The build's command for an object, for the other torch: headers of both site-packages change, optimization goes."""
        site, own_site = str(self.torch.parent), str(pathlib.Path(self.own).parent)
        changed = []
        for word in words:
            if re.fullmatch(r"-O\d|-DNDEBUG", word):
                continue
            if word.endswith("plimsoll_engine_torch.dir/cmake_pch.hxx"):
                word = str(self.header)
            changed.append(word.replace(own_site + "/", site + "/"))
        place = changed.index("-o")
        return [*self.launcher, *changed[:place], "-O0", "-o", str(target), *(["-x", "c++-header"] if source == self.header else []),
                "-c", str(source)]

    def objects(self):
        """Returns the target, the file, the folder and the words of the build's command for each object of the rooms."""
        found = []
        for entry in json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])
            match = re.match(r"src/CMakeFiles/(plimsoll_engine_torch|plimsoll_cuda_host)\.dir/(.*)", words[words.index("-o") + 1])
            # The headers of NCCL are for one version of torch.
            if match is not None and in_rooms(match[2]) and "-DUSE_C10D_NCCL" not in words:
                found.append((match[1], match[2], entry, words))
        if not any(target == "plimsoll_engine_torch" for target, *_ in found):
            raise Failure(f"{self.build}: compile_commands.json has no source of {', '.join(ROOMS)}")
        return found

    def compile(self, jobs):
        """Compiles; returns the objects of each target."""
        objects = self.objects()
        original = self.build / "src" / "CMakeFiles" / "plimsoll_engine_torch.dir" / "cmake_pch.hxx"
        self.header.write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
        plain = next(words for target, name, entry, words in objects if target == "plimsoll_engine_torch" and "Unity/" in name)
        plain = [word for word in plain[:plain.index("-include")] if word != "-Winvalid-pch"] + ["-o"]
        run(self.command(plain, self.header, f"{self.header}.gch"), ROOT, "the precompiled header")
        made = {}

        def one(target, name, entry, words):
            path = self.work / target / name.replace("/", "_")
            run(self.command(words, entry["file"], path), entry["directory"], entry["file"])
            return target, path

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = [pool.submit(one, *each) for each in objects]
            failures = []
            for each in waiting:
                try:
                    target, path = each.result()
                    made.setdefault(target, []).append(path)
                except Failure as failure:
                    failures.append(str(failure))
        if failures:
            raise Failure("\n".join(failures))
        return made

    def link(self, objects):
        """Links the objects of each target. What other rooms define is in the build's libraries."""
        lib = self.torch / "lib"
        engine = self.work / "libplimsoll.so"
        libraries = ["torch_cpu", "c10"]
        own = [str(self.build / "libplimsoll.so")]
        for target, result in (("plimsoll_engine_torch", engine), ("plimsoll_cuda_host", self.work / "libplimsoll_cuda.so")):
            if target not in objects:
                continue
            if target == "plimsoll_cuda_host":
                libraries += ["torch_cuda", "c10_cuda"]
                own = [str(engine), *own, str(self.build / "libplimsoll_cuda.so")]
                own += [str(path) for path in sorted(self.torch.parent.glob("nvidia/cu13/lib/libcudart.so.13"))]
            run(["c++", "-shared", "-fopenmp", "-Wl,--no-undefined", "-Wl,--allow-shlib-undefined", "-o", str(result),
                 *map(str, objects[target]), *own, *(str(lib / f"lib{name}.so") for name in libraries)], ROOT, f"linking {target}")


def compilers():
    available = int(re.search(r"^MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)[1]) << 10
    return int(os.environ.get("JOBS", 0)) or max(1, min(os.cpu_count(), available // BYTES_PER_COMPILER))


def check(build, torch):
    begin = time.monotonic()
    version = re.search(r"^__version__ = '([^']+)'", (torch / "version.py").read_text(encoding="utf-8"), re.M)[1]
    with tempfile.TemporaryDirectory(dir=build) as work:
        one = Check(build, torch, pathlib.Path(work))
        for target in ("plimsoll_engine_torch", "plimsoll_cuda_host"):
            (one.work / target).mkdir()
        objects = one.compile(compilers())
        one.link(objects)
    print(f"==> torch {version}: {sum(map(len, objects.values()))} objects of {', '.join(ROOMS)} compile and link "
          f"({time.monotonic() - begin:.0f} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("torch", nargs="*", type=pathlib.Path, metavar="TORCH", help="the torch folder of an installed wheel")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="a finished release build")
    arguments = parser.parse_args()
    torches = arguments.torch or sorted(ROOT.glob(".venv-torch-*/lib/python3*/site-packages/torch"))
    try:
        if not torches:
            raise Failure("no other torch is installed; run 'PLIMSOLL_TORCH=2.15 scripts/setup.sh torch'")
        for torch in torches:
            check(arguments.build.resolve(), torch.absolute())
    except (Failure, OSError, KeyError, ValueError, StopIteration) as failure:
        print(f"check-torch: {failure if isinstance(failure, (Failure, OSError)) else f'the build is not as expected: {failure!r}'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
