#!/usr/bin/env python3
"""Checks Plimsoll on an NVIDIA GPU, from the folder that scripts/gpu-check.sh packs. It needs Python and the torch wheel.

    python3 run.py                      all checks, in the order that tells most in the first minutes, for 540 seconds
    python3 run.py --seconds 1500       and for longer: larger shapes
    python3 run.py --only training      the checks whose names begin with "training"
    python3 run.py --list               their names, in order, with their time limits

Every check is a process of its own with a time limit, so a hang or a fault of the device ends that check alone. Results are in
--results, which is emptied first: a log for each check, JSON files, and results.json with the outcome, seconds and reason of each
check. All of them are in --archive, too, which is written again after each check. Outcomes: passed, failed, timed out, skipped (the device, a program or
time is missing). Exit code: 0 all that ran passed, 1 a check failed, 77 none failed, but none passed on a GPU.

Where a command may run for 600 seconds, 540 leave time for what is packed and unpacked. If this script is ended, so are its checks.
"""
import argparse
import concurrent.futures
import ctypes
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = HERE / "bin"
NO_DEVICE = 77  # also the exit code of cuda_tests if tests were skipped because there is no device
SMALL = ["model.vocab_size=512", "model.hidden_size=64", "model.num_layers=2", "model.num_heads=4", "model.num_kv_heads=2",
         "model.head_dim=16", "model.intermediate_size=160", "data.type=synthetic", "data.sequence_length=128", "batch_size=8",
         "max_steps=6"]
HALF = HERE / "bench/jobs/qwen2.5-0.5b.yaml"
# Files that exist where an NVIDIA device is: of the driver, and of WSL.
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/usr/lib/wsl/lib/libcuda.so.1")
SIDE_BY_SIDE = 4  # processes of small tests that run at the same time
SHARDS = 8  # processes of the tests of one suite that has a test for each operator
LEAST = 5  # seconds in which a check may end
PASSED, FAILED, TIMED_OUT, SKIPPED = "passed", "failed", "timed out", "skipped"


def torch_folder():
    """The folder of the torch package, without importing it: an import takes seconds and may fail."""
    found = importlib.util.find_spec("torch")
    return pathlib.Path(found.origin).parent if found and found.origin else None


def environment(torch, kept):
    """Libraries of this folder first, then those of torch and of the nvidia packages next to it."""
    folders = [BIN, torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*map(str, folders), *([before] if before else [])]),
            "XDG_CACHE_HOME": str(kept / "cache"), "PLIMSOLL_RUNTIME_DIR": str(kept / "runs"), "PYTHONUNBUFFERED": "1"}


def kept_folder():
    """Where caches stay between runs. They are no results."""
    return pathlib.Path(tempfile.gettempdir()) / f"plimsoll-gpu-check-{os.getuid()}"


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def ends_with_parent():
    """Called in a new process: it is killed when this script ends, so that none stays on the device."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(process, limit):
    """The exit code, or None if the time limit ended the process and everything that it started. One that hangs in the driver
    does not end: it is left behind."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        print(f"process {process.pid} hangs in the driver and cannot be ended", flush=True)
    return None


def output_of(command, env=None, limit=60):
    """What a command that describes the machine prints; what went wrong if it does not end well."""
    try:
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            process = subprocess.Popen([str(each) for each in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       env=env, start_new_session=True, preexec_fn=ends_with_parent)
            code = wait_for(process, limit)
            out.seek(0)
            return out.read() + ("" if code is not None else f"{command[0]}: no end after {limit:.0f} s\n")
    except OSError as error:
        return f"{command[0]}: {error}\n"


class Check:
    """A command with a time limit in seconds. `read` gets exit code and log and returns (outcome, words); None: the exit code says
    it. `waits`: a failure is repeated with a wait for each op. `env`: variables of this check alone. `log` is its file of output
    once it runs."""

    def __init__(self, name, command, limit, read=None, device=True, waits=False, env=None):
        self.name, self.command, self.limit, self.read, self.device = name, [str(each) for each in command], limit, read, device
        self.waits, self.env, self.log = waits, env or {}, None


def run_command(command, limit, log, env):
    """The exit code, or None if the time limit ended the command."""
    with open(log, "w") as out:
        return wait_for(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=HERE,
                                         start_new_session=True, preexec_fn=ends_with_parent), limit)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def read_tests(code, text):
    """The outcome of a process of cuda_tests. GoogleTest exits with 0 if every test was skipped."""
    if code not in (0, NO_DEVICE):
        failure = re.search(r"^.*(?:: Failure|terminate called).*(?:\n.+){0,4}", text, re.M)
        words = " ".join(failure.group(0).split()) if failure else last_line(text)
        return FAILED, f"exit code {code}: {words[:400]}"
    if "[  SKIPPED ]" in text:
        reason = re.search(r": Skipped\n(.*)", text)
        return SKIPPED, (reason.group(1) if reason else "skipped")
    return (PASSED, "") if re.search(r"\[  PASSED  \] [1-9]", text) else (FAILED, "no test ran")


def read_job(path, env_has_gpu):
    def read(code, text):
        if code != 0:
            return (FAILED if env_has_gpu else SKIPPED), last_line(text) or f"exit code {code}"
        report = json.loads(path.read_text())
        words = (f"{report['step_seconds']:.4g} s a step, {report['units_per_second']:.6g} {report['unit']}/s, "
                 f"peak planned {report['planned_peak_bytes']} and measured {report['measured_peak_bytes']} bytes, "
                 f"losses {report['losses'][:1] + report['losses'][-1:]}")
        if report.get("device_work"):
            words += f", {json.dumps(report['device_work'])}"
        finite = all(isinstance(each, (int, float)) and abs(each) < 1e4 for each in report["losses"])
        return (PASSED if finite else FAILED), words
    return read


def read_doctor(path, has_gpu):
    """doctor measures the devices that it finds, and trains a little on each; with a GPU there must be one without a failure."""
    def read(code, text):
        if code != 0:
            return FAILED, last_line(text) or f"exit code {code}"
        devices = json.loads(path.read_text()).get("devices", [])
        failures = [f"{each['device']}: {each['failure']}" for each in devices if each["failure"]]
        failures += [f"{each['device']}, not measured: {refused}" for each in devices for refused in each.get("refused", [])]
        if failures or (has_gpu and not devices):
            return FAILED, "; ".join(failures) or "doctor finds no device"
        rates = [f"{each['name']}: {each['rates']['product']['bfloat16']['flops_per_second'] / 1e12:.0f} TFLOP/s in bfloat16 matmuls, "
                 f"{json.dumps(each['work'])}" for each in devices]
        return PASSED, "; ".join(rates)
    return read


def job(name, file, overrides, limit, results, has_gpu, *flags):
    report = results / f"{name.replace(' ', '-')}.json"
    return Check(name, [BIN / "plimsoll", "train", file, *overrides, *flags, "--json", report], limit, read_job(report, has_gpu),
                 waits=True)


def test_names(text):
    """The tests that may need the device, of a list by --gtest_list_tests: names of tests, and patterns of suites that have one
    for each operator."""
    suite, names, suites = "", [], []
    for line in text.splitlines():
        word = line.split("#")[0].rstrip()
        if line.startswith("  "):
            if suite.startswith(("Cuda", "Nccl")):
                names.append(f"{suite}{word.strip()}")
        elif word.endswith("."):
            suite = word
            if re.search(r"/(Cuda|Nccl)", suite):
                suites.append(f"{suite}*")
    return names, suites


def read_list(code, text):
    """The outcome of the list of tests, without which none would run and none would be missed."""
    names, suites = test_names(text)
    if code != 0 or not names:
        return FAILED, last_line(text) or "cuda_tests lists no test of the device"
    return PASSED, f"{len(names)} tests and {', '.join(suites) or 'no suite of operators'}"


def checks(results, env, has_gpu):
    """All checks in order: does it start, does it train, is it right, how fast is it, then everything else. Each is asked for
    after the one before has run."""
    test = lambda name, limit: Check(f"{'training' if name.startswith('CudaTraining') else 'test'} {name}",  # noqa: E731
                                     [BIN / "cuda_tests", f"--gtest_filter={name}"], limit, read_tests)
    yield Check("starts: version", [BIN / "plimsoll", "--version"], 60, device=False)
    yield Check("starts: doctor", [BIN / "plimsoll", "doctor", "--json", results / "doctor.json"], 120,
                read_doctor(results / "doctor.json", has_gpu), device=False)
    yield Check("starts: plan", [BIN / "plimsoll", "plan", HALF, "--gpu", "h100-sxm", "--json", results / "plan.json"], 60, device=False)
    listing = Check("starts: tests", [BIN / "cuda_tests", "--gtest_list_tests"], 120, read_list, device=False)
    yield listing
    text = listing.log.read_text(errors="replace") if listing.log else output_of(listing.command, env, listing.limit)
    tests, suites = test_names(text)
    if not tests and not listing.log:  # --only has left the check out that would have said so
        for kind in ("training", "test"):
            yield Check(f"{kind}: list of tests", listing.command, listing.limit, read_list, device=False)
    for compiled in ("false", "true", "auto"):
        yield job(f"small compile={compiled}", HALF, [*SMALL, f"compile={compiled}"], 90, results, has_gpu)
    for name in tests:
        if name.startswith("CudaTraining"):
            yield test(name, 120)
    half = ["precision=bf16-true", "batch_size=64"]
    yield job("0.5b", HALF, [*half, "max_steps=8"], 150, results, has_gpu)
    yield job("0.5b profiled", HALF, [*half, "max_steps=4"], 150, results, has_gpu, "--profile", results / "0.5b-profile.json")
    yield job("0.5b mixed", HALF, ["precision=bf16-mixed", "batch_size=64", "max_steps=6"], 150, results, has_gpu)
    bench = [sys.executable, HERE / "bench/throughput.py", "--precision", "bf16-true", "--rounds", "1", "--steps", "5", "--plimsoll",
             BIN / "plimsoll", "--python", sys.executable, "--results", results]
    speed = lambda size, batch, limit, ending="", *flags: Check(  # noqa: E731
        f"speed {size}{ending}", [*bench, "--batch", batch, "--jobs", f"qwen2.5-{size}", "--name", f"{size}{ending}", *flags], limit)
    yield speed("0.5b", 64, 240, "", "--columns", "plimsoll", "eager", "checkpointed")
    for name in tests:
        if not name.startswith("CudaTraining"):
            yield test(name, 90)
    for suite in suites:
        for part in range(SHARDS):
            yield Check(f"test {suite} part {part + 1} of {SHARDS}", [BIN / "cuda_tests", f"--gtest_filter={suite}"], 150, read_tests,
                        env={"GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(part)})
    yield speed("0.5b", 64, 240, "-compiled", "--columns", "compiled")
    if shutil.which("compute-sanitizer"):
        yield Check("sanitizer", ["compute-sanitizer", "--error-exitcode", "1", BIN / "cuda_tests",
                                  "--gtest_filter=CudaLayers.*:CudaAttention.*"], 180, read_tests)
    yield speed("1.5b", 64, 400)
    yield speed("7b", 32, 500)


def words_of(log):
    return last_line(log.read_text(errors="replace"))


def done(check, results, env, seconds, has_gpu):
    """Runs a check and returns its row of results.json."""
    log = results / (re.sub(r"[^\w.=-]+", "-", check.name) + ".log")
    begin = time.monotonic()
    limit = min(check.limit, seconds)
    outcome, words = FAILED, ""
    if check.device and not has_gpu and not check.name.startswith(("test ", "training ", "small ")):
        outcome, words = SKIPPED, "no NVIDIA device"
    elif limit < LEAST:
        outcome, words = SKIPPED, "the time is up"
    else:
        try:
            code = run_command(check.command, limit, log, {**env, **check.env})
            check.log, text = log, log.read_text(errors="replace")
            if code is None:
                outcome, words = TIMED_OUT, f"after {limit:.0f} s; the last line is: {last_line(text)}"
            elif check.read:
                outcome, words = check.read(code, text)
            elif code == 0:
                outcome = PASSED
            else:
                words = last_line(text) or f"exit code {code}"
        except OSError as error:  # the program cannot be started, or the disk is full
            words = f"it cannot be run: {error}"
        except Exception as error:  # a report in any state must not end the checks after this one
            words = f"its report cannot be read: {error!r}"
    row = {"name": check.name, "outcome": outcome, "seconds": round(time.monotonic() - begin, 1), "words": words, "log": log.name}
    shown = words if outcome != SKIPPED or len(words) <= 60 else words[:57] + "..."
    print(f"{outcome:9}  {row['seconds']:6.1f} s  {check.name}{': ' + shown if shown else ''}", flush=True)
    return row


def repeated(check, row, results, env, seconds):
    """Repeats a failed job with a wait for each op, by which the error of a kernel names its op. Returns whether it did."""
    limit = min(check.limit, seconds)
    if row["outcome"] != FAILED or not check.waits or limit < LEAST:
        return False
    log = (results / row["log"]).with_suffix(".waiting.log")
    try:
        code = run_command(check.command, limit, log, {**env, **check.env, "PLIMSOLL_WAIT_FOR_EACH_OP": "1"})
        words = "passed" if code == 0 else words_of(log) if code is not None else f"no end after {limit:.0f} s"
    except OSError as error:
        words = f"it cannot be run: {error}"
    row["words"] += f"; waiting for each op: {words}"
    print(f"{'':9}  {'':8}  {check.name}, waiting for each op: {words}", flush=True)
    return True


def in_order(all_checks, run, repeat):
    """Runs checks one after the other, but neighboring small tests side by side. Yields the rows whenever one is new, or has
    more words."""
    rows, together = [], []

    def finish_together():
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for each in concurrent.futures.as_completed([pool.submit(run, check) for check in together]):
                rows.append(each.result())
                yield rows
        together.clear()

    for check in all_checks:
        if check.name.startswith("test "):
            together.append(check)
            continue
        yield from finish_together()
        rows.append(run(check))
        yield rows
        if repeat(check, rows[-1]):
            yield rows
    yield from finish_together()


def system_lines(torch):
    """What the machine is, for the head of the results."""
    facts = {"commit": (HERE / "commit").read_text().strip(), "torch": str(torch), "python": sys.version.split()[0]}
    version = torch / "version.py"
    found = re.search(r"__version__ = '([^']+)'", version.read_text()) if version.exists() else None
    facts["torch_version"] = found.group(1) if found else "unknown"
    if shutil.which("nvidia-smi"):
        facts["gpu"] = output_of(["nvidia-smi", "--query-gpu=name,memory.total,driver_version,clocks.max.sm",
                                  "--format=csv,noheader"]).strip()
    return facts


def missing_libraries(env):
    """Libraries that the loader does not find, which would make every check fail with the same words."""
    missing = set()
    for file in sorted(BIN.iterdir()):
        if shutil.which("ldd"):
            missing |= set(re.findall(r"^\s*(\S+) => not found|(version `\S+' not found)", output_of(["ldd", file], env), re.M))
    return sorted({one or two for one, two in missing})


def write_results(results, archive, facts, rows):
    """Writes results.json, and everything in one file. Called after every check: the machine may be taken back at any moment. A
    full disk must not end the checks, whose rows are printed, too."""
    try:
        (results / "results.json").write_text(json.dumps({**facts, "checks": rows}, indent=1) + "\n")
    except OSError as error:
        print(f"results.json cannot be written: {error}", flush=True)
    aside = archive.with_name(archive.name + ".tmp")
    try:
        with tarfile.open(aside, "w:gz", compresslevel=1) as tar:
            for file in sorted(results.iterdir()):
                if file in (aside, archive) or not file.is_file():
                    continue
                data = file.read_bytes()  # first: other checks may still write to it
                entry = tarfile.TarInfo(f"results/{file.name}")
                entry.size, entry.mtime = len(data), int(time.time())
                tar.addfile(entry, io.BytesIO(data))
        aside.replace(archive)
    except OSError as error:
        print(f"{archive} cannot be written: {error}", flush=True)


def emptied(folder):
    """The folder without the files of a run before, which would pass for those of this one."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.suffix in (".log", ".json", ".md", ".gz"):
            file.unlink()
    return folder


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=540, help="time for all checks; later ones are skipped")
    flags.add_argument("--results", type=pathlib.Path, default=HERE / "results", help="folder of the results")
    flags.add_argument("--archive", type=pathlib.Path, help="file with all results; default: FOLDER.tar.gz beside the results")
    flags.add_argument("--only", action="append", help="beginning of the names of checks to run; may be repeated")
    flags.add_argument("--device-file", type=pathlib.Path, help="file that exists if there is a device; default: any of "
                       + ", ".join(DEVICE_FILES))
    flags.add_argument("--list", action="store_true", help="list the checks and exit")
    options = flags.parse_args()
    end = time.monotonic() + options.seconds
    torch = torch_folder()
    if torch is None:
        sys.exit(f"{sys.executable} has no torch: run this with the Python of the torch wheel")
    results = options.results.resolve()
    if not options.list:
        emptied(results)
    archive = (options.archive or results.with_name(results.name + ".tar.gz")).resolve()
    kept = kept_folder()
    if not options.list:
        archive.parent.mkdir(parents=True, exist_ok=True)
        kept.mkdir(parents=True, exist_ok=True)
    env = environment(torch, kept)
    has_gpu = any(pathlib.Path(each).exists() for each in ([options.device_file] if options.device_file else DEVICE_FILES))
    if has_gpu:
        env["PLIMSOLL_EXPECT_GPU"] = "1"  # a GPU that cannot be used is a failure of the tests, also under another file's name
    chosen = (each for each in checks(results, env, has_gpu)
              if not options.only or each.name.startswith(tuple(options.only)))
    rows = []
    if options.list:
        for each in chosen:
            print(f"{each.limit:5} s  {each.name}")
            rows.append(each)
    else:
        facts = {**system_lines(torch), "has_gpu": has_gpu, "missing_libraries": missing_libraries(env)}
        for key, value in facts.items():
            print(f"{key}: {value}", flush=True)
        write_results(results, archive, facts, [])
        for rows in in_order(chosen, lambda check: done(check, results, env, end - time.monotonic(), has_gpu),
                             lambda check, row: repeated(check, row, results, env, end - time.monotonic())):
            write_results(results, archive, facts, rows)
    if not rows:
        print(f"no check is named {' or '.join(options.only or [])}; --list shows all", file=sys.stderr)
        return 2
    if options.list:
        return 0
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in (PASSED, FAILED, TIMED_OUT, SKIPPED)}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + f"; results in {results} and {archive}")
    if counts[FAILED] or counts[TIMED_OUT]:
        return 1
    used = has_gpu and any(row["outcome"] == PASSED and not row["name"].startswith("starts") for row in rows)
    return 0 if used else NO_DEVICE


if __name__ == "__main__":
    sys.exit(main())
