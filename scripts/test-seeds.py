#!/usr/bin/env python3
"""Runs the tests that compare a trained loss or metric with a threshold, with several seeds and instruction sets.

    scripts/test-seeds.py                            8 seeds without masks, 2 seeds under each mask of docs/backends.md
    scripts/test-seeds.py --seeds 8 --mask-seeds 8   all seeds under every mask
    scripts/test-seeds.py --tests 'StimuliJob.*'     some tests
    scripts/test-seeds.py --save FILE                writes the values as JSON too

A test takes part by test_seed() and by expect_above() or expect_below() of tests/thresholds.h. The table has a row
for each threshold: its values over all runs (mean, standard deviation, the value closest to the threshold), and the margin:
the distance of the mean from the threshold, in standard deviations and in ranges (largest value less smallest). The
script fails if a value is on the wrong side, or if a margin is less than twice the standard deviation.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from threshold_tests import threshold_tests

ROOT = Path(__file__).resolve().parent.parent
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "PLIMSOLL_CPU_CAPABILITY": "avx2"}
MASKS = {
    "none": {},
    "AVX2": AVX2,
    "ATEN default": {"ATEN_CPU_CAPABILITY": "default"},
    "oneDNN AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "MKL AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "ours default": {"PLIMSOLL_CPU_CAPABILITY": "default"},
}
VALUE = re.compile(r"^(\S+) (above|below) (\S+)$")
LEAST_MARGIN = 2.0  # standard deviations


def values_of(report):
    """(test, name) -> (value, side, threshold) of a JSON report of gtest."""
    values = {}
    for suite in report.get("testsuites", []):
        for test in suite["testsuite"]:
            for name, text in test.items():
                match = VALUE.match(text) if isinstance(text, str) else None
                if match:
                    values[f"{suite['name']}.{test['name']}", name] = float(match[1]), match[2], float(match[3])
    return values


def run(program, tests, masks, seed, cache):
    known = {name for mask in MASKS.values() for name in mask}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    environment |= masks | {"PLIMSOLL_TEST_SEED": str(seed), "XDG_CACHE_HOME": cache}
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run([program, f"--gtest_filter={tests}", f"--gtest_output=json:{report.name}"], env=environment,
                              text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        failed = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:,|$| \()", done.stdout, re.M)))
        if done.returncode != 0 and not failed:
            sys.exit(f"{program}, seed {seed}, {masks}: ended with {done.returncode}\n{done.stdout[-4000:]}")
        return values_of(json.loads(Path(report.name).read_text())), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seeds", type=int, default=8, help="seeds without a mask")
    parser.add_argument("--mask-seeds", type=int, default=2, help="seeds under each mask")
    parser.add_argument("--tests", help="a gtest filter instead of all threshold tests")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    filters = threshold_tests()
    if options.tests:
        filters = {program: [options.tests] for program in filters}
    found, failures, begin = {}, [], time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        for mask, masks in MASKS.items():
            start = time.monotonic()
            for seed in range(options.mask_seeds if masks else options.seeds):
                for program, tests in filters.items():
                    values, failed = run(options.build.resolve() / program, ":".join(tests), masks, seed, cache)
                    failures += [(mask, seed, test) for test in failed]
                    for key, value in values.items():
                        found.setdefault(key, []).append((mask, seed, *value))
            print(f"==> {mask}: {time.monotonic() - start:.0f} s", flush=True)
    if not found:
        sys.exit("no threshold was checked")
    thin = []
    print(f"\n{'threshold':<84}{'runs':>5}{'mean':>10}{'deviation':>11}{'closest':>10}{'limit':>11}{'margin':>8}{'ranges':>8}")
    for (test, name), runs in found.items():
        numbers = [value for _, _, value, _, _ in runs]
        side = runs[0][3]
        # Of a threshold that differs from run to run (a baseline), the distances are what counts.
        distances = [(value - limit) * (1 if side == "above" else -1) for _, _, value, _, limit in runs]
        deviation = statistics.stdev(distances) if len(distances) > 1 else 0.0
        spread = max(distances) - min(distances)
        mean = statistics.mean(distances)
        margin = mean / deviation if deviation else float("inf")
        ranges = mean / spread if spread else float("inf")
        worst = runs[distances.index(min(distances))]
        if margin < LEAST_MARGIN or min(distances) <= 0:
            thin.append(f"{test}, {name}: {worst[2]:.4g} with seed {worst[1]}, mask {worst[0]}")
        limit = ("> " if side == "above" else "< ") + f"{worst[4]:.4g}"
        print(f"{test + ', ' + name:<84}{len(runs):>5}{statistics.mean(numbers):>10.4g}{deviation:>11.3g}{worst[2]:>10.4g}"
              f"{limit:>11}{margin:>8.1f}{ranges:>8.1f}")
    if options.save:
        options.save.write_text(json.dumps([{"test": test, "name": name, "runs": runs} for (test, name), runs in found.items()],
                                           indent=1) + "\n")
    for mask, seed, test in failures:
        print(f"FAILED {test}, seed {seed}, mask {mask}")
    for line in thin:
        print(f"THIN   {line}")
    print(f"==> seeds: {len(found)} thresholds, {time.monotonic() - begin:.0f} s" + (", FAILED" if failures or thin else ""))
    sys.exit(1 if failures or thin else 0)


if __name__ == "__main__":
    main()
