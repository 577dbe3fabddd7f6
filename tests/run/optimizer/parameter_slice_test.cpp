// Tests that ranks that each update a slice of a parameter get the bits of one rank that updates the whole.
#include "run/optimizer/parameter_state.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <limits>
#include <numeric>

#include "collectives/ranks.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {
namespace {

TEST(SliceElements, AreMultiplesOfABlockAndCoverTheWhole) {
  for (int64_t ranks = 2; ranks <= 70; ++ranks)
    for (int64_t elements = 4096 * ranks; elements < 4096 * ranks + 5000; elements += 128) {
      const int64_t each = optimizer::slice_elements(elements, ranks);
      ASSERT_EQ(each % 1024, 0) << elements << " on " << ranks;
      ASSERT_GE(each * ranks, elements);
      ASSERT_LT((each - 1024) * ranks, elements) << "no block too many";
    }
}

TEST(SliceElements, SmallAndUnevenParametersStayWhole) {
  EXPECT_EQ(optimizer::slice_elements(8192, 2), 4096);
  EXPECT_EQ(optimizer::slice_elements(8192 - 128, 2), 0) << "fewer than 4096 for each rank";
  EXPECT_EQ(optimizer::slice_elements(8192, 3), 0);
  EXPECT_EQ(optimizer::slice_elements(8192 + 64, 2), 0) << "the last block of 8-bit state is not whole";
  EXPECT_EQ(optimizer::slice_elements(8192 + 128, 2), 5120);
}

constexpr int kUpdates = 3;

struct SlicedUpdate {
  std::string name;
  double momentum;
  StateDtype state;
  WeightUpdate update;
  at::ScalarType type, gradient;

  OptimizerConfig config() const {
    OptimizerConfig config;
    config.name = name;
    config.momentum = momentum;
    config.state_dtype = state;
    config.weight_update = update;
    config.weight_decay = 0.1;
    return config;
  }
};

std::vector<SlicedUpdate> all_updates() {
  std::vector<SlicedUpdate> all;
  for (const auto& [name, momentum] :
       {std::pair{"adamw", 0.9}, std::pair{"lion", 0.9}, std::pair{"sgd", 0.0}, std::pair{"sgd", 0.9}})
    for (const StateDtype state : {StateDtype::float32, StateDtype::bfloat16, StateDtype::bits8, StateDtype::bits4}) {
      all.push_back({name, momentum, state, WeightUpdate::stochastic, at::kFloat, at::kFloat});
      for (const WeightUpdate update :
           {WeightUpdate::stochastic, WeightUpdate::kahan, WeightUpdate::split, WeightUpdate::master}) {
        all.push_back({name, momentum, state, update, at::kBFloat16, at::kBFloat16});
        if (update != WeightUpdate::split) all.push_back({name, momentum, state, update, at::kHalf, at::kFloat});
      }
    }
  return all;
}

std::string text_of(const SlicedUpdate& update) {
  return c10::str(update.name, ", momentum ", update.momentum, ", state ", name_of(update.state), ", ",
                  name_of(update.update), ", ", update.type);
}

/// Returns the slice of `rank` of a copy of `whole`, with zeros after its end.
OptimizedParameter sliced(const OptimizedParameter& whole, int rank, int ranks, bool apart) {
  const int64_t count = whole.value.numel(), each = optimizer::slice_elements(count, ranks);
  if (each == 0) return {whole.name, whole.value.clone(), {}};
  const at::Tensor padded = at::zeros({each * ranks}, whole.value.options());
  padded.narrow(0, 0, count).copy_(whole.value.view(-1));
  const at::Tensor own = padded.narrow(0, rank * each, each);
  OptimizedParameter made{whole.name, apart ? own.clone() : own, {}};
  made.slice = optimizer::ParameterSlice{
      padded.narrow(0, 0, count).view(whole.value.sizes()), padded, made.value, rank, ranks, each, apart};
  return made;
}

at::Tensor sliced_gradient(const at::Tensor& whole, const OptimizedParameter& parameter) {
  if (!parameter.slice) return whole;
  const at::Tensor padded = at::zeros({parameter.slice->elements * parameter.slice->ranks}, whole.options());
  padded.narrow(0, 0, whole.numel()).copy_(whole.view(-1));
  return padded.narrow(0, parameter.slice->first_element(), parameter.slice->elements);
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.reshape(-1).view(at::kByte), b.reshape(-1).view(at::kByte));
}

// Concatenates slices, without the elements after the end of `whole`.
bool are_slices_of(const std::vector<at::Tensor>& slices, const at::Tensor& whole) {
  return equal_bits(at::cat(slices).narrow(0, 0, whole.numel()), whole);
}

/// One parameter with its optimizer.
struct Updated {
  Updated(const SlicedUpdate& update, const OptimizedParameter& made) : optimizer(update.config(), 5), parameter(made) {
    state = optimizer.make_state({parameter});
  }
  void step(const at::Tensor& gradient) {
    parameter.gradient = sliced_gradient(gradient, parameter);
    const at::Tensor skipped = at::zeros({});
    optimizer.update_one(parameter, 0, {at::scalar_tensor(1e-2, at::kDouble), at::scalar_tensor(0.5), skipped});
    optimizer.count_step(skipped);
  }

  Optimizer optimizer;
  OptimizedParameter parameter;
  std::vector<NamedState> state;
};

void expect_slices_of(const std::vector<std::unique_ptr<Updated>>& ranks, const Updated& one, const std::string& what) {
  std::vector<at::Tensor> values;
  for (const auto& rank : ranks) values.push_back(rank->parameter.value);
  EXPECT_TRUE(are_slices_of(values, one.parameter.value)) << what;
  const int64_t count = one.parameter.value.numel(), padded = at::cat(values).numel();
  EXPECT_EQ(at::cat(values).narrow(0, count, padded - count).count_nonzero().item<int64_t>(), 0) << what;
  for (size_t i = 0; i < one.state.size(); ++i) {
    const NamedState& whole = one.state[i];
    std::vector<at::Tensor> slices;
    for (const auto& rank : ranks) {
      ASSERT_EQ(rank->state[i].name, whole.name);
      slices.push_back(rank->state[i].tensor);
      if (whole.name == "optimizer.step") {
        EXPECT_TRUE(rank->state[i].whole_sizes.empty());
        EXPECT_TRUE(equal_bits(slices.back(), whole.tensor)) << what;
        continue;
      }
      EXPECT_EQ(rank->state[i].whole_sizes, whole.tensor.sizes().vec()) << whole.name << ", " << what;
    }
    if (whole.name != "optimizer.step") {
      EXPECT_TRUE(are_slices_of(slices, whole.tensor)) << whole.name << ", " << what;
    }
  }
}

// 16 384 elements on three ranks, and 16 512 on any number, end within the slice of the last one.
TEST(ParameterSlice, UpdatesOfSlicesHaveTheBitsOfTheUpdateOfTheWhole) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(8);
  for (const SlicedUpdate& update : all_updates())
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{64, 256}, {16512}}) {
      const OptimizedParameter whole{"p", at::randn(sizes).to(update.type), {}};
      std::vector<at::Tensor> gradients;
      for (int i = 0; i < kUpdates; ++i) gradients.push_back(at::randn(sizes).to(update.gradient));
      Updated one(update, {"p", whole.value.clone(), {}});
      for (const at::Tensor& gradient : gradients) one.step(gradient);
      EXPECT_FALSE(at::equal(one.parameter.value, whole.value));
      for (const int ranks : {2, 3, 4}) {
        std::vector<std::unique_ptr<Updated>> all;
        for (int rank = 0; rank < ranks; ++rank) {
          all.push_back(std::make_unique<Updated>(update, sliced(whole, rank, ranks, rank % 2 == 0)));
          for (const at::Tensor& gradient : gradients) all.back()->step(gradient);
        }
        expect_slices_of(all, one, c10::str(text_of(update), ", ", at::IntArrayRef(sizes), " on ", ranks));
        if (::testing::Test::HasFailure()) return;
      }
    }
}

struct SlicedStepResult {
  std::vector<at::Tensor> values;  // for each parameter the whole, or the slice if it is sliced
  at::Tensor norm, skipped;
};

// Steps with UpdateStep: two parameters that may be sliced, and a small one.
SlicedStepResult steps_of(const std::vector<OptimizedParameter>& start,
                          const std::vector<std::vector<at::Tensor>>& gradients, double max_grad_norm) {
  std::vector<OptimizedParameter> parameters = start;
  OptimizerConfig config;
  config.weight_update = WeightUpdate::stochastic;
  Optimizer optimizer(config, 5);
  UpdateStep update(optimizer, max_grad_norm);
  optimizer.make_state(parameters);
  update.make_scalars(parameters);
  SlicedStepResult result;
  for (const std::vector<at::Tensor>& each : gradients) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].gradient = sliced_gradient(each[i], parameters[i]);
    const UpdateOutputs outputs =
        update.run(parameters, {at::scalar_tensor(1e-2, at::kDouble), at::scalar_tensor(2.0)});
    result.norm = outputs.gradient_norm.clone();
    result.skipped = outputs.skipped.clone();
  }
  for (const OptimizedParameter& parameter : parameters)
    result.values.push_back(parameter.slice && !parameter.slice->apart ? parameter.slice->parameter : parameter.value);
  return result;
}

class SlicedSteps : public ::testing::Test {
 protected:
  SlicedSteps() {
    torch::manual_seed(9);
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{129, 128}, {30, 10}, {64, 256}})
      start_.push_back({"p" + std::to_string(start_.size()), at::randn(sizes).to(at::kBFloat16), {}});
    for (int i = 0; i < kUpdates; ++i) {
      gradients_.emplace_back();
      for (const OptimizedParameter& parameter : start_)
        gradients_.back().push_back(at::randn(parameter.value.sizes()));
    }
  }

  // `skipped`: of the last step.
  void expect_same_steps(float skipped) const {
    for (const double max_grad_norm : {0.0, 1.0}) {
      const at::NoGradGuard no_grad;
      std::vector<OptimizedParameter> copies;
      for (const OptimizedParameter& each : start_) copies.push_back({each.name, each.value.clone(), {}});
      const SlicedStepResult one = steps_of(copies, gradients_, max_grad_norm);
      ASSERT_EQ(one.skipped.item<float>(), skipped);
      for (const int size : {2, 3, 4})
        for (const bool apart : {false, true}) {
          std::vector<SlicedStepResult> results(static_cast<size_t>(size));
          for (const std::string& error : run_ranks(size, [&](Exchange& exchange) {
                 const at::NoGradGuard no_grad_here;
                 const ExchangeScope scope(&exchange, "step 1");
                 std::vector<OptimizedParameter> parameters;
                 for (const OptimizedParameter& each : start_)
                   parameters.push_back(sliced(each, exchange.rank(), size, apart));
                 results[static_cast<size_t>(exchange.rank())] = steps_of(parameters, gradients_, max_grad_norm);
               }))
            ASSERT_EQ(error, "");
          for (size_t i = 0; i < start_.size(); ++i) {
            const std::string what =
                c10::str("parameter ", i, " on ", size, apart ? " apart" : "", ", clipped to ", max_grad_norm);
            std::vector<at::Tensor> slices;
            for (const SlicedStepResult& rank : results) slices.push_back(rank.values[i].reshape(-1));
            const bool is_slice = apart && optimizer::slice_elements(start_[i].value.numel(), size) > 0;
            if (is_slice) {
              EXPECT_TRUE(are_slices_of(slices, one.values[i])) << what;
            }
            for (const SlicedStepResult& rank : results) {
              EXPECT_TRUE(is_slice || equal_bits(rank.values[i], one.values[i])) << what;
              EXPECT_EQ(rank.skipped.item<float>(), skipped) << what;
              EXPECT_TRUE(skipped == 1 || equal_bits(rank.norm, one.norm)) << what;
            }
          }
        }
    }
  }

  std::vector<OptimizedParameter> start_;
  std::vector<std::vector<at::Tensor>> gradients_;
};

TEST_F(SlicedSteps, NormsClippingAndUpdatesHaveTheBitsOfOneRank) {
  expect_same_steps(0);
}

// The non-finite value is in the slice of one rank, and all skip the step.
TEST_F(SlicedSteps, AllRanksSkipTheSameStep) {
  for (const int64_t row : {0, 128}) {
    gradients_.back()[0][row][5] = std::numeric_limits<float>::quiet_NaN();
    expect_same_steps(1);
    gradients_.back()[0][row][5] = 1;
  }
}

}  // namespace
}  // namespace plimsoll
