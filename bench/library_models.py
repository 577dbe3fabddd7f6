"""Models of transformers, timm and diffusers, unchanged, with their losses and batches, for models_beside_pytorch.py.

Each case names its imports, its batch, its precision, and the targets for Plimsoll: the largest ratios of resident memory to
eager PyTorch and to torch.compile, and of step time to torch.compile. With `quick` a case has fewer and narrower layers."""
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Case:
    title: str
    build: Callable  # of quick, to functions: the model; model and batch to the loss; number of a step to its batch
    targets: tuple
    precision: str = "32-true"
    random: bool = False  # dropout: losses are those of other random numbers than eager's


def _generator(step):
    import torch

    return torch.Generator().manual_seed(step)


def _tokens(samples, length, words):
    def batch(step):
        import torch

        ids = torch.randint(0, words, (samples, length), generator=_generator(step))
        return {"input_ids": ids, "labels": ids}

    return batch


def _of_transformers(model, config, sizes, batch, **forward):
    import transformers

    settings, module = getattr(transformers, config)(**sizes), getattr(transformers, model)
    return (lambda: module(settings)), (lambda m, b: m(**b, **forward).loss), batch


def _gpt2(quick, **dropout):
    sizes = {"n_layer": 2, "n_embd": 192, "n_head": 3, "vocab_size": 5000} if quick else {}
    batch = _tokens(1, 128 if quick else 1024, sizes.get("vocab_size", 50257))
    return _of_transformers("GPT2LMHeadModel", "GPT2Config", sizes | dropout, batch, use_cache=False)


def gpt2(quick):
    return _gpt2(quick, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)


def llama(quick):
    sizes = {"vocab_size": 5000 if quick else 49152, "hidden_size": 320, "intermediate_size": 1280,
             "num_hidden_layers": 2 if quick else 30, "num_attention_heads": 5, "num_key_value_heads": 1,
             "max_position_embeddings": 2048, "tie_word_embeddings": True}
    batch = _tokens(2, 128 if quick else 1024, sizes["vocab_size"])
    return _of_transformers("LlamaForCausalLM", "LlamaConfig", sizes, batch, use_cache=False)


def _bert(quick, **dropout):
    sizes = {"num_hidden_layers": 2, "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768} if quick else {}
    return _of_transformers("BertForMaskedLM", "BertConfig", sizes | dropout, _tokens(8, 32 if quick else 128, 30522))


def bert(quick):
    return _bert(quick, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def _of_timm(name, quick, **small):
    import timm
    import torch
    import torch.nn.functional as F

    size = 64 if quick else 224
    sizes = small if quick else {}

    def batch(step):
        g = _generator(step)
        return {"x": torch.randn(8, 3, size, size, generator=g), "y": torch.randint(0, 1000, (8,), generator=g)}

    return (lambda: timm.create_model(name, **sizes)), (lambda m, b: F.cross_entropy(m(b["x"]), b["y"])), batch


def unet(quick):
    import diffusers
    import torch
    import torch.nn.functional as F

    module, size = diffusers.UNet2DConditionModel, 16 if quick else 64
    sizes = {"sample_size": size, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 256, "attention_head_dim": 8,
             "block_out_channels": (64, 128, 256, 256), "layers_per_block": 1 if quick else 2}

    def batch(step):
        g = _generator(step)
        return {"x": torch.randn(2, 4, size, size, generator=g), "t": torch.randint(0, 1000, (2,), generator=g),
                "c": torch.randn(2, 77, 256, generator=g), "noise": torch.randn(2, 4, size, size, generator=g)}

    return (lambda: module(**sizes)), (lambda m, b: F.mse_loss(m(b["x"], b["t"], b["c"]).sample, b["noise"])), batch


DECODER, SMALL_DECODER, ENCODER, PICTURES, NET = (
    (0.6, 0.8, 0.9), (0.5, 0.7, 0.9), (0.7, 0.9, 1.0), (0.8, 1.0, 1.05), (0.7, 0.9, 1.05))
CASES = {
    "gpt2": Case("GPT-2 124 M (transformers), 1 x 1024", gpt2, DECODER),
    "gpt2-bf16": Case("GPT-2 124 M, 1 x 1024", gpt2, DECODER, "bf16-mixed"),
    "gpt2-dropout": Case("GPT-2 124 M, dropout as configured (0.1), 1 x 1024", _gpt2, DECODER, random=True),
    "gpt2-dropout-bf16": Case("GPT-2 124 M, dropout as configured (0.1), 1 x 1024", _gpt2, DECODER, "bf16-mixed", random=True),
    "llama": Case("Llama 60 M (transformers; 30 layers of 320), 2 x 1024", llama, SMALL_DECODER),
    "llama-bf16": Case("Llama 60 M, 2 x 1024", llama, SMALL_DECODER, "bf16-mixed"),
    "bert": Case("BERT base (transformers), 8 x 128", bert, ENCODER),
    "bert-dropout": Case("BERT base, dropout as configured (0.1), 8 x 128", _bert, ENCODER, random=True),
    "vit": Case("ViT-B/16 (timm), 8 pictures of 224 x 224",
                lambda quick: _of_timm("vit_base_patch16_224", quick, img_size=64, depth=2), ENCODER),
    "resnet50": Case("ResNet-50 (timm), 8 pictures of 224 x 224", lambda quick: _of_timm("resnet50", quick), PICTURES),
    "unet": Case("U-Net (diffusers; widths 64 to 256), 2 latents of 64 x 64", unet, NET),
}
