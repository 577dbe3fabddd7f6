"""Models of transformers, torchvision, timm, diffusers and torch in small sizes, each with its loss and a batch.

ARCHITECTURES: by name, a function that returns (model function, loss function, batch)."""
import torch
import torch.nn.functional as F
from torch import nn

ARCHITECTURES = {}


def architecture(make):
    ARCHITECTURES[make.__name__] = make
    return make


def draws(seed=1):
    return torch.Generator().manual_seed(seed)


def tokens(samples=2, length=32, words=200):
    return torch.arange(samples * length).mul(7).remainder(words).view(samples, length)


def pictures(samples=2, size=64):
    return torch.randn(samples, 3, size, size, generator=draws())


def of_transformers(model, config, sizes, batch, **forward):
    import transformers

    settings = getattr(transformers, config)(**sizes)
    return (lambda: getattr(transformers, model)(settings)), (lambda m, b: m(**b, **forward).loss), batch


DECODER = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
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


NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


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


@architecture
def whisper():
    sizes = {"vocab_size": 256, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 16,
             "max_source_positions": 50, "max_target_positions": 64, "dropout": 0, "attention_dropout": 0,
             "activation_dropout": 0, "decoder_start_token_id": 1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
             "encoder_layerdrop": 0, "decoder_layerdrop": 0}
    batch = {"input_features": torch.randn(2, 16, 100, generator=draws()), "labels": tokens(2, 20)}
    return of_transformers("WhisperForConditionalGeneration", "WhisperConfig", sizes, batch, use_cache=False)


@architecture
def vit():
    sizes = NO_DROPOUT | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
                          "image_size": 32, "patch_size": 8}
    batch = {"pixel_values": pictures(2, 32), "labels": torch.tensor([0, 1])}
    return of_transformers("ViTForImageClassification", "ViTConfig", sizes, batch)


@architecture
def swin():
    sizes = {"image_size": 64, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
             "drop_path_rate": 0.0}
    batch = {"pixel_values": pictures(), "labels": torch.tensor([0, 1])}
    return of_transformers("SwinForImageClassification", "SwinConfig", sizes, batch)


@architecture
def convnext():
    sizes = {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1], "image_size": 64}
    batch = {"pixel_values": pictures(), "labels": torch.tensor([0, 1])}
    return of_transformers("ConvNextForImageClassification", "ConvNextConfig", sizes, batch)


@architecture
def wav2vec2():
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
             "conv_dim": [32, 32], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 16,
             "num_conv_pos_embedding_groups": 4, "hidden_dropout": 0, "activation_dropout": 0, "attention_dropout": 0,
             "feat_proj_dropout": 0, "layerdrop": 0, "mask_time_prob": 0}
    batch = {"input_values": torch.randn(2, 1600, generator=draws()), "labels": torch.tensor([0, 1])}
    return of_transformers("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", sizes, batch)


@architecture
def clip():
    text = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 32, "eos_token_id": 2}
    vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
              "image_size": 32, "patch_size": 8}
    batch = {"input_ids": tokens(3, 16), "pixel_values": pictures(3, 32)}
    sizes = {"text_config": text, "vision_config": vision, "projection_dim": 32}
    return of_transformers("CLIPModel", "CLIPConfig", sizes, batch, return_loss=True)


@architecture
def sam_encoder():
    import transformers

    config = transformers.SamVisionConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=64, patch_size=8, mlp_dim=64,
        output_channels=16, global_attn_indexes=[1], window_size=4)
    return (lambda: transformers.SamVisionModel(config)), (
        lambda m, b: m(pixel_values=b["x"]).last_hidden_state.square().mean()), {"x": pictures(1)}


def classified(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def squared(model, batch):
    return model(batch["x"]).square().mean()


def of_torchvision(name, **sizes):
    import torchvision

    return (lambda: getattr(torchvision.models, name)(num_classes=10, **sizes)), classified, {
        "x": pictures(), "y": torch.tensor([1, 2])}


ARCHITECTURES["resnet18"] = lambda: of_torchvision("resnet18")
ARCHITECTURES["mobilenet_v3"] = lambda: of_torchvision("mobilenet_v3_small", dropout=0.0)


def of_timm(name, **sizes):
    import timm

    batch = {"x": pictures(2, sizes.get("img_size", 64)), "y": torch.tensor([1, 2])}
    return (lambda: timm.create_model(name, num_classes=10, **sizes)), classified, batch


ARCHITECTURES["timm_vit"] = lambda: of_timm("vit_tiny_patch16_224", img_size=64, depth=2)
ARCHITECTURES["timm_convnextv2"] = lambda: of_timm("convnextv2_atto")
ARCHITECTURES["timm_eva02"] = lambda: of_timm("eva02_tiny_patch14_224", img_size=56, depth=2)


@architecture
def unet():
    import diffusers

    def make():
        return diffusers.UNet2DConditionModel(
            sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=32, attention_head_dim=8, norm_num_groups=8)

    g = draws()
    batch = {"x": torch.randn(2, 4, 16, 16, generator=g), "t": torch.tensor([3, 7]), "c": torch.randn(2, 5, 32, generator=g),
             "noise": torch.randn(2, 4, 16, 16, generator=g)}
    return make, (lambda m, b: F.mse_loss(m(b["x"], b["t"], b["c"]).sample, b["noise"])), batch


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x, edges):
        h = F.relu(self.first(x))
        return self.second(torch.zeros_like(h).index_add(0, edges[1], h[edges[0]]))


@architecture
def graph_convolution():
    g = draws(3)
    batch = {"x": torch.randn(20, 8, generator=g), "edges": torch.randint(0, 20, (2, 60), generator=g),
             "y": torch.randint(0, 4, (20,), generator=g)}
    return GraphConvolution, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"]), b["y"])), batch


@architecture
def encoder():
    layer = {"dropout": 0.0, "batch_first": True}
    return (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, **layer), 2)), squared, {
        "x": torch.randn(2, 10, 32, generator=draws())}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        return self.norm(self.linear(torch.fft.fft2(x).real))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(4, 8, 5, padding=2)
        self.back = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)
        self.pool = nn.MaxPool1d(2)
        self.three = nn.Conv3d(1, 4, 3, padding=1)

    def forward(self, x, v):
        return self.back(self.pool(F.elu(self.one(x)))).square().mean() + self.three(v).abs().mean()


@architecture
def attention():
    return Attention, squared, {"x": torch.randn(2, 10, 32, generator=draws())}


@architecture
def fourier():
    return Fourier, squared, {"x": torch.randn(2, 10, 32, generator=draws())}


@architecture
def convolutions():
    g = draws()
    batch = {"x": torch.randn(2, 4, 32, generator=g), "v": torch.randn(1, 1, 6, 6, 6, generator=g)}
    return Convolutions, (lambda m, b: m(b["x"], b["v"])), batch


def of_experts(model, config, **sizes):
    """A mixture whose router gives no rows to some experts."""
    batch = {"input_ids": tokens(2, 8), "labels": tokens(2, 8)}
    return of_transformers(model, config, DECODER | {"num_key_value_heads": 2} | sizes, batch, use_cache=False)


ARCHITECTURES["mixtral"] = lambda: of_experts("MixtralForCausalLM", "MixtralConfig", num_local_experts=8)
ARCHITECTURES["qwen3_moe"] = lambda: of_experts(
    "Qwen3MoeForCausalLM", "Qwen3MoeConfig", num_experts=16, num_experts_per_tok=2, moe_intermediate_size=64, head_dim=16)
