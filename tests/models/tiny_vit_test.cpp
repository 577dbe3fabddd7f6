// Tests TinyViT against a second implementation of its architecture: NCHW, whole batch norms, one window at a time.
#include "models/tiny_vit.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>

namespace plimsoll {
namespace {

ImageEncoderConfig small_vit() {
  ImageEncoderConfig config;
  config.type = "tiny_vit";
  config.widths = {8, 12, 20, 16};
  config.depths = {1, 1, 2, 1};
  config.num_heads = {3, 5, 2};
  config.windows = {3, 4, 2};  // maps of 6, 3 and 3: some are padded
  return config;
}

using Tensors = std::map<std::string, at::Tensor>;

/// Parameters and buffers by their published names.
Tensors tensors_of(torch::nn::Module& model) {
  Tensors all;
  for (const auto& each : model.named_parameters()) all[each.key()] = each.value();
  for (const auto& each : model.named_buffers()) all[each.key()] = each.value();
  return all;
}

class Reference {
 public:
  Reference(const Tensors& tensors, const ImageEncoderConfig& config) : t_(tensors), config_(config) {}

  /// [B, C, S, S] -> fine [B, widths[0], S / 4, S / 4] and coarse [B, out, S / 16, S / 16].
  model::ImageFeatures forward(at::Tensor x) const {
    model::ImageFeatures features;
    x = conv(at::gelu(conv(x, "patch_embed.seq.0", 2, 1)), "patch_embed.seq.2", 2, 1);
    for (size_t stage = 0; stage < 4; ++stage) {
      const std::string layer = "layers." + std::to_string(stage);
      for (int64_t i = 0; i < config_.depths[stage]; ++i) {
        const std::string block = layer + ".blocks." + std::to_string(i);
        x = stage == 0 ? inverted(x, block)
                       : attended(x, block, config_.num_heads[stage - 1], config_.windows[stage - 1]);
      }
      if (stage == 0) features.fine = x;
      if (stage == 3) continue;
      const std::string merge = layer + ".downsample";
      const int64_t out = config_.widths[stage + 1];
      x = at::gelu(conv(x, merge + ".conv1", 1, 1));
      x = at::gelu(conv(x, merge + ".conv2", stage == 2 ? 1 : 2, out));
      x = conv(x, merge + ".conv3", 1, 1);
    }
    x = normed(at::conv2d(x, t_.at("neck.0.weight")), "neck.1", 1e-6);
    features.coarse = normed(at::conv2d(x, t_.at("neck.2.weight"), {}, 1, 1), "neck.3", 1e-6);
    return features;
  }

 private:
  at::Tensor conv(const at::Tensor& x, const std::string& name, int64_t stride, int64_t groups) const {
    const at::Tensor& weight = t_.at(name + ".c.weight");
    const at::Tensor y = at::conv2d(x, weight, {}, stride, weight.size(2) / 2, 1, groups);
    return at::batch_norm(y, t_.at(name + ".bn.weight"), t_.at(name + ".bn.bias"), t_.at(name + ".bn.running_mean"),
                          t_.at(name + ".bn.running_var"), /*training=*/false, 0.1, 1e-5, false);
  }
  /// Over the channels of each place.
  at::Tensor normed(const at::Tensor& x, const std::string& name, double eps) const {
    const at::Tensor mean = x.mean(1, true), centered = x - mean, variance = centered.square().mean(1, true);
    return centered / (variance + eps).sqrt() * t_.at(name + ".weight").view({1, -1, 1, 1}) +
           t_.at(name + ".bias").view({1, -1, 1, 1});
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::matmul(x, t_.at(name + ".weight").t()) + t_.at(name + ".bias");
  }
  at::Tensor inverted(const at::Tensor& x, const std::string& name) const {
    const at::Tensor wide = at::gelu(conv(x, name + ".conv1", 1, 1));
    const at::Tensor deep = at::gelu(conv(wide, name + ".conv2", 1, wide.size(1)));
    return at::gelu(x + conv(deep, name + ".conv3", 1, 1));
  }
  /// One window [tokens, C], of one picture.
  at::Tensor window(const at::Tensor& x, const std::string& name, int64_t heads, int64_t side) const {
    const at::Tensor normal = normed(x.t().unsqueeze(0).unsqueeze(-1), name + ".norm", 1e-5).squeeze(-1).squeeze(0).t();
    const at::Tensor all = linear(normal, name + ".qkv");
    const int64_t width = x.size(1), head = width / heads, tokens = side * side;
    std::vector<at::Tensor> mixed;
    for (int64_t h = 0; h < heads; ++h) {
      const at::Tensor q = all.narrow(1, h * 3 * head, head), k = all.narrow(1, (h * 3 + 1) * head, head),
                       v = all.narrow(1, (h * 3 + 2) * head, head);
      at::Tensor scores = at::matmul(q, k.t()) / std::sqrt(double(head));
      std::vector<double> bias;
      const auto table = t_.at(name + ".attention_biases").accessor<double, 2>();
      for (int64_t a = 0; a < tokens; ++a)
        for (int64_t b = 0; b < tokens; ++b)
          bias.push_back(table[h][std::abs(a / side - b / side) * side + std::abs(a % side - b % side)]);
      scores = (scores + torch::tensor(bias, at::kDouble).view({tokens, tokens})).exp();
      mixed.push_back(at::matmul(scores / scores.sum(1, true), v));
    }
    return linear(at::cat(mixed, 1), name + ".proj");
  }
  at::Tensor attended(const at::Tensor& x, const std::string& name, int64_t heads, int64_t side) const {
    at::Tensor y = x.clone();
    for (int64_t b = 0; b < x.size(0); ++b)
      for (int64_t top = 0; top < x.size(2); top += side)
        for (int64_t left = 0; left < x.size(3); left += side) {
          const int64_t height = std::min(side, x.size(2) - top), width = std::min(side, x.size(3) - left);
          at::Tensor part = at::zeros({x.size(1), side, side}, x.options());
          part.narrow(1, 0, height).narrow(2, 0, width).copy_(x[b].narrow(1, top, height).narrow(2, left, width));
          const at::Tensor told = window(part.reshape({x.size(1), -1}).t(), name + ".attn", heads, side)
                                      .t()
                                      .reshape({x.size(1), side, side});
          y[b].narrow(1, top, height).narrow(2, left, width).add_(told.narrow(1, 0, height).narrow(2, 0, width));
        }
    const at::Tensor local = conv(y, name + ".local_conv", 1, y.size(1));
    const at::Tensor tokens = normed(local, name + ".mlp.norm", 1e-5).permute({0, 2, 3, 1});
    return local + linear(at::gelu(linear(tokens, name + ".mlp.fc1")), name + ".mlp.fc2").permute({0, 3, 1, 2});
  }

  const Tensors& t_;
  ImageEncoderConfig config_;
};

/// Every number at random, variances above 0.
void shake(const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point()) continue;
    if (name.ends_with("running_var"))
      tensor.uniform_(0.5, 2);
    else
      tensor.normal_(name.ends_with("norm.weight") || name.ends_with("bn.weight") ? 1 : 0, 0.3);
  }
}

TEST(TinyVit, ComputesWhatItsArchitectureSays) {
  torch::manual_seed(3);
  model::TinyVitImpl model(small_vit(), 3, 8);
  const Tensors tensors = tensors_of(model);
  for (const auto& [name, tensor] : tensors)
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(at::kDouble));
  shake(tensors);
  const at::NoGradGuard no_grad;
  const at::Tensor image = torch::randn({2, 48, 48, 3}, at::kDouble);
  const auto [fine, got] = model.forward(image);
  EXPECT_EQ(fine.sizes(), (std::vector<int64_t>{2, 12, 12, 8}));
  EXPECT_EQ(got.sizes(), (std::vector<int64_t>{2, 3, 3, 8}));
  const auto [wanted_fine, wanted] = Reference(tensors, small_vit()).forward(image.permute({0, 3, 1, 2}));
  EXPECT_TRUE(
      torch::allclose(fine, wanted_fine.permute({0, 2, 3, 1}), 0, 1e-10 * wanted_fine.abs().max().item<double>()));
  EXPECT_TRUE(torch::allclose(got, wanted.permute({0, 2, 3, 1}), 0, 1e-10 * wanted.abs().max().item<double>()));
  // Every tensor counts: none of them could be left out unseen.
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point()) continue;
    const at::Tensor before = tensor.clone();
    tensor.mul_(1.5).add_(0.1);
    EXPECT_GT((model.forward(image).coarse - got).abs().max().item<double>(), 1e-9) << name;
    tensor.copy_(before);
  }
}

// Names and sizes of some tensors, and the number of parameters, are those of TinySAM and MobileSAM.
TEST(TinyVit, HasThePublishedNames) {
  ImageEncoderConfig config;
  config.widths = {64, 128, 160, 320};
  config.depths = {2, 2, 6, 2};
  config.num_heads = {4, 5, 10};
  config.windows = {7, 14, 7};
  model::TinyVitImpl model(config, 3, 256);
  const Tensors tensors = tensors_of(model);
  const std::map<std::string, std::vector<int64_t>> wanted = {
      {"patch_embed.seq.0.c.weight", {32, 3, 3, 3}},
      {"patch_embed.seq.2.bn.running_var", {64}},
      {"layers.0.blocks.1.conv2.c.weight", {256, 1, 3, 3}},
      {"layers.0.downsample.conv1.c.weight", {128, 64, 1, 1}},
      {"layers.1.blocks.0.attn.attention_biases", {4, 49}},
      {"layers.1.blocks.1.attn.norm.weight", {128}},
      {"layers.2.blocks.5.attn.attention_biases", {5, 196}},
      {"layers.2.blocks.0.attn.qkv.weight", {480, 160}},
      {"layers.2.downsample.conv3.bn.bias", {320}},
      {"layers.3.blocks.1.local_conv.c.weight", {320, 1, 3, 3}},
      {"layers.3.blocks.0.mlp.fc1.weight", {1280, 320}},
      {"layers.3.blocks.0.attn.proj.bias", {320}},
      {"neck.0.weight", {256, 320, 1, 1}},
      {"neck.1.bias", {256}},
      {"neck.2.weight", {256, 256, 3, 3}},
  };
  for (const auto& [name, sizes] : wanted) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_EQ(tensors.at(name).sizes(), sizes) << name;
  }
  EXPECT_FALSE(tensors.contains("layers.3.downsample.conv1.c.weight"));
}

}  // namespace
}  // namespace plimsoll
