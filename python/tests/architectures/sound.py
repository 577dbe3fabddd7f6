"""Models of sound."""
import torch

from .common import architecture, draws, of_transformers, tokens


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
def wav2vec2():
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
             "conv_dim": [32, 32], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 16,
             "num_conv_pos_embedding_groups": 4, "hidden_dropout": 0, "activation_dropout": 0, "attention_dropout": 0,
             "feat_proj_dropout": 0, "layerdrop": 0, "mask_time_prob": 0}
    batch = {"input_values": torch.randn(2, 1600, generator=draws()), "labels": torch.tensor([0, 1])}
    return of_transformers("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", sizes, batch)
