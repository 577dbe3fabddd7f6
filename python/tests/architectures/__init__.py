"""Models of transformers, torchvision, timm, diffusers, MONAI, torch_geometric and torch in small sizes, each with its loss
and a batch.

ARCHITECTURES: by name, a function that returns (model function, loss function, batch). WEIGHTS: files of weights to
start with; others start with random weights. REFUSED: those that cannot be recorded as they are, and a part of the
message."""
from . import detection, graphs, language, pictures, plain, sound
from .common import ARCHITECTURES, REFUSED, WEIGHTS

__all__ = ["ARCHITECTURES", "REFUSED", "WEIGHTS", "detection", "graphs", "language", "pictures", "plain", "sound"]
