// Tests the example's whole language model: replay equals eager libtorch autograd bit for bit.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/train_job.h"
#include "run/batches.h"
#include "run/equality.h"

namespace plimsoll {
namespace {

class WholeModel : public ::testing::TestWithParam<const char*> {};

TEST_P(WholeModel, TrainsAsEagerDoes) {
  const Job job = read_job(PLIMSOLL_SOURCE_DIR "/examples/small-lm/job.yaml",
                           {std::string("precision=") + GetParam(), "micro_batch_size=2", "batch_size=4",
                            "gradient_accumulation_steps=2", "data.sequence_length=96", "data.validation_fraction=0"});
  torch::manual_seed(4);
  const int64_t vocab = job.model.decoder.vocab_size;
  testing::expect_equal(
      step_of(job, 2), options_of(job), [&] { return testing::token_batch(2, 96, vocab); }, 2, 2);
}

INSTANTIATE_TEST_SUITE_P(Precisions, WholeModel, ::testing::Values("32-true", "bf16-mixed"),
                         [](const auto& info) { return std::string(info.index == 0 ? "fp32" : "bf16_mixed"); });

}  // namespace
}  // namespace plimsoll
