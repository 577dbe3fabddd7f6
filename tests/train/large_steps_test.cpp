// Tests that steps with many ops, of which not every micro batch is searched to the end, get the same choice.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "plimsoll/devices.h"
#include "plimsoll/train_job.h"

namespace plimsoll {
namespace {

TEST(LargeSteps, AnOpenMicroBatchIsAsFastAsTheBestOfThePinnedOnes) {
  std::mt19937 random(5);
  int recomputed = 0;
  for (int round = 0; round < 3; ++round) {
    const std::string text = fmt::format(
        "model: {{type: decoder, vocab_size: 512, hidden_size: {}, num_layers: 27, num_heads: 4, activation: {}}}\n"
        "data: {{type: synthetic, samples: 8, sequence_length: {}, validation_fraction: 0}}\n"
        "optimizer: {{name: adamw, learning_rate: 1.0e-3}}\nprecision: bf16-true\nbatch_size: 8\n"
        "micro_batch_size: auto\nmax_grad_norm: 0\nmax_steps: 1\ndevice: cuda\nmemory_budget: 1GiB\n",
        std::vector{256, 512, 1024}[round], random() % 2 ? "swiglu" : "gelu", std::vector{256, 1024}[random() % 2]);
    SCOPED_TRACE(text);
    const Job job = parse_job(text, "large", ".");
    PlanTarget target = target_of(require_device("rtx4090"));
    target.budget.device = 1;
    const PlannedJob least = plan_job(job, target);
    ASSERT_GT(least.recorded.ops.size(), 1500u);
    target.budget.device.reset();
    const int64_t most = plan_job(job, target).plan.peak_bytes, from = least.minimum_budget_bytes;
    for (const int part : {15, 50, 85}) {
      target.budget.device = from + (most - from) * part / 100;
      double best = std::numeric_limits<double>::infinity();
      for (const int64_t size : candidate_micro_batches(8)) {
        Job fixed = job;
        fixed.micro_batch_size = size;
        fixed.gradient_accumulation_steps = AccumulationSchedule{{0, 8 / size}};
        const PlannedJob planned = plan_job(fixed, target);
        if (!planned.plan.fits) continue;
        best = std::min(best, planned.step_seconds);
        recomputed += planned.plan.checkpointed;
      }
      const PlannedJob open = plan_job(job, target);
      ASSERT_TRUE(open.plan.fits);
      EXPECT_EQ(open.step_seconds, best) << *target.budget.device;
    }
  }
  EXPECT_GT(recomputed, 5);
}

}  // namespace
}  // namespace plimsoll
