// Tests the bytes that ranks send in a step: the formula of each strategy, the plan's Op::link_bytes and the counted
// bytes.
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "plimsoll/cost_model.h"
#include "plimsoll/training.h"
#include "ranks/decoder_training.h"
#include "ranks/forked_ranks.h"
#include "run/optimizer/parameter_state.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::batches_of_step;
using testing::options_of;
using testing::RankCase;
using testing::run_ranks;
using testing::small_decoder;

// A gradient's squares are summed in blocks of this many elements, as float64; ranks exchange the sums.
constexpr int64_t kNormBlock = 1024, kBlockSum = 8;

/// The trained parameters of the decoder.
struct ModelBytes {
  int64_t gradients = 0;         ///< bytes of a micro batch's gradients of sliced parameters
  int64_t parameters = 0;        ///< bytes of sliced parameters, with the padding of the last slice
  int64_t whole_gradients = 0;   ///< bytes of a micro batch's gradients of parameters that every rank has
  int64_t whole_sums = 0;        ///< bytes of the sums of these gradients
  int64_t norm_sums = 0;         ///< bytes of the sums of squares of sliced gradients
  int64_t number_of_slices = 0;  ///< sliced parameters
};

ModelBytes bytes_of_model(int ranks, Strategy strategy, int64_t weight_bytes, int64_t sum_bytes) {
  ModelBytes all;
  for (const auto& entry : small_decoder().model()->named_parameters()) {
    const int64_t elements = entry.value().numel();
    const int64_t slice = strategy == Strategy::ddp ? 0 : optimizer::slice_elements(elements, ranks);
    if (slice == 0) {
      all.whole_gradients += elements * weight_bytes;
      all.whole_sums += elements * sum_bytes;
      continue;
    }
    ++all.number_of_slices;
    all.gradients += elements * weight_bytes;
    all.parameters += slice * ranks * weight_bytes;
    all.norm_sums += slice * ranks / kNormBlock * kBlockSum;
  }
  return all;
}

/// Returns the bytes that plimsoll::gather_ makes whole in one step of `micro_batches` micro batches.
int64_t gathered_bytes(const Trace& trace, int64_t micro_batches) {
  std::map<SegmentKind, int64_t> times{{SegmentKind::norms, 1}, {SegmentKind::micro, 1}};
  if (micro_batches < 2) {
    times[SegmentKind::update] = 1;
  } else {
    const bool last = trace.segment(SegmentKind::last) != nullptr;
    times[SegmentKind::accumulate] = micro_batches - (last ? 2 : 1);
    times[SegmentKind::last] = 1;
    times[last ? SegmentKind::finish : SegmentKind::update] = 1;
  }
  int64_t bytes = 0;
  for (const Segment& segment : trace.segments)
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace.ops[i];
      if (op.name != "plimsoll::gather_") continue;
      const View& whole = op.arguments[0].views[0];
      bytes += times[segment.kind] * whole.elements() * element_bytes(whole.dtype);
    }
  return bytes;
}

/// Returns the bytes of a step.
struct StepBytes {
  int64_t sent = 0, planned = 0, gathered = 0, runs = 0;
};

/// Trains two steps. Returns what this rank sent in the second one, as text.
std::string second_step(const RankCase& of, int rank, Strategy strategy, const std::shared_ptr<Exchange>& exchange) {
  Training training(small_decoder(), options_of(of, of.ranks, rank, strategy, exchange));
  training.start();
  const auto step = [&] { training.step(batches_of_step(of.ranks * of.accumulation, of.ranks, rank), 1e-3); };
  step();
  const int64_t before = exchange->bytes_sent();
  step();
  const Trace& trace = training.plan().trace;
  return fmt::format("{} {} {} {}", exchange->bytes_sent() - before,
                     exchanges_of_step(generic_cost_model(), trace, of.accumulation).bytes,
                     gathered_bytes(trace, of.accumulation),
                     of.accumulation + (trace.segment(SegmentKind::norms) != nullptr ? 1 : 0));
}

/// Sums what the ranks sent. The plan is the same on all of them.
StepBytes bytes_of_step(const RankCase& of, Strategy strategy) {
  const TempFolder folder;
  StepBytes all;
  for (const std::string& text :
       run_ranks(of.ranks, folder.path(), [&](int rank, const std::shared_ptr<Exchange>&exchange) {
         return second_step(of, rank, strategy, exchange);
       })) {
    std::istringstream words(text);
    StepBytes one;
    words >> one.sent >> one.planned >> one.gathered >> one.runs;
    EXPECT_FALSE(words.fail()) << text;
    if (all.planned > 0) {
      EXPECT_EQ(one.planned, all.planned);
    }
    all = {all.sent + one.sent, one.planned, one.gathered, one.runs};
  }
  return all;
}

class LinkBytes : public ::testing::TestWithParam<RankCase> {};

// All ranks together send ranks - 1 times what each formula has, so one of them (ranks - 1) / ranks of it.
TEST_P(LinkBytes, AreThoseOfTheStrategyAndOfThePlan) {
  const RankCase of = GetParam();
  TrainingOptions options = options_of(of, of.ranks, 0, Strategy::ddp);
  const int64_t weight_bytes = options.precision == Precision::bf16_true ? 2 : 4;
  const int64_t sum_bytes = options.accumulator_dtype == AccumulatorDtype::float32 ? 4 : weight_bytes;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    SCOPED_TRACE(std::string(name_of(strategy)));
    const ModelBytes model = bytes_of_model(of.ranks, strategy, weight_bytes, sum_bytes);
    const StepBytes step = bytes_of_step(of, strategy);
    const bool norms_first = options.update_in_backward == Choice::on && options.max_grad_norm > 0;
    EXPECT_EQ(step.runs, of.accumulation + (norms_first ? 1 : 0));
    int64_t expected = step.runs * (model.gradients + model.whole_gradients + model.whole_sums) + model.norm_sums;
    if (strategy == Strategy::zero3) {
      EXPECT_GE(step.gathered, model.parameters * step.runs);
      EXPECT_LE(step.gathered, model.parameters * step.runs * 2);
      if (options.gradient_checkpointing == Choice::on) {
        EXPECT_GT(step.gathered, model.parameters * step.runs);
      }
      expected += step.gathered;
    } else {
      EXPECT_EQ(step.gathered, 0);
      expected += model.parameters;
    }
    if (strategy != Strategy::ddp) {
      EXPECT_GT(model.number_of_slices, 0);
    }
    EXPECT_EQ(step.sent, (of.ranks - 1) * expected);
    EXPECT_EQ(step.planned * of.ranks, step.sent);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinkBytes,
                         ::testing::Values(RankCase{"float32"}, RankCase{"float32", 4}, RankCase{"accumulation", 2, 3},
                                           RankCase{"accumulation", 4, 2},
                                           RankCase{"bf16_true_float32_sums", 2, 2,
                                                    [](TrainingOptions& o) {
                                                      o.precision = Precision::bf16_true;
                                                      o.accumulator_dtype = AccumulatorDtype::float32;
                                                    }},
                                           RankCase{"block_checkpointing", 4, 1,
                                                    [](TrainingOptions& o) { o.gradient_checkpointing = Choice::on; }},
                                           RankCase{"updates_in_backward", 2, 2,
                                                    [](TrainingOptions& o) {
                                                      o.max_grad_norm = 0;
                                                      o.update_in_backward = Choice::on;
                                                    }},
                                           RankCase{"norms_first", 2, 1,
                                                    [](TrainingOptions& o) { o.update_in_backward = Choice::on; }}),
                         [](const auto& info) { return info.param.name + "_" + std::to_string(info.index); });

}  // namespace
}  // namespace plimsoll
