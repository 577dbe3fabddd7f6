// Tests that random ops draw from (seed, step, micro batch, op): two draws that differ in one of these are different
// numbers.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/training.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using torch::Tensor;

constexpr int64_t kElements = 64, kMicroBatches = 4;
constexpr int kOps = 3, kRandomSteps = 2;

/// One parameter of zeros for each random op.
struct Zeros : torch::nn::Module {
  Zeros() {
    for (int i = 0; i < kOps; ++i)
      all.push_back(register_parameter("p" + std::to_string(i), torch::zeros({kElements})));
  }
  std::vector<Tensor> all;
};

/// Each op hides half of its parameter's elements and doubles the others. The input weighs the micro batches.
Step masking_step() {
  Step step;
  step.model = [] { return std::make_shared<Zeros>(); };
  step.inputs = {{"weight", {1}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    const auto& p = static_cast<Zeros&>(module).all;
    const Tensor kept = torch::dropout(p[0], 0.5, true) + std::get<0>(torch::native_dropout(p[1], 0.5, true)) +
                        p[2] * torch::bernoulli(torch::full_like(p[2], 0.5)) * 2;
    return (kept * in["weight"]).sum();
  };
  return step;
}

struct Mask {
  std::string name;  ///< step, micro batch, op
  Tensor kept;       ///< int64 [kElements]: 1, or 0 if the op hides the element
};

/// The masks that the ops draw in all micro batches of all steps.
///
/// Micro batch m weighs 2^m. Plain gradient descent with a rate of 1 then moves an element by
/// -(2 / kMicroBatches) x the sum of 2^m over the micro batches that keep it, and all of these are exact in float32.
std::vector<Mask> masks_of(uint64_t seed, Choice checkpointing = Choice::off) {
  TrainingOptions options;
  options.seed = seed;
  options.accumulate = true;
  options.gradient_checkpointing = checkpointing;
  options.optimizer = {.name = "sgd", .weight_decay = 0, .momentum = 0};
  options.max_grad_norm = 0;
  Training training(masking_step(), options);
  training.start();
  std::vector<Batch> batches;
  for (int64_t m = 0; m < kMicroBatches; ++m)
    batches.push_back({{"weight", torch::full({1}, static_cast<double>(int64_t{1} << m), torch::kFloat32)}});
  std::vector<Mask> masks;
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : training.state()) before[name] = tensor.clone();
  for (int step = 0; step < kRandomSteps; ++step) {
    training.step(batches, 1.0);
    for (const auto& [name, tensor] : training.state()) {
      if (!name.starts_with("p")) continue;
      const Tensor bits = ((before.at(name) - tensor) * (kMicroBatches / 2)).to(torch::kLong);
      before[name] = tensor.clone();
      for (int64_t m = 0; m < kMicroBatches; ++m)
        masks.push_back({c10::str("step ", step, ", micro batch ", m, ", ", name), bits.bitwise_right_shift(m) & 1});
    }
  }
  return masks;
}

TEST(Random, EveryMicroBatchStepAndOpDrawsAnotherMask) {
  const std::vector<Mask> masks = masks_of(11);
  ASSERT_EQ(masks.size(), kRandomSteps * kMicroBatches * kOps);
  for (size_t i = 0; i < masks.size(); ++i) {
    const auto kept = masks[i].kept.sum().item<int64_t>();
    EXPECT_GT(kept, kElements / 8) << masks[i].name;
    EXPECT_LT(kept, kElements - kElements / 8) << masks[i].name;
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(torch::equal(masks[i].kept, masks[j].kept)) << masks[i].name << " is " << masks[j].name;
  }
}

TEST(Random, TheSameSeedDrawsTheSameMasks) {
  const std::vector<Mask> first = masks_of(11), second = masks_of(11), other = masks_of(12);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::equal(first[i].kept, second[i].kept)) << first[i].name;
    EXPECT_FALSE(torch::equal(first[i].kept, other[i].kept)) << first[i].name << " with another seed";
  }
}

}  // namespace
}  // namespace plimsoll
