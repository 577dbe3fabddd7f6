"""Random numbers in forward are drawn from the training's seed, the step, the micro batch and the operator: the same bits at
every budget and on resume, with the distributions that they have in eager PyTorch."""
import functools
import math
import pathlib
import random
import tempfile
import unittest
from random import random as random_by_name

import numpy
import torch
import torch.nn.functional as F
from numpy.random import rand as numpys_by_name
from torch import distributions, nn

import plimsoll as pl

COUNT, MICRO_BATCHES, STEPS = 4096, 4, 3
THIRD = 0.3  # of dropped elements, and of ones


def normal(x, mean=0.0, deviation=1.0):
    return 0.5 * (1 + torch.erf((x - mean) / (deviation * math.sqrt(2))))


def uniform(x, begin=0.0, end=1.0):
    return ((x - begin) / (end - begin)).clamp(0, 1)


def exponential(x, rate):
    return 1 - torch.exp(-rate * x.clamp(min=0))


def choice(*probabilities):
    """Returns the values 0, 1, ... with their probabilities."""
    return dict(enumerate(probabilities))


KEPT = {0.0: THIRD, 1 / (1 - THIRD): 1 - THIRD}
SCALE = 1 / math.sqrt((1 - THIRD) * (1 + THIRD * 1.7580993408473766**2))  # alpha dropout of ones: mean and variance stay
SHIFT = THIRD * 1.7580993408473766 * SCALE
ALPHA = {SHIFT - 1.7580993408473766 * SCALE: THIRD, SCALE + SHIFT: 1 - THIRD}
ONES = {0.0: 1 - THIRD, 1.0: THIRD}
SEVENTH = choice(*[1 / 7] * 7)
POISSON = {k: math.exp(-3) * 3**k / math.factorial(k) for k in range(20)}
BINOMIAL = {k: math.comb(9, k) * THIRD**k * (1 - THIRD) ** (9 - k) for k in range(10)}
GEOMETRIC = {k: THIRD * (1 - THIRD) ** (k - 1) for k in range(1, 60)}


def channels(*more):
    return lambda x: x.new_ones(1, COUNT, *more)


def first(x):
    """Returns the first element of each channel; all of a channel are equal."""
    return x.reshape(x.shape[1] if x.shape[0] == 1 else x.shape[0], -1)[:, 0]


def drop_path(x):
    from timm.layers import DropPath

    return first(DropPath(THIRD)(x.new_ones(COUNT, 2, 3)))


def stochastic_depth(x):
    from torchvision.ops import stochastic_depth as drop

    return first(drop(x.new_ones(COUNT, 2, 3), THIRD, "row"))


# By name: a function of a vector, and its distribution: probabilities of values, or a cumulative distribution function.
DRAWS = {
    "dropout": (lambda x: F.dropout(torch.ones_like(x), THIRD), KEPT),
    "dropout in place": (lambda x: F.dropout(torch.ones_like(x), THIRD, inplace=True), KEPT),
    "nn.Dropout": (lambda x: nn.Dropout(THIRD)(torch.ones_like(x)), KEPT),
    "dropout1d": (lambda x: first(F.dropout1d(channels(3)(x), THIRD)), KEPT),
    "dropout2d": (lambda x: first(F.dropout2d(channels(2, 2)(x), THIRD)), KEPT),
    "dropout3d": (lambda x: first(F.dropout3d(channels(1, 2, 2)(x), THIRD)), KEPT),
    "alpha dropout": (lambda x: F.alpha_dropout(torch.ones_like(x), THIRD, True), ALPHA),
    "feature alpha dropout": (lambda x: first(F.feature_alpha_dropout(channels(2, 2)(x), THIRD, True)), ALPHA),
    "drop path": (drop_path, KEPT),
    "stochastic depth": (stochastic_depth, KEPT),
    "rand_like": (torch.rand_like, uniform),
    "rand": (lambda x: torch.rand(COUNT, device=x.device), uniform),
    "rand on the CPU": (lambda x: torch.rand(COUNT, device="cpu").to(x.device), uniform),
    "randn_like": (torch.randn_like, normal),
    "randn": (lambda x: torch.randn(COUNT), normal),
    "randint": (lambda x: torch.randint(0, 7, (COUNT,)), SEVENTH),
    "randint_like": (lambda x: torch.randint_like(x, 7), SEVENTH),
    "random_": (lambda x: torch.empty_like(x).random_(7), SEVENTH),
    "randperm": (lambda x: torch.randperm(COUNT), functools.partial(uniform, begin=-0.5, end=COUNT - 0.5)),
    "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, THIRD)), ONES),
    "bernoulli of a number": (lambda x: torch.bernoulli(x, THIRD), ONES),
    "bernoulli_": (lambda x: x.new_empty(COUNT).bernoulli_(THIRD), ONES),
    "bernoulli_ of a tensor": (lambda x: x.new_empty(COUNT).bernoulli_(torch.full_like(x, THIRD)), ONES),
    "multinomial": (lambda x: torch.multinomial(torch.tensor([0.1, 0.2, 0.7]), COUNT, True), choice(0.1, 0.2, 0.7)),
    "multinomial of rows": (lambda x: torch.multinomial(torch.tensor([0.1, 0.2, 0.7]).expand(COUNT, 3), 1),
                            choice(0.1, 0.2, 0.7)),
    "multinomial without replacement": (lambda x: torch.multinomial(torch.ones(COUNT), COUNT),
                                        functools.partial(uniform, begin=-0.5, end=COUNT - 0.5)),
    "normal_": (lambda x: torch.empty_like(x).normal_(1, 2), functools.partial(normal, mean=1, deviation=2)),
    "normal of numbers": (lambda x: torch.normal(1.0, 2.0, (COUNT,)).to(x.device), functools.partial(normal, mean=1, deviation=2)),
    "normal of a tensor": (lambda x: torch.normal(torch.ones_like(x), 2.0), functools.partial(normal, mean=1, deviation=2)),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(1, 3), functools.partial(uniform, begin=1, end=3)),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2), functools.partial(exponential, rate=2)),
    "geometric_": (lambda x: torch.empty_like(x).geometric_(THIRD), GEOMETRIC),
    "cauchy_": (lambda x: torch.empty_like(x).cauchy_(), lambda x: 0.5 + torch.atan(x) / math.pi),
    "log_normal_": (lambda x: torch.empty_like(x).log_normal_(0, 1), lambda x: normal(x.log())),
    "poisson": (lambda x: torch.poisson(torch.full_like(x, 3.0)), POISSON),
    "binomial": (lambda x: torch.binomial(torch.full_like(x, 9.0), torch.full_like(x, THIRD)), BINOMIAL),
    "gumbel softmax, soft": (lambda x: F.gumbel_softmax(torch.zeros(COUNT, 2), dim=1)[:, 0], uniform),  # logistic noise
    "gumbel softmax, hard": (lambda x: F.gumbel_softmax(torch.tensor([0.1, 0.2, 0.7]).log().expand(COUNT, 3), hard=True)
                             .argmax(1), choice(0.1, 0.2, 0.7)),
    "rrelu": (lambda x: -F.rrelu(-torch.ones_like(x), 0.1, 0.4, training=True), functools.partial(uniform, begin=0.1, end=0.4)),
    "a normal distribution": (lambda x: distributions.Normal(torch.zeros_like(x), 1.0).rsample(), normal),
    "a gamma distribution": (lambda x: distributions.Gamma(torch.ones_like(x), 2.0).rsample(),
                             functools.partial(exponential, rate=2)),
    "a Dirichlet distribution": (lambda x: distributions.Dirichlet(torch.ones(COUNT, 2)).rsample()[:, 0], uniform),
    "a one-hot distribution": (lambda x: distributions.OneHotCategorical(torch.tensor([0.1, 0.2, 0.7]).expand(COUNT, 3))
                               .sample().argmax(1), choice(0.1, 0.2, 0.7)),
}


class Rows(nn.Module):
    """A row of zeros for each micro batch and draw, whose gradient is the draw."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(MICRO_BATCHES, len(DRAWS), COUNT))


def weighted(model, batch):
    x = model.rows[0, 0].detach()
    drawn = torch.stack([draw(x).reshape(COUNT).to(x.dtype) for draw, _ in DRAWS.values()])
    return (model.rows[batch["micro"]] * drawn).sum()


def drawn_by(plan, steps, trainer=None):
    """Returns the draws of steps: [steps, micro batches, operators, COUNT]."""
    found = []
    for _ in range(steps):
        trainer.load_state_dict({"rows": torch.zeros(MICRO_BATCHES, len(DRAWS), COUNT)})
        trainer.step({"micro": torch.arange(MICRO_BATCHES)}, lr=float(MICRO_BATCHES))
        found.append(-trainer.state_dict()["rows"])
    return torch.stack(found)


def planned(seed=5, **options):
    return pl.plan(Rows, weighted, {"micro": torch.zeros(1, dtype=torch.int64)}, accumulate=MICRO_BATCHES, seed=seed,
                   optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0), **options)


def probability(values, distribution):
    """Returns the probability of a deviation from the distribution that is at least as large as that of `values`.

    Kolmogorov-Smirnov for a distribution function (its asymptotic series), chi-square for probabilities of values."""
    count = values.numel()
    if callable(distribution):
        ordered = values.double().sort().values
        expected, steps = distribution(ordered), torch.arange(count + 1, dtype=torch.float64) / count
        distance = max((steps[1:] - expected).max().item(), (expected - steps[:-1]).max().item())
        k = torch.arange(1, 101, dtype=torch.float64)
        return min(1.0, 2 * ((-1) ** (k - 1) * torch.exp(-2 * (k * distance) ** 2 * count)).sum().item())
    cells, rest = [], [0.0, 0.0]
    for value, expected in distribution.items():
        found = (values.double() - value).abs().lt(1e-5).sum().item()
        if count * expected >= 5:
            cells.append((found, count * expected))
        else:
            rest = [rest[0] + found, rest[1] + count * expected]
    cells += [tuple(rest)] if rest[1] >= 5 else []
    if sum(found for found, _ in cells) + (rest[0] if rest[1] < 5 else 0) != count:
        return 0.0  # a value that has no probability
    square = sum((found - expected) ** 2 / expected for found, expected in cells)
    halves = torch.tensor([(len(cells) - 1) / 2, square / 2], dtype=torch.float64)
    return torch.special.gammaincc(halves[0], halves[1]).item()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        for draw in CHAINED:
            x = draw(torch.tanh(self.linear(x)))
        return x


class Chain(nn.Module):
    """Layers with draws: a small budget recomputes draws."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


CHAINED = [
    lambda x: F.dropout(x, THIRD),
    lambda x: F.dropout1d(x.unsqueeze(-1), THIRD).squeeze(-1),
    lambda x: F.alpha_dropout(x, THIRD, training=True),
    lambda x: F.feature_alpha_dropout(x.unsqueeze(-1), THIRD, training=True).squeeze(-1),
    lambda x: x + 0.1 * torch.randn_like(x) * x,
    lambda x: x * torch.rand_like(x),
    lambda x: x * (1 + torch.bernoulli(torch.sigmoid(x.detach()))),
    lambda x: x[:, torch.randperm(32)],
    lambda x: x + F.gumbel_softmax(x, tau=0.7, hard=True),
    lambda x: x * F.gumbel_softmax(x),
    lambda x: F.rrelu(x, training=True),
    lambda x: x * torch.multinomial(torch.softmax(x.detach(), 1), 32, replacement=True) / 16,
    lambda x: x * torch.empty_like(x).exponential_(),
    lambda x: x + distributions.Gamma(1 + x.square(), 1.0).rsample() / 8,
    lambda x: x * x.new_empty(len(x), 1).bernoulli_(0.9).div_(0.9),
]


def chain_plan(**options):
    batch = {"x": torch.zeros(64, 32)}
    return pl.plan(Chain, lambda model, b: model(b["x"]).square().mean(), batch, seed=2, accumulate=2,
                   optimizer=pl.AdamW(1e-2), **options)


def chain_trained(plan, steps=3, path=None, resume=None):
    x = torch.randn(128, 32, generator=torch.Generator().manual_seed(1))
    with pl.Trainer(plan) as trainer:
        if resume is not None:
            trainer.load(resume)
        losses = [trainer.step({"x": x}) for _ in range(steps)]
        if path is not None:
            trainer.save(path)
        return losses, trainer.state_dict()


class RandomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = planned()
        with pl.Trainer(cls.plan) as trainer, tempfile.TemporaryDirectory() as folder:
            cls.drawn = drawn_by(cls.plan, STEPS - 1, trainer)
            file = pathlib.Path(folder) / "training.safetensors"
            trainer.save(file)
            cls.drawn = torch.cat([cls.drawn, drawn_by(cls.plan, 1, trainer)])
            with pl.Trainer(cls.plan.changed()) as again:
                again.load(file)
                cls.resumed = drawn_by(cls.plan, 1, again)

    def test_their_distributions_are_those_of_eager(self):
        for i, (name, (_, distribution)) in enumerate(DRAWS.items()):
            with self.subTest(name):
                values = self.drawn[0, 0, i] if "perm" in name or "without" in name else self.drawn[:, :, i].flatten()
                self.assertGreater(probability(values, distribution), 1e-4)
                self.assertLess(probability(values * 1.2 + 0.05, distribution), 1e-4)  # the test can fail

    def test_every_step_micro_batch_and_operator_draws_for_itself(self):
        rows = self.drawn.flatten(0, 2).double()
        scale = torch.tensor([COUNT if "perm" in name or "without" in name else 1 for name in DRAWS])
        rows = (rows / scale.repeat(STEPS * MICRO_BATCHES).unsqueeze(1)).clamp(-10, 10)  # heavy tails would hide a correlation
        rows = rows - rows.mean(1, keepdim=True)
        rows = rows / rows.norm(dim=1, keepdim=True)
        correlations = rows @ rows.t() - torch.eye(len(rows), dtype=torch.float64)
        worst = correlations.abs().argmax().item()
        self.assertLess(correlations.abs().max().item(), 6 / math.sqrt(COUNT), self.named(worst, len(rows)))

    def named(self, worst, rows):
        def of(row):
            step, rest = divmod(row, MICRO_BATCHES * len(DRAWS))
            micro, draw = divmod(rest, len(DRAWS))
            return f"step {step}, micro batch {micro}, {list(DRAWS)[draw]}"

        return f"{of(worst // rows)} and {of(worst % rows)}"

    def test_a_resumed_training_draws_the_same(self):
        self.assertTrue(torch.equal(self.resumed[0], self.drawn[-1]))

    def test_another_seed_draws_others(self):
        with pl.Trainer(planned(seed=6)) as trainer:
            other = drawn_by(None, 1, trainer)[0, 0]
        for i, name in enumerate(DRAWS):
            self.assertFalse(torch.equal(other[i], self.drawn[0, 0, i]), name)

    def test_every_budget_draws_the_same(self):
        plan = chain_plan()
        expected, state = chain_trained(plan)
        self.assertEqual(len(set(expected)), len(expected))
        self.assertLess(plan.minimum, plan.peak)
        for options in ({"memory": plan.minimum}, {"memory": plan.minimum + plan.minimum // 20},
                        {"gradient_checkpointing": "on"}):
            other = chain_plan(**options)
            self.assertGreater(other.to_json()["recompute_seconds"], 0)
            losses, weights = chain_trained(other)
            self.assertEqual(losses, expected, options)
            for name, tensor in state.items():
                self.assertTrue(torch.equal(weights[name], tensor), (name, options))

    def test_every_budget_draws_the_same_on_resume(self):
        plan = chain_plan()
        expected, _ = chain_trained(plan, 4)
        small = chain_plan(memory=plan.minimum)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "training.safetensors"
            self.assertEqual(chain_trained(small, 2, path=file)[0], expected[:2])
            self.assertEqual(chain_trained(plan.changed(), 2, resume=file)[0], expected[2:])

    def test_draws_that_a_step_would_not_repeat_are_refused(self):
        for draw, message in (
            (lambda: random.random(), r"random\.random\(\) cannot be recorded"),
            (lambda: random.uniform(0, 1), r"random\.uniform\(\) cannot be recorded"),
            (lambda: numpy.random.rand(2), r"numpy\.random\.rand\(\) cannot be recorded"),
            (lambda: torch.empty(2, device="cpu").uniform_(), "aten::uniform_ cannot be recorded: it draws .* a CPU tensor"),
            (lambda: torch.rand(2, generator=torch.Generator()), "cannot be recorded with a generator"),
            (lambda: 1 if torch.rand(()) < 0.5 else 2, "it reads a value"),
        ):
            def loss(model, batch, draw=draw):
                draw()
                return model(batch["x"]).mean()

            with self.assertRaisesRegex(pl.UserError, message):
                pl.plan(lambda: nn.Linear(2, 1), loss, {"x": torch.zeros(2, 2)})
        for draw, of in ((lambda m: random_by_name(), "random"), (lambda m: numpys_by_name(), "numpy.random"),
                         (lambda m: m.generator.random(), "'generator' of the model"),
                         (lambda m: m.lists["numpy"][0].normal(), r"'lists\['numpy'\]\[0\]' of the model"),
                         (lambda m: m.old.rand(), "'old' of the model")):
            def made():
                model = nn.Linear(2, 1)
                model.generator, model.old = random.Random(1), numpy.random.RandomState(1)
                model.lists = {"numpy": [numpy.random.default_rng(1)]}
                model.generator.random()
                return model

            def drawing(model, batch, draw=draw):
                draw(model)
                return model(batch["x"]).mean()

            with self.assertRaisesRegex(pl.UserError, f"random numbers of {of} cannot be recorded: .* draw with torch"):
                pl.plan(made, drawing, {"x": torch.zeros(2, 2)})
            pl.plan(made, lambda model, batch: model(batch["x"]).mean(), {"x": torch.zeros(2, 2)})
        self.assertNotEqual(random.random(), random.random())  # they are Python's and NumPy's again
        self.assertEqual(numpy.random.rand(2).shape, (2,))

    def test_the_callers_random_numbers_stay(self):
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        chain_trained(chain_plan(), 1)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), before))


class InitialWeights(unittest.TestCase):
    def test_truncated_normals(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = nn.Parameter(nn.init.trunc_normal_(torch.empty(COUNT), std=0.02))
                self.narrow = nn.Parameter(nn.init.trunc_normal_(torch.empty(COUNT), mean=0.5, std=1.0, a=0.0, b=0.5))

        plan = pl.plan(Model, lambda model, batch: (model.wide * model.narrow * batch["x"]).sum(), {"x": torch.ones(1, 1)})
        with pl.Trainer(plan) as trainer:
            weights = trainer.state_dict()
        self.assertAlmostEqual(weights["wide"].std().item(), 0.02, delta=0.001)
        self.assertTrue(0 <= weights["narrow"].min() < 0.01 and 0.49 < weights["narrow"].max() <= 0.5)
        self.assertAlmostEqual(weights["narrow"].mean().item(), 0.5 - 0.2448, delta=0.02)  # nearly uniform: a half deviation wide


if __name__ == "__main__":
    unittest.main()
