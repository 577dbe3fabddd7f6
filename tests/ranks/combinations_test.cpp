// Tests slices together with the other features that decide about bytes: offload, adapters, frozen and quantized
// weights, loss scaling.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "ranks/decoder_training.h"
#include "ranks/forked_ranks.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::options_of;
using testing::RankCase;
using testing::reference_text;
using testing::run_ranks;
using testing::small_decoder;
using testing::train_steps;

constexpr int64_t kPlenty = int64_t{1} << 30;

/// Returns true if a slice of the state is in host memory or on disk between its uses.
bool offloads_slices(const Trace& trace) {
  return std::ranges::any_of(trace.state, [&](const NamedView& entry) {
    return !entry.whole_sizes.empty() && !trace.buffers[entry.view.buffer].on_device();
  });
}

/// A budget for the device in percent of what the plan takes without a limit, and the memories for the rest.
struct Squeeze {
  std::string name;
  int percent = 100;
  int64_t host = 0, disk = 0;
  bool overlap = false;  ///< exchanges may overlap with other ops: in most of these plans some do
};

std::ostream& operator<<(std::ostream& out, const Squeeze& each) {
  return out << each.name;
}

TrainingOptions squeezed(TrainingOptions options, const Squeeze& squeeze, const std::filesystem::path& folder) {
  const int64_t all = plan_step(small_decoder(), options).plan.peak_bytes;
  // The exchange holds memory that no budget takes away.
  const int64_t held = options.exchange ? options.exchange->held_bytes() : 0;
  options.budget.device = held + (all - held) * squeeze.percent / 100;
  options.budget.host = squeeze.host;
  options.budget.disk = squeeze.disk;
  options.disk_path = folder;
  if (squeeze.overlap) testing::overlap_exchanges(options);
  return options;
}

class RankOffload : public ::testing::TestWithParam<Squeeze> {};

TEST_P(RankOffload, GivesTheBitsOfOneRankInThePlannedBytes) {
  const Squeeze squeeze = GetParam();
  const TempFolder folder;
  for (const RankCase& of :
       {RankCase{"clipping"}, RankCase{"accumulation", 2, 2}, RankCase{"updates_in_backward", 2, 1, [](auto& o) {
                                                                         o.max_grad_norm = 0;
                                                                         o.update_in_backward = Choice::on;
                                                                       }}}) {
    if (squeeze.host > 0 && squeeze.disk > 0 && of.accumulation == 1) continue;  // plans of three memories take long
    const std::string reference = reference_text(small_decoder(), of, folder.path());
    for (const Strategy strategy : {Strategy::zero2, Strategy::zero3}) {
      SCOPED_TRACE(fmt::format("{} {}", of.name, name_of(strategy)));
      const auto work = [&](int rank, const std::shared_ptr<Exchange>& exchange) {
        const TrainingOptions options = squeezed(options_of(of, 2, rank, strategy, exchange), squeeze, folder.path());
        return train_steps(small_decoder(), of, options, [&](Training& training) {
          const Plan& plan = training.plan();
          if (plan.peak_bytes > *options.budget.device) throw InternalError("the plan is over its budget");
          if (squeeze.disk > 0 && plan.disk_bytes == 0) throw InternalError("nothing is on disk");
          if (squeeze.host > 0 && plan.host_bytes == 0) throw InternalError("nothing is in host memory");
          if (plan.host_bytes > squeeze.host) throw InternalError("host memory is over its budget");
          if (!offloads_slices(plan.trace)) throw InternalError("no slice is offloaded");
        });
      };
      for (const std::string& text : run_ranks(2, folder.path(), work)) EXPECT_EQ(text, reference);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RankOffload,
                         ::testing::Values(Squeeze{"host_memory", 45, kPlenty, 0}, Squeeze{"disk", 45, 0, kPlenty},
                                           Squeeze{"host_memory_beside", 50, kPlenty, 0, true},
                                           Squeeze{"both", 35, int64_t{64} << 10, kPlenty}),
                         [](const auto& info) { return info.param.name; });

/// A change of what is trained, and the names of parameters that are slices with zero3 and of those that are not.
struct PartCase {
  RankCase of;
  std::vector<std::string> slices, whole;
};

std::ostream& operator<<(std::ostream& out, const PartCase& each) {
  return out << each.of;
}

class RankParts : public ::testing::TestWithParam<PartCase> {};

TEST_P(RankParts, GiveTheBitsOfOneRank) {
  const auto& [of, slices, whole] = GetParam();
  const TempFolder folder;
  const std::string reference = reference_text(small_decoder(), of, folder.path());
  EXPECT_THAT(reference, HasSubstr("loss "));
  for (const Strategy strategy : {Strategy::zero2, Strategy::zero3}) {
    SCOPED_TRACE(std::string(name_of(strategy)));
    const auto work = [&](int rank, const std::shared_ptr<Exchange>& exchange) {
      return train_steps(small_decoder(), of, options_of(of, of.ranks, rank, strategy, exchange),
                         [&](Training& training) {
                           if (strategy != Strategy::zero3) return;
                           const auto found = training.slices();
                           for (const std::string& name : slices)
                             if (!found.contains(name)) throw InternalError(name + " is whole");
                           std::set<std::string> all;
                           for (const auto& [name, tensor] : training.state()) all.insert(name);
                           for (const std::string& name : whole) {
                             if (!all.contains(name)) throw InternalError(name + " is missing");
                             if (found.contains(name)) throw InternalError(name + " is a slice");
                           }
                         });
    };
    for (const std::string& text : run_ranks(of.ranks, folder.path(), work)) EXPECT_EQ(text, reference);
  }
}

void add_adapters(TrainingOptions& options) {
  options.fine_tuning.lora = {.modules = {"*.qkv", "*.up"}, .rank = 64};
}

INSTANTIATE_TEST_SUITE_P(
    All, RankParts,
    ::testing::Values(PartCase{{"adapters", 2, 2, add_adapters},
                               {"layers.0.attention.qkv.lora_b", "layers.1.mlp.up.lora_b"},
                               {"layers.0.attention.qkv.weight", "layers.0.attention.qkv.lora_a", "embedding"}},
                      PartCase{{"frozen", 2, 1,
                                [](TrainingOptions& o) {
                                  o.fine_tuning.freeze = {"embedding", "layers.0"};
                                }},
                               {"layers.1.mlp.up.weight"},
                               {"embedding", "layers.0.mlp.up.weight"}},
                      PartCase{{"frozen_bf16_mixed", 2, 2,
                                [](TrainingOptions& o) {
                                  o.fine_tuning.freeze = {"layers.1"};
                                  o.precision = Precision::bf16_mixed;
                                }},
                               {"layers.0.mlp.up.weight"},
                               {"layers.1.mlp.up.weight"}},
                      PartCase{{"quantized_nf4", 2, 1,
                                [](TrainingOptions& o) {
                                  add_adapters(o);
                                  o.fine_tuning.quantize = {
                                      .modules = {"layers.*"}, .format = "nf4", .double_scales = true};
                                }},
                               {"layers.0.attention.qkv.lora_b"},
                               {"layers.0.attention.qkv.weight_codes"}},
                      PartCase{{"quantized_int8_bf16_true", 2, 2,
                                [](TrainingOptions& o) {
                                  add_adapters(o);
                                  o.fine_tuning.quantize = {.modules = {"layers.0"}, .format = "int8"};
                                  o.precision = Precision::bf16_true;
                                }},
                               {"layers.0.mlp.up.lora_b"},
                               {"layers.1.mlp.up.weight"}}),
    [](const auto& info) { return info.param.of.name; });

// Gradients of the first step overflow float16, because the loss is large. The loss scale is then halved until they
// fit.
TEST(RankLossScaling, AStepIsSkippedOnAllRanks) {
  const TempFolder folder;
  for (const int64_t accumulation : {1, 2}) {
    const RankCase of{"fp16_mixed", 2, accumulation, [](auto& o) { o.precision = Precision::fp16_mixed; }};
    Step step = small_decoder();
    const auto factor = static_cast<double>(12 * of.ranks * accumulation);
    step.loss = [loss = step.loss, factor](torch::nn::Module& module, const StepInputs& inputs) {
      return loss(module, inputs) * factor;
    };
    const std::string reference = reference_text(step, of, folder.path());
    EXPECT_THAT(reference, HasSubstr("skipped true"));
    EXPECT_THAT(reference, HasSubstr("skipped false"));
    for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
      SCOPED_TRACE(std::string(name_of(strategy)));
      const auto work = [&](int rank, const std::shared_ptr<Exchange>& exchange) {
        return train_steps(step, of, options_of(of, 2, rank, strategy, exchange));
      };
      for (const std::string& text : run_ranks(2, folder.path(), work)) EXPECT_EQ(text, reference);
    }
  }
}

// Accumulators that are rounded at random would have other bits on another number of ranks.
TEST(RankRefusals, AccumulatorsThatAreRoundedAtRandomAreNamed) {
  const TempFolder folder;
  for (const AccumulatorDtype dtype : {AccumulatorDtype::bfloat16, AccumulatorDtype::bits8}) {
    const RankCase of{"accumulators", 2, 2, [&](auto& o) {
                        o.precision = Precision::bf16_true;
                        o.accumulator_dtype = dtype;
                      }};
    const std::string text = run_ranks(1, folder.path(), [&](int, const auto&) {
      plan_step(small_decoder(), options_of(of, 2, 0, Strategy::zero2));
      return std::string("planned");
    })[0];
    EXPECT_EQ(text, fmt::format("failed: gradient_accumulation_dtype is {}, whose sums are rounded at random; with "
                                "several devices allowed are gradients and float32",
                                name_of(dtype)));
  }
}

using testing::RankCase;

TEST(WholePart, GivesTheBitsOfOneRank) {
  const TempFolder folder;
  const RankCase of{"float32", 2};
  const std::string reference = testing::reference_text(testing::small_decoder(), of, folder.path());
  const std::vector<std::string> texts =
      testing::run_ranks(2, folder.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
        TrainingOptions options = testing::options_of(of, 2, rank, Strategy::zero3, exchange);
        options.ranks.whole_part = 0.5;
        return testing::train_steps(testing::small_decoder(), of, options);
      });
  EXPECT_THAT(texts, ::testing::Each(reference));
}

TEST(WholePart, LiesBetweenZero2AndZero3) {
  const TempFolder folder;
  const auto stored = [&](Strategy strategy, double part) {
    return std::stoll(testing::run_ranks(1, folder.path(), [&](int, const auto&) {
      TrainingOptions options = testing::options_of({"float32", 4}, 4, 0, strategy);
      options.ranks.whole_part = part;
      return std::to_string(plan_step(testing::small_decoder(), options).plan.persistent_bytes);
    })[0]);
  };
  const int64_t second = stored(Strategy::zero2, 0), none = stored(Strategy::zero3, 0);
  EXPECT_EQ(stored(Strategy::zero3, 1), second);
  EXPECT_LT(stored(Strategy::zero3, 0.5), second);
  EXPECT_GT(stored(Strategy::zero3, 0.5), none);
}

}  // namespace
}  // namespace plimsoll
