// Declares blocks of the five systems' models, at any size: ordinary modules and our operators.
#pragma once

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <vector>

#include "models/decoder.h"
#include "ops/attention/attention.h"
#include "ops/layers/rms_norm.h"
#include "ops/loss/linear_cross_entropy.h"

namespace plimsoll::testing {

/// A pre-norm transformer block without a causal mask, as in vision transformers. [B, T, hidden].
struct VisionBlock : torch::nn::Module {
  VisionBlock(int64_t hidden, int64_t num_heads, double p) : heads(num_heads) {
    attention_norm = register_module("attention_norm", torch::nn::LayerNorm(std::vector<int64_t>{hidden}));
    qkv = register_module("qkv", torch::nn::Linear(hidden, 3 * hidden));
    out = register_module("out", torch::nn::Linear(hidden, hidden));
    mlp_norm = register_module("mlp_norm", torch::nn::LayerNorm(std::vector<int64_t>{hidden}));
    up = register_module("up", torch::nn::Linear(hidden, 4 * hidden));
    down = register_module("down", torch::nn::Linear(4 * hidden, hidden));
    dropout = register_module("dropout", torch::nn::Dropout(p));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const int64_t batch = x.size(0), time = x.size(1), hidden = x.size(2);
    const auto parts = qkv(attention_norm(x)).view({batch, time, 3, heads, hidden / heads}).unbind(2);
    const torch::Tensor mixed =
        ops::attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2), /*causal=*/false);
    const torch::Tensor y = x + dropout(out(mixed.transpose(1, 2).reshape({batch, time, hidden})));
    return y + dropout(down(torch::gelu(up(mlp_norm(y)))));
  }

  int64_t heads;
  torch::nn::LayerNorm attention_norm{nullptr}, mlp_norm{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// Blocks of a language model over [B, T, hidden], with the embedding that is also its loss head.
struct LanguageModel : torch::nn::Module {
  LanguageModel(int64_t hidden, int64_t num_layers, int64_t vocab, double dropout) {
    DecoderConfig config;
    config.vocab_size = vocab;
    config.hidden_size = hidden;
    config.num_layers = num_layers;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.dropout = dropout;
    config = model::resolved(config);
    words = register_module("words", torch::nn::Embedding(vocab, hidden));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int64_t i = 0; i < num_layers; ++i) layers->push_back(model::Block(config));
    norm = register_module("norm", model::Norm("rmsnorm", hidden, 1e-5));
    const torch::NoGradGuard no_grad;
    torch::nn::init::normal_(words->weight, 0.0, 0.02);
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<model::BlockImpl>()->forward(x);
    return norm(x);
  }
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& targets) {
    return ops::linear_cross_entropy(x, words->weight, targets);
  }

  torch::nn::Embedding words{nullptr};
  torch::nn::ModuleList layers{nullptr};
  model::Norm norm{nullptr};
};

/// A convolution, group norm and GELU of [B, in, …], then a mean over neighbors.
struct ConvolutionStage : torch::nn::Module {
  ConvolutionStage(int64_t in, int64_t out) {
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
    norm = register_module("norm", torch::nn::GroupNorm(8, out));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::avg_pool2d(torch::gelu(norm(convolution(x))), 2); }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::GroupNorm norm{nullptr};
};

struct AudioStage : torch::nn::Module {
  AudioStage(int64_t in, int64_t out) {
    convolution =
        register_module("convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(in, out, 5).stride(2).padding(2)));
    norm = register_module("norm", torch::nn::BatchNorm1d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::silu(norm(convolution(x))); }
  torch::nn::Conv1d convolution{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

struct ResidualMlp : torch::nn::Module {
  ResidualMlp(int64_t size, double p) {
    norm = register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{size}));
    up = register_module("up", torch::nn::Linear(size, 2 * size));
    down = register_module("down", torch::nn::Linear(2 * size, size));
    dropout = register_module("dropout", torch::nn::Dropout(p));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + dropout(down(torch::gelu(up(norm(x))))); }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// Computes a selective state space model's scan in chunks (T. Dao and A. Gu, "Transformers are SSMs", listing 1): with
/// h_t = exp(a_t) h_{t-1} + b_t x_t^T, y_t = c_t h_t, for x [B, L, H, P], a [B, L, H], b and c [B, L, N].
inline torch::Tensor chunked_scan(const torch::Tensor& x, const torch::Tensor& a, const torch::Tensor& b,
                                  const torch::Tensor& c, int64_t chunk) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const int64_t batch = x.size(0), chunks = x.size(1) / chunk, heads = x.size(2), size = x.size(3), state = b.size(2);
  const torch::Tensor xs = x.reshape({batch, chunks, chunk, heads, size}).permute({0, 3, 1, 2, 4});
  const torch::Tensor bs = b.reshape({batch, 1, chunks, chunk, state}),
                      cs = c.reshape({batch, 1, chunks, chunk, state});
  const torch::Tensor sums = a.reshape({batch, chunks, chunk, heads}).permute({0, 3, 1, 2}).cumsum(-1);
  // Within a chunk: as attention with a mask of decays.
  const torch::Tensor later = torch::ones({chunk, chunk}, torch::kBool).triu(1);
  const torch::Tensor decay = (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(later, kNever).exp();
  const torch::Tensor within = torch::matmul(torch::matmul(cs, bs.transpose(-1, -2)) * decay, xs);
  // Between chunks: the state after each chunk, decayed until a later one begins.
  const torch::Tensor last = sums.narrow(-1, chunk - 1, 1);
  const torch::Tensor left = torch::matmul(bs.transpose(-1, -2), (last - sums).exp().unsqueeze(-1) * xs);
  const torch::Tensor ends = last.squeeze(-1).cumsum(-1), begins = ends - last.squeeze(-1);
  const torch::Tensor not_before = torch::ones({chunks, chunks}, torch::kBool).triu(0);
  const torch::Tensor carried = (begins.unsqueeze(-1) - ends.unsqueeze(-2)).masked_fill(not_before, kNever).exp();
  const torch::Tensor states = torch::matmul(carried, left.flatten(3)).reshape({batch, heads, chunks, state, size});
  const torch::Tensor between = torch::matmul(cs, states) * sums.exp().unsqueeze(-1);
  return (within + between).permute({0, 2, 3, 1, 4}).reshape({batch, chunks * chunk, heads, size});
}

/// A Mamba2 block over both directions of [B, L, hidden], which share its weights.
struct StateSpaceBlock : torch::nn::Module {
  static constexpr int64_t kHeads = 4, kState = 32, kChunk = 64;

  StateSpaceBlock(int64_t hidden, double p) : inner(2 * hidden) {
    norm = register_parameter("norm", torch::ones({hidden}));
    in = register_module(
        "in", torch::nn::Linear(torch::nn::LinearOptions(hidden, 2 * inner + 2 * kState + kHeads).bias(false)));
    const int64_t mixed = inner + 2 * kState;
    convolution = register_module(
        "convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(mixed, mixed, 4).groups(mixed).padding(3)));
    step_bias = register_parameter("step_bias", torch::full({kHeads}, -2.0));
    decay_log = register_parameter("decay_log", torch::zeros({kHeads}));
    skip = register_parameter("skip", torch::ones({kHeads, 1}));
    inner_norm = register_parameter("inner_norm", torch::ones({inner}));
    out = register_module("out", torch::nn::Linear(torch::nn::LinearOptions(inner, hidden).bias(false)));
    dropout = register_module("dropout", torch::nn::Dropout(p));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor both = mix(ops::rms_norm(torch::cat({x, x.flip({1})}), norm));
    const auto directions = both.chunk(2);
    return x + dropout(directions[0] + directions[1].flip({1}));
  }

  torch::Tensor mix(const torch::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), mixed = inner + 2 * kState;
    const auto parts = in(x).split_with_sizes({inner, mixed, kHeads}, -1);
    const torch::Tensor near = torch::silu(convolution(parts[1].transpose(1, 2)).narrow(2, 0, length)).transpose(1, 2);
    const auto xbc = near.split_with_sizes({inner, kState, kState}, -1);
    const torch::Tensor step = torch::softplus(parts[2].to(torch::kFloat32) + step_bias);
    const torch::Tensor heads = xbc[0].reshape({batch, length, kHeads, inner / kHeads});
    const torch::Tensor scanned =
        chunked_scan(heads * step.unsqueeze(-1), -decay_log.exp() * step, xbc[1], xbc[2], kChunk);
    const torch::Tensor y = (scanned + heads * skip).reshape({batch, length, inner}) * torch::silu(parts[0]);
    return out(ops::rms_norm(y, inner_norm));
  }

  int64_t inner;
  torch::Tensor norm, step_bias, decay_log, skip, inner_norm;
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::Conv1d convolution{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// A convolution that halves height and width, batch norm, GELU.
struct HalvingStage : torch::nn::Module {
  HalvingStage(int64_t in, int64_t out) {
    convolution = register_module(
        "convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(2).padding(1).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::gelu(norm(convolution(x))); }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};

/// A transposed convolution that doubles height and width, group norm, GELU.
struct DoublingStage : torch::nn::Module {
  DoublingStage(int64_t in, int64_t out) {
    convolution = register_module("convolution",
                                  torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(in, out, 2).stride(2)));
    norm = register_module("norm", torch::nn::GroupNorm(4, out));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::gelu(norm(convolution(x))); }
  torch::nn::ConvTranspose2d convolution{nullptr};
  torch::nn::GroupNorm norm{nullptr};
};

}  // namespace plimsoll::testing
