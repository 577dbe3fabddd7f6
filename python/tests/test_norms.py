"""RMS norms recorded as plimsoll::rms_norm: values beside those of torch's operators and of float64."""

import functools
import unittest

import torch
import transformers
from torch import nn

import plimsoll as pl

WIDTH, TOKENS, WORDS = 48, 16, 64


class Llama(nn.Module):
    """The norm of Llama, Mistral and Qwen."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Gemma(Llama):
    def forward(self, x):
        wide = x.float()
        output = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (output * (1.0 + self.weight.float())).type_as(x)


class T5(Llama):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


class Products(Llama):
    def forward(self, x):
        return x * torch.rsqrt((x * x).mean([x.dim() - 1], True) + self.eps) * self.weight


class Power(Llama):
    """The norm of Gemma 3n and 4."""

    def forward(self, x):
        wide = x.float()
        return (wide * torch.pow(wide.pow(2).mean(-1, keepdim=True) + self.eps, -0.5) * self.weight.float()).type_as(x)


class Quotient(Llama):
    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Frozen(Llama):
    def __init__(self):
        super().__init__()
        self.weight.requires_grad_(False)


class Detached(Llama):
    """A statistic without a gradient is no norm."""

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.detach().pow(2).mean(-1, keepdim=True) + self.eps))


class Overwritten(Llama):
    """x is no longer what was squared."""

    def forward(self, x):
        y = x.clone()
        root = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        y.data.mul_(2)
        return self.weight * (y * root)


class OtherDimension(Llama):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + self.eps))


class Cubes(Llama):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + self.eps))


class OtherTensor(Llama):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.tanh().pow(2).mean(-1, keepdim=True) + self.eps))


class Hooked(Llama):
    """A hook sees the gradient of the normalized tensor."""

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        x.register_hook(lambda gradient: gradient * 0.5)
        return self.weight * x


class HookedLater(Llama):
    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        y = self.weight * x
        x.register_hook(lambda gradient: gradient * 0.5)
        return y


class Library(nn.RMSNorm):
    def __init__(self):
        super().__init__(WIDTH)


class LibraryWithoutWeight(nn.RMSNorm):
    def __init__(self):
        super().__init__(WIDTH, eps=1e-5, elementwise_affine=False)


class Penalized(Llama):
    """A second derivative."""

    def forward(self, x):
        y = super().forward(x)
        (slope,) = torch.autograd.grad(y.square().sum(), self.weight, create_graph=True)
        return y + slope.square().mean()


class Transformed(Llama):
    """torch.func and forward-mode derivatives."""

    def forward(self, x):
        with torch.no_grad():
            size = torch.func.grad(lambda weight: (weight * (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6))).sum())(self.weight)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(self.weight, torch.ones_like(self.weight))
            slope = torch.autograd.forward_ad.unpack_dual(dual * (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6))).tangent
        return x + size.mean() + slope


REPLACED = (Llama, Gemma, T5, Products, Power, Quotient, Frozen, Library, LibraryWithoutWeight)
COMPOSED = (Detached, Overwritten, OtherDimension, Cubes, OtherTensor, Hooked, HookedLater, Penalized, Transformed)


class Decoder(nn.Module):
    """Two norms between linear layers, behind an embedding with a row of zeros."""

    def __init__(self, norm):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.first, self.second = norm(), norm()
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.words(ids)
        x = x + self.inner(self.first(x)).tanh()
        return self.head(self.second(x))


def loss_of(model, batch):
    out = model(batch["ids"])
    logits = getattr(out, "logits", out)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch["ids"].flatten())


def batch_of(step):
    return {"ids": torch.randint(0, WORDS, (2, TOKENS), generator=torch.Generator().manual_seed(step)) % 8 * 8}


def of_transformers(name, **more):
    config = getattr(transformers, name + "Config")(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, pad_token_id=None, **more)
    return lambda: getattr(transformers, name + "ForCausalLM")(config)


def weights_of(make):
    torch.manual_seed(3)
    weights = {name: value + 0.1 * torch.randn(value.shape) for name, value in make().state_dict().items()}
    if "words.weight" in weights:
        weights["words.weight"][0] = 0
    return weights


def plan_of(make, replace=True, **keys):
    return pl.plan(make, loss_of, batch_of(0), **({"optimizer": pl.SGD(1.0), "replace": replace} | keys))


def norms_of(plan):
    reason = dict(plan.reasons).get("replace: norms", "0")
    return int(reason.split()[0])


def gradients(plan, weights):
    """Returns the loss, and the gradients by a step of rate 1."""
    with pl.Trainer(plan) as trainer:
        trainer.load_state_dict(weights)
        loss, after = trainer.step(batch_of(0)), trainer.state_dict()
    return loss, {name: weights[name].double() - value.double() for name, value in after.items()}


def eager(weights, make, dtype=torch.float64):
    model = make().to(dtype).train()
    model.load_state_dict(weights)
    loss = loss_of(model, batch_of(0))
    loss.backward()
    return loss.item(), {name: each.grad.double() for name, each in model.named_parameters() if each.grad is not None}


class Norms(unittest.TestCase):
    def check(self, make, count, **keys):
        weights = weights_of(make)
        plan, plain = plan_of(make, **keys), plan_of(make, {"norms": False}, **keys)
        self.assertEqual((norms_of(plan), norms_of(plain)), (count, 0))
        (loss, mine), (own_loss, own) = gradients(plan, weights), gradients(plain, weights)
        true_loss, true = eager(weights, make)
        coarse = 1e-4 if keys else 1e-6
        self.assertAlmostEqual(loss, true_loss, delta=2 * abs(own_loss - true_loss) + coarse)
        for name, gradient in true.items():
            off = (mine[name] - gradient).norm().item()
            # A bias before a norm has a gradient of rounding alone, and weights are rounded when they are read.
            self.assertLessEqual(off, 2 * (own[name] - gradient).norm().item() + coarse * gradient.norm().item() + 1e-6, name)

    def test_gradients_are_as_exact_as_those_of_torchs_operators(self):
        for norm in REPLACED:
            with self.subTest(norm.__name__):
                self.check(functools.partial(Decoder, norm), 2)

    def test_sixteen_bits_are_as_exact_as_those_of_torchs_operators(self):
        for norm in REPLACED:
            if norm is LibraryWithoutWeight or norm is Library:
                continue
            with self.subTest(norm.__name__):
                self.check(functools.partial(Decoder, norm), 2, precision="bf16-mixed")

    def test_norms_of_transformers(self):
        for name, count in (("Llama", 5), ("Mistral", 5), ("Qwen2", 5), ("Qwen3", 9), ("Gemma", 5), ("Gemma2", 9)):
            with self.subTest(name):
                self.check(of_transformers(name), count)

    def test_bytes_and_seconds_are_fewer(self):
        def make():
            return transformers.LlamaForCausalLM(transformers.LlamaConfig(
                vocab_size=WORDS, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4))

        for precision in ("32-true", "bf16-mixed"):
            with self.subTest(precision):
                batch = {"ids": torch.zeros(2, 512, dtype=torch.int64)}
                plan, plain = (pl.plan(make, loss_of, batch, device="h100-sxm", precision=precision, replace={"norms": norms})
                               for norms in (True, False))
                self.assertEqual((norms_of(plan), norms_of(plain)), (7, 0))
                self.assertLess(plan.minimum, plain.minimum)
                self.assertLess(plan.step_seconds, plain.step_seconds)

    def test_what_is_no_norm_is_recorded_as_it_is(self):
        for norm in COMPOSED:
            with self.subTest(norm.__name__):
                make = functools.partial(Decoder, norm)
                weights = weights_of(make)
                plan = plan_of(make)
                self.assertEqual(norms_of(plan), 0)
                loss, mine = gradients(plan, weights)
                own_loss, own = gradients(plan_of(make, {"norms": False}), weights)
                self.assertEqual(loss, own_loss)
                for name, gradient in own.items():
                    self.assertTrue(torch.equal(mine[name], gradient), name)
                true_loss, true = eager(weights, make)
                self.assertAlmostEqual(loss, true_loss, delta=1e-5)
                for name, gradient in true.items():
                    self.assertLessEqual((mine[name] - gradient).norm().item(), 1e-4 * gradient.norm().item() + 1e-6, name)


if __name__ == "__main__":
    unittest.main()
