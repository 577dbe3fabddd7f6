"""Seconds of a step of a program that keeps other values in host memory than our plan: what it copies, when, and what waits for it.

LLMQ (IST-DASLab/llmq@b77d969) on one device, by its flags (`flags` of a row):

    --offload-opt-m, -v   AdamWStateManager: the update copies a block's moments in and out while its neighbors do the same; those of
                          embedding and head are read and written by the update's kernel in host memory (adamw_optimizer.cpp)
    --shard-weights       WeightsMgrSharded: two blocks' weights on the device. Each micro batch copies all blocks in, forward and
                          backward, but the two that are there, and embedding and head: a block while its neighbor runs. Without
                          it bf16 weights stay on the device, even with --offload-master (llama_weights.cpp)
    --offload-master      these weights are in host memory; the update copies them in and out
    --offload-residual    a block's residuals are copied out, forward, and in, backward, while a neighbor runs (llama_run_state.cpp)
    --shard-gradients     a kernel adds a block's gradients to those of the step (gradients.cpp)
    --offload-gradients   these are in host memory, where the kernel reads and writes them: nothing overlaps it
    --use-zero-copy       the update's kernel reads and writes all its state in host memory

The update runs after the last micro batch and overlaps none.

torchtune's PagedAdamW8bit (bitsandbytes@95f9af3, optim/optimizer.py step, functional.py prefetch_tensor): the driver moves the state of each
parameter to the device before its update, on the stream of the computation, and what it replaces to the host. Its two bytes a parameter
exceed the memory that weights and activations leave, and the order of use repeats, so all of them move each way in each step. Counted is
the least: both directions at once, at the rate of copies.
"""
from dataclasses import dataclass

# Shares of the nominal rate that copies reach one way, and each way while both directions copy: docs/predictions.md. Kernels that read host
# memory reach 0.80 on an A100 (nvbandwidth#42), on an H100 0.56 (nvbandwidth#24), and not more than copies both ways.
SHARES = {3: (0.80, 0.80, 0.56), 4: (0.83, 0.58, 0.58), 5: (0.89, 0.80, 0.56)}


@dataclass(frozen=True)
class Link:
    one_way: float  # bytes a second
    duplex: float  # each way
    kernel: float  # each way, read and written by a kernel

    def copies(self, into, out):
        """Seconds of copies in and out that run at once."""
        both, rest = min(into, out), abs(into - out)
        return both / self.duplex + rest / self.one_way


def link_of(card):
    one_way, duplex, kernel = (share * card["host_link"] for share in SHARES[card["pcie_generation"]])
    return Link(one_way, duplex, kernel)


def elements_of(shape):
    """Parameters of a block, and of embedding and head together."""
    d, inner = shape["hidden_size"], shape["intermediate_size"]
    head_dim = shape.get("head_dim", d // shape["num_heads"])
    qkv = head_dim * (shape["num_heads"] + 2 * shape["num_kv_heads"])
    return d * qkv + d * head_dim * shape["num_heads"] + 3 * d * inner, shape["vocab_size"] * d * (1 if shape["tie_embeddings"] else 2)


def llmq_seconds(row, shape, plan, card):
    flags, link = set(row["flags"].split()), link_of(card)
    block, ends = elements_of(shape)
    layers, value = shape["num_layers"], 2  # bytes: bf16
    micro_batches = plan["choices"]["gradient_accumulation_steps"]
    # Our step without waits for copies. Its update takes as long as LLMQ's on the device.
    computed = plan["step_seconds"] - plan["update_offload_seconds"] - micro_batches * plan["offload_seconds"]
    micro = computed / micro_batches
    recomputed = plan["recompute_seconds"]
    # A forward pass is a third of what is not recomputed; the head's is as the matmuls are, or the same matrix where it is tied.
    head_elements = shape["vocab_size"] * shape["hidden_size"]
    in_blocks = layers * block / (layers * block + head_elements)
    forward, backward = (micro - recomputed) / 3 * in_blocks, recomputed + (micro - recomputed) * 2 / 3 * in_blocks
    streamed = "--shard-weights" in flags and "--offload-master" in flags
    residual = value * row["micro_batch"] * row["length"] * shape["hidden_size"] if "--offload-residual" in flags else 0
    weights = value * block if streamed else 0

    def passed(seconds, into, out):
        each = seconds / layers
        return (layers - 2) * max(each, link.copies(into, out)) + 2 * each

    micro += passed(forward, weights, residual) - forward
    micro += passed(backward, weights + residual, 0) - backward
    if streamed:  # the head arrives while its own matmuls and the last blocks run, the embedding before the next forward pass
        micro += max(0, value * ends / link.one_way - (micro - forward - backward))
    if "--shard-gradients" in flags:
        if "--offload-gradients" in flags:
            micro += layers * value * block / link.kernel
        else:
            micro += layers * 3 * value * block / (0.80 * card["memory_bandwidth"])
    state = value * (("--offload-opt-m" in flags) + ("--offload-opt-v" in flags) + streamed)
    if "--use-zero-copy" in flags:
        update = state * (layers * block + ends) / link.kernel
    else:
        update = state * (layers * block / link.duplex + ends / link.kernel)
    return micro_batches * micro + update


def paged_seconds(row, shape, plan, card):
    block, ends = elements_of(shape)
    micro_batches = plan["choices"]["gradient_accumulation_steps"]
    computed = plan["step_seconds"] - plan["update_offload_seconds"] - micro_batches * plan["offload_seconds"]
    return computed + 2 * (shape["num_layers"] * block + ends) / link_of(card).duplex
