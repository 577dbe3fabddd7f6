#!/usr/bin/env python3
"""Writes the hashes of scripts/requirements/*.txt anew, for the versions that these files name.

    scripts/pin-python.py                     all files
    scripts/pin-python.py FILE...             some of them

To take another version of a package, change its version in the file (the hashes behind it may stay or go), and run this. A line is

    NAME==VERSION [; MARKER] --hash=sha256:HASH ...

with the hash of each wheel for Linux on x86_64 and aarch64, for the Pythons that scripts/setup.sh accepts. If a supported Python or
processor has no wheel of the version, the script says so and changes nothing. Reads the index that pip is configured for.
"""
import pathlib
import re
import sys

from index_files import Index, IndexFailure

FOLDER = pathlib.Path(__file__).resolve().parent / "requirements"
MINORS = range(10, 15)  # Python 3.10 to 3.14, as find_python of scripts/setup.sh
MACHINES = ("x86_64", "aarch64")
LINE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.+!]+)(?P<marker>\s*;[^\\]*?)?\s*(?:\\|--hash|$)")
MARKER = re.compile(r"python_version\s*(<|<=|>|>=|==)\s*\"3\.(\d+)\"$")


def requirements(text):
    """The (name, version, marker) of each requirement of a file."""
    found = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "--hash")):
            match = LINE.match(line)
            if match is None:
                raise IndexFailure(f"'{line}' is no requirement; allowed: NAME==VERSION [; python_version ...]")
            found.append((match["name"], match["version"], (match["marker"] or "").strip(" ;")))
    return found


def minors_of(marker):
    """The supported minor versions of Python 3 for which a requirement with this marker is installed."""
    if not marker:
        return list(MINORS)
    match = MARKER.match(marker)
    if match is None:
        raise IndexFailure(f"the marker '{marker}' is not understood; allowed: python_version < \"3.N\" and the like")
    bound = int(match[2])
    holds = {"<": lambda m: m < bound, "<=": lambda m: m <= bound, ">": lambda m: m > bound, ">=": lambda m: m >= bound,
             "==": lambda m: m == bound}[match[1]]
    return [minor for minor in MINORS if holds(minor)]


def fits(wheel, minor, machine):
    """Whether pip may install a wheel of this file name with CPython 3.minor on Linux of this machine."""
    pythons, abis, platforms = wheel[: -len(".whl")].split("-")[-3:]
    if platforms != "any" and not any(re.fullmatch(rf"(many)?linux\w*_{machine}", part) for part in platforms.split(".")):
        return False
    for python in pythons.split("."):
        if python == "py3" or (python == f"cp3{minor}" and not abis.endswith("t")):
            return True
        if abis == "abi3" and re.fullmatch(r"cp3(\d+)", python) and int(python[3:]) <= minor:
            return True
    return False


def hashes_of(index, name, version, marker):
    """The hashes of the wheels of a version that some supported Python and machine can take, sorted by wheel."""
    prefix = re.sub(r"[-_.]+", "_", name).lower() + "-" + version + "-"
    wheels = {}
    for file in index.files(name):
        wheel = file["filename"]
        plain = re.sub(r"[-_.]+", "_", wheel.split("-")[0]).lower() + wheel[len(wheel.split("-")[0]):]
        if wheel.endswith(".whl") and plain.startswith(prefix) and not file.get("yanked"):
            wheels[wheel] = file["hashes"]["sha256"]
    taken = set()
    for minor in minors_of(marker):
        for machine in MACHINES:
            fitting = {wheel for wheel in wheels if fits(wheel, minor, machine)}
            if not fitting:
                raise IndexFailure(f"{name}=={version} has no wheel for Python 3.{minor} on Linux {machine}")
            taken |= fitting
    return [wheels[wheel] for wheel in sorted(taken)]


def pinned(index, text):
    """The text of a file with hashes written anew. Comments at its head stay."""
    head = [line for line in text.splitlines() if line.startswith("#")]
    lines = head
    for name, version, marker in requirements(text):
        lines.append(f"{name}=={version}" + (f" ; {marker}" if marker else "") + " \\")
        lines += [f"    --hash=sha256:{digest} \\" for digest in hashes_of(index, name, version, marker)]
        lines[-1] = lines[-1][: -len(" \\")]
    return "\n".join(lines) + "\n"


def main():
    files = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.txt"))
    try:
        index = Index(sys.executable)
        for file in files:
            old = file.read_text(encoding="utf-8")
            new = pinned(index, old)
            if new != old:
                file.write_text(new, encoding="utf-8")
            print(f"pin-python: {file.name}: {'written' if new != old else 'as it was'}")
    except (IndexFailure, OSError) as error:
        sys.exit(f"pin-python: {error}")


if __name__ == "__main__":
    main()
