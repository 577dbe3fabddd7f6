// Tests that exchanges that overlap with other ops change no bit, and run in the planned bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "ranks/decoder_training.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::options_of;
using testing::overlap_exchanges;
using testing::RankCase;
using testing::reference_text;
using testing::run_ranks;
using testing::small_decoder;
using testing::train_steps;

int64_t started(const Plan& plan) {
  return std::ranges::count(plan.trace.ops, CopyStage::start, &Op::exchange);
}

class Overlap : public ::testing::TestWithParam<RankCase> {
 protected:
  TempFolder folder_;
};

TEST_P(Overlap, GivesTheBitsOfOneRank) {
  RankCase of = GetParam();
  const std::string reference = reference_text(small_decoder(), of, folder_.path());
  EXPECT_THAT(reference, ::testing::HasSubstr("loss "));
  const auto change = of.change;
  of.change = [&](TrainingOptions& options) {
    change(options);
    overlap_exchanges(options);
  };
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
    const std::vector<std::string> texts =
        run_ranks(of.ranks, folder_.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
          return train_steps(small_decoder(), of, options_of(of, of.ranks, rank, strategy, exchange),
                             [](Training& training) {
                               if (started(training.plan()) == 0)
                                 throw std::runtime_error("no exchange runs beside other ops");
                             });
        });
    EXPECT_THAT(texts, ::testing::Each(reference)) << name_of(strategy);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Overlap,
    ::testing::Values(RankCase{"float32"}, RankCase{"float32", 3, 2},
                      RankCase{"no_clipping", 2, 1,
                               [](TrainingOptions& o) {
                                 o.max_grad_norm = 0;
                                 o.update_in_backward = Choice::on;
                               }},
                      // Three micro batches, so that each segment runs: a segment that does not run may have the peak.
                      RankCase{"no_clipping", 2, 3,
                               [](TrainingOptions& o) {
                                 o.max_grad_norm = 0;
                                 o.update_in_backward = Choice::on;
                               }},
                      RankCase{"bf16_mixed", 2, 1, [](TrainingOptions& o) { o.precision = Precision::bf16_mixed; }},
                      RankCase{"checkpointing", 2, 1,
                               [](TrainingOptions& o) { o.gradient_checkpointing = Choice::on; }}),
    [](const auto& info) {
      return fmt::format("{}_{}_{}", info.param.name, info.param.ranks, info.param.accumulation);
    });

// A budget that leaves no byte beyond the plan without overlap.
TEST(OverlapBytes, StayWithinTheBudget) {
  const TempFolder folder;
  const RankCase of{"float32", 2};
  const std::vector<std::string> texts =
      run_ranks(2, folder.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
        TrainingOptions options = options_of(of, 2, rank, Strategy::zero3, exchange);
        options.budget.device = plan_step(small_decoder(), options).minimum_budget_bytes;
        overlap_exchanges(options);
        return train_steps(small_decoder(), of, options, [&](Training& training) {
          if (training.plan().peak_bytes > *options.budget.device) throw std::runtime_error("over the budget");
        });
      });
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THAT(texts[0], ::testing::Not(::testing::HasSubstr("failed")));
}

}  // namespace
}  // namespace plimsoll
