#include "fine_tuning/fine_tune.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "models/decoder.h"
#include "plimsoll/error.h"
#include "plimsoll/linear.h"
#include "refusals.h"

namespace plimsoll::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

DecoderConfig config() {
  DecoderConfig config;
  config.vocab_size = 50;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  return config;
}

std::vector<std::string> trained(torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& entry : model.named_parameters())
    if (entry.value().requires_grad()) names.push_back(entry.key());
  return names;
}

std::string refusal(const FineTuning& how) {
  DecoderImpl model(config(), 8);
  return refusal_of([&] { fine_tune(model, how, {}); }, UserError::Kind::usage);
}

// A model of libtorch's layers and one of these begin alike.
TEST(Linear, BeginsWithTheValuesOfLibtorchs) {
  torch::manual_seed(7);
  LinearImpl ours(24, 16);
  torch::manual_seed(7);
  torch::nn::LinearImpl libtorchs(24, 16);
  for (const auto& expected : libtorchs.named_parameters())
    EXPECT_TRUE(torch::allclose(ours.named_parameters()[expected.key()], expected.value())) << expected.key();
}

TEST(FineTune, FreezesModulesAndParametersByPattern) {
  DecoderImpl model(config(), 8);
  fine_tune(model, {.freeze = {"layers.[0-1]", "embedding", "*.attention"}}, {});
  EXPECT_THAT(trained(model),
              ::testing::UnorderedElementsAre("layers.2.attention_norm.weight", "layers.2.mlp_norm.weight",
                                              "layers.2.mlp.up.weight", "layers.2.mlp.down.weight", "norm.weight"));
}

TEST(FineTune, WithAdaptersAllElseIsFrozenButWhatTrainNames) {
  DecoderImpl model(config(), 8);
  fine_tune(model, {.train = {"norm"}, .lora = {.modules = {"*.qkv", "layers.2.mlp"}}}, {});
  EXPECT_THAT(trained(model),
              ::testing::UnorderedElementsAre("layers.0.attention.qkv.lora_a", "layers.0.attention.qkv.lora_b",
                                              "layers.1.attention.qkv.lora_a", "layers.1.attention.qkv.lora_b",
                                              "layers.2.attention.qkv.lora_a", "layers.2.attention.qkv.lora_b",
                                              "layers.2.mlp.up.lora_a", "layers.2.mlp.up.lora_b",
                                              "layers.2.mlp.down.lora_a", "layers.2.mlp.down.lora_b", "norm.weight"));
}

TEST(FineTune, AdaptersChangeNothingAtFirstAndAreWhatTheyAreSaidToBe) {
  torch::manual_seed(1);
  LinearImpl linear(20, 12);
  const torch::Tensor x = torch::randn({3, 20});
  const torch::Tensor before = linear.forward(x).detach();
  linear.add_adapter({.modules = {"*"}, .rank = 4, .alpha = 12, .dropout = 0}, torch::kFloat);
  EXPECT_TRUE(torch::equal(linear.forward(x), before));
  const auto parameters = linear.named_parameters();
  const torch::NoGradGuard no_grad;
  const torch::Tensor a = parameters["lora_a"], b = parameters["lora_b"];
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{4, 20}));
  EXPECT_GT(a.abs().max().item<double>(), 0);
  EXPECT_LE(a.abs().max().item<double>(), 1 / std::sqrt(20.0));
  b.normal_();
  EXPECT_TRUE(torch::allclose(linear.forward(x), before + x.mm(a.t()).mm(b.t()) * 3, 1e-5, 1e-5));
}

TEST(FineTune, AdapterDropoutIsForTrainingOnly) {
  torch::manual_seed(2);
  LinearImpl linear(64, 8);
  linear.add_adapter({.modules = {"*"}, .rank = 2, .alpha = 2, .dropout = 0.5}, torch::kFloat);
  {
    const torch::NoGradGuard no_grad;
    linear.named_parameters()["lora_b"].normal_();
  }
  const torch::Tensor x = torch::randn({3, 64});
  EXPECT_FALSE(torch::equal(linear.forward(x), linear.forward(x)));
  linear.eval();
  EXPECT_TRUE(torch::equal(linear.forward(x), linear.forward(x)));
}

TEST(FineTune, AFloat32AdapterStandsBesideA16BitWeight) {
  LinearImpl linear(16, 8);
  linear.to(torch::kBFloat16);
  linear.add_adapter({.modules = {"*"}, .rank = 2}, torch::kFloat);
  const torch::Tensor y = linear.forward(torch::randn({3, 16}, torch::kBFloat16));
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(linear.named_parameters()["lora_b"].grad().scalar_type(), torch::kFloat);
}

TEST(FineTune, QuantizedLayersHaveCodesInPlaceOfTheWeight) {
  torch::manual_seed(3);
  for (const char* format : {"nf4", "int8"})
    for (const bool bias : {false, true}) {
      LinearImpl linear(100, 30, bias);
      const torch::Tensor x = torch::randn({4, 100}), before = linear.forward(x).detach();
      linear.quantize({.modules = {"*"}, .format = format, .double_scales = true});
      EXPECT_FALSE(linear.named_parameters().contains("weight"));
      EXPECT_EQ(linear.named_parameters().contains("bias"), bias);
      EXPECT_TRUE(linear.named_buffers().contains("weight_codes"));
      const torch::Tensor after = linear.forward(x).detach();
      EXPECT_LT((after - before).norm().item<double>(), 0.12 * before.norm().item<double>());
      EXPECT_FALSE(torch::equal(after, before));
    }
}

TEST(FineTune, AUsersModelIsFrozenToo) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::ReLU(), torch::nn::Linear(4, 4));
  fine_tune(*model, {.freeze = {"0"}}, {});
  EXPECT_THAT(trained(*model), ElementsAre("2.weight", "2.bias"));
  try {
    fine_tune(*model, {.lora = {.modules = {"2"}}}, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("lora.modules: '2' matches no linear layer"), HasSubstr("plimsoll::Linear")));
  }
}

struct Shared : torch::nn::Module {
  Linear one{8, 8};
  Shared() {
    register_module("first", one);
    register_module("second", one);
  }
};

TEST(FineTune, ALayerUnderTwoNamesIsAdaptedOnce) {
  Shared model;
  fine_tune(model, {.lora = {.modules = {"second", "*"}}, .quantize = {.modules = {"first", "second"}}}, {});
  EXPECT_TRUE(model.one->adapted());
  EXPECT_TRUE(model.one->quantized());
}

TEST(FineTune, FrozenWeightsOfLinearLayersAreHeldAsTold) {
  DecoderImpl model(config(), 8);
  fine_tune(model, {.freeze = {"layers.0"}}, {.frozen_linear = torch::kBFloat16});
  const auto parameters = model.named_parameters();
  EXPECT_EQ(parameters["layers.0.mlp.up.weight"].scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(parameters["layers.0.mlp.up.weight"].requires_grad());
  EXPECT_EQ(parameters["layers.0.mlp_norm.weight"].scalar_type(), torch::kFloat);
  EXPECT_EQ(parameters["layers.1.mlp.up.weight"].scalar_type(), torch::kFloat);
}

TEST(FineTune, APatternThatMatchesNothingIsRefusedWithTheNearestPaths) {
  EXPECT_THAT(
      refusal({.freeze = {"layer.0"}}),
      AllOf(HasSubstr("freeze: no module and no parameter of the model matches 'layer.0'"), HasSubstr("'layers.0'")));
  EXPECT_THAT(refusal({.train = {"nrom"}, .lora = {.modules = {"*.qkv"}}}),
              AllOf(HasSubstr("train: no module"), HasSubstr("'norm'")));
  EXPECT_THAT(refusal({.lora = {.modules = {"*.qvk"}}}),
              AllOf(HasSubstr("lora.modules: no module"), HasSubstr("'*.qvk'")));
  EXPECT_THAT(refusal({.lora = {.modules = {"*.qkv", "norm"}}}),
              AllOf(HasSubstr("lora.modules: 'norm' matches no linear layer"), HasSubstr("near to it: 'layers.")));
  EXPECT_THAT(refusal({.quantize = {.modules = {"embedding"}}}), HasSubstr("quantize.modules: 'embedding' matches no"));
}

// For names of transformers and PEFT the message has this model's names, all of a key together, in the form to write.
TEST(FineTune, NamesOfOtherProgramsAreAnsweredWithOurs) {
  EXPECT_EQ(refusal({.lora = {.modules = {"q_proj"}}}),
            "lora.modules: 'q_proj' is a name of other programs; in this model it is 'layers.*.attention.qkv', where "
            "query, key and value are one matrix: write lora.modules=[layers.*.attention.qkv]");
  EXPECT_THAT(
      refusal({.lora = {.modules = {"q_proj", "v_proj", "*.self_attn.o_proj", "down_proj", "*.up"}}}),
      HasSubstr("write lora.modules=[layers.*.attention.qkv, layers.*.attention.out, layers.*.mlp.down, '*.up']"));
  EXPECT_THAT(refusal({.lora = {.modules = {"all-linear"}}}), HasSubstr("write lora.modules=['*']"));
  EXPECT_THAT(refusal({.quantize = {.modules = {"c_proj"}}}),
              HasSubstr("'layers.*.attention.out', 'layers.*.mlp.down'"));
  EXPECT_THAT(refusal({.lora = {.modules = {"lm_head"}}}),
              AllOf(HasSubstr("'embedding'"), HasSubstr("no linear layer"), HasSubstr("train it whole")));
  EXPECT_THAT(refusal({.freeze = {"model.embed_tokens.weight"}}), HasSubstr("write freeze=[embedding]"));
  // A name without a counterpart in this model stays unchanged.
  EXPECT_THAT(refusal({.lora = {.modules = {"x_proj"}}}), HasSubstr("near to it"));
}

// Every suggestion is valid: the suggested names match.
TEST(FineTune, EveryAnswerToAnotherProgramsNameIsTaken) {
  int answered = 0;
  for (const std::string name :
       {"q_proj",          "k_proj",   "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "in_proj",   "out_proj",
        "query",           "key",      "value",  "dense",  "fc1",       "fc2",     "c_attn",    "c_proj",    "c_fc",
        "query_key_value", "qkv_proj", "Wqkv",   "wq",     "w1",        "w2",      "w3",        "all-linear"}) {
    const std::string told = refusal({.lora = {.modules = {name}}});
    const size_t begin = told.find("=[");
    ASSERT_NE(begin, std::string::npos) << told;
    std::vector<std::string> patterns(1);
    for (const char c : told.substr(begin + 2)) {
      if (c == ',') patterns.emplace_back();
      if (std::string("[], '").find(c) == std::string::npos) patterns.back() += c;
    }
    DecoderImpl model(config(), 8);
    fine_tune(model, {.lora = {.modules = patterns}}, {});
    EXPECT_FALSE(trained(model).empty()) << told;
    ++answered;
  }
  EXPECT_EQ(answered, 26);
}

TEST(FineTune, NothingLeftToTrainIsRefused) {
  EXPECT_THAT(refusal({.freeze = {"*"}}), HasSubstr("nothing is left to train: all"));
}

TEST(FineTune, WhatIsTrainedIsNotQuantized) {
  EXPECT_THAT(refusal({.train = {"layers.1"}, .quantize = {.modules = {"*.up"}}}),
              HasSubstr("train: layers.1.mlp.up.weight is to be trained, and quantize.modules"));
}

TEST(FineTune, RanksAndWidthsAreChecked) {
  EXPECT_THAT(refusal({.lora = {.modules = {"*.qkv"}, .rank = 33}}),
              HasSubstr("lora.rank is 33; a layer of 32 -> 96 takes 1 to 32"));
  LinearImpl odd(5, 4);
  EXPECT_THROW(odd.quantize({.modules = {"*"}, .format = "nf4"}), UserError);
  EXPECT_NO_THROW(odd.quantize({.modules = {"*"}, .format = "int8"}));
}

}  // namespace
}  // namespace plimsoll::model
