"""Models that detect and segment objects, in pictures and volumes."""
import torch
import torch.nn.functional as F

from .common import NO_DROPOUT, REFUSED, architecture, classified, draws, of_transformers, pictures


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
