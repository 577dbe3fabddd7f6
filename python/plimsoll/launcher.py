"""The command `plimsoll` of the wheel: checks that this machine can run the program, then becomes it.

A wheel may have builds for several torches, each in a folder of its own; the one of the installed torch runs.

The program is linked with libtorch, which lies in the package torch. It looks for libtorch in the folder that has this package
too, which is where pip puts both. If torch lies in another folder (a virtual environment with --system-site-packages, a cluster's
module, pip install --user), LD_LIBRARY_PATH gets that folder. torch itself is not imported: that takes seconds.
"""
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Callable

FOLDER = pathlib.Path(__file__).resolve().parent
FAILED = 1


class Refusal(Exception):
    """The program cannot run here; the text says why and what to do."""


def find_torch(
    package: pathlib.Path, find: Callable[[str], importlib.machinery.ModuleSpec | None] = importlib.util.find_spec
) -> pathlib.Path | None:
    """Returns the folder of torch: beside `package`, where the program looks first, or as `import` would find it; or None."""
    spec = importlib.machinery.PathFinder.find_spec("torch", [str(package.parent)]) or find("torch")
    return pathlib.Path(spec.origin).parent if spec is not None and spec.origin else None


def version_of(torch: pathlib.Path) -> str:
    """Returns the version of the torch in the folder `torch`, empty if nothing tells it."""
    for distribution in importlib.metadata.distributions(name="torch", path=[str(torch.parent)]):
        if distribution.version:
            return distribution.version
    try:  # built from source and not installed
        found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", (torch / "version.py").read_text(encoding="utf-8"), re.M)
    except OSError:
        return ""
    return found[1] if found else ""


def series_of(version: str) -> str:
    """Returns the series of a version: "2.11" of "2.11.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def check_torch(torch, version, torches, python=sys.executable):
    """Raises Refusal unless the folder `torch`, of the version `version`, is a torch of one of the series `torches` ("2.11")."""
    wanted = " or ".join(torches)
    install = f"install it: {python} -m pip install 'torch=={list(torches)[-1]}.*'"
    if torch is None:
        raise Refusal(f"torch is not installed for {python}; torch {wanted} is needed, because libtorch is in it; {install}")
    if series_of(version) not in torches:
        raise Refusal(f"torch is {version or 'of an unknown version'} in {torch}; torch {wanted} is needed, because the program is "
                      f"linked with its libraries; {install}")
    if not (torch / "lib" / "libtorch_cpu.so").is_file():
        raise Refusal(f"torch {version} in {torch} has no lib/libtorch_cpu.so; a torch {wanted} for Linux on x86-64 is needed; "
                      f"{install}")


def c_library():
    """Returns the name and version of this machine's C library: "glibc 2.36"; empty if it does not tell them."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def check_c_library(found, wanted):
    """Raises Refusal unless `found` is glibc of version `wanted` ("2.35") or newer.

    pip checks this too, where it installs; an environment in a shared folder also runs on other machines."""
    match = re.match(r"glibc (\d+)\.(\d+)", found)
    if match is None or (int(match[1]), int(match[2])) < tuple(map(int, wanted.split("."))):
        raise Refusal(f"the C library of this system is {found or 'not glibc'}; glibc {wanted} or newer is needed (Ubuntu 22.04, "
                      "Debian 12 and newer systems have it); build Plimsoll from source on this system: see README.md")


def cpu_note(cpuinfo):
    """Returns a line for a processor without AVX2, empty for others. `cpuinfo` is the text of /proc/cpuinfo."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    if flags is None or "avx2" in flags[1].split():
        return ""
    return ("note: this processor has no AVX2; training is slower, with the instructions that every x86-64 processor has "
            "('plimsoll doctor' shows which ones are used)")


def environment_for(torch, package, environment):
    """Returns the environment for the program: with libtorch's folder in LD_LIBRARY_PATH if torch does not lie beside `package`."""
    if torch.parent.resolve() == package.parent.resolve():
        return dict(environment)
    folders = [str(torch / "lib"), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    return {**environment, "LD_LIBRARY_PATH": ":".join(folders)}


def read_text(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def main():
    from plimsoll._build import GLIBC, TORCHES
    try:
        check_c_library(c_library(), GLIBC)
        torch = find_torch(FOLDER)
        version = version_of(torch) if torch else ""
        check_torch(torch, version, TORCHES)
        program = str(FOLDER / TORCHES[series_of(version)] / "bin" / "plimsoll")
        note = cpu_note(read_text("/proc/cpuinfo"))
        if note:
            print(f"plimsoll: {note}", file=sys.stderr, flush=True)
        os.execve(program, ["plimsoll", *sys.argv[1:]], environment_for(torch, FOLDER, os.environ))
    except Refusal as refusal:
        print(f"plimsoll: {refusal}", file=sys.stderr)
    except OSError as error:
        print(f"plimsoll: {error.filename or FOLDER}: {error.strerror}; install the wheel again", file=sys.stderr)
    return FAILED
