#!/usr/bin/env python3
"""Compares Plimsoll with transformers on random pairs of a configuration and weights, each with one key of config.json
changed to another value that transformers accepts. For each pair Plimsoll must compute the loss of transformers (to 1e-5 of
it) or refuse the file with a message that names the key. It writes bench/results/config-pairs.md and
tests/weights/config_pairs.json, from which a test repeats the pairs without transformers.

    python3 bench/config_pairs.py build/plimsoll    with a Python that has torch 2.11.0, transformers, safetensors, numpy

Weights and texts are functions of their names and positions (tests/weights/config_pairs_test.cpp has the same functions).
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS, WINDOWS = 24, 2  # of a step
MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def hashed(name):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def mixed(seed, count):
    """The first `count` numbers in [-1, 1) of the sequence of splitmix64 that begins with `seed`."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1


def weight(name, shape):
    values = mixed(hashed(name), int(np.prod(shape)))
    if name.endswith(("norm.weight", "norm_f.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight", "layernorm.weight")) or (
        len(shape) == 1 and name.endswith(("A_log", ".D"))
    ):
        values = 1 + 0.25 * values
    elif len(shape) == 1:
        values = 0.3 * values
    else:
        # Wide enough for each setting to show in the loss.
        values = values * 3 / np.sqrt(shape[-1])
    return values.astype(np.float32).reshape(shape)


def text(count):
    return bytes((32 + ((mixed(7, count) + 1) * 47.5).astype(np.int64)).tolist())


COMMON = dict(vocab_size=288, bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA = dict(
    COMMON,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LONGROPE = dict(rope_type="longrope", factor=4.0, short_factor=[1.0, 1.5], long_factor=[2.0, 3.0], original_max_position_embeddings=16)

BASES = {
    "llama": dict(LLAMA, model_type="llama", rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=10000.0),
    "llama-llama3": dict(
        LLAMA, model_type="llama", attention_bias=True, mlp_bias=True, rope_parameters=dict(LLAMA3, rope_theta=500.0)
    ),
    "mistral": dict(LLAMA, model_type="mistral", sliding_window=5, head_dim=6, rope_theta=1000.0),
    "qwen2": dict(LLAMA, model_type="qwen2", tie_word_embeddings=True, rope_theta=1e6),
    "qwen2-window": dict(LLAMA, model_type="qwen2", use_sliding_window=True, sliding_window=6, max_window_layers=0),
    "qwen3": dict(LLAMA, model_type="qwen3", head_dim=8, tie_word_embeddings=True),
    "gemma2": dict(
        LLAMA,
        model_type="gemma2",
        head_dim=8,
        sliding_window=4,
        query_pre_attn_scalar=10,
        attn_logit_softcapping=1.5,
        final_logit_softcapping=2.5,
    ),
    "gpt2": dict(COMMON, model_type="gpt2", n_embd=16, n_layer=2, n_head=4, n_positions=40),
    "mamba2": dict(
        COMMON,
        model_type="mamba2",
        hidden_size=16,
        num_hidden_layers=2,
        expand=2,
        num_heads=4,
        head_dim=8,
        n_groups=2,
        state_size=6,
        conv_kernel=3,
        chunk_size=5,
        use_bias=True,
        time_step_limit=[0.05, 1.5],
        layer_norm_epsilon=2e-5,
    ),
}

# Keys and other values that they may have. Every class of transformers also has its own fields, which are added below.
ALL = {
    "vocab_size": [257, 300, 320],
    "hidden_size": [8, 24, 32],
    "intermediate_size": [16, 32, 40],
    "num_hidden_layers": [1, 3],
    "num_attention_heads": [2, 8],
    "num_key_value_heads": [1, 4],
    "max_position_embeddings": [32, 128],
    "tie_word_embeddings": [True, False],
    "initializer_range": [0.5],
    "use_cache": [False],
    "pad_token_id": [0, 3],
    "bos_token_id": [1],
    "eos_token_id": [2, [2, 3]],
    "dtype": ["bfloat16", "float32"],
    "torch_dtype": ["float16"],
    "output_hidden_states": [True],
    "chunk_size_feed_forward": [4],
    "id2label": [{"0": "a", "1": "b", "2": "c"}],
    "problem_type": ["regression"],
    "architectures": [["AModel"]],
    "transformers_version": ["4.40.0"],
    "name_or_path": ["/models/a"],
    "is_encoder_decoder": [False],
    "temperature": [0.5],
    "unsloth_version": ["2026.1"],
    "a_note": ["kept by hand"],
    "logits_scaling": [4.0],
    "residual_multiplier": [0.5],
    "per_layer_config": [{"1": {"attention_dropout": 0.5}}],
}
LLAMA_LIKE = {
    "head_dim": [2, 4, 10, 16],
    "rms_norm_eps": [1e-6, 1e-2, 0.5],
    "attention_dropout": [0.5],
    "rope_theta": [100.0, 5e5],
    "rope_scaling": [
        None,
        dict(LLAMA3),
        dict(LLAMA3, factor=2.0),
        dict(LLAMA3, low_freq_factor=0.5),
        dict(LLAMA3, high_freq_factor=8.0),
        {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"},
        dict(type="linear", factor=2.0),
        dict(type="dynamic", factor=4.0),
        dict(YARN),
        dict(LONGROPE),
    ],
    "rope_parameters": [
        dict(rope_type="default", rope_theta=200.0),
        dict(rope_type="default"),
        dict(LLAMA3, rope_theta=5e5),
        dict(LLAMA3),
        dict(rope_type="linear", factor=3.0, rope_theta=100.0),
        dict(YARN, rope_theta=100.0),
        dict(YARN, attention_factor=1.2, rope_theta=100.0),
    ],
    "partial_rotary_factor": [0.5, 1.0],
    "original_max_position_embeddings": [8],
    "hidden_act": ["gelu", "relu", "swish", "gelu_pytorch_tanh"],
    "sliding_window": [3, None],
    "layer_types": [["full_attention", "sliding_attention"], ["sliding_attention", "full_attention"], ["full_attention"] * 2],
    "attention_bias": [True, False],
}
OF_FAMILY = {
    "llama": dict(LLAMA_LIKE, mlp_bias=[True, False], pretraining_tp=[2], rope_interleaved=[True, False]),
    "mistral": dict(LLAMA_LIKE),
    "qwen2": dict(
        LLAMA_LIKE, use_sliding_window=[True, False], max_window_layers=[0, 1, 2, 28], use_mrope=[True], qkv_bias=[False]
    ),
    "qwen3": dict(LLAMA_LIKE, use_sliding_window=[True, False], max_window_layers=[0, 1, 2]),
    "gemma2": dict(
        LLAMA_LIKE,
        hidden_activation=["gelu", "silu", "gelu_pytorch_tanh"],
        query_pre_attn_scalar=[4, 64],
        attn_logit_softcapping=[None, 0.5, 20.0],
        final_logit_softcapping=[None, 1.0, 30.0],
        use_bidirectional_attention=[True, False],
        sliding_window_size=[4, 9],
        cache_implementation=["hybrid"],
    ),
    "gpt2": dict(
        n_embd=[8, 32],
        n_layer=[1, 3],
        n_head=[2, 8],
        n_positions=[30, 64],
        n_ctx=[12],
        n_inner=[16, 80, None],
        activation_function=["gelu", "gelu_pytorch_tanh", "relu", "silu", "gelu_fast", "quick_gelu"],
        resid_pdrop=[0.5],
        embd_pdrop=[0.5],
        attn_pdrop=[0.5],
        layer_norm_epsilon=[1e-6, 0.1],
        summary_type=["last"],
        summary_use_proj=[False],
        summary_first_dropout=[0.3],
        scale_attn_weights=[False],
        scale_attn_by_inverse_layer_idx=[True],
        reorder_and_upcast_attn=[True],
        add_cross_attention=[True],
    ),
    "mamba2": dict(
        num_heads=[2, 8],
        head_dim=[4, 16],
        state_size=[4, 8],
        expand=[1, 4],
        conv_kernel=[2, 4],
        n_groups=[1, 4],
        use_bias=[False],
        use_conv_bias=[False],
        hidden_act=["swish", "gelu", "relu"],
        layer_norm_epsilon=[1e-6, 0.1],
        residual_in_fp32=[False],
        time_step_rank=[3],
        time_step_min=[0.01],
        time_step_max=[0.5],
        time_step_floor=[0.01],
        time_step_limit=[[0.0, 0.5], [0.5, 1.0]],
        rescale_prenorm_residual=[True],
        chunk_size=[3, 16, 256],
        rms_norm=[True, False],
        norm_before_gate=[True],
    ),
}


def family_of(base):
    return BASES[base]["model_type"]


def changes_of(base):
    """Yields keys and values that differ from what the base says."""
    known = {**ALL, **OF_FAMILY[family_of(base)]}
    for key, values in known.items():
        for value in values:
            if key not in BASES[base] or BASES[base][key] != value:
                yield key, value


def loss_of(config):
    """Returns transformers' loss on the text, and the model's tensors."""
    config_class = hf.CONFIG_MAPPING[config["model_type"]]
    made = config_class.from_dict(json.loads(json.dumps(config)))
    made._attn_implementation = "eager" if config["model_type"] != "mamba2" else None
    model = hf.AutoModelForCausalLM.from_config(made, torch_dtype=torch.float32).eval()
    names = {name: tensor for name, tensor in model.state_dict().items()}
    tied = made.tie_word_embeddings
    tensors = {}
    for name, tensor in names.items():
        if tied and name == "lm_head.weight":
            continue
        tensors[name] = weight(name, tuple(tensor.shape))
    model.load_state_dict({k: torch.from_numpy(v) for k, v in tensors.items()}, strict=False)
    if tied:
        model.tie_weights()
    ids = torch.tensor(list(text(TOKENS * WINDOWS + 1)))
    tokens, targets = ids[:-1].view(WINDOWS, TOKENS), ids[1:].view(WINDOWS, TOKENS)
    with torch.no_grad():
        logits = model(input_ids=tokens, return_dict=True).logits
    if logits.dtype != torch.float32:
        raise ValueError("not in float32")
    return torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), targets.flatten()).item(), tensors


def run(program, config, tensors, folder):
    """Returns Plimsoll's loss or its message."""
    model = folder / "model"
    shutil.rmtree(folder, ignore_errors=True)
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(config))
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    (folder / "text.txt").write_bytes(text(TOKENS * WINDOWS + 1))
    kind = "mamba" if config["model_type"] == "mamba2" else "decoder"
    (folder / "job.yaml").write_text(
        f"memory_budget: 64MiB\nmax_steps: 1\nbatch_size: {WINDOWS}\nthreads: 1\nmax_grad_norm: 0\n"
        f"model: {{type: {kind}, weights: model}}\nlog.metrics_file: metrics.jsonl\n"
        f"data: {{files: [text.txt], sequence_length: {TOKENS}, shuffle: false, validation_fraction: 0}}\n"
        "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\n"
    )
    ended = subprocess.run([program, "train", "job.yaml"], cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        return None, next((x for x in ended.stderr.splitlines() if "config.json" in x or "model" in x), ended.stderr)
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    return next(x["loss"] for x in lines if "loss" in x), ""


def names_key(message, key):
    other = {"rope_parameters": ["rope_parameters.", "rope_type"], "rope_scaling": ["rope_scaling.", "rope_type"]}
    return any(word in message for word in [key, *other.get(key, [])])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=300)
    arguments = parser.parse_args()
    hf.logging.set_verbosity_error()
    program = str(pathlib.Path(arguments.program).resolve())
    drawn = random.Random(arguments.seed)
    all_changes = [(base, key, value) for base in BASES for key, value in changes_of(base)]
    drawn.shuffle(all_changes)
    folder = pathlib.Path(tempfile.mkdtemp()) / "pair"
    pairs, rows, bad, refused_by_both = [], [], [], []
    for base, key, value in all_changes:
        if len(pairs) >= arguments.pairs:
            break
        config = {**BASES[base], key: value}
        try:
            want, tensors = loss_of(config)
        except Exception as error:  # noqa: BLE001: not a value that transformers accepts
            refused_by_both.append((base, key, value, type(error).__name__))
            continue
        got, said = run(program, config, tensors, folder)
        if got is None:
            verdict = "refused" if names_key(said, key) else "REFUSED WITHOUT THE KEY"
        else:
            verdict = "equal" if abs(got - want) <= 1e-5 * want else "DIFFERENT"
        if verdict not in ("equal", "refused"):
            bad.append((base, key, value))
        pairs.append({"base": base, "key": key, "value": value, "loss": want, "refused": got is None})
        shown = said.split("config.json: ")[-1] if got is None else f"{got:.6f}"
        rows.append(f"| {base} | `{key}` | `{json.dumps(value)}` | {want:.6f} | {shown} | {verdict} |")
        print(rows[-1], flush=True)
    equal = sum(not x["refused"] for x in pairs)
    print(f"{len(pairs)} pairs: {equal} equal, {len(pairs) - equal} refused, {len(bad)} bad; transformers refuses {len(refused_by_both)}")
    if bad:
        raise SystemExit("\n".join(map(str, bad)))
    (ROOT / "tests" / "weights" / "config_pairs.json").write_text(
        json.dumps({"transformers": hf.__version__, "bases": BASES, "pairs": []}, indent=None)[:-3]
        + "[\n"
        + ",\n".join(json.dumps(x) for x in pairs)
        + "\n]}\n"
    )
    (ROOT / "bench" / "results" / "config-pairs.md").write_text(
        f"""# Losses of {len(pairs)} configurations with one key changed

`bench/config_pairs.py build/plimsoll --seed {arguments.seed}` draws the pairs. Each is a small model with random weights whose config.json has one key
changed to another value that transformers {hf.__version__} accepts. Loss: that of the first step, in nats a token, in float32.

| pairs | losses are equal to 1e-5 | refused by the name of the key | other |
|---|---|---|---|
| {len(pairs)} | {equal} | {len(pairs) - equal} | {len(bad)} |

| base | key | value | transformers | Plimsoll | |
|---|---|---|---|---|---|
"""
        + "\n".join(rows)
        + "\n"
    )


main()
