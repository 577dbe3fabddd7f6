"""Attention that is written with matmul and softmax is recorded as plimsoll::attention: models of transformers and a block of
nanoGPT train as eager, and store no attention matrix."""
import importlib.util
import unittest

import torch
import torch.nn.functional as F
from test_attention import OFF, is_replaced
from torch import nn

import plimsoll as pl


class Block(nn.Module):
    """Attention as nanoGPT writes it."""

    def __init__(self, width=32, heads=4, tokens=128, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(tokens, tokens)).view(1, 1, tokens, tokens))

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (each.view(batch, tokens, self.heads, -1).transpose(1, 2) for each in self.qkv(x).split(width, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        scores = scores.masked_fill(self.bias[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = self.dropout(F.softmax(scores, dim=-1)) @ v
        return x + self.out(y.transpose(1, 2).contiguous().view(batch, tokens, width))


SIZES = {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
FEWER = {"num_key_value_heads": 2, "head_dim": 8}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 256, "n_embd": 32, "n_layer": 2, "n_head": 4, "attn_pdrop": 0.0,
                                               "embd_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZES | FEWER),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", SIZES | FEWER | {"sliding_window": 16}),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", SIZES | FEWER | {"num_local_experts": 4, "num_experts_per_tok": 2,
                                                                      "sliding_window": 16}),
    "bert": ("BertForMaskedLM", "BertConfig", SIZES | {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}),
}


def eager_model(name, **options):
    """Returns a model function of transformers with eager attention."""
    import transformers

    model, config, sizes = MODELS[name]
    settings = getattr(transformers, config)(**sizes, attn_implementation="eager", **options)
    return lambda: getattr(transformers, model)(settings)


def batch_with_padding(tokens, samples=2):
    ids = torch.arange(samples * tokens).mul(7).remainder(250).view(samples, tokens)
    seen = torch.ones_like(ids)
    seen[-1, tokens - tokens // 3:] = 0
    return {"input_ids": ids, "labels": ids.masked_fill(seen == 0, -100), "attention_mask": seen}


class WrittenAttentionTest(unittest.TestCase):
    def assert_trains_as_eager(self, make, loss, batch, attentions, **keys):
        """Compares a step with eager PyTorch."""
        plan = pl.plan(make, loss, batch, micro_batch=len(next(iter(batch.values()))),
                       optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0), **keys)
        self.assertIn(f"{attentions} attention", dict(plan.reasons)["replace: attention"])
        model = make()
        with pl.Trainer(plan) as trainer:
            trainer.load_state_dict(model.state_dict())
            got = trainer.step(batch)
            after = trainer.state_dict()
        value = loss(model, batch)
        value.backward()
        self.assertAlmostEqual(got, value.item(), delta=1e-5)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(after[name], (parameter - parameter.grad).detach(), rtol=1e-4, atol=1e-5, msg=name)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_models_of_transformers_train_as_eager(self):
        for name in MODELS:
            with self.subTest(name):
                torch.manual_seed(1)
                self.assert_trains_as_eager(eager_model(name), lambda m, b: m(**b).loss, batch_with_padding(70), 2)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_models_of_transformers_store_no_matrix(self):
        batch = batch_with_padding(512, 1)
        for name in MODELS:
            for precision in ("32-true", "bf16-mixed"):
                with self.subTest(name, precision=precision):
                    on, off = (pl.plan(eager_model(name), lambda m, b: m(**b).loss, batch, micro_batch=1, precision=precision,
                                       replace=replace) for replace in (True, OFF))
                    matrix = 4 * 512 * 512 * 4
                    self.assertLess(on.peak, off.peak - 2 * matrix)
                    self.assertLess(on.minimum, off.minimum - 2 * matrix)
                    self.assertFalse(is_replaced(off))

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_probabilities_that_are_read_are_those_of_the_attention(self):
        def loss(model, batch):
            out = model(**batch, output_attentions=True)
            return out.loss + out.attentions[0].square().sum()

        plan = pl.plan(eager_model("bert"), loss, batch_with_padding(70), micro_batch=2)
        self.assertIn("1 attention ", dict(plan.reasons)["replace: attention"])

    def test_a_block_of_nanogpt(self):
        torch.manual_seed(2)
        self.assert_trains_as_eager(Block, lambda m, b: m(b["x"]).square().mean() * 10, {"x": torch.randn(2, 128, 32)}, 1)

    def test_dropout_has_the_gradient_of_its_result(self):
        torch.manual_seed(3)
        batch = {"x": torch.randn(2, 16, 32)}
        plan = pl.plan(lambda: Block(dropout=0.3), lambda m, b: m(b["x"]).square().mean(), batch, micro_batch=2,
                       optimizer=pl.SGD(1.0, momentum=0.0, weight_decay=0.0))
        self.assertTrue(is_replaced(plan))
        weights = Block().state_dict()

        def step(moved):
            with pl.Trainer(plan.changed()) as trainer:  # the same seed, and so the same elements
                trainer.load_state_dict(moved)
                return trainer.step(batch), trainer.state_dict()["qkv.weight"]

        gradient = weights["qkv.weight"] - step(weights)[1]
        direction = gradient / gradient.norm()
        ends = [step(weights | {"qkv.weight": weights["qkv.weight"] + change * direction})[0] for change in (0.05, -0.05)]
        self.assertAlmostEqual((ends[0] - ends[1]) / 0.1, gradient.norm().item(), delta=0.02 * gradient.norm().item())


if __name__ == "__main__":
    unittest.main()
