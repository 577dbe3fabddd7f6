#!/usr/bin/env python3
"""Makes tests/weights/families: a small random checkpoint of every family of models that Plimsoll reads, as transformers
writes it, and what transformers computes from it. The tests read these files; only making them anew takes transformers:

    python3 -m venv .venv-families && .venv-families/bin/pip install --only-binary=:all: torch==2.11.0 numpy transformers==5.23.0
    .venv-families/bin/python scripts/make-weights-fixtures.py

The same versions give the same bytes.
"""

import json
import pathlib
import shutil

import torch
import transformers as hf

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "weights" / "families"
VOCAB, HIDDEN, TOKENS, WINDOWS = 64, 16, 12, 2

COMMON = dict(
    vocab_size=VOCAB,
    hidden_size=HIDDEN,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

# name: (configuration, model, how it is saved). Every number that a family knows is unlike its default.
FAMILIES = {
    "llama": (
        hf.LlamaConfig(**COMMON, tie_word_embeddings=True, rms_norm_eps=2e-5),
        hf.LlamaForCausalLM,
        {},
    ),
    "llama3": (
        hf.LlamaConfig(
            **COMMON, tie_word_embeddings=False, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3_ROPE
        ),
        hf.LlamaForCausalLM,
        {"max_shard_size": "6KB"},
    ),
    "mistral": (
        hf.MistralConfig(**COMMON, sliding_window=5, head_dim=6),
        hf.MistralForCausalLM,
        {},
    ),
    "gemma2": (
        hf.Gemma2Config(
            **COMMON,
            head_dim=8,
            sliding_window=4,
            query_pre_attn_scalar=10,
            attn_logit_softcapping=1.5,
            final_logit_softcapping=2.5,
        ),
        hf.Gemma2ForCausalLM,
        {},
    ),
    "qwen2": (
        hf.Qwen2Config(**COMMON, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
        hf.Qwen2ForCausalLM,
        {},
    ),
    "qwen3": (
        hf.Qwen3Config(**COMMON, head_dim=8, tie_word_embeddings=True),
        hf.Qwen3ForCausalLM,
        {},
    ),
    "gpt2": (
        hf.GPT2Config(
            vocab_size=VOCAB,
            n_embd=HIDDEN,
            n_layer=2,
            n_head=4,
            n_positions=20,
            bos_token_id=None,
            eos_token_id=None,
        ),
        hf.GPT2LMHeadModel,
        {},
    ),
    "mamba2": (
        hf.Mamba2Config(
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            expand=2,
            num_heads=4,
            head_dim=8,
            n_groups=2,
            state_size=6,
            conv_kernel=3,
            chunk_size=5,
            use_bias=True,
            time_step_limit=(0.05, float("inf")),
            layer_norm_epsilon=2e-5,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        ),
        hf.Mamba2ForCausalLM,
        {},
    ),
}

ENCODER = dict(
    hidden_size=HIDDEN,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    patch_size=4,
)
TEXT = dict(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    vocab_size=8,
    max_position_embeddings=4,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)

# name: (configuration, model, its encoder, how it is saved, mean and deviation of its image processor).
ENCODERS = {
    "vit": (
        hf.ViTConfig(**ENCODER, image_size=16),
        hf.ViTForImageClassification,
        lambda model: model.vit,
        {},
        ([0.5, 0.4, 0.3], [0.2, 0.25, 0.5]),
    ),
    "clip": (
        hf.CLIPConfig(vision_config=dict(**ENCODER, image_size=16), text_config=TEXT, projection_dim=8),
        hf.CLIPModel,
        lambda model: model.vision_model,
        {"max_shard_size": "12KB"},
        None,
    ),
    "siglip": (
        # Two pixels a side fill no patch.
        hf.SiglipConfig(vision_config=dict(**ENCODER, image_size=18), text_config=TEXT),
        hf.SiglipModel,
        lambda model: model.vision_model,
        {},
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    ),
}
CLIP_COLORS = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])


def randomized(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Norms and biases too, which start as ones and zeros: a tensor in the wrong place must show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            base = 1.0 if "norm" in name or "layrnorm" in name or ".ln_" in name else 0.0
            if type(model).__name__.startswith("Gemma") or name.endswith("bias"):
                base = 0.0
            parameter.copy_(base + (0.2 if parameter.dim() == 1 else 0.35) * noise)
    return model


def make_encoders() -> None:
    """What an encoder makes of two pictures of whole numbers from 0 to 255: its last hidden state, all tokens."""
    for seed, (name, (config, kind, encoder_of, saving, colors)) in enumerate(ENCODERS.items()):
        config._attn_implementation = "eager"
        model = randomized(kind(config).float().eval(), 100 + seed)
        folder = OUT / name
        model.save_pretrained(folder, **saving)
        encoder = encoder_of(model)
        size = encoder.config.image_size
        generator = torch.Generator().manual_seed(1100 + seed)
        pictures = torch.randint(256, (2, 3, size, size), generator=generator)
        mean, std = (torch.tensor(each, dtype=torch.float64).view(3, 1, 1) for each in colors or CLIP_COLORS)
        if colors:
            processor = {"do_normalize": True, "do_rescale": True, "image_mean": colors[0], "image_std": colors[1]}
            processor |= {"image_processor_type": name, "rescale_factor": 1 / 255, "size": {"height": size, "width": size}}
            (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n")
        pixels = (pictures.double() / 255 - mean) / std
        with torch.no_grad():
            single = encoder(pixels.float()).last_hidden_state
            exact = encoder.double()(pixels).last_hidden_state
        expected = {
            "made_by": f"transformers {hf.__version__}, torch {torch.__version__.split('+')[0]}",
            "pictures": pictures.reshape(-1).tolist(),
            "tokens": exact.shape[1],
            "float32_error": float((single.double() - exact).abs().max() / exact.abs().max()),
            "hidden": [round(value, 9) for value in exact.reshape(-1).tolist()],
        }
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(name, list(exact.shape), expected["float32_error"])


def main() -> None:
    torch.set_num_threads(1)
    shutil.rmtree(OUT, ignore_errors=True)
    make_encoders()
    for seed, (name, (config, kind, saving)) in enumerate(FAMILIES.items()):
        config._attn_implementation = "eager"  # the only one that caps scores
        model = randomized(kind(config).float().eval(), seed)
        folder = OUT / name
        model.save_pretrained(folder, **saving)
        (folder / "generation_config.json").unlink(missing_ok=True)
        generator = torch.Generator().manual_seed(1000 + seed)
        tokens = torch.randint(VOCAB, (WINDOWS, TOKENS + 1), generator=generator)
        with torch.no_grad():
            logits = model(tokens[:, :-1]).logits
            exact = model.double()(tokens[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(
            exact.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1), reduction="none"
        )
        expected = {
            "made_by": f"transformers {hf.__version__}, torch {torch.__version__.split('+')[0]}",
            "parameters": sum(p.numel() for p in model.parameters()),
            "tokens": tokens.tolist(),
            "losses": losses.tolist(),
            "float32_error": float((logits.double() - exact).abs().max() / exact.abs().max()),
            "logits": [round(value, 9) for value in exact.reshape(-1).tolist()],
        }
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(name, expected["parameters"], expected["float32_error"], losses.mean().item())


if __name__ == "__main__":
    main()
