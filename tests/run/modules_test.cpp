// Tests libtorch's modules of several operators each, as C++ programs write them: losses, and weights after gradient
// steps, are those of eager libtorch, at every budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "run/eager.h"

namespace plimsoll {
namespace modules {
namespace {

using testing::Batch;
using testing::EagerStep;
using torch::Tensor;

constexpr int64_t kSamples = 3, kTime = 7, kWidth = 6, kWords = 20;

/// A module whose loss is a function of x, [kSamples, kTime, kWidth], and of words, [kSamples, kTime].
struct Net : torch::nn::Module {
  virtual Tensor loss(const Tensor& x, const Tensor& words) = 0;
};

struct Lstm : Net {
  Tensor loss(const Tensor& x, const Tensor&) override {
    const auto [outputs, state] = lstm(x);
    const auto [single, its_state] = projected(outputs);
    return single.square().mean() + std::get<1>(state).mean() + std::get<1>(cell(x.select(1, 0))).mean();
  }
  torch::nn::LSTM lstm = register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, 5).num_layers(2).bidirectional(true).batch_first(true)));
  torch::nn::LSTM projected =
      register_module("projected", torch::nn::LSTM(torch::nn::LSTMOptions(10, 8).proj_size(4).batch_first(true)));
  torch::nn::LSTMCell cell = register_module("cell", torch::nn::LSTMCell(kWidth, 5));
};

struct Gru : Net {
  Tensor loss(const Tensor& x, const Tensor&) override {
    const Tensor h = std::get<0>(rnn(std::get<0>(gru(x))));
    return h.square().mean() + cell(x.select(1, 0)).mean();
  }
  torch::nn::GRU gru = register_module(
      "gru", torch::nn::GRU(torch::nn::GRUOptions(kWidth, 5).num_layers(2).bidirectional(true).batch_first(true)));
  torch::nn::RNN rnn = register_module("rnn", torch::nn::RNN(torch::nn::RNNOptions(10, 4).batch_first(true)));
  torch::nn::GRUCell cell = register_module("cell", torch::nn::GRUCell(kWidth, 5));
};

/// Bags of whole rows and, with offsets, of 5, no and the remaining words.
struct Bags : Net {
  Bags() {
    const auto add = [&](torch::nn::EmbeddingBagOptions options) {
      bags.push_back(register_module("bag" + std::to_string(bags.size()), torch::nn::EmbeddingBag(std::move(options))));
    };
    for (const bool padded : {false, true}) {
      torch::nn::EmbeddingBagOptions options(kWords, 4);
      if (padded) options.padding_idx(2);
      add(options.mode(torch::kSum));
      add(options.mode(torch::kMean));
      add(options.mode(torch::kMax));
    }
  }
  Tensor loss(const Tensor& x, const Tensor& words) override {
    const Tensor flat = words.flatten();
    Tensor sum = bags[0]->forward(words, {}, x.select(2, 0).softmax(1)).square().sum();
    for (auto& bag : bags) {
      sum = sum + bag(words).square().sum();
      sum = sum + bag(flat, torch::tensor({0, 5, 5}, torch::kLong)).square().sum();
    }
    return sum / kSamples;
  }
  std::vector<torch::nn::EmbeddingBag> bags;
};

struct Ctc : Net {
  Tensor loss(const Tensor& x, const Tensor& words) override {
    const Tensor log = head(x).log_softmax(-1).transpose(0, 1);
    const Tensor targets = words.narrow(1, 0, 3).remainder(4) + 1;
    const std::vector<int64_t> inputs(kSamples, kTime), lengths{3, 2, 1};
    const auto host = torch::TensorOptions(torch::kLong).device(torch::kCPU);
    return torch::ctc_loss(log, targets, inputs, lengths) +
           torch::nn::CTCLoss()(log, targets, torch::full({kSamples}, kTime, torch::kLong),
                                torch::tensor(lengths, host));
  }
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, 5));
};

/// A weight of a direction and a length, and a tensor that is set to itself, as torch.nn.utils.parametrize does.
struct WeightNorm : Net {
  Tensor loss(const Tensor& x, const Tensor&) override {
    {
      const torch::NoGradGuard no_grad;
      direction.set_(direction);
    }
    return torch::tanh(torch::linear(x, torch::_weight_norm(direction, length, 0))).square().mean();
  }
  Tensor direction = register_parameter("direction", torch::rand({4, kWidth}) - 0.5);
  Tensor length = register_parameter("length", torch::ones({4, 1}));
};

/// Rows sorted by their expert, one product for all experts, of which one has no rows.
struct Experts : Net {
  Tensor loss(const Tensor& x, const Tensor& words) override {
    const Tensor rows = x.reshape({-1, kWidth}), expert = words.flatten().remainder(3);
    const Tensor order = std::get<1>(torch::sort(expert, std::optional<bool>(true), 0, /*descending=*/false));
    const Tensor ends = torch::one_hot(expert, 4).sum(0).cumsum(0).to(torch::kInt);
    const Tensor mixed = at::_grouped_mm(torch::constant_pad_nd(rows.index({order}), {0, 2}), weights, ends);
    return torch::zeros_like(mixed).index_add(0, order, torch::gelu(mixed)).square().mean();
  }
  Tensor weights = register_parameter("weights", torch::rand({4, 8, 8}) - 0.5);
};

/// Checkpointing as C++ programs write it: forward keeps the input, and backward calls the function again.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const std::function<Tensor(const Tensor&)>& function, const Tensor& first,
                        const Tensor& second) {
    const torch::NoGradGuard no_grad;
    context->save_for_backward({x, first, second});
    context->saved_data["function"] = reinterpret_cast<int64_t>(&function);
    return function(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::AutoGradMode grad(true);
    torch::autograd::variable_list of = context->get_saved_variables();
    of[0] = of[0].detach().requires_grad_();
    const auto& function =
        *reinterpret_cast<const std::function<Tensor(const Tensor&)>*>(context->saved_data["function"].toInt());
    auto found = torch::autograd::grad({function(of[0])}, of, {gradients[0]});
    found.insert(found.begin() + 1, Tensor());
    return found;
  }
};

struct Checkpointed : Net {
  Checkpointed() {
    function = [this](const Tensor& h) { return torch::tanh(second(torch::gelu(first(h)))); };
  }
  Tensor loss(const Tensor& x, const Tensor&) override {
    return Checkpoint::apply(inlet(x), function, first->weight, second->weight).square().mean();
  }
  torch::nn::Linear inlet = register_module("inlet", torch::nn::Linear(kWidth, 8));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(torch::nn::LinearOptions(8, 16).bias(false)));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(torch::nn::LinearOptions(16, 8).bias(false)));
  std::function<Tensor(const Tensor&)> function;
};

template <typename Kind>
Step step_of() {
  Step step;
  step.model = [] { return std::make_shared<Kind>(); };
  step.inputs = {{"x", {kSamples, kTime, kWidth}, torch::kFloat32}, {"words", {kSamples, kTime}, torch::kInt64}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    return static_cast<Net&>(module).loss(in["x"], in["words"]);
  };
  return step;
}

struct Kind {
  const char* name;
  Step step;
};

std::vector<Kind> kinds() {
  return {{"lstm", step_of<Lstm>()},
          {"gru", step_of<Gru>()},
          {"bags", step_of<Bags>()},
          {"ctc", step_of<Ctc>()},
          {"weight_norm", step_of<WeightNorm>()},
          {"experts", step_of<Experts>()},
          {"checkpoint", step_of<Checkpointed>()}};
}

class Modules : public ::testing::TestWithParam<Kind> {};

TEST_P(Modules, TrainAsEagerAtEveryBudget) {
  TrainingOptions options;
  options.optimizer = {.name = "sgd", .weight_decay = 0, .momentum = 0};
  options.max_grad_norm = 0;
  std::vector<double> first;
  for (const bool small : {false, true}) {
    torch::manual_seed(1);
    Training training(GetParam().step, options);
    training.start();
    EagerStep eager(GetParam().step, options);
    eager.copy_from(training);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      const Batch batch{{"x", torch::randn({kSamples, kTime, kWidth})},
                        {"words", torch::randint(kWords, {kSamples, kTime}, torch::kLong)}};
      losses.push_back(training.step({batch}, 0.1).loss);
      EXPECT_NEAR(losses.back(), eager.step({batch}, 0.1), 1e-5 * (1 + std::abs(losses.back())));
      const auto reference = eager.state();
      for (const auto& [name, tensor] : training.state())
        EXPECT_TRUE(torch::allclose(tensor, reference.at(name), 1e-4, 1e-5)) << name << " after step " << i;
    }
    if (!small) first = losses;
    EXPECT_EQ(losses, first);
    options.budget.device = training.minimum_budget_bytes();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Modules, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Modules, LengthsOfACtcLossAreNumbers) {
  struct Lengths : Net {
    Tensor loss(const Tensor& x, const Tensor& words) override {
      const Tensor lengths = words.select(1, 0).remainder(3);
      return torch::ctc_loss((x * scale).log_softmax(-1).transpose(0, 1), words.remainder(4), lengths + 4, lengths);
    }
    Tensor scale = register_parameter("scale", torch::ones({1}));
  };
  try {
    Training training(step_of<Lengths>(), {});
    FAIL() << "it is not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("aten::ctc_loss cannot be recorded: its lengths"));
  }
}

TEST(Modules, BagsWithOtherGradientsAreRefused) {
  struct Scaled : Net {
    Tensor loss(const Tensor&, const Tensor& words) override { return bag(words).square().mean(); }
    torch::nn::EmbeddingBag bag = register_module(
        "bag", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(kWords, 4).scale_grad_by_freq(true)));
  };
  try {
    Training training(step_of<Scaled>(), {});
    FAIL() << "it is not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("scale_grad_by_freq"));
  }
}

}  // namespace
}  // namespace modules
}  // namespace plimsoll
