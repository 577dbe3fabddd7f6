"""Seconds of a step of an eager PyTorch program, from those of ours: kernels that it runs and our step does not.

Each table counts the kernels of one model family between its matmuls, kernel by kernel, from the program's source at the date of the
figure: bytes read and written, and kernels, forward and backward. `of` says how many elements an entry has:

    hidden, inner, qkv, vocab   these many for each token; all but vocab in each layer, hidden_once once
    weight                      each parameter, once for each micro batch
    shard                       each parameter of a device's shard, once for each step

A kernel takes a launch and its bytes at 0.80 of the memory's bandwidth, as in docs/predictions.md. Our own step's kernels are counted in
the same way, from the trace of `compile=false`, and taken off. No number here was chosen by a published speed.
"""
import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass

REACH = 0.80  # of the data sheet's bandwidth: docs/predictions.md


@dataclass(frozen=True)
class Kernels:
    what: str
    of: str
    forward: float  # bytes an element
    backward: float
    forward_kernels: int
    backward_kernels: int
    source: str


_FOUNDRY = "mosaicml/llm-foundry@b2a43a1 "
_MPT = _FOUNDRY + "llmfoundry/models/"
_FSDP = "torch 2.1, torch/distributed/fsdp/"
# bf16 values throughout: FSDP casts parameters (fsdp_config.mixed_precision DEFAULT), so no autocast copies are made. resid_pdrop is 0.
MPT = (
    Kernels("embedding", "hidden_once", 4 + 6, 8, 3, 2, _MPT + "mpt/modeling_mpt.py: tokens and learned positions"),
    Kernels("two LayerNorms", "hidden", 2 * 4, 2 * 10, 2, 4, _MPT + "layers/norm.py LPLayerNorm: F.layer_norm in bf16; backward: inputs, then weights"),
    Kernels("two residual additions", "hidden", 2 * 6, 2 * 6, 2, 2, _MPT + "layers/blocks.py MPTBlock.forward; backward: the sum of both gradients"),
    Kernels("gradients of biases of qkv, out, up and down", "hidden", 0, 2 * (3 + 1 + 4 + 1), 0, 4, _MPT + "layers/attention.py, ffn.py: linears have biases (no_bias False)"),
    Kernels("gradients of q, k and v side by side", "hidden", 0, 3 * 4, 0, 1, _MPT + "layers/attention.py: Wqkv's chunk"),
    Kernels("sums and a cast in attention's backward", "hidden", 0, 4 + 6, 0, 2, _MPT + "layers/flash_attn_triton.py: _bwd_preprocess_do_o_dot, dq.copy_(dq_accum)"),
    Kernels("GELU", "inner", 4, 6, 1, 1, _MPT + "layers/ffn.py: F.gelu, approximate none"),
    Kernels("fused cross entropy", "vocab", 2, 4, 1, 1, _MPT + "mpt/modeling_mpt.py: FusedCrossEntropyLoss (xentropy)"),
    Kernels("metrics of each micro batch: cross entropy and perplexity", "vocab", 2 * (6 + 8), 0, 4, 0,
            _MPT + "mpt/modeling_mpt.py: train_metrics; mosaicml/composer, trainer.py _eval_train_metrics, metrics/nlp.py: CrossEntropyLoss under autocast: a cast to float32, log_softmax"),
    Kernels("casts of shards, twice, gradients in one buffer, their cast to float32 and division", "weight", 2 * 6 / 8, 4 + 6 + 8, 0, 0,
            _FSDP + "flat_param.py, _runtime_utils.py _reduce_grad, on 8 devices"),
    Kernels("optimizer and clipping", "shard", 0, 80 + 4 + 8, 0, 0, "mosaicml/composer, optim/decoupled_weight_decay.py adamw: eight kernels; a norm and a product of clipping"),
)
# Flash attention in Triton (attn_impl triton) instead of ours: TFLOP/s in bf16 or fp16 on an A100 by tokens, forward and backward, causal.
# triton-lang/triton#1917, "before"; of 312 these are the 0.37 and 0.25 that python/test/regression/test_performance.py expects of an A100.
TRITON = {1024: (84.3, 48.7), 2048: (102.1, 62.1), 4096: (112.9, 71.7), 8192: (119.1, 77.5)}
# Those of our model on an A100: 0.90 of 266.5 TFLOP/s, 0.68 of it backward. The ratio is taken to hold for an H100, since neither kernel
# uses Hopper's instructions.
OURS = (0.90 * 266.5, 0.68 * 0.90 * 266.5)

_QWEN = "modeling_qwen.py of Qwen-7B (zhangningboo/Qwen-7B@1ff2086) "
_PEFT = "huggingface/peft@3d9ceb5 src/peft/tuners/lora.py Linear.forward, LoRA in float32 "
# bf16 under autocast; weights are frozen. csrc/layer_norm of flash-attn is optional (README.md of QwenLM/Qwen) and taken as not installed.
QWEN_LORA = (
    Kernels("embedding", "hidden_once", 4, 0, 1, 0, _QWEN + "QWenModel"),
    Kernels("two RMSNorms", "hidden", 2 * (6 + 8 + 4 + 8 + 6 + 4), 2 * (4 + 6 + 8 + 16 + 4 + 28 + 12 + 6), 2 * 8, 2 * 14,
            _QWEN + "RMSNorm: float, pow, mean, product, cast, weight; backward of each"),
    Kernels("rotary positions of q and k", "hidden", 2 * (6 + 8 + 6), 2 * (6 + 8 + 6), 6, 6, _QWEN + "apply_rotary_pos_emb: float, flash-attn's kernel, cast"),
    Kernels("gradients of q, k and v side by side", "hidden", 0, 3 * 4, 0, 1, _QWEN + "QWenAttention: split"),
    Kernels("SiLU and product", "inner", 4 + 6, 12 + 6, 2, 3, _QWEN + "QWenMLP"),
    Kernels("two residual additions, and the sum of w1's and w2's gradients", "hidden", 2 * 6, 3 * 6, 2, 3, _QWEN + "QWenBlock"),
    Kernels("LoRA, inputs of c_attn, c_proj, w1, w2: float, dropout, cast", "hidden", 4 * 21, 4 * 27, 4 * 3, 4 * 4, _PEFT + "(backward also adds to the layer's gradient)"),
    Kernels("LoRA, the input of the second c_proj", "inner", 21, 27, 3, 4, _PEFT),
    Kernels("LoRA, results of both c_proj: scaling, sum", "hidden", 2 * 10, 2 * 4, 4, 2, _PEFT),
    Kernels("LoRA, the result of c_attn", "qkv", 10, 4, 2, 1, _PEFT),
    Kernels("LoRA, results of w1 and w2", "inner", 2 * 10, 2 * 4, 4, 2, _PEFT),
    # One sample's logits without the last token are contiguous: no copy.
    Kernels("cross entropy: float32, log_softmax", "vocab", 6 + 8, 4 + 12 + 6 + 6, 3, 5, _QWEN + "QWenLMHeadModel: CrossEntropyLoss under autocast"),
)
FAMILIES = {"llm-foundry": MPT, "qwen": QWEN_LORA}


def family_of(row):
    return next((tables for source, tables in FAMILIES.items() if row["id"].startswith(source)), None)


def attention_factors(row):
    """How much longer the program's attention takes than ours, forward and backward."""
    if row["id"].startswith("llm-foundry"):
        forward, backward = TRITON[row["length"]]
        return OURS[0] / forward, OURS[1] / backward
    return 1, 0.68 / 0.85  # FlashAttention-2, whose sums in the backward pass have no fixed order: docs/predictions.md


def parameters_of(shape):
    d, inner, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_layers"]
    return shape["vocab_size"] * d + layers * (4 * d * d + 2 * d * inner)


def seconds_of_table(row, shape, bandwidth, launch):
    """Seconds of the program's kernels between matmuls, in a micro batch, and in a step beside its micro batches."""
    tokens, layers = row["micro_batch"] * row["length"], shape["num_layers"]
    d = shape["hidden_size"]
    elements = {"hidden": d * layers, "hidden_once": d, "inner": shape["intermediate_size"] * layers, "qkv": 3 * d * layers, "vocab": shape["vocab_size"]}
    in_layers = ("hidden", "inner", "qkv")
    micro = step = 0
    for each in family_of(row):
        # Block checkpointing repeats the forward kernels of layers.
        forwards = 2 if row["checkpointing"] == "on" and each.of in in_layers else 1
        moved = forwards * each.forward + each.backward
        kernels = (forwards * each.forward_kernels + each.backward_kernels) * (layers if each.of in in_layers else 1)
        if each.of == "shard":
            step += moved * parameters_of(shape) / row["devices"] / bandwidth
        elif each.of == "weight":
            micro += moved * parameters_of(shape) / bandwidth
        else:
            micro += moved * elements[each.of] * tokens / bandwidth + kernels * launch
    return micro, step


def is_matmul(name):
    return "mm" in name or "matmul" in name


class OurKernels:
    """Our step's ops without compilation and recomputation, in a micro batch, from `plimsoll trace`."""

    def __init__(self, row, job, plimsoll):
        with tempfile.TemporaryDirectory() as folder:
            path, answer = os.path.join(folder, "job.yaml"), os.path.join(folder, "trace.json")
            pathlib.Path(path).write_text(json.dumps(job))
            command = [plimsoll, "trace", path, "compile=false", "gradient_checkpointing=false", "memory_budget=64TiB", "host_memory_budget=0", "--json", answer]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            trace = json.loads(pathlib.Path(answer).read_text())
            hot = [*command[:-2], "--hot", "1000", "--gpu", row["gpu"], "--measure", "0", "--json", answer]
            subprocess.run(hot, check=True, stdout=subprocess.DEVNULL)
            times = json.loads(pathlib.Path(answer).read_text())["ops"]
        segments = {each["name"]: each for each in trace["segments"]}
        micro = segments.get("accumulate", segments["micro"])
        self.bytes, self.kernels = [0, 0], [0, 0]  # forward, backward
        attention, part = [0, 0], 0
        for op in trace["ops"][micro["begin"]:micro["end"]]:
            if "cross_entropy" in op["name"]:  # its matmuls aside, it reads and writes the logits
                part = 1
                self.bytes[1] += op["staged_bytes"]
            elif "attention" in op["name"]:
                attention["backward" in op["name"]] += 1
            elif not is_matmul(op["name"]):
                self.bytes[part] += op["bytes_moved"]
                self.kernels[part] += 1
        self.update_bytes = sum(op["bytes_moved"] for op in trace["ops"][segments["update"]["begin"]:segments["update"]["end"]])
        seconds, runs = [0.0, 0.0], [0, 0]
        for each in times:
            if "plimsoll::attention" in each["name"]:
                backward = "backward" in each["name"]
                seconds[backward] += each["seconds"]
                runs[backward] += each["runs"]
        self.attention = [attention[i] * seconds[i] / runs[i] for i in (0, 1)]

    def seconds(self, checkpointing, bandwidth, launch):
        forwards = 2 if checkpointing == "on" else 1
        return (forwards * self.bytes[0] + self.bytes[1]) / bandwidth + (forwards * self.kernels[0] + self.kernels[1]) * launch


def card_of(gpu, plimsoll):
    answer = subprocess.run([plimsoll, "gpus", gpu, "--json", "-"], check=True, capture_output=True, text=True).stdout
    return json.loads(answer)["gpus"][0]


def program_seconds(row, shape, job, plan, plimsoll):
    """Seconds of the eager program's step. `plan` is ours for the row with compile=false."""
    card = card_of(row["gpu"], plimsoll)
    bandwidth, launch = REACH * card["memory_bandwidth"], card["launch_seconds"]
    ours = OurKernels(row, job, plimsoll)
    micro_batches = plan["choices"]["gradient_accumulation_steps"]
    micro, step = seconds_of_table(row, shape, bandwidth, launch)
    micro -= ours.seconds(row["checkpointing"], bandwidth, launch)
    if row["setting"] != "lora":  # the update of adapters is small
        step -= ours.update_bytes / row["devices"] / bandwidth
    passes = 2 if row["checkpointing"] == "on" else 1
    for factor, seconds, times in zip(attention_factors(row), ours.attention, (passes, 1)):
        micro += (factor - 1) * seconds * times
    if row["checkpointing"] == "off":  # what our step recomputes to fit, the program does not
        micro -= plan["recompute_seconds"] + plan["offload_seconds"]
    return plan["step_seconds"] + micro_batches * micro + step
