"""Models of pictures: they classify, compare with text, encode, and generate."""
import torch
import torch.nn.functional as F
from torch import nn

from .common import ARCHITECTURES, NO_DROPOUT, architecture, classified, draws, of_transformers, pictures, tokens


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
