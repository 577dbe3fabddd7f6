#!/usr/bin/env python3
"""The tests whose outcome depends on the processor's instructions, with some of them masked.

    scripts/test-masks.py [BUILD]                    all runs below; BUILD: build
    scripts/test-masks.py BUILD ATEN_CPU_CAPABILITY=avx2 [...]   one run, of these masks together

Each variable governs other code: ATEN_CPU_CAPABILITY libtorch's own kernels (and our series of fused ops, which have
their bits), ONEDNN_MAX_CPU_ISA oneDNN's, MKL_ENABLE_INSTRUCTIONS MKL's, PLIMSOLL_CPU_CAPABILITY ours. So several are
masked in one run, each run as some processor has it or across, and every mask is in one:

    three threads                nothing masked, more threads than cores
    libtorch below ours          ATEN_CPU_CAPABILITY=default; ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16, because with AMX libtorch's
                                 attention packs operands by a function that only its kernels with AVX-512 have
    no AVX-512                   everything at AVX2, as most laptops have it; one thread, so two programs run at a time
    ours below libtorch's        ONEDNN_MAX_CPU_ISA=AVX512_CORE: AVX-512 without products of bfloat16, which oneDNN then
                                 takes apart; with our kernels at PLIMSOLL_CPU_CAPABILITY=default the loss head's
                                 products are oneDNN's, too

In the run without AVX-512 the command line's tests and those that train to a threshold (scripts/test-seeds.py) run, too.

What was dispatched is asked of the libraries themselves in each run, and a run that is not what its masks say fails. A
mask that changes nothing that can be seen is said to, and where none of a run changes anything the run is left out:
`make test` runs these tests with the same instructions.
"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from threshold_tests import threshold_tests

RUNS = [
    ("unmasked, three threads", {}, 3),
    ("libtorch below ours", {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}, 2),
    (
        "no AVX-512",
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "PLIMSOLL_CPU_CAPABILITY": "avx2",
        },
        1,
    ),
    ("ours below libtorch's", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "PLIMSOLL_CPU_CAPABILITY": "default"}, 2),
]

# Scratch that is stated, kernels, and what must be equal to the bit.
FILTERS = {
    "ops_tests": "*-LossBlocks.AddUpTheirChunks:LossBlocks.SumsOfChunks*",  # the longest, of sums that others have, too
    # Of precisions one micro batch each, and no random models: where libraries have no products of 16 bits those are slow.
    "run_tests": "Budget.The*:Budget.Nothing*:Greedy.*:MeasuredWorkspace.*:Families/Operators.*:"
    "PrecisionCheckpointingAccumulation/*:"
    + ":".join(f"PrecisionAccumulation/*/{one}" for one in (0, 2, 4, 6)),
    "train_tests": "*FuseNorms*:*GroupUpdates*",
}
# What most laptops have: the command line and the tests that train to a threshold run there, too.
LAPTOP = "no AVX-512"
INSTRUCTIONS = "CpuInstructions.AreThoseThatTheMasksAllow"
FIELD_OF = {
    "ATEN_CPU_CAPABILITY": "libtorch",
    "ONEDNN_MAX_CPU_ISA": "oneDNN",
    "MKL_ENABLE_INSTRUCTIONS": "MKL",
    "PLIMSOLL_CPU_CAPABILITY": "plimsoll",
}


def environment(masks, threads):
    kept = {name: value for name, value in os.environ.items() if name not in FIELD_OF and "VERBOSE" not in name}
    # Rates of the machine as it is are no use to a masked one.
    return kept | masks | {"OMP_NUM_THREADS": str(threads), "XDG_CACHE_HOME": os.environ["PLIMSOLL_MASKS_CACHE"]}


def filters_of(name):
    """By test program: the gtest filter of a run."""
    filters = dict(FILTERS)
    if name == LAPTOP:
        for program, more in {"cli_tests": ["*"], **threshold_tests()}.items():
            filters[program] = ":".join([*filter(None, [filters.get(program)]), *more])
    return dict(sorted(filters.items(), key=lambda entry: entry[0] != "cli_tests"))  # the longest first


def tests(program, pattern, masks, threads):
    done = subprocess.run(
        [program, f"--gtest_filter={pattern}"], env=environment(masks, threads), text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    count = lambda what: int(next(iter(re.findall(rf"^\[  {what}  ?\] (\d+) tests?", done.stdout, re.M)), 0))
    failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:,|$| \()", done.stdout, re.M)
    return done, count("PASSED"), count("SKIPPED"), sorted(set(failed))


def instruction_sets(build, masks, threads):
    done, passed, _, _ = tests(build / "ops_tests", INSTRUCTIONS, masks, threads)
    line = re.search(r"^instruction sets: (.*)$", done.stdout, re.M)
    if passed != 1 or line is None:
        sys.exit(f"{done.stdout}\nthe instruction sets are not those of {masks or 'no masks'}")
    used = dict(part.split(" ", 1) if " " in part else (part, "") for part in line[1].split(" | "))
    if used.pop("threads") != str(threads):
        sys.exit(f"libtorch does not run with {threads} threads: {line[1]}")
    return used


def assertions(output, most=40):
    """The first lines of what failed, for a log that is all one has of another processor."""
    lines, kept = output.splitlines(), []
    for i, line in enumerate(lines):
        if re.search(r": Failure$", line):
            kept += lines[i : i + 6]
    return kept[:most] + ([f"({len(kept) - most} lines more)"] if len(kept) > most else [])


def main():
    arguments = sys.argv[1:]
    build = Path(arguments[0] if arguments else "build").resolve()
    runs = RUNS
    if arguments[1:]:
        runs = [("as asked for", dict(mask.split("=", 1) for mask in arguments[1:]), 2)]
    (build / "masks-failed.log").unlink(missing_ok=True)  # of an earlier run
    begin = time.monotonic()
    whole = instruction_sets(build, {}, 2)
    rows, failures, left_out = [], [], []
    for name, masks, threads in runs:
        start = time.monotonic()
        used = instruction_sets(build, masks, threads)
        if masks and used == whole and not arguments[1:]:
            left_out.append(name)
            print(f"==> masks: {name}: left out, this processor has no more instructions than that", flush=True)
            continue
        passed = skipped = 0
        filters = filters_of(name)
        with ThreadPoolExecutor(max(1, 2 // threads)) as pool:
            results = list(pool.map(lambda program: tests(build / program, filters[program], masks, threads), filters))
        for program, (done, its_passed, its_skipped, failed) in zip(filters, results):
            passed += its_passed
            skipped += its_skipped
            if done.returncode != 0:
                what = failed or [f"{program} ended with {done.returncode}"]
                failures.append((name, masks, what + assertions(done.stdout)))
                (build / "masks-failed.log").open("a").write(f"==== {name} {masks}\n{done.stdout}\n")
            if its_passed == 0:
                failures.append((name, masks, [f"{program}: no test passed"]))
        rows.append((name, masks, threads, used, passed, skipped, time.monotonic() - start))
        print(f"==> masks: {name}: {passed} passed, {skipped} skipped, {rows[-1][-1]:.0f} s", flush=True)

    print(f"\n{'run':<26}{'threads':>8}{'passed':>8}{'skipped':>9}{'seconds':>9}")
    for name, masks, threads, used, passed, skipped, seconds in rows:
        print(f"{name:<26}{threads:>8}{passed:>8}{skipped:>9}{seconds:>9.0f}")
        for mask, value in masks.items():
            field = FIELD_OF[mask]
            effect = "" if used[field] != whole[field] else ": nothing that it changes can be seen on this processor"
            print(f"    {mask}={value}{effect}")
        products = ", ".join(f"{kind} {used[kind] or 'not from oneDNN'}" for kind in ("bfloat16", "float16"))
        print(f"    ran: ours {used['plimsoll']}; libtorch {used['libtorch']}; oneDNN {used['oneDNN']}; MKL {used['MKL']}")
        print(f"    products: {products}")
    for name in left_out:
        print(f"{name:<26}left out: the instructions of this processor")
    for name, masks, failed in failures:
        print(f"\nFAILED {name} {masks}:", *failed, sep="\n    ")
    print(f"\n==> masks: {len(rows)} runs, {time.monotonic() - begin:.0f} s" + (", FAILED" if failures else ""))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        os.environ["PLIMSOLL_MASKS_CACHE"] = cache
        main()
