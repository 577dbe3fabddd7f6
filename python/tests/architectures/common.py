"""What models have in common: their table, batches, and losses."""
import torch
import torch.nn.functional as F

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
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


def classified(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])


def squared(model, batch):
    return model(batch["x"]).square().mean()
