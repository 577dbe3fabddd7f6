// Tests that state that forward changes has the values of eager libtorch: with micro batches, of which the last is
// smaller, with recomputation, and for state that is replaced instead of written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "run/eager.h"

namespace plimsoll {
namespace changing_state {
namespace {

using testing::Batch;
using testing::EagerStep;
using torch::Tensor;

constexpr int64_t kSamples = 4, kLast = 2, kWidth = 8;

/// A layer whose `forward` changes its state.
struct Block : torch::nn::Module {
  virtual Tensor forward(const Tensor& x) = 0;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

struct BatchNorms : Block {
  Tensor forward(const Tensor& x) override {
    return instances(torch::gelu(norm(layer(x))).unsqueeze(1).expand({-1, 3, -1})).mean(1);
  }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
  torch::nn::InstanceNorm1d instances = register_module(
      "instances", torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(3).track_running_stats(true)));
};

/// A moving average without its bias, by a counter of calls.
struct MovingAverage : Block {
  Tensor forward(const Tensor& x) override {
    const Tensor h = torch::tanh(layer(x));
    {
      const torch::NoGradGuard no_grad;
      calls.add_(1);
      average.mul_(0.9).add_(h.mean(0), 0.1);
      largest.copy_(torch::maximum(largest, h.abs().max()));
    }
    return (h - average / (1 - torch::pow(0.9, calls.to(torch::kFloat)))) / largest;
  }
  Tensor average = register_buffer("average", torch::zeros({kWidth}));
  Tensor calls = register_buffer("calls", torch::zeros({}, torch::kLong));
  Tensor largest = register_buffer("largest", torch::zeros({}));
};

/// A weight that is divided by its largest singular value, whose vectors a power iteration follows.
struct SpectralNorm : Block {
  Tensor forward(const Tensor& x) override {
    {
      const torch::NoGradGuard no_grad;
      v.copy_(normalized(layer->weight.t().mv(u)));
      u.copy_(normalized(layer->weight.mv(v)));
    }
    const Tensor left = u.clone(), right = v.clone();
    return torch::tanh(torch::linear(x, layer->weight / (left * layer->weight.mv(right)).sum(), layer->bias));
  }
  static Tensor normalized(const Tensor& x) { return x / x.norm().clamp_min(1e-12); }
  Tensor u = register_buffer("u", torch::ones({kWidth}));
  Tensor v = register_buffer("v", torch::ones({kWidth}));
};

/// State whose tensors get other storages in each call.
struct Replaced : Block {
  Tensor forward(const Tensor& x) override {
    const Tensor h = torch::tanh(layer(x)) * average;
    const torch::NoGradGuard no_grad;
    average.set_data(0.9 * average + 0.1 * h.mean(0));
    const Tensor other = second.clone();
    second.set_data(first.detach());  // they exchange their values
    first.set_data(other + 1);
    return h;
  }
  Tensor average = register_buffer("average", torch::ones({kWidth}));
  Tensor first = register_parameter("first", torch::zeros({3}), /*requires_grad=*/false);
  Tensor second = register_parameter("second", torch::ones({3}), /*requires_grad=*/false);
};

template <typename Kind>
Step step_of() {
  struct Net : torch::nn::Module {
    Net() {
      for (int i = 0; i < 3; ++i) layers->push_back(std::make_shared<Kind>());
    }
    torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
  };
  Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"x", {kSamples, kWidth}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    Tensor x = in["x"];
    for (const auto& block : *static_cast<Net&>(module).layers) x = x + dynamic_cast<Kind&>(*block).forward(x);
    return x.square().mean();
  };
  return step;
}

struct Kind {
  const char* name;
  Step step;
};

class ChangingState : public ::testing::TestWithParam<int> {
 protected:
  static Kind kind() {
    const Kind kinds[] = {{"batch norms", step_of<BatchNorms>()},
                          {"a moving average", step_of<MovingAverage>()},
                          {"a spectral norm", step_of<SpectralNorm>()},
                          {"replaced state", step_of<Replaced>()}};
    return kinds[GetParam()];
  }

  /// Batches of two whole micro batches and a smaller one.
  static std::vector<Batch> batches() {
    return {{{"x", torch::randn({kSamples, kWidth})}},
            {{"x", torch::randn({kSamples, kWidth})}},
            {{"x", torch::randn({kLast, kWidth})}}};
  }
};

TEST_P(ChangingState, IsThatOfEagerAtEveryBudget) {
  const Kind kind = this->kind();
  SCOPED_TRACE(kind.name);
  TrainingOptions options;
  options.accumulate = true;
  options.last_micro_batch = kLast;
  options.optimizer = {.name = "sgd", .weight_decay = 0, .momentum = 0};
  options.max_grad_norm = 0;
  options.gradient_checkpointing = Choice::off;
  std::map<std::string, Tensor> first;
  for (const Choice checkpointing : {Choice::off, Choice::on, Choice::automatic}) {
    options.gradient_checkpointing = checkpointing;
    Training training(kind.step, options);
    training.start();
    EagerStep eager(kind.step, options);
    eager.copy_from(training);
    torch::manual_seed(1);
    for (int step = 0; step < 3; ++step) {
      const std::vector<Batch> given = batches();
      EXPECT_NEAR(training.step(given, 0.05).loss, eager.step(given, 0.05), 1e-5);
    }
    std::map<std::string, Tensor> state;
    for (const auto& [name, tensor] : training.state()) state[name] = tensor.clone();
    for (const auto& [name, tensor] : eager.state())
      EXPECT_TRUE(torch::allclose(state.at(name), tensor, 1e-4, 1e-5)) << name;
    if (checkpointing == Choice::off) {
      first = state;
      options.budget.device = training.minimum_budget_bytes();
    } else {
      for (const auto& [name, tensor] : first) EXPECT_TRUE(torch::equal(state.at(name), tensor)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChangingState, ::testing::Range(0, 4));

// A member that is no buffer, and that the next micro batch reads.
TEST(ChangingState, UnregisteredStateIsRefused) {
  struct Kept : Block {
    Tensor forward(const Tensor& x) override {
      const Tensor h = torch::tanh(layer(x));
      const Tensor y = last.defined() ? h + last : h;
      last = h.detach().mean(0);
      return y;
    }
    Tensor last;
  };
  TrainingOptions options;
  options.accumulate = true;
  try {
    Training training(step_of<Kept>(), options);
    FAIL() << "it is not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("use register_buffer"));
  }
}

TEST(ChangingState, ReplacedStateKeepsItsSizes) {
  struct Growing : Block {
    Tensor forward(const Tensor& x) override {
      const Tensor h = layer(x);
      const torch::NoGradGuard no_grad;
      rows.set_data(torch::cat({rows, h}));
      return h;
    }
    Tensor rows = register_buffer("rows", torch::zeros({1, kWidth}));
  };
  try {
    Training training(step_of<Growing>(), {});
    FAIL() << "it is not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("'layers.0.rows' is replaced in forward by a tensor of Float [5, 8]"));
  }
}

}  // namespace
}  // namespace changing_state
}  // namespace plimsoll
