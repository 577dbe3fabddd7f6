#!/usr/bin/env python3
"""Models of transformers, timm and diffusers, unchanged: Plimsoll from Python beside PyTorch, eager and compiled.

    bench/models_beside_pytorch.py                                   all models and parts
    bench/models_beside_pytorch.py --models gpt2 resnet50 --parts rounds profile
    bench/models_beside_pytorch.py --models gpt2 --quick --results /tmp/quick     small models, one round: that it runs
    bench/models_beside_pytorch.py --table                           writes the table again

Parts, each for every model:
rounds      resident memory and seconds of a step: eager, compiled, Plimsoll, and Plimsoll in half of eager's peak. Each is a
            process of its own, which stays alive; in each round every process runs --steps steps while the others wait.
profile     seconds of a step by op: Plimsoll's own profile, and torch.profiler of both peers.
replace     Plimsoll with and without each replacement of operators that the plan makes: bytes, minimum, seconds.
gradients   the largest difference of a parameter's gradient from eager PyTorch in float64: eager's, and of each replacement.

All have the same weights, batches, AdamW without decay (PyTorch's fused), and threads. Each measurement is a line of
RESULTS/models-beside-pytorch.jsonl as soon as it is made; RESULTS/models-beside-pytorch.md is written from the last run of each
part. Needs a Python with torch, transformers, timm and diffusers (scripts/setup-python.sh), a build, and g++."""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from library_models import CASES
from step_time import processor, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["rounds", "profile", "replace", "gradients"]
PROGRAMS = ["eager", "compiled", "Plimsoll", "Plimsoll in half"]
# Parts of the names of libtorch's ops that no program does without: products, convolutions and attention.
FLOOR = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "convolution", "mkldnn", "attention", "linear", "mkl::")
KINDS = ("parameters", "gradients", "optimizer_state", "activations", "inputs", "workspace", "context", "fragmentation")


class Worker:
    """A process that trains, and what it said of itself. `dead`: the end of its standard error, if it failed."""

    def __init__(self, options, **request):
        request = {"threads": options.threads, "quick": options.quick, "kind": "serve"} | request
        self.errors = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "PYTHONPATH": str(options.build / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                       "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        self.process = subprocess.Popen([options.python, str(ROOT / "bench/library_worker.py"), json.dumps(request)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment)
        self.facts = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        return {"fits": False, "failed": f"exit code {self.process.returncode}: " + self.errors.read()[-1500:]}

    def ask(self, kind, steps):
        self.process.stdin.write(json.dumps({"kind": kind, "steps": steps}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Bench:
    def __init__(self, options, name, folder):
        self.options, self.name, self.case = options, name, CASES[name]
        self.weights, self.gradients = str(folder / "weights.pt"), str(folder / "gradients.pt")
        failed = self.once(kind="weights", program="eager").get("failed")
        if failed:
            sys.exit(f"{name}: {failed}")

    def once(self, **request):
        worker = Worker(self.options, model=self.name, weights=self.weights, gradients=self.gradients, **request)
        worker.end()
        return worker.facts

    def record(self, part, program, **values):
        line = {"model": self.name, "part": part, "program": program, "run": self.options.run, "quick": self.options.quick,
                "processor": processor(),
                "threads": self.options.threads, "commit": self.options.commit, "load": os.getloadavg()[0], **values}
        with open(self.options.results / "models-beside-pytorch.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = ("seconds", "peak_bytes", "planned_bytes", "largest", "failed", "fits")
        said = {key: values[key] for key in shown if key in values}
        print(f"{datetime.datetime.now():%H:%M:%S} {self.name}, {part}, {program}: {said}", file=sys.stderr, flush=True)

    def start(self, part, label, **request):
        """Returns a process that has warmed up, or None if it does not fit or failed."""
        worker = Worker(self.options, model=self.name, weights=self.weights, **request)
        self.record(part, label, start=True, **worker.facts)
        if worker.facts["fits"]:
            return worker
        worker.end()
        return None

    def alternate(self, part, workers, steps):
        for number in range(self.options.rounds):
            for label, worker in workers.items():
                self.record(part, label, round=number, **worker.ask("steps", steps))

    def rounds(self):
        options, workers = self.options, {}
        for label in ("eager", "compiled", "Plimsoll"):
            if label in options.programs:
                workers[label] = self.start("rounds", label, program=label.lower())
        if "Plimsoll in half" in options.programs and workers.get("eager"):
            half = workers["eager"].facts["step_peak_bytes"] // 2
            workers["Plimsoll in half"] = self.start("rounds", "Plimsoll in half", program="plimsoll", memory=half)
        workers = {label: worker for label, worker in workers.items() if worker}
        self.alternate("rounds", workers, options.steps)
        if "profile" in options.parts:
            for label, worker in workers.items():
                self.record("profile", label, **worker.ask("profile", 2))
        for worker in workers.values():
            worker.end()

    def profile(self):
        if "rounds" not in self.options.parts:
            for label in self.options.programs[:3]:
                worker = self.start("profile", label, program=label.lower())
                if worker:
                    self.record("profile", label, **worker.ask("profile", 2))
                    worker.end()

    def replacements(self):
        """Returns the choices of replacements that differ."""
        found = self.once(program="plimsoll", kind="serve").get("replaced", [])
        return [dict(zip(found, on)) for on in itertools.product((True, False), repeat=len(found))] if found else [{}]

    def replace(self):
        workers = {}
        for choice in self.replacements():
            if choice:
                workers[label_of(choice)] = self.start("replace", label_of(choice), program="plimsoll", replace=full(choice))
        workers = {label: worker for label, worker in workers.items() if worker}
        self.alternate("replace", workers, min(self.options.steps, 2))
        for worker in workers.values():
            worker.end()

    def gradients_part(self):
        if self.case.random:
            return
        self.record("gradients", "float64", **self.once(kind="float64", program="eager"))
        self.record("gradients", "eager", **self.once(kind="gradients", program="eager"))
        for choice in self.replacements():
            self.record("gradients", label_of(choice), **self.once(kind="gradients", program="plimsoll", replace=full(choice)))
        pathlib.Path(self.gradients).unlink()

    def run(self):
        parts = {"rounds": self.rounds, "profile": self.profile, "replace": self.replace, "gradients": self.gradients_part}
        for part in self.options.parts:
            parts[part]()


def full(choice):
    return {"attention": True, "cross_entropy": True, "channels_last": True, "norms": True} | choice


def label_of(choice):
    if not choice:
        return "nothing to replace"
    if all(choice.values()):
        return "all replacements"
    return "without " + " and ".join(name.replace("_", " ") for name, on in choice.items() if not on)


# The table


def gib(count):
    return "" if count is None else f"{count / 2**30:.2f}"


def short(seconds):
    return "" if seconds is None else f"{seconds:.2f}"


class Results:
    """The lines of the last run of each model and part."""

    def __init__(self, path, quick):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.lines = [line for line in lines if line["quick"] == quick]
        last = {(line["model"], line["part"]): line["run"] for line in self.lines}
        self.lines = [line for line in self.lines if line["run"] == last[line["model"], line["part"]]]

    def of(self, model, part, program=None):
        return [line for line in self.lines
                if line["model"] == model and line["part"] == part and program in (None, line["program"])]

    def models(self, part):
        return [name for name in CASES if self.of(name, part)]

    def start(self, model, part, program):
        return next((line for line in self.of(model, part, program) if line.get("start")), {})

    def rounds(self, model, part, program):
        return [line for line in self.of(model, part, program) if "seconds" in line]

    def counts(self, model, part, program):
        found = self.rounds(model, part, program)
        return f"{len(found)} of {len(found[0]['seconds'])}" if found else ""

    def seconds(self, model, part, program):
        found = [statistics.median(line["seconds"]) for line in self.rounds(model, part, program)]
        return statistics.median(found) if found else None

    def ratio(self, model, part, program, other):
        """Returns the median over rounds of the ratio of the rounds' medians: machines slow down and speed up."""
        pairs = zip(self.rounds(model, part, program), self.rounds(model, part, other))
        found = [statistics.median(mine["seconds"]) / statistics.median(theirs["seconds"]) for mine, theirs in pairs]
        return statistics.median(found) if found else None

    def peak(self, model, program):
        return max((line["peak_bytes"] for line in self.rounds(model, "rounds", program)), default=None)

    def losses(self, model, program):
        found = list(self.start(model, "rounds", program).get("losses", []))
        for line in self.rounds(model, "rounds", program):
            found += line["losses"]
        return found


def cells(*values):
    return "| " + " | ".join(values) + " |"


def judged(value, target):
    if value is None:
        return ""
    return f"{value:.2f} (≤ {target:g}{'' if value <= target else ', **missed**'})"


def divided(mine, theirs):
    return mine / theirs if mine and theirs else None


def table_of_rounds(results):
    lines = ["## Memory and time", "",
             "Resident memory above the imports, in GiB: the peak of the steps after the warm-up (in brackets the peak with the warm-up,",
             "which compiles or plans). Seconds of a step: median over rounds of each round's median. Ratios of time: median over the",
             "rounds. In brackets the targets.", "",
             cells("model", "precision", "commit", "rounds of steps", "eager GiB", "compiled GiB", "Plimsoll GiB", "planned", "minimum",
                   "memory to eager", "to compiled", "eager s", "compiled s", "Plimsoll s", "time to eager", "to compiled"),
             "|---" * 16 + "|"]
    for name in results.models("rounds"):
        case, plan = CASES[name], results.start(name, "rounds", "Plimsoll")
        programs = ("eager", "compiled", "Plimsoll")
        peaks = [results.peak(name, each) for each in programs]
        wholes = [results.start(name, "rounds", each).get("whole_peak_bytes") for each in programs]
        seconds = [results.seconds(name, "rounds", each) for each in programs]
        to_eager = results.ratio(name, "rounds", "Plimsoll", "eager")
        lines.append(cells(
            case.title, case.precision, plan.get("commit", ""), results.counts(name, "rounds", "Plimsoll"),
            *(f"{gib(peak)} ({gib(whole)})" for peak, whole in zip(peaks, wholes)),
            gib(plan.get("planned_bytes")), gib(plan.get("minimum_bytes")), judged(divided(peaks[2], peaks[0]), case.targets[0]),
            judged(divided(peaks[2], peaks[1]), case.targets[1]), *map(short, seconds), short(to_eager),
            judged(results.ratio(name, "rounds", "Plimsoll", "compiled"), case.targets[2])))
    lines += ["", "Losses: the first one's relative difference from eager's, and the largest difference in all steps.", "",
              cells("model", "precision", "Plimsoll, first", "all", "compiled, first", "all", "steps"), "|---" * 7 + "|"]
    for name in results.models("rounds"):
        eager, row = results.losses(name, "eager"), [CASES[name].title, CASES[name].precision]
        for program in ("Plimsoll", "compiled"):
            off = [abs(mine - theirs) / abs(theirs) for mine, theirs in zip(results.losses(name, program), eager)]
            row += [f"{off[0]:.0e}", f"{max(off):.0e}"] if off else ["", ""]
        lines.append(cells(*row, str(len(eager))))
    return lines


def table_of_halves(results):
    lines = ["## In half of eager's peak", "",
             cells("model", "precision", "budget GiB", "planned", "resident GiB", "step s", "to unconstrained",
                   "recomputing, predicted s"), "|---" * 8 + "|"]
    for name in results.models("rounds"):
        plan = results.start(name, "rounds", "Plimsoll in half")
        if not plan:
            continue
        row = [CASES[name].title, CASES[name].precision, gib(plan.get("budget_bytes"))]
        if plan["fits"]:
            ratio = results.ratio(name, "rounds", "Plimsoll in half", "Plimsoll")
            row += [gib(plan["planned_bytes"]), gib(results.peak(name, "Plimsoll in half")),
                    short(results.seconds(name, "rounds", "Plimsoll in half")), short(ratio), short(plan["recompute_seconds"])]
        else:
            row += ["failed" if plan.get("failed") else f"does not fit: {gib(plan['minimum_bytes'])} at least", "", "", "", ""]
        lines.append(cells(*row))
    return lines


def table_of_replacements(results):
    lines = ["## With and without the replacements of operators", "",
             "Gradients: of each parameter, norm of the difference from eager PyTorch in float64, relative to the gradient's norm; the",
             "largest one, and the median over parameters.", "",
             cells("model", "precision", "program", "planned GiB", "minimum GiB", "step s", "first loss",
                   "largest difference of a gradient", "median"), "|---" * 9 + "|"]
    for name in CASES:
        labels = dict.fromkeys(line["program"] for part in ("gradients", "replace") for line in results.of(name, part))
        for label in labels:
            plan, step = results.start(name, "replace", label), results.seconds(name, "replace", label)
            gradient = next(iter(results.of(name, "gradients", label)), {})
            loss = gradient.get("loss", (plan.get("losses") or [None])[0])
            off = ["", ""]
            if "largest" in gradient:
                off = [f"{gradient['largest']:.1e} ({gradient['parameter']})", f"{gradient['median']:.1e}"]
            lines.append(cells(CASES[name].title, CASES[name].precision, label, gib(plan.get("planned_bytes")),
                               gib(plan.get("minimum_bytes")), short(step), "" if loss is None else f"{loss:.7f}", *off))
    return lines if results.models("replace") or results.models("gradients") else []


def floor_of(ops):
    return sum(seconds for op, (seconds, _) in ops.items() if any(part in op for part in FLOOR))


def table_of_profiles(results, most=8):
    lines = ["## Where the seconds go", "",
             "A profile of two steps. Floor: libtorch's matrix products, convolutions and attention in eager's and compiled's profile. Overhead",
             "of Plimsoll's op: seconds of the step outside of ops, divided by the number of ops.", "",
             cells("model", "precision", "step s", "ops", "overhead of an op, µs", "floor, eager s", "floor, compiled s",
                   "seconds by op (share, calls)"), "|---" * 8 + "|"]
    for name in results.models("profile"):
        by_program = {line["program"]: line for line in results.of(name, "profile") if "ops" in line}
        mine = by_program.get("Plimsoll")
        if not mine:
            continue
        calls = sum(count for _, count in mine["ops"].values())
        outside = mine["step_seconds"] - sum(seconds for seconds, _ in mine["ops"].values())
        ordered = sorted(mine["ops"].items(), key=lambda each: -each[1][0])[:most]
        floors = [short(floor_of(by_program[each]["ops"])) if each in by_program else "" for each in ("eager", "compiled")]
        listed = "; ".join(f"{op.removeprefix('aten::')} {seconds:.3f} ({seconds / mine['step_seconds']:.0%}, {count:.0f})"
                           for op, (seconds, count) in ordered)
        lines.append(cells(CASES[name].title, CASES[name].precision, short(mine["step_seconds"]), f"{calls:.0f}",
                           f"{1e6 * outside / calls:.1f}", *floors, listed))
    lines += ["", "What the plan's peak consists of, in GiB, and what is resident beyond it:", "",
              cells("model", "precision", *(kind.replace("_", " ") for kind in KINDS), "beyond"), "|---" * 11 + "|"]
    for name in results.models("rounds"):
        plan, peak = results.start(name, "rounds", "Plimsoll"), results.peak(name, "Plimsoll")
        if "breakdown" in plan:
            outside = peak - plan["planned_bytes"] if peak else None
            lines.append(cells(CASES[name].title, CASES[name].precision, *(gib(plan["breakdown"][kind]) for kind in KINDS), gib(outside)))
    return lines


def page(results):
    about = results.lines[-1]
    lines = ["# Models of libraries beside PyTorch", "",
             f"{about['processor']}, {about['threads']} threads, PyTorch's and Plimsoll's step of the same models, weights and batches,",
             "AdamW (PyTorch's fused). [models_beside_pytorch.py](../models_beside_pytorch.py) says how, and wrote this page; each",
             "measurement is a line of [models-beside-pytorch.jsonl](models-beside-pytorch.jsonl). Other programs ran on the machine:",
             "ratios of alternating rounds hold, and seconds less.", ""]
    for part in (table_of_rounds, table_of_halves, table_of_replacements, table_of_profiles):
        found = part(results)
        lines += [*found, ""] if found else []
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="of the rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="of each program in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small models, one round of 2 steps")
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table")
    parser.add_argument("--python", default=str(ROOT / ".venv-python/bin/python"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps = 1, 2
    options.run = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    options.commit = subprocess.run(head, stdout=subprocess.PIPE, text=True).stdout.strip()
    options.results.mkdir(parents=True, exist_ok=True)
    lines, table = (options.results / f"models-beside-pytorch.{ending}" for ending in ("jsonl", "md"))
    for name in [] if options.table else options.models:
        with tempfile.TemporaryDirectory() as folder:
            Bench(options, name, pathlib.Path(folder)).run()
        write(table, page(Results(lines, options.quick)))
    write(table, page(Results(lines, options.quick)))
    print(table.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
