"""A process of models_beside_pytorch.py: trains one model in one way, and answers requests for steps.

    library_worker.py REQUEST     a JSON object: model, program ("eager", "compiled", "plimsoll"), threads, quick, weights, …

Requests come as lines of JSON on standard input, and answers go to standard output. What libraries print goes to standard error.
Memory is counted above the imports: VmHWM, which the process sets back after its imports and before it makes the model,
minus VmRSS at that time. The peak of the steps is VmHWM set back after the warm-up, minus the same VmRSS: compiling and
planning do not count there."""
import collections
import importlib
import json
import os
import pathlib
import sys
import tempfile
import time
import warnings

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # inductor's workers are other processes, which nobody counts
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"))

import torch  # noqa: E402

from library_models import CASES  # noqa: E402

RATE = 1e-4
WARM_UP = 2
GRADIENT_RATE = 2.0**60  # of an SGD step that gradients are read from: a power of two that hides the rounding of the weights


def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


class Memory:
    """Bytes above those at its making."""

    def __init__(self):
        self.imports = resident("VmRSS")
        self.set_back()

    def set_back(self):
        pathlib.Path("/proc/self/clear_refs").write_text("5")

    def peak(self):
        return resident("VmHWM") - self.imports


class Peer:
    """A training by PyTorch, eager or compiled, with its fused AdamW."""

    def __init__(self, case, parts, request):
        self.make, loss_of, _ = parts
        torch.manual_seed(0)
        self.model = self.make().train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=0.0, fused=True)
        mixed = case.precision == "bf16-mixed"

        def loss(batch):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                return loss_of(self.model, batch)

        self.loss = torch.compile(loss) if request["program"] == "compiled" else loss

    def step(self, batch):
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def facts(self):
        return {"fits": True, "parameters": sum(p.numel() for p in self.model.parameters())}

    def profile(self, batches):
        from torch.profiler import ProfilerActivity, profile

        begin = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            for batch in batches:
                self.step(batch)
        seconds = (time.perf_counter() - begin) / len(batches)
        ops = {each.key: [each.self_cpu_time_total * 1e-6 / len(batches), each.count / len(batches)]
               for each in profiled.key_averages()}
        return {"step_seconds": seconds, "ops": ops}


class Planned:
    """A training by Plimsoll. `request` has memory (bytes or None) and replace."""

    def __init__(self, case, parts, request):
        import plimsoll as pl

        make, loss, batch_of = parts
        begin = time.perf_counter()
        self.plan = pl.plan(make, loss, batch_of(0), request.get("memory"), precision=case.precision,
                            optimizer=pl.AdamW(RATE, weight_decay=0.0), threads=request["threads"],
                            replace=request.get("replace", True))
        self.plan_seconds = time.perf_counter() - begin
        self.trainer = None
        if self.plan.fits:
            self.trainer = pl.Trainer(self.plan)
            load(self.trainer, request)

    def step(self, batch):
        return self.trainer.step(batch)

    def facts(self):
        report, plan = self.plan.to_json(), self.plan
        return {"fits": plan.fits, "planned_bytes": plan.peak, "minimum_bytes": plan.minimum, "budget_bytes": plan.budget,
                "breakdown": plan.breakdown, "parameters": report["parameters"], "recorded_operators": report["operators"],
                "predicted_step_seconds": plan.step_seconds, "recompute_seconds": report["recompute_seconds"],
                "plan_seconds": self.plan_seconds,
                "replaced": [decision.split(": ")[1] for decision, _ in plan.reasons if decision.startswith("replace: ")],
                "reasons": [list(each) for each in plan.reasons]}

    def profile(self, batches):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "profile.json"
            self.trainer.profile(file, len(batches))
            for batch in batches:
                self.step(batch)
            events = json.loads(file.read_text())["traceEvents"]
        slices = [each for each in events if each["ph"] == "X"]
        ops, phases = collections.defaultdict(lambda: [0.0, 0.0]), collections.defaultdict(float)
        for each in slices:
            if "op" in each.get("args", {}):
                seconds = each["dur"] * 1e-6 / len(batches)
                ops[each["name"]][0] += seconds
                ops[each["name"]][1] += 1 / len(batches)
                phases[each["cat"]] += seconds
        whole = sum(each["dur"] for each in slices if each["cat"] == "step") * 1e-6 / len(batches)
        return {"step_seconds": whole, "ops": ops, "phases": phases}


def load(trainer, request):
    trainer.load_state_dict(torch.load(request["weights"], mmap=True))


def serve(case, parts, request, answer):
    memory = Memory()
    training = (Planned if request["program"] == "plimsoll" else Peer)(case, parts, request)
    facts = training.facts()
    batch_of = parts[2]
    if facts["fits"]:
        begin = time.perf_counter()
        losses = [training.step(batch_of(0))]
        facts["first_step_seconds"] = time.perf_counter() - begin
        losses += [training.step(batch_of(step)) for step in range(1, WARM_UP)]
        facts |= {"whole_peak_bytes": memory.peak(), "imports_bytes": memory.imports}
        memory.set_back()
        losses.append(training.step(batch_of(WARM_UP)))
        facts |= {"losses": losses, "step_peak_bytes": memory.peak()}
    answer(facts)
    done = WARM_UP + 1
    for line in sys.stdin:
        wanted = json.loads(line)
        batches = [batch_of(done + i) for i in range(wanted["steps"])]
        done += len(batches)
        if wanted["kind"] == "profile":
            answer(training.profile(batches))
            continue
        seconds, losses = [], []
        for batch in batches:
            begin = time.perf_counter()
            losses.append(training.step(batch))
            seconds.append(time.perf_counter() - begin)
        answer({"seconds": seconds, "losses": losses, "peak_bytes": memory.peak()})


def write_weights(case, parts, request):
    torch.manual_seed(0)
    torch.save(parts[0]().state_dict(), request["weights"])
    return {}


def gradients_of_peer(case, parts, request, double):
    import contextlib

    from sweep import InDouble

    make, loss_of, batch_of = parts
    torch.manual_seed(0)
    model, batch = make().train(), batch_of(0)
    mixed = case.precision == "bf16-mixed" and not double
    if double:
        model.double()
        batch = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
        torch.set_default_dtype(torch.float64)
    with InDouble() if double else contextlib.nullcontext(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        loss = loss_of(model, batch)
    with InDouble() if double else contextlib.nullcontext():
        loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, loss.item()


def write_true_gradients(case, parts, request):
    gradients, loss = gradients_of_peer(case, parts, request, double=True)
    torch.save(gradients, request["gradients"])
    return {"loss": loss}


def gradients_of_plan(case, parts, request):
    import plimsoll as pl

    make, loss, batch_of = parts
    plan = pl.plan(make, loss, batch_of(0), None, precision=case.precision, threads=request["threads"],
                   optimizer=pl.SGD(GRADIENT_RATE, momentum=0.0, weight_decay=0.0), replace=request["replace"])
    with pl.Trainer(plan) as trainer:
        load(trainer, request)
        before = trainer.state_dict()
        value = trainer.step(batch_of(0))
        after = trainer.state_dict()
    for name in after:
        after[name] = (before.pop(name).double() - after[name].double()) / GRADIENT_RATE
    return after, value


def compare_gradients(case, parts, request):
    """Returns the largest relative difference of a parameter's gradient from that of float64, and its name. A gradient of less
    than a ten-thousandth of the whole gradient's norm counts as that: some are 0 but for rounding (biases of keys)."""
    if request["program"] == "plimsoll":
        gradients, loss = gradients_of_plan(case, parts, request)
    else:
        gradients, loss = gradients_of_peer(case, parts, request, double=False)
    exact = torch.load(request["gradients"], mmap=True)
    floor = 1e-4 * sum(true.norm().item() ** 2 for true in exact.values()) ** 0.5
    differences = {name: (gradients.pop(name).double() - true).norm().item() / max(true.norm().item(), floor)
                   for name, true in exact.items()}
    ordered = sorted(differences.items(), key=lambda each: each[1])
    return {"loss": loss, "largest": ordered[-1][1], "parameter": ordered[-1][0], "median": ordered[len(ordered) // 2][1]}


def main():
    request = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    warnings.simplefilter("ignore")
    torch.set_num_threads(request["threads"])
    case = CASES[request["model"]]
    parts = case.build(request["quick"])
    if request["program"] == "plimsoll":
        import plimsoll

        plimsoll.devices()  # loads the library
    elif request["program"] == "compiled":
        importlib.import_module("torch._inductor.compile_fx")
    once = {"weights": write_weights, "float64": write_true_gradients, "gradients": compare_gradients}.get(request["kind"])
    if once:
        answer(once(case, parts, request))
    else:
        serve(case, parts, request, answer)


if __name__ == "__main__":
    main()
