#!/usr/bin/env python3
"""Builds the fuzz targets of tests/fuzz with clang, replays their corpus and fuzzes them.

    scripts/fuzz.py                          every target for 60 seconds
    scripts/fuzz.py --seconds 600 job csv    two targets for 10 minutes each
    scripts/fuzz.py --seconds 0              replays the corpus only
    scripts/fuzz.py --total 120 --seed 1     two minutes of fuzzing in all, from the same seed
    scripts/fuzz.py --total 120 --known      the same; only known inputs make the script fail
    scripts/fuzz.py --coverage               replays with line coverage of the readers (build/fuzz-coverage)
    scripts/fuzz.py --coverage --report bench/results/fuzzing.md
                                             writes the table of that file anew: coverage, and the runs in build/fuzz

Inputs that reach new code are kept in build/fuzz/corpus/TARGET for the next run; an input of a find is written to
build/fuzz/finds. `build/fuzz/TARGET_fuzz FILE` repeats it. The script fails if there is a find. Limits of a run: 1024 MiB
of memory, 1024 MiB in one allocation, 10 seconds.

With --known the corpus is replayed first, and the script fails if one of its inputs is a find. Finds of new inputs are
printed only: mutations are random, and a change would be refused for a defect that was there before.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests/fuzz"
LIMITS = ["-rss_limit_mb=1024", "-malloc_limit_mb=1024", "-timeout=10", "-print_final_stats=1"]
# Bytes of an input; most readers look at little more than a header.
MAX_BYTES = {"tokenizer_json": 8192, "sentencepiece": 8192, "media": 16384, "picture": 8192}
DEFAULT_MAX_BYTES = 4096
PRINTED_BYTES = 16384  # of a new find's input, at most
# The reader's own files, for coverage.
OWN = json.loads((SOURCES / "own_files.json").read_text())


def die(text):
    sys.exit(f"fuzz: {text}")


def compiler():
    names = ["clang++"] + [f"clang++-{version}" for version in range(25, 13, -1)]
    found = next((name for name in names if shutil.which(name)), None)
    if found:
        runtime = subprocess.run([found, "-print-file-name=libclang_rt.fuzzer-x86_64.a"], capture_output=True, text=True).stdout
        folder = subprocess.run([found, "-print-runtime-dir"], capture_output=True, text=True).stdout.strip()
        if Path(runtime.strip()).is_file() or list(Path(folder).glob("libclang_rt.fuzzer*")) or list(
                Path(folder).parent.glob("*/libclang_rt.fuzzer*")):
            return found
    die("clang with libFuzzer is missing; on Debian 12: apt-get install clang libclang-rt-dev")


def torch_folder():
    given = os.environ.get("PLIMSOLL_TORCH_DIR")
    return given or next(map(str, ROOT.glob(".venv/lib/python3*/site-packages/torch")), "")


def build(folder, coverage, targets):
    begin = time.monotonic()
    configure = ["cmake", "-S", SOURCES, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler()}",
                 f"-DFUZZ_COVERAGE={'ON' if coverage else 'OFF'}", f"-DPLIMSOLL_TORCH_DIR={torch_folder()}"]
    for command in (configure, ["cmake", "--build", folder, "--parallel", os.environ.get("JOBS", str(os.cpu_count())),
                                *(["--target", *[f"{target}_fuzz" for target in targets]] if targets else [])]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            die(f"the build failed:\n{done.stdout[-6000:]}")
    print(f"==> fuzz: targets built in {time.monotonic() - begin:.0f} s", flush=True)


class Result:
    def __init__(self, target):
        self.target, self.runs, self.seconds, self.coverage, self.memory, self.find = target, 0, 0.0, 0, 0, ""
        self.inputs, self.input = 0, ""


def fuzz(target, folder, seconds, seed, known=False):
    """Replays the corpus and fuzzes for `seconds`; 0: replays only."""
    result = Result(target)
    kept, corpus = folder / "corpus" / target, SOURCES / "corpus" / target
    kept.mkdir(parents=True, exist_ok=True)
    # A replay is of the repository's inputs alone: what an earlier run has kept is not known to pass.
    corpora = [str(each) for each in ((kept, corpus) if seconds or not known else (corpus,)) if each.is_dir()]
    finds = folder / "finds"
    finds.mkdir(exist_ok=True)
    command = [str(folder / f"{target}_fuzz"), *LIMITS, f"-artifact_prefix={finds}/{target}-",
               f"-max_len={MAX_BYTES.get(target, DEFAULT_MAX_BYTES)}"]
    words = SOURCES / f"{target}.dict"
    if words.is_file():
        command.append(f"-dict={words}")
    command += [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}"] if seconds else ["-runs=0"]
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="plimsoll-fuzz-", dir=memory) as private:
        # libtorch keeps registries until the process ends, and containers often deny the ptrace of LeakSanitizer.
        leaks = "0" if target == "checkpoint" else os.environ.get("FUZZ_LEAKS", "1")
        environment = dict(os.environ, PLIMSOLL_FUZZ_FOLDER=private, UBSAN_OPTIONS="print_stacktrace=1",
                           ASAN_OPTIONS=f"detect_leaks={leaks}:allocator_may_return_null=0")
        begin = time.monotonic()
        done = subprocess.run(command + corpora, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                              cwd=private)
        result.seconds = time.monotonic() - begin
    log = done.stdout.decode(errors="replace")
    number = lambda pattern: int((re.findall(pattern, log) or ["0"])[-1])
    result.runs, result.memory = number(r"number_of_executed_units:\s*(\d+)"), number(r"peak_rss_mb:\s*(\d+)")
    result.coverage, result.inputs = number(r"cov: (\d+)"), number(r"corp: (\d+)")
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / f"{target}.log").write_text(log)
    if done.returncode != 0:
        reason = re.search(r"==> find: .*|.*runtime error: .*|ERROR: \w+Sanitizer: .*|ERROR: libFuzzer: .*", log)
        written = re.findall(r"Test unit written to (\S+)", log)
        # The machine of a check is often gone afterwards, and the file with it.
        if written and Path(written[0]).stat().st_size <= PRINTED_BYTES:
            result.input = base64.b64encode(Path(written[0]).read_bytes()).decode()
        result.find = f"{reason.group(0) if reason else f'exit status {done.returncode}'} ({', '.join(written) or 'no input'})"
    return result


def show(results):
    print(f"{'target':<18}{'executions':>12}{'exec/s':>9}{'seconds':>9}{'edges':>8}{'inputs':>8}{'MiB':>7}  find")
    for each in results:
        rate = each.runs / each.seconds if each.seconds else 0
        print(f"{each.target:<18}{each.runs:>12}{rate:>9.0f}{each.seconds:>9.1f}{each.coverage:>8}{each.inputs:>8}{each.memory:>7}"
              f"  {each.find or '-'}")


def keep(results, folder):
    """Adds runs to the list that a report sums up; replays are left out."""
    with open(folder / "runs.jsonl", "a") as file:
        for each in results:
            file.write(json.dumps({"target": each.target, "executions": each.runs, "seconds": round(each.seconds, 1),
                                   "edges": each.coverage, "find": each.find}) + "\n")


def write_report(path, lines, folder):
    """Writes the table of a report between its two marks."""
    begin, end = "<!-- scripts/fuzz.py --report -->", "<!-- end -->"
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    table = ["| target | executions | minutes | edges | lines of the reader's own files, % |", "|---|---|---|---|---|"]
    for target, text in lines.items():
        runs = [row for row in rows if row["target"] == target]
        table.append(f"| {target} | {sum(row['executions'] for row in runs)} | {sum(row['seconds'] for row in runs) / 60:.1f} | "
                     f"{max((row['edges'] for row in runs), default=0)} | {text} |")
    total = [row for row in rows if row["target"] in lines]
    table.append(f"| all | {sum(row['executions'] for row in total)} | {sum(row['seconds'] for row in total) / 60:.1f} | | |")
    text = path.read_text()
    head, rest = text.split(begin)
    path.write_text(head + begin + "\n" + "\n".join(table) + "\n" + end + rest.split(end)[1])


def coverage(targets, sanitized, report):
    """Percent of lines of each reader's own files over the corpus and what fuzzing has kept."""
    texts = {}
    folder = ROOT / "build/fuzz-coverage"
    build(folder, True, targets)
    version = re.search(r"clang\+\+(-\d+)?$", compiler()).group(1) or ""
    tools = {}
    for tool in ("llvm-profdata", "llvm-cov"):
        found = next((each for each in (f"{tool}{version}", tool, *sorted(map(str, Path("/usr/lib").glob(f"llvm-*/bin/{tool}"))))
                      if shutil.which(each)), None)
        tools[tool] = found or die(f"{tool} is missing; on Debian 12: apt-get install llvm")
    for target in targets:
        raw, data = folder / f"{target}.profraw", folder / f"{target}.profdata"
        with tempfile.TemporaryDirectory(prefix="plimsoll-fuzz-") as private:
            corpora = [str(each) for each in (sanitized / "corpus" / target, SOURCES / "corpus" / target) if each.is_dir()]
            subprocess.run([str(folder / f"{target}_fuzz"), "-runs=0", *corpora], cwd=private, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=dict(os.environ, LLVM_PROFILE_FILE=str(raw), PLIMSOLL_FUZZ_FOLDER=private))
        subprocess.run([tools["llvm-profdata"], "merge", "-o", data, raw], check=True)
        text = subprocess.run([tools["llvm-cov"], "export", "-summary-only", str(folder / f"{target}_fuzz"),
                               f"-instr-profile={data}"], check=True, capture_output=True, text=True).stdout
        files = {each["filename"]: each["summary"]["lines"] for each in json.loads(text)["data"][0]["files"]}
        parts = []
        for name in OWN[target]:
            lines = files[str(ROOT / "src" / name)]
            parts.append(f"{name} {lines['percent']:.0f}")
        texts[target] = ", ".join(parts)
        print(f"{target:<18}{texts[target]}", flush=True)
    if report:
        write_report(report, texts, sanitized)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="targets; default: all")
    parser.add_argument("--seconds", type=float, default=60, help="of fuzzing, a target")
    parser.add_argument("--total", type=float, help="seconds of fuzzing in all, instead of --seconds")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations; 0: another one each time")
    parser.add_argument("--known", action="store_true", help="fail at finds of the corpus only; print those of new inputs")
    parser.add_argument("--no-build", action="store_true", help="run the programs as they are")
    parser.add_argument("--coverage", action="store_true", help="replay with line coverage")
    parser.add_argument("--report", type=Path, help="with --coverage: the file whose table is written anew")
    arguments = parser.parse_args()
    all_targets = sorted(each.name.removesuffix("_fuzz.cpp") for each in SOURCES.glob("*_fuzz.cpp"))
    unknown = [each for each in arguments.targets if each not in all_targets]
    if unknown:
        die(f"there is no target {', '.join(unknown)}; targets: {', '.join(all_targets)}")
    targets = arguments.targets or all_targets
    folder = ROOT / "build/fuzz"
    if arguments.coverage:
        return coverage(targets, folder, arguments.report)
    if not torch_folder() and "checkpoint" in targets:
        print("==> fuzz: without libtorch (scripts/setup.sh torch) the target checkpoint is left out")
        targets.remove("checkpoint")
    if not arguments.no_build and targets:
        build(folder, False, targets)
    targets = [each for each in targets if (folder / f"{each}_fuzz").is_file()]
    if not targets:
        die("no target is built")
    seconds = arguments.seconds if arguments.total is None else arguments.total / len(targets)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        run_all = lambda each: list(pool.map(lambda target: fuzz(target, folder, each, arguments.seed, arguments.known), targets))
        results = run_all(0) if arguments.known else []
        if any(each.find for each in results):
            show(results)
            die("there are finds among the inputs of tests/fuzz/corpus; logs are in build/fuzz/logs")
        results = run_all(seconds)
    show(results)
    if seconds:
        keep(results, folder)
    found = sum(bool(each.find) for each in results)
    if found and arguments.known:
        for each in results:
            if each.input:
                print(f"{each.target}: the input in base64: {each.input}")
        print(f"==> fuzz: NEW FINDS of {found} targets; fix the readers: inputs are in build/fuzz/finds, logs in build/fuzz/logs")
    elif found:
        die("there are finds; inputs are in build/fuzz/finds, logs in build/fuzz/logs")
    print(f"==> fuzz: {len(results)} targets, {sum(each.runs for each in results)} executions, {found or 'no'} finds")


if __name__ == "__main__":
    main()
