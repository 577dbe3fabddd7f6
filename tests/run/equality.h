// Declares a check that trains a step twice, planned and eager, and compares every bit.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "plimsoll/training.h"
#include "run/eager.h"
#include "run/executor/guard.h"

namespace plimsoll::testing {

/// Expects that every bit is the same, also in NaNs and signed zeros.
inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// Trains both for `steps` steps of `micro` micro batches and compares losses and every bit of the state. On the
/// CPU, the ops of the planned training are checked, unless `checks` is false.
inline void expect_equal(const Step& step, const TrainingOptions& options, const std::function<Batch()>& batch,
                         int steps, int micro, bool checks = true) {
  std::optional<CheckedOps> checked;
  if (checks && options.device == "cpu") checked.emplace();
  Training training(step, options);
  ASSERT_TRUE(training.plan().fits);
  training.start();
  EagerStep eager(step, options);
  eager.copy_from(training);
  for (int i = 0; i < steps; ++i) {
    std::vector<Batch> batches;
    for (int m = 0; m < micro; ++m) batches.push_back(batch());
    const double scale = training.loss_scale();
    const StepResult result = training.step(batches, 1e-3);
    EXPECT_EQ(result.loss, eager.step(batches, 1e-3, scale)) << "step " << i;
    const auto reference = eager.state();
    for (const auto& [name, tensor] : training.state())
      ASSERT_TRUE(same_bits(tensor, reference.at(name)))
          << name << " differs after step " << i << " by "
          << (tensor.to(torch::kDouble) - reference.at(name).to(torch::kDouble)).abs().max().item<double>();
  }
}

}  // namespace plimsoll::testing
