// Tests training on an NVIDIA device: planned bytes are the used bytes, nothing is allocated once it runs, and the
// losses are those of the CPU except for rounding. Skipped without a device.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "cli/utilization.h"
#include "cuda/needs_gpu.h"
#include "device/backend.h"
#include "plimsoll/models.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::RunResult;
using testing::token_batch;
using testing::train;

Step decoder(int64_t width = 128) {
  DecoderConfig config;
  config.vocab_size = 512;
  config.hidden_size = width;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  return decoder_step(config, 2, 64);
}

class CudaTraining : public ::testing::Test {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_GPU(); }
  static RunResult run(const std::string& device, TrainingOptions options, int micro = 1, int steps = 6) {
    options.device = device;
    options.accumulate = micro > 1;
    return train(decoder(), options, micro, steps);
  }
};

TEST_F(CudaTraining, LossesAreThoseOfTheCpu) {
  const RunResult cpu = run("cpu", {}), cuda = run("cuda", {});
  ASSERT_EQ(cpu.losses.size(), cuda.losses.size());
  // A device draws weights by another generator: the curves are alike, not the numbers.
  EXPECT_NEAR(cuda.losses.front(), cpu.losses.front(), 0.2);
  EXPECT_TRUE(std::isfinite(cuda.losses.back()));
}

// From the same weights.
TEST_F(CudaTraining, AStepFromTheSameWeightsGivesTheSameWeights) {
  for (const Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
    Training cpu(decoder(), {.precision = precision}), cuda(decoder(), {.precision = precision, .device = "cuda"});
    cpu.start();
    cuda.start();
    const auto ours = cuda.state(), expected = cpu.state();
    for (size_t i = 0; i < ours.size(); ++i) at::Tensor(ours[i].second).copy_(expected[i].second);
    const auto batch = token_batch(2, 64, 512);
    const double tolerance = precision == Precision::fp32_true ? 1e-5 : 2e-2;
    for (int step = 0; step < 3; ++step)
      EXPECT_NEAR(cuda.step({batch}, 1e-3).loss, cpu.step({batch}, 1e-3).loss, tolerance * 10) << "step " << step;
    for (const auto& [name, tensor] : cuda.state())
      for (const auto& [other, reference] : cpu.state())
        if (name == other && tensor.is_floating_point())
          EXPECT_LE((tensor.cpu() - reference).abs().max().item<double>(), 3.5e-3) << name;
  }
}

TEST_F(CudaTraining, TheArenaIsUsedAsPlannedAndNothingElseIsTaken) {
  for (const Precision precision :
       {Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true}) {
    Training training(decoder(), {.precision = precision, .device = "cuda"});
    training.start();
    std::vector<int64_t> allocations;
    for (int step = 0; step < 6; ++step) {
      training.step({token_batch(2, 64, 512)}, 1e-3);
      allocations.push_back(training.used().out_of_arena_allocations);
    }
    EXPECT_EQ(training.used().arena, training.plan().arena_bytes);
    EXPECT_EQ(allocations[5], allocations[1]);
  }
}

// The plan changes bytes, not losses.
TEST_F(CudaTraining, LessMemoryGivesTheSameLosses) {
  const int64_t host = int64_t{1} << 30;
  for (const int micro : {1, 2}) {
    const RunResult whole = run("cuda", {}, micro);
    const int64_t least = [&] {
      TrainingOptions options{.budget = {.host = host}, .device = "cuda"};
      options.accumulate = micro > 1;
      return Training(decoder(), options).minimum_budget_bytes();
    }();
    const RunResult tight = run("cuda", {.budget = {.device = least, .host = host}}, micro);
    EXPECT_LE(tight.used.arena, least);
    EXPECT_EQ(tight.losses, whole.losses);
    EXPECT_EQ(tight.norms, whole.norms);
  }
}

// By the driver's count: 1 % of the plan, or the unit in which memory is allocated. Kernels are loaded when they are
// first used, and their code belongs to the context: an equal training before has used them all.
TEST_F(CudaTraining, TheDriverSeesWhatIsPlanned) {
  const auto used = [] {
    const auto gpus = gpus_in_use();
    return gpus.empty() ? int64_t{0} : gpus.front().memory_used;
  };
  constexpr int kSteps = 4;  // graphs run from the third on
  {
    Training training(decoder(1024), {.device = "cuda"});
    training.start();
    for (int step = 0; step < kSteps; ++step) training.step({token_batch(2, 64, 512)}, 1e-3);
  }
  const int64_t before = used();
  if (before == 0) GTEST_SKIP() << "the driver does not say what is used";
  Training training(decoder(1024), {.device = "cuda"});
  training.start();
  for (int step = 0; step < kSteps; ++step) training.step({token_batch(2, 64, 512)}, 1e-3);
  EXPECT_EQ(backend_for("cuda").capture_refusal(), "");
  const auto planned = static_cast<double>(training.plan().arena_bytes);
  EXPECT_NEAR(static_cast<double>(used() - before), planned, 0.01 * planned + static_cast<double>(4 << 20));
}

TEST_F(CudaTraining, CheckpointedStateIsTheSameAfterManySteps) {
  const RunResult plain = run("cuda", {.gradient_checkpointing = Choice::off}, 1, 8);
  const RunResult rebuilt = run("cuda", {.gradient_checkpointing = Choice::on}, 1, 8);
  EXPECT_EQ(plain.losses, rebuilt.losses);  // graphs of ops run from the third step on
  for (const auto& [name, tensor] : plain.state)
    EXPECT_TRUE(testing::same_bits(tensor.cpu(), rebuilt.state.at(name).cpu())) << name;
}

}  // namespace
}  // namespace plimsoll
