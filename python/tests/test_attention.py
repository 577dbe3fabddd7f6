"""scaled_dot_product_attention is recorded as plimsoll::attention: the same mathematics, and no attention matrix in memory."""
import datetime
import os
import random
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll as pl

OFF = {"attention": False}


class Operands(nn.Module):
    """Parameters that are added to the operands of a batch: their gradients are those of the operands."""

    def __init__(self, shapes, dtype=torch.float32):
        super().__init__()
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape, dtype=dtype)))


def in_other_layout(tensor):
    """Returns the values with heads and tokens in the order in which a linear layer makes them."""
    return tensor.transpose(-3, -2).contiguous().transpose(-3, -2) if tensor.dim() > 2 else tensor


def loss_of(options, layout, call=F.scaled_dot_product_attention):
    def loss(model, batch):
        operands = [getattr(model, name) + batch[name] for name in ("q", "k", "v")]
        operands = [in_other_layout(each) if layout else each for each in operands]
        out = call(*operands, **options)
        weights = torch.cos(torch.arange(out.numel(), device=out.device, dtype=torch.float32)).to(out.dtype)
        return (out.flatten() * weights).sum().to(torch.promote_types(out.dtype, torch.float32))
    return loss


def eager(values, options, layout, dtype=None):
    """Returns loss and gradients by torch's own operators: of matrices, since its kernel for causal attention gives NaN for
    negative scales."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return eager_by_any_kernel(values, options, layout, dtype)


def eager_by_any_kernel(values, options, layout, dtype=None):
    model = Operands({name: value.shape for name, value in values.items()}, dtype or values["q"].dtype)
    loss = loss_of(options, layout)(model, {name: value.to(dtype or value.dtype) for name, value in values.items()})
    loss.backward()
    return {"loss": loss.detach()} | {name: parameter.grad for name, parameter in model.named_parameters()}


def planned(values, options, layout, call=F.scaled_dot_product_attention, **keys):
    """Returns loss and gradients, and the plan."""
    shapes, dtype = {name: value.shape for name, value in values.items()}, values["q"].dtype
    plan = pl.plan(lambda: Operands(shapes, dtype), loss_of(options, layout, call), values, micro_batch=1, static=list(values),
                   optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0), **keys)
    with pl.Trainer(plan) as trainer:
        trainer.load_state_dict({name: torch.zeros_like(value) for name, value in values.items()})
        loss = trainer.step(values)
        assert trainer.used == plan.peak, (trainer.used, plan.peak)
        after = trainer.state_dict()
    return {"loss": torch.tensor(loss)} | {name: -value for name, value in after.items()}, plan


def is_replaced(plan):
    return any(decision == "replace: attention" for decision, _ in plan.reasons)


def random_case(draw):
    """Returns sizes, options and whether operands are laid out with tokens before heads."""
    dims, causal = draw.choice([2, 3, 4, 4, 4]), draw.random() < 0.5
    tokens = draw.choice([1, 2, 7, 31, 64, 65, 130])
    keys = tokens if causal else draw.choice([1, 5, 64, 70, 129])
    width = draw.choice([1, 3, 8, 16, 33, 64])
    options = {"is_causal": causal} | ({"scale": draw.choice([0.3, 1.0, -0.2])} if draw.random() < 0.4 else {})
    kv_heads = draw.choice([1, 2, 3])
    heads = kv_heads * draw.choice([1, 1, 2, 4])
    if dims == 4 and heads != kv_heads:
        options["enable_gqa"] = True
    lead = {2: ((), ()), 3: ((heads,), (heads,)), 4: ((2, heads), (2, kv_heads))}[dims]
    shapes = {"q": (*lead[0], tokens, width), "k": (*lead[1], keys, width), "v": (*lead[1], keys, width)}
    return shapes, options, draw.random() < 0.5


class AttentionTest(unittest.TestCase):
    def assert_close(self, values, options, layout, **keys):
        """Compares a planned step with float64: its error is at most twice eager's."""
        got, plan = planned(values, options, layout, **keys)
        # Gradients of q and k are differences of terms of this size.
        terms = 3 * (values["q"].shape[-1] * max(values["q"].shape[-2], values["k"].shape[-2])) ** 0.5
        exact, once = eager(values, options, layout, torch.float64), eager(values, options, layout)
        for name, reference in exact.items():
            error, eagers = (got[name] - reference).abs().max().item(), (once[name] - reference).abs().max().item()
            largest = values["q"].numel() ** 0.5 if name == "loss" else reference.abs().max().item()  # a sum that cancels
            unit = torch.finfo(torch.float32 if name == "loss" else values["q"].dtype).eps
            self.assertLessEqual(error, 2 * eagers + 8 * unit * max(1.0, largest, terms), f"{name} {options} {plan}")
        return plan

    def test_a_mask_and_a_result_that_change_after_the_call_are_as_in_eager(self):
        def grown(q, k, v):
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            mask.fill_(True)
            return out

        def doubled(q, k, v):
            return F.scaled_dot_product_attention(q[0], k[0], v[0]).mul_(2)

        # torch 2.15 keeps the result of this attention for its backward pass: eager refuses to write into it.
        def twice(q, k, v):
            return F.scaled_dot_product_attention(q[0], k[0], v[0]).mul(2)

        generator = torch.Generator().manual_seed(4)
        values = {name: torch.randn(2, 2, 9, 8, generator=generator) for name in ("q", "k", "v")}
        for call, eager in ((grown, grown), (doubled, twice)):
            got, _ = planned(values, {}, False, call)
            model = Operands({name: value.shape for name, value in values.items()})
            loss = loss_of({}, False, eager)(model, values)
            loss.backward()
            self.assertAlmostEqual(got["loss"].item(), loss.item(), delta=1e-5)
            for name, parameter in model.named_parameters():
                torch.testing.assert_close(got[name], parameter.grad, rtol=0, atol=1e-5)

    def test_random_shapes_are_as_exact_as_eager(self):
        seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
        draw = random.Random(seed)
        for i in range(25):
            shapes, options, layout = random_case(draw)
            with self.subTest(seed=seed, i=i, shapes=shapes, options=options, layout=layout):
                torch.manual_seed(seed + i)
                values = {name: torch.randn(shape) for name, shape in shapes.items()}
                self.assertTrue(is_replaced(self.assert_close(values, options, layout)))

    def test_float64(self):
        torch.manual_seed(1)
        values = {name: torch.randn(2, 3, 40, 16, dtype=torch.float64) for name in "qkv"}
        self.assertTrue(is_replaced(self.assert_close(values, {"is_causal": True}, True)))

    def test_off_has_the_bits_of_the_composition(self):
        torch.manual_seed(2)
        values = {name: torch.randn(2, 3, 40, 16) for name in "qkv"}

        def composed(q, k, v, is_causal):
            return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, None, 0.0, is_causal)[0]

        for replace in (OFF, False):
            got, plan = planned(values, {"is_causal": True}, False, replace=replace)
            self.assertFalse(is_replaced(plan))
            want, _ = planned(values, {"is_causal": True}, False, composed)
            for name, value in want.items():
                self.assertTrue(torch.equal(got[name], value), name)

    def test_no_matrix_is_stored(self):
        values = {name: torch.zeros(1, 4, 512, 16) for name in "qkv"}
        shapes = {name: value.shape for name, value in values.items()}

        def peak(**keys):
            return pl.plan(lambda: Operands(shapes), loss_of({"is_causal": True}, False), values, micro_batch=1,
                           static=list(values), **keys)

        on, off = peak(), peak(replace=OFF)
        matrix = 4 * 512 * 512 * 4
        self.assertGreater(off.peak, 2 * matrix)
        self.assertLess(on.peak, off.peak - matrix)
        self.assertLess(on.minimum, off.minimum - matrix)
        self.assertIn("1 attention (scaled_dot_product_attention, or", dict(on.reasons)["replace: attention"])
        self.assertIn("4.00 MiB", dict(on.reasons)["replace: attention"])

    def test_changed_plans_keep_it(self):
        values = {name: torch.zeros(1, 1, 8, 4) for name in "qkv"}
        shapes = {name: value.shape for name, value in values.items()}
        plan = pl.plan(lambda: Operands(shapes), loss_of({}, False), values, micro_batch=1, static=list(values), replace=OFF)
        self.assertFalse(is_replaced(plan.changed(precision="bf16-mixed")))
        self.assertTrue(is_replaced(plan.changed(replace=True)))

    def test_autocast(self):
        torch.manual_seed(3)
        values = {name: torch.randn(2, 3, 40, 16) for name in "qkv"}
        exact = eager(values, {"is_causal": True}, True, torch.float64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            once = eager(values, {"is_causal": True}, True)
        seen = []

        def call(q, k, v, **options):
            out = F.scaled_dot_product_attention(q, k, v, **options)
            with torch.autocast("cpu", enabled=False):
                wide = F.scaled_dot_product_attention(q, k, v, **options)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    inner = F.scaled_dot_product_attention(q, k, v, **options)
            seen.append((out.dtype, wide.dtype, inner.dtype))
            return out

        got, plan = planned(values, {"is_causal": True}, True, call, precision="bf16-mixed")
        self.assertIn("3 attentions", dict(plan.reasons)["replace: attention"])
        self.assertEqual(set(seen), {(torch.bfloat16, torch.float32, torch.bfloat16)})
        for name, reference in exact.items():
            error, eagers = (got[name] - reference).abs().max().item(), (once[name] - reference).abs().max().item()
            self.assertLessEqual(error, 2 * eagers + 1e-2 * max(1.0, reference.abs().max().item()), name)

    def test_other_calls_are_as_they_were(self):
        torch.manual_seed(4)
        bias = torch.randn(8, 8)

        def values(q=(2, 2, 8, 4), k=(2, 2, 8, 4), v=(2, 2, 8, 4)):
            return {"q": torch.randn(q), "k": torch.randn(k), "v": torch.randn(v)}

        for name, given, options in (
            ("causal of other lengths", values(k=(2, 2, 12, 4), v=(2, 2, 12, 4)), {"is_causal": True}),
            ("causal, more queries", values(k=(2, 2, 5, 4), v=(2, 2, 5, 4)), {"is_causal": True}),
            ("wider values", values(v=(2, 2, 8, 6)), {}),
            ("five dimensions", values((2, 3, 2, 8, 4), (2, 3, 2, 8, 4), (2, 3, 2, 8, 4)), {}),
            ("a batch that broadcasts", values(k=(1, 2, 8, 4), v=(1, 2, 8, 4)), {}),
        ):
            with self.subTest(name):
                self.assertFalse(is_replaced(self.assert_close(given, options, False)))
        with self.subTest("one head that broadcasts"):
            self.assertTrue(is_replaced(self.assert_close(values(k=(2, 1, 8, 4), v=(2, 1, 8, 4)), {}, False)))
        with self.assertRaisesRegex(Exception, "explicit attn_mask should not be set when is_causal|is_causal"):
            planned(values(), {"is_causal": True, "attn_mask": bias}, False)

    def test_calls_without_gradients(self):
        torch.manual_seed(5)
        values = {name: torch.randn(2, 2, 9, 4) for name in "qkv"}

        def call(q, k, v):
            with torch.no_grad():
                fixed = F.scaled_dot_product_attention(q, k, v)
            return F.scaled_dot_product_attention(q, k, v) * fixed

        got, plan = planned(values, {}, False, call)
        operands = {name: value.double().requires_grad_() for name, value in values.items()}
        out = call(*operands.values())
        (out.flatten() * torch.cos(torch.arange(out.numel()).float())).sum().backward()
        for name, value in operands.items():
            torch.testing.assert_close(got[name].double(), value.grad, rtol=1e-4, atol=1e-5)
        self.assertIn("2 attentions", dict(plan.reasons)["replace: attention"])

    def test_functorch_and_second_derivatives(self):
        torch.manual_seed(6)
        values = {name: torch.randn(1, 2, 6, 4) for name in "qkv"}

        def vmapped(q, k, v):
            return torch.func.vmap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))(q, k, v)

        got, _ = planned(values, {}, False, vmapped)
        want, _ = planned(values, {}, False)
        for name, value in want.items():
            torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-5)

        def penalty(q, k, v):
            out = F.scaled_dot_product_attention(q, k, v)
            (gradient,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
            return gradient

        with self.assertRaisesRegex(pl.UserError, "replace"):
            planned(values, {}, False, penalty)
        got, _ = planned(values, {}, False, penalty, replace=OFF)
        operands = {name: value.double().requires_grad_() for name, value in values.items()}
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            out = penalty(*operands.values())
        (out.flatten() * torch.cos(torch.arange(out.numel()).float())).sum().backward()
        for name, value in operands.items():
            torch.testing.assert_close(got[name].double(), value.grad, rtol=1e-3, atol=1e-4)

    def assert_masked(self, values, mask, replaced=True, **options):
        """Compares a call with a mask, which is an input of the step, with float64."""
        given = values | {"mask": mask}

        def compute(call):
            def loss(model, batch):
                operands = [getattr(model, name) + batch[name] for name in "qkv"]
                return self.weighted(call(*operands, attn_mask=batch["mask"], **options))
            return loss

        shapes = {name: value.shape for name, value in values.items()}
        dtype = values["q"].dtype
        plan = pl.plan(lambda: Operands(shapes, dtype), compute(F.scaled_dot_product_attention), given, micro_batch=1,
                       static=list(given), optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
        with pl.Trainer(plan) as trainer:
            trainer.load_state_dict({name: torch.zeros_like(value) for name, value in values.items()})
            trainer.step(given)
            got = {name: -value for name, value in trainer.state_dict().items()}
            self.assertEqual(trainer.used, plan.peak)
        self.assertEqual(is_replaced(plan), replaced)

        def gradients(dtype):
            operands = [value.to(dtype).requires_grad_() for value in values.values()]
            wide = mask if mask.dtype == torch.bool else mask.to(dtype)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                self.weighted(F.scaled_dot_product_attention(*operands, attn_mask=wide, **options)).backward()
            return dict(zip(values, (operand.grad for operand in operands), strict=True))

        exact, once = gradients(torch.float64), gradients(dtype)
        for name, reference in exact.items():
            error, eagers = (got[name] - reference).abs().max().item(), (once[name] - reference).abs().max().item()
            terms = 3 * (values["q"].shape[-1] * max(values["q"].shape[-2], values["k"].shape[-2])) ** 0.5
            self.assertLessEqual(error, 2 * eagers + 8 * torch.finfo(dtype).eps * max(terms, reference.abs().max().item()), name)
        return plan

    @staticmethod
    def weighted(out):
        weights = torch.cos(torch.arange(out.numel(), device=out.device, dtype=torch.float32)).to(out.dtype)
        return (out.flatten() * weights).sum()

    def test_masks_of_random_shapes(self):
        seed = int(os.environ.get("PLIMSOLL_TEST_SEED", datetime.date.today().toordinal()))
        draw = random.Random(seed)
        for i in range(20):
            shapes, options, _ = random_case(draw)
            options.pop("is_causal")
            matrix = [*shapes["q"][:-1], shapes["k"][-2]]
            sizes = [1 if draw.random() < 0.3 else size for size in matrix][draw.choice([0, 0, len(matrix) - 2]):]
            with self.subTest(seed=seed, i=i, shapes=shapes, mask=sizes, options=options):
                torch.manual_seed(seed + i)
                values = {name: torch.randn(shape) for name, shape in shapes.items()}
                seen = torch.rand(sizes) > draw.choice([0.2, 0.8])  # some queries see no key
                bias = torch.randn(sizes).masked_fill(~seen, draw.choice([-torch.inf, torch.finfo(torch.float32).min]))
                self.assert_masked(values, seen if draw.random() < 0.5 else bias, **options)

    def test_a_mask_of_padding_in_bf16_mixed(self):
        torch.manual_seed(7)
        values = {name: torch.randn(2, 3, 70, 16) for name in "qkv"}
        seen = torch.arange(70) < torch.tensor([70, 33]).view(2, 1, 1, 1)
        for mask in (seen, torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)):
            given = values | {"mask": mask}

            def loss(model, batch):
                out = F.scaled_dot_product_attention(*(getattr(model, n) + batch[n] for n in "qkv"), attn_mask=batch["mask"])
                return self.weighted(out.float())

            results = []
            for replace in (True, False):
                plan = pl.plan(lambda: Operands({n: v.shape for n, v in values.items()}), loss, given, micro_batch=1,
                               static=list(given), precision="bf16-mixed", replace=replace,
                               optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
                self.assertEqual(is_replaced(plan), replace)
                with pl.Trainer(plan) as trainer:
                    trainer.load_state_dict({n: torch.zeros_like(v) for n, v in values.items()})
                    trainer.step(given)
                    results.append(trainer.state_dict())
            for name in values:
                torch.testing.assert_close(results[0][name], results[1][name], rtol=3e-2, atol=3e-2)

    def test_a_trained_bias_gets_its_gradient(self):
        torch.manual_seed(8)
        values = {name: torch.randn(1, 2, 9, 4) for name in "qkv"} | {"bias": torch.randn(2, 9, 9)}

        def loss(model, batch):
            operands = [getattr(model, name) + batch[name] for name in ("q", "k", "v", "bias")]
            return self.weighted(F.scaled_dot_product_attention(*operands[:3], attn_mask=operands[3]))

        plan = pl.plan(lambda: Operands({n: v.shape for n, v in values.items()}), loss, values, micro_batch=1,
                       static=list(values), optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
        self.assertFalse(is_replaced(plan))
        with pl.Trainer(plan) as trainer:
            trainer.load_state_dict({n: torch.zeros_like(v) for n, v in values.items()})
            trainer.step(values)
            got = trainer.state_dict()
        model = Operands({n: v.shape for n, v in values.items()})
        loss(model, values).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(-got[name], parameter.grad, rtol=1e-4, atol=1e-5)

    def test_masks_and_dropout_for_gpus(self):
        values = {name: torch.zeros(1, 2, 64, 16) for name in "qkv"} | {"mask": torch.ones(64, 64, dtype=torch.bool)}
        shapes = {name: values[name].shape for name in "qkv"}

        def plan(device, **options):
            def loss(model, batch):
                given = {name: batch[each] if each == "mask" else each for name, each in options.items()}
                return F.scaled_dot_product_attention(*(getattr(model, n) + batch[n] for n in "qkv"), **given).sum()
            return pl.plan(lambda: Operands(shapes), loss, values, micro_batch=1, static=list(values), device=device)

        # There are kernels for the CPU and for CUDA.
        for device, has_kernels in (("h100-sxm", True), ("mi300x", False)):
            with self.subTest(device=device):
                self.assertTrue(is_replaced(plan(device, is_causal=True)))
                self.assertEqual(is_replaced(plan(device, attn_mask="mask")), has_kernels)
                self.assertEqual(is_replaced(plan(device, is_causal=True, dropout_p=0.1)), has_kernels)
                self.assertEqual(is_replaced(plan(device, attn_mask="mask", dropout_p=0.1)), has_kernels)

    def test_matrices_of_dropout_and_masks_are_not_planned_for_gpus(self):
        """Keeps one of the 64 MiB matrices that a plan of torch's operators holds a layer, as scratch."""
        values = {name: torch.zeros(1, 16, 1024, 16) for name in "qkv"} | {"mask": torch.ones(1, 1, 1, 1024, dtype=torch.bool)}
        shapes = {name: values[name].shape for name in "qkv"}

        def peak(options, **keys):
            def loss(model, batch):
                q, k, v = (getattr(model, name) + batch[name] for name in "qkv")
                given = {name: batch[each] if each == "mask" else each for name, each in options.items()}
                for _ in range(4):
                    q = F.scaled_dot_product_attention(q, k, v, **given)
                return q.sum()
            return pl.plan(lambda: Operands(shapes), loss, values, micro_batch=1, static=list(values), device="h100-sxm",
                           max_slowdown=0, **keys).peak

        for options in ({"attn_mask": "mask"}, {"is_causal": True, "dropout_p": 0.1}):
            self.assertLess(peak(options) + 4 * 2**26, peak(options, replace=OFF), options)

    def test_dropout_has_the_gradient_of_its_result(self):
        torch.manual_seed(9)
        values = {name: torch.randn(1, 2, 6, 3, dtype=torch.float64) for name in "qkv"}
        options = {"dropout_p": 0.4, "is_causal": True}
        got, plan = planned(values, options, True)
        self.assertTrue(is_replaced(plan))

        def value(moved):  # the same seed, and so the same elements
            with pl.Trainer(plan.changed()) as trainer:
                trainer.load_state_dict(moved)
                return trainer.step(values)

        zeros = {name: torch.zeros_like(each) for name, each in values.items()}
        draw = random.Random(1)
        for name in values:
            for _ in range(4):
                index = tuple(draw.randrange(size) for size in values[name].shape)
                ends = []
                for change in (1e-3, -1e-3):
                    moved = {each: tensor.clone() for each, tensor in zeros.items()}
                    moved[name][index] = change
                    ends.append(value(moved))
                self.assertAlmostEqual((ends[0] - ends[1]) / 2e-3, got[name][index].item(), delta=2e-3, msg=f"{name} {index}")

    def test_dropout_has_the_same_bits_at_every_budget(self):
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.ModuleList(nn.Linear(32, 96) for _ in range(6))
                self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(6))

            def forward(self, x):
                for qkv, mlp in zip(self.qkv, self.mlp, strict=True):
                    q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in qkv(x).chunk(3, -1))
                    x = x + F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True).transpose(1, 2).flatten(2)
                    x = x + mlp(x)
                return x

        torch.manual_seed(10)
        batch = {"x": torch.randn(8, 128, 32)}
        weights = Layers().state_dict()

        def losses(plan):
            with pl.Trainer(plan) as trainer:
                trainer.load_state_dict(weights)
                return [trainer.step(batch, lr=1e-2) for _ in range(4)], trainer.state_dict()

        def planned_with(memory, **keys):
            return pl.plan(Layers, lambda m, b: m(b["x"]).square().mean(), batch, memory=memory, **keys)

        free = planned_with(None)
        self.assertIn("6 attentions", dict(free.reasons)["replace: attention"])
        small = planned_with(int(free.minimum * 1.02))
        self.assertLess(small.peak, free.peak)
        (first, state), (second, other) = losses(free), losses(small)
        self.assertEqual(first, second)
        for name, value in state.items():
            self.assertTrue(torch.equal(value, other[name]), name)
        self.assertEqual(len(set(first)), 4)
        self.assertNotEqual(losses(planned_with(None, seed=1))[0], first)

    def test_wrong_options_are_named(self):
        for replace, message in (({"attentions": False}, "allowed: attention"), ("off", "allowed: True, False"),
                                 ({"attention": 0}, "allowed: True, False")):
            with self.assertRaisesRegex(pl.UserError, message):
                pl.plan(lambda: nn.Linear(1, 1), lambda m, b: m(b["x"]).mean(), {"x": torch.zeros(1, 1)}, replace=replace)


if __name__ == "__main__":
    unittest.main()
