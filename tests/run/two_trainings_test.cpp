// Tests that two trainings of one process, in a thread each, have the losses and the memory that each has alone.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::token_batch;

constexpr int kSteps = 6;

struct Result {
  std::vector<double> losses;
  int64_t planned = 0, used = 0;
  std::exception_ptr error;
};

class OneOfTwo {
 public:
  // The model and the batches come from libtorch's generator, which the process has once.
  OneOfTwo(int64_t hidden, Precision precision, double dropout) {
    torch::manual_seed(hidden);
    DecoderConfig config;
    config.vocab_size = 256;
    config.hidden_size = hidden;
    config.num_layers = 2;
    config.num_heads = 2;
    config.dropout = dropout;
    TrainingOptions options;
    options.precision = precision;
    options.accumulate = true;
    options.gradient_checkpointing = Choice::on;
    training_ = std::make_unique<Training>(decoder_step(config, 2, 32), options);
    training_->start();
    for (int i = 0; i < 2 * kSteps; ++i) batches_.push_back(token_batch(2, 32, 256));
  }

  Result run() {
    Result result;
    try {
      for (int i = 0; i < kSteps; ++i) {
        const std::vector<Batch> batches = {batches_[static_cast<size_t>(2 * i)],
                                            batches_[static_cast<size_t>(2 * i + 1)]};
        result.losses.push_back(training_->step(batches, 1e-3).loss);
      }
      result.planned = training_->plan().peak_bytes;
      result.used = training_->peak_bytes_used();
    } catch (...) {
      result.error = std::current_exception();
    }
    return result;
  }

 private:
  std::unique_ptr<Training> training_;
  std::vector<Batch> batches_;
};

std::array<std::function<OneOfTwo()>, 2> both() {
  return {[] { return OneOfTwo(64, Precision::fp32_true, 0.1); },
          [] { return OneOfTwo(96, Precision::bf16_mixed, 0.0); }};
}

TEST(TwoTrainings, InThreadsHaveTheLossesAndTheMemoryOfOneAlone) {
  std::vector<Result> alone;
  for (const auto& make : both()) alone.push_back(make().run());
  for (int round = 0; round < 3; ++round) {
    std::vector<OneOfTwo> trainings;
    for (const auto& make : both()) trainings.push_back(make());
    std::vector<Result> together(2);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 2; ++i) threads.emplace_back([&, i] { together[i] = trainings[i].run(); });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < 2; ++i) {
      if (together[i].error) std::rethrow_exception(together[i].error);
      EXPECT_EQ(together[i].losses, alone[i].losses);
      EXPECT_EQ(together[i].planned, alone[i].planned);
      EXPECT_LE(together[i].used, together[i].planned);
    }
  }
}

}  // namespace
}  // namespace plimsoll
