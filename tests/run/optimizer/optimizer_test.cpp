// Tests the update against libtorch's own optimizers.
#include "run/optimizer/optimizer.h"

#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>

#include "plimsoll/error.h"
#include "refusals.h"
#include "thresholds.h"
#include "train/update_once.h"

namespace plimsoll {
namespace {

struct Trained {
  std::vector<OptimizedParameter> ours;
  std::vector<torch::Tensor> expected;
};

Trained two_copies() {
  torch::manual_seed(6);
  Trained trained;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{7, 5}, {11}, {3, 4, 2}}) {
    const torch::Tensor value = torch::randn(sizes);
    trained.ours.push_back({"p" + std::to_string(trained.ours.size()), value.clone(), {}});
    trained.expected.push_back(value.clone().requires_grad_());
  }
  return trained;
}

// Five steps with the same gradients, clipped to a norm that binds; decay on matrices only.
void expect_close(OptimizerConfig config,
                  const std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>,
                                                                               std::vector<torch::Tensor>)>& make) {
  Trained trained = two_copies();
  config.learning_rate = 1e-2;
  Optimizer optimizer(config);
  torch::NoGradGuard no_grad;
  optimizer.make_state(trained.ours);
  std::vector<torch::Tensor> matrices, others;
  for (const torch::Tensor& p : trained.expected) (p.dim() >= 2 ? matrices : others).push_back(p);
  const auto reference = make(matrices, others);
  const double scale = 8;  // scale of the loss, as with float16
  for (int step = 0; step < 5; ++step) {
    std::vector<torch::Tensor> gradients;
    for (size_t i = 0; i < trained.ours.size(); ++i) {
      const torch::Tensor gradient = torch::randn_like(trained.ours[i].value);
      trained.ours[i].gradient = gradient * scale;
      trained.expected[i].mutable_grad() = gradient.clone();
    }
    const double norm = torch::nn::utils::clip_grad_norm_(trained.expected, 0.5);
    const UpdateOutputs outputs =
        update_once(optimizer, 0.5, trained.ours,
                    {torch::scalar_tensor(config.learning_rate, torch::kDouble), torch::scalar_tensor(scale)});
    reference->step();
    EXPECT_NEAR(outputs.gradient_norm.item<double>(), norm, 1e-5 * norm);
    for (size_t i = 0; i < trained.ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(trained.ours[i].value, trained.expected[i], 1e-5, 1e-6))
          << "step " << step << " of " << i;
  }
}

TEST(Optimizer, AdamWIsLibtorchs) {
  OptimizerConfig config;
  config.weight_decay = 0.3;
  expect_close(config, [&](auto matrices, auto others) {
    const auto options = [&](double decay) {
      return std::make_unique<torch::optim::AdamWOptions>(
          torch::optim::AdamWOptions(1e-2).betas({config.beta1, config.beta2}).eps(config.eps).weight_decay(decay));
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, options(0.3));
    groups.emplace_back(others, options(0));
    return std::make_unique<torch::optim::AdamW>(groups);
  });
}

TEST(Optimizer, SgdIsLibtorchsWithDecoupledDecay) {
  OptimizerConfig config;
  config.name = "sgd";
  config.weight_decay = 0;
  expect_close(config, [&](auto matrices, auto others) {
    matrices.insert(matrices.end(), others.begin(), others.end());
    return std::make_unique<torch::optim::SGD>(matrices, torch::optim::SGDOptions(1e-2).momentum(config.momentum));
  });
}

TEST(Optimizer, SgdDecaysMatricesByTheLearningRate) {
  OptimizerConfig config;
  config.name = "sgd";
  config.weight_decay = 0.5;
  Trained trained = two_copies();
  Optimizer optimizer(config);
  torch::NoGradGuard no_grad;
  optimizer.make_state(trained.ours);
  for (OptimizedParameter& p : trained.ours) p.gradient = torch::zeros_like(p.value);
  update_once(optimizer, 0, trained.ours, {torch::scalar_tensor(0.1, torch::kDouble), torch::scalar_tensor(1.0)});
  for (size_t i = 0; i < trained.ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(trained.ours[i].value,
                                trained.expected[i].detach() * (trained.ours[i].value.dim() >= 2 ? 0.95 : 1.0)));
}

// With any bytes around the tensors: 16-bit kernels must not read them.
TEST(Optimizer, SixteenBitsAreUpdatedAsTheirOwnNumbersSay) {
  for (const char* name : {"adamw", "sgd"}) {
    for (at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      for (int64_t size : {1, 16, 33, 48, 100, 2304}) {
        std::vector<torch::Tensor> results;
        for (double around : {0.0, 3.0, std::nan("")}) {
          const torch::Tensor memory = torch::full({100000}, around, dtype);
          int64_t place = 512;
          const auto put = [&](const torch::Tensor& values) {
            torch::Tensor tensor = memory.narrow(0, place, size);
            place += 8192;
            return tensor.copy_(values);
          };
          torch::manual_seed(7);
          OptimizerConfig config;
          config.name = name;
          Optimizer optimizer(config);
          torch::NoGradGuard no_grad;
          std::vector<OptimizedParameter> parameters{{"p", put(torch::randn(size)), put(torch::randn(size))}};
          const auto state = optimizer.make_state(parameters);
          for (int i = 0; i < 2; ++i)
            update_once(optimizer, 1.0, parameters,
                        {torch::scalar_tensor(1e-2, torch::kDouble), torch::scalar_tensor(1.0)});
          std::vector<torch::Tensor> all{parameters[0].value};
          for (const NamedState& s : state) all.push_back(s.tensor.reshape(-1).to(dtype));
          results.push_back(torch::cat(all));
        }
        EXPECT_TRUE(torch::equal(results[0], results[1])) << name << " " << size;
        EXPECT_TRUE(torch::equal(results[0], results[2])) << name << " " << size;
      }
    }
  }
}

TEST(Optimizer, A16BitStepIsSkippedToo) {
  OptimizerConfig config;
  config.name = "sgd";
  Optimizer optimizer(config);
  torch::NoGradGuard no_grad;
  const torch::Tensor value = torch::ones({4, 4}, torch::kBFloat16);
  std::vector<OptimizedParameter> parameters{{"p", value.clone(), torch::full({4, 4}, NAN, torch::kBFloat16)}};
  optimizer.make_state(parameters);
  EXPECT_EQ(
      update_once(optimizer, 1.0, parameters, {torch::scalar_tensor(0.1, torch::kDouble), torch::scalar_tensor(1.0)})
          .skipped.item<float>(),
      1);
  EXPECT_TRUE(torch::equal(parameters[0].value, value));
}

UpdateInputs inputs(double rate = 0.1) {
  return {torch::scalar_tensor(rate, torch::kDouble), torch::scalar_tensor(1.0)};
}

int64_t bytes_of(const std::vector<NamedState>& state) {
  int64_t bytes = 0;
  for (const NamedState& each : state) bytes += static_cast<int64_t>(each.tensor.nbytes());
  return bytes;
}

// docs/optimizers.md, "Bytes a parameter", without the weights.
TEST(OptimizerState, TakesTheBytesThatTheDocsSay) {
  struct Case {
    const char* name;
    StateDtype state;
    WeightUpdate update;
    double bytes;
  };
  using S = StateDtype;
  using W = WeightUpdate;
  for (const auto& [name, state, update, bytes] : std::vector<Case>{{"adamw", S::as_parameters, W::stochastic, 4},
                                                                    {"adamw", S::float32, W::nearest, 8},
                                                                    {"adamw", S::bits8, W::stochastic, 2.016},
                                                                    {"adamw", S::bits4, W::stochastic, 1.032},
                                                                    {"adamw", S::bits8, W::split, 4.016},
                                                                    {"adamw", S::bfloat16, W::kahan, 6},
                                                                    {"adamw", S::float32, W::master, 12},
                                                                    {"lion", S::bits8, W::stochastic, 1.008},
                                                                    {"sgd", S::bits4, W::stochastic, 0.516},
                                                                    {"muon", S::bits8, W::stochastic, 1.008},
                                                                    {"adafactor", S::bits8, W::stochastic, 0.016}}) {
    OptimizerConfig config;
    config.name = name;
    config.state_dtype = state;
    config.weight_update = update;
    Optimizer optimizer(config);
    const int64_t count = 512 * 512;
    const auto made = optimizer.make_state({{"p", torch::randn({512, 512}, at::kFloat).to(at::kBFloat16), {}}});
    EXPECT_NEAR(static_cast<double>(bytes_of(made)) / static_cast<double>(count), bytes, 2e-3)
        << name << " " << name_of(state) << " " << name_of(update);
  }
}

TEST(OptimizerState, OfFewElementsStaysFloat32) {
  OptimizerConfig config;
  config.state_dtype = StateDtype::bits8;
  Optimizer optimizer(config);
  const auto state = optimizer.make_state({{"norm", torch::ones({4095}), {}}, {"w", torch::ones({64, 64}), {}}});
  std::map<std::string, at::ScalarType> types;
  for (const NamedState& each : state) types[each.name] = each.tensor.scalar_type();
  EXPECT_EQ(types, (std::map<std::string, at::ScalarType>{{"optimizer.exp_avg.norm", at::kFloat},
                                                          {"optimizer.exp_avg_sq.norm", at::kFloat},
                                                          {"optimizer.exp_avg.w", at::kByte},
                                                          {"optimizer.exp_avg_scales.w", at::kByte},
                                                          {"optimizer.exp_avg_sq.w", at::kByte},
                                                          {"optimizer.exp_avg_sq_scales.w", at::kByte},
                                                          {"optimizer.step", at::kFloat}}));
}

TEST(OptimizerState, RefusesWhatDoesNotSuitAParameter) {
  const auto refusal = [](const char* name, WeightUpdate update, at::ScalarType type) {
    OptimizerConfig config;
    config.name = name;
    config.weight_update = update;
    return refusal_of([&] { Optimizer(config).make_state({{"layers.0.w", torch::ones({2, 2}, type), {}}}); });
  };
  EXPECT_THAT(refusal("adamw", WeightUpdate::split, at::kHalf),
              ::testing::AllOf(::testing::HasSubstr("'layers.0.w' is float16"), ::testing::HasSubstr("master")));
  EXPECT_THAT(refusal("adafactor", WeightUpdate::nearest, at::kDouble),
              ::testing::HasSubstr("'layers.0.w' is float64"));
  EXPECT_THAT(refusal("adam", WeightUpdate::nearest, at::kFloat), ::testing::HasSubstr("adafactor and muon"));
}

// Every optimizer learns a straight line, in the smallest formats too.
TEST(Optimizer, LearnsInEveryFormat) {
  const torch::NoGradGuard no_grad;
  struct Case {
    const char* name;
    double rate;
  };
  for (const auto& [name, rate] :
       {Case{"adamw", 0.02}, {"lion", 0.02}, {"sgd", 0.05}, {"adafactor", 0.02}, {"muon", 0.1}}) {
    for (const StateDtype state : {StateDtype::float32, StateDtype::bits8, StateDtype::bits4}) {
      torch::manual_seed(test_seed(9));
      const torch::Tensor want = torch::randn({64, 64}) * 0.5, x = torch::randn({256, 64});
      OptimizerConfig config;
      config.name = name;
      config.state_dtype = state;
      config.weight_decay = 0;
      Optimizer optimizer(config, /*seed=*/5);
      std::vector<OptimizedParameter> parameters{{"w", torch::zeros({64, 64}, at::kBFloat16), {}}};
      optimizer.make_state(parameters);
      constexpr int kSteps = 200;
      for (int step = 0; step < kSteps; ++step) {
        const torch::Tensor error = at::matmul(x, parameters[0].value.to(at::kFloat) - want);
        parameters[0].gradient = at::matmul(x.t(), error) / 256;
        update_once(optimizer, 0, parameters, inputs(rate * (1 - static_cast<double>(step) / kSteps)));
      }
      const double left =
          (parameters[0].value.to(at::kFloat) - want).norm().item<double>() / want.norm().item<double>();
      expect_below(fmt::format("error left, {}, {}", name, name_of(state)), left,
                   state == StateDtype::bits4 ? 0.1 : 0.05);
    }
  }
}

// The weights are 1, and the next smaller bfloat16 is 1 - 1/256: a step of 1e-4 is lost unless it is rounded randomly.
TEST(Optimizer, SmallStepsOf16BitWeightsAreKeptOnAverage) {
  const torch::NoGradGuard no_grad;
  for (const WeightUpdate update : {WeightUpdate::automatic, WeightUpdate::stochastic, WeightUpdate::nearest}) {
    OptimizerConfig config;
    config.name = "sgd";
    config.momentum = config.weight_decay = 0;
    config.weight_update = update;
    Optimizer optimizer(config, /*seed=*/5);
    std::vector<OptimizedParameter> parameters{
        {"w", torch::ones({64, 64}, at::kBFloat16), torch::ones({64, 64}, at::kBFloat16)}};
    optimizer.make_state(parameters);
    for (int step = 0; step < 100; ++step) update_once(optimizer, 0, parameters, inputs(1e-4));
    const double mean = parameters[0].value.to(at::kDouble).mean().item<double>();
    // Ten standard deviations of the mean of 4096 weights.
    EXPECT_NEAR(mean, update == WeightUpdate::nearest ? 1 : 0.99, 1e-3) << name_of(update);
  }
}

// The whole update, with one of two gradients not finite: in 8 bits as well.
TEST(Optimizer, SkipsAStepOfEveryKind) {
  const torch::NoGradGuard no_grad;
  for (const char* name : {"adamw", "lion", "sgd", "adafactor", "muon"}) {
    for (const bool packed : {false, true}) {
      OptimizerConfig config;
      config.name = name;
      config.state_dtype = StateDtype::bits8;
      Optimizer optimizer(config);
      torch::manual_seed(3);
      std::vector<OptimizedParameter> parameters{{"v", torch::randn({99}), torch::randn({99})},
                                                 {"w", torch::randn({64, 80}).to(at::kBFloat16), {}}};
      const auto state = optimizer.make_state(parameters);
      const auto give = [&](const torch::Tensor& gradient) {
        parameters[1].gradient = gradient;
        if (!packed) return;
        parameters[1].gradient = torch::zeros({64, 80}, at::kByte);
        parameters[1].gradient_scales = torch::zeros({40}, at::kByte);
        ops::accumulate_({parameters[1].gradient, parameters[1].gradient_scales}, gradient, true);
      };
      give(torch::randn({64, 80}));
      EXPECT_EQ(update_once(optimizer, 1.0, parameters, inputs()).skipped.item<float>(), 0);
      std::vector<torch::Tensor> all, before;
      for (const auto& p : parameters) all.push_back(p.value);
      for (const auto& s : state) all.push_back(s.tensor);
      for (const auto& tensor : all) before.push_back(tensor.clone());
      torch::Tensor bad = torch::randn({64, 80});
      bad[63][79] = NAN;
      give(bad);
      EXPECT_EQ(update_once(optimizer, 1.0, parameters, inputs()).skipped.item<float>(), 1);
      for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(torch::equal(all[i], before[i])) << name << " " << i;
    }
  }
}

TEST(Muon, MakesTheUpdateOrthogonal) {
  torch::manual_seed(test_seed(1));
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{40, 40}, {20, 90}, {90, 20}, {1, 30}}) {
    const torch::Tensor x = optimizer::orthogonal(torch::randn(sizes) * 100);
    const torch::Tensor values = std::get<1>(at::linalg_svd(x, false));
    const std::string shape = fmt::format("{} x {}", sizes[0], sizes[1]);
    expect_below("largest singular value, " + shape, values.max().item<double>(), 1.3);
    // Square matrices have small singular values.
    expect_above("smallest singular value, " + shape, values.min().item<double>(), sizes[0] == sizes[1] ? 0.2 : 0.6);
  }
}

// A step has the root mean square of an AdamW step: about 0.2 learning rates.
TEST(Muon, StepsAsFarAsAdamW) {
  torch::manual_seed(test_seed(2));
  const torch::NoGradGuard no_grad;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{128, 128}, {64, 200}, {200, 64}, {32, 16, 3, 3}}) {
    OptimizerConfig config;
    config.name = "muon";
    config.weight_decay = 0;
    Optimizer optimizer(config);
    std::vector<OptimizedParameter> parameters{{"w", torch::zeros(sizes), torch::randn(sizes)}};
    optimizer.make_state(parameters);
    update_once(optimizer, 0, parameters, inputs(0.5));
    const double length = parameters[0].value.pow(2).mean().sqrt().item<double>();
    expect_below(fmt::format("length, distance from 0.1, {} x {}", sizes[0], sizes[1]), std::abs(length - 0.5 * 0.2),
                 0.03);
    EXPECT_LT((parameters[0].value * parameters[0].gradient).sum().item<double>(), 0);
  }
}

TEST(Muon, LeavesTheRestToAdamW) {
  OptimizerConfig config;
  config.name = "muon";
  const torch::Tensor matrix = torch::ones({8, 8});
  const auto kind = [&](const std::string& name, const torch::Tensor& value = torch::ones({8, 8}),
                        bool embedding = false) {
    return optimizer::kind_of(config, {.name = name, .value = value, .embedding = embedding});
  };
  using optimizer::Kind;
  for (const char* name : {"layers.0.attention.qkv.weight", "layers.11.mlp.down.weight", "conv.weight", "heads.weight"})
    EXPECT_EQ(kind(name), Kind::muon) << name;
  for (const char* name : {"embedding", "positions", "head", "model.embed_tokens.weight", "lm_head.weight",
                           "head.weight", "decoder.head", "transformer.wte.weight"})
    EXPECT_EQ(kind(name), Kind::adamw) << name;
  EXPECT_EQ(kind("conv.weight", torch::ones({8})), Kind::adamw);
  EXPECT_EQ(kind("conv.weight", torch::ones({8, 9}).t()), Kind::adamw);
  EXPECT_EQ(kind("tokens.weight", matrix, true), Kind::adamw);
  config.adamw_parameters = {"conv.?eight"};
  EXPECT_EQ(kind("conv.weight"), Kind::adamw);
  EXPECT_EQ(kind("embedding"), Kind::muon);
}

// The patterns of all keys are alike (base/names.h).
TEST(Muon, PatternsNameModulesToo) {
  OptimizerConfig config;
  config.name = "muon";
  config.adamw_parameters = {"layers.[01].mlp"};
  const auto kind = [&](const std::string& name) {
    return optimizer::kind_of(config, {.name = name, .value = torch::ones({8, 8})});
  };
  EXPECT_EQ(kind("layers.1.mlp.up.weight"), optimizer::Kind::adamw);
  EXPECT_EQ(kind("layers.2.mlp.up.weight"), optimizer::Kind::muon);
  EXPECT_EQ(kind("layers.1.mlps.weight"), optimizer::Kind::muon);
}

TEST(Muon, RefusesAPatternThatNamesNothing) {
  OptimizerConfig config;
  config.name = "muon";
  const std::vector<std::string> names = {"embedding", "layers.0.mlp.up.weight"};
  EXPECT_NO_THROW(optimizer::check_patterns(config, names)) << "the defaults are for models of all kinds";
  config.adamw_parameters.push_back("layers.*.mlp");
  EXPECT_NO_THROW(optimizer::check_patterns(config, names));
  config.adamw_parameters.push_back("layer.*.mlp");
  EXPECT_THAT(refusal_of([&] { optimizer::check_patterns(config, names); }),
              ::testing::AllOf(::testing::HasSubstr("optimizer.adamw_parameters: 'layer.*.mlp' matches no parameter"),
                               ::testing::HasSubstr("layers.0.mlp.up.weight")));
  config.name = "adamw";
  EXPECT_NO_THROW(optimizer::check_patterns(config, names)) << "only muon asks";
}

}  // namespace
}  // namespace plimsoll
