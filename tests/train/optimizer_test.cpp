// The update against libtorch's own optimizers.
#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace plimsoll {
namespace {

struct Trained {
  std::vector<OptimizedParameter> ours;
  std::vector<torch::Tensor> theirs;
};

Trained two_copies() {
  torch::manual_seed(6);
  Trained trained;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{7, 5}, {11}, {3, 4, 2}}) {
    const torch::Tensor value = torch::randn(sizes);
    trained.ours.push_back({"p" + std::to_string(trained.ours.size()), value.clone(), {}});
    trained.theirs.push_back(value.clone().requires_grad_());
  }
  return trained;
}

// Five steps with the same gradients, clipped to a norm that binds; decay on matrices only.
void expect_close(OptimizerConfig config,
                  const std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>,
                                                                               std::vector<torch::Tensor>)>& make) {
  Trained trained = two_copies();
  config.learning_rate = 1e-2;
  Optimizer optimizer(config, /*max_grad_norm=*/0.5);
  torch::NoGradGuard no_grad;
  optimizer.make_state(trained.ours);
  std::vector<torch::Tensor> matrices, others;
  for (const torch::Tensor& p : trained.theirs) (p.dim() >= 2 ? matrices : others).push_back(p);
  const auto reference = make(matrices, others);
  const double scale = 8;  // of the loss, as float16 has it
  for (int step = 0; step < 5; ++step) {
    std::vector<torch::Tensor> gradients;
    for (size_t i = 0; i < trained.ours.size(); ++i) {
      const torch::Tensor gradient = torch::randn_like(trained.ours[i].value);
      trained.ours[i].gradient = gradient * scale;
      trained.theirs[i].mutable_grad() = gradient.clone();
    }
    const double norm = torch::nn::utils::clip_grad_norm_(trained.theirs, 0.5);
    const UpdateOutputs outputs = optimizer.update(
        trained.ours, {torch::scalar_tensor(config.learning_rate, torch::kDouble), torch::scalar_tensor(scale)});
    reference->step();
    EXPECT_NEAR(outputs.gradient_norm.item<double>(), norm, 1e-5 * norm);
    for (size_t i = 0; i < trained.ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(trained.ours[i].value, trained.theirs[i], 1e-5, 1e-6))
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
  Optimizer optimizer(config, 0);
  torch::NoGradGuard no_grad;
  optimizer.make_state(trained.ours);
  for (OptimizedParameter& p : trained.ours) p.gradient = torch::zeros_like(p.value);
  optimizer.update(trained.ours, {torch::scalar_tensor(0.1, torch::kDouble), torch::scalar_tensor(1.0)});
  for (size_t i = 0; i < trained.ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(trained.ours[i].value,
                                trained.theirs[i].detach() * (trained.ours[i].value.dim() >= 2 ? 0.95 : 1.0)));
}

// Whatever lies around the tensors: 16-bit kernels are given no chance to read it.
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
          Optimizer optimizer(config, 1.0);
          torch::NoGradGuard no_grad;
          std::vector<OptimizedParameter> parameters{{"p", put(torch::randn(size)), put(torch::randn(size))}};
          const auto state = optimizer.make_state(parameters);
          for (int i = 0; i < 2; ++i)
            optimizer.update(parameters, {torch::scalar_tensor(1e-2, torch::kDouble), torch::scalar_tensor(1.0)});
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
  Optimizer optimizer(config, 1.0);
  torch::NoGradGuard no_grad;
  const torch::Tensor value = torch::ones({4, 4}, torch::kBFloat16);
  std::vector<OptimizedParameter> parameters{{"p", value.clone(), torch::full({4, 4}, NAN, torch::kBFloat16)}};
  optimizer.make_state(parameters);
  EXPECT_EQ(optimizer.update(parameters, {torch::scalar_tensor(0.1, torch::kDouble), torch::scalar_tensor(1.0)})
                .skipped.item<float>(),
            1);
  EXPECT_TRUE(torch::equal(parameters[0].value, value));
}

}  // namespace
}  // namespace plimsoll
