// Tests updates in backward: the same results on numbers, fewer bytes of gradients, and no parameter that is read after
// its update.
#include "plan/passes/update_in_backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/passes/offload.h"
#include "plan/placement/assign_offsets.h"
#include "plan/placement/validator.h"
#include "plan/random_trace.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::random_step;
using testing::results_of;
using testing::TraceText;

// A random step with an update in pieces: the norm of each gradient, with `clip` a scale of them all, then updates.
TraceText with_pieces(std::mt19937& random, bool clip, int blocks = 4) {
  std::string text = random_step(random, {.blocks = blocks, .ops_a_block = 4});
  text = text.substr(0, text.find("update\n")) + "update\n";
  std::string head = "buffer scale 64 state\n", norms, scale, updates;
  for (int b = 0; b < blocks; ++b) {
    const std::string n = std::to_string(b);
    head += "buffer n" + n + " 64 state\nbuffer g" + n + " " + std::to_string(64 * (1 + random() % 40)) + "\n";
    norms += "u - n" + n + " <- g" + n + "\n";
    scale += " n" + n;
    updates += "u - w" + n + " <- g" + n + (clip ? " scale" : "") + "\n";
  }
  TraceText result(head + text + norms + (clip ? "u - scale <-" + scale + "\n" : "") + updates);
  Trace& trace = result.trace;
  for (int b = 0; b < blocks; ++b) {
    trace.buffers[result["g" + std::to_string(b)]].role = Role::gradient;
    trace.buffers[result["w" + std::to_string(b)]].role = Role::parameter;
  }
  int32_t op = trace.segment(SegmentKind::update)->begin;
  using Kind = UpdatePiece::Kind;
  const auto add = [&](Kind kind, int block) {
    UpdatePiece piece{kind, kNoBuffer, kNoBuffer, op, op + 1};
    if (block >= 0) {
      piece.parameter = result["w" + std::to_string(block)];
      piece.gradient = result["g" + std::to_string(block)];
    }
    trace.update_pieces.push_back(piece);
    ++op;
  };
  for (int b = 0; b < blocks; ++b) add(Kind::norm, b);
  if (clip) add(Kind::clip, -1);
  for (int b = 0; b < blocks; ++b) add(Kind::update, b);
  return result;
}

int64_t most_gradients(const Plan& plan) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  int64_t most = 0;
  for (int32_t op = 0; op < static_cast<int32_t>(plan.trace.ops.size()); ++op) {
    int64_t count = 0;
    for (size_t b = 0; b < lifetimes.size(); ++b)
      count += plan.trace.buffers[b].role == Role::gradient && lifetimes[b].live_at(op);
    most = std::max(most, count);
  }
  return most;
}

TEST(UpdateInBackwardPass, RandomStepsComputeTheSameUnderEveryBudget) {
  std::mt19937 random(5);
  int tried = 0, recomputed = 0;
  for (int i = 0; i < testing::rounds(200); ++i) {
    const bool clip = i % 2 == 0;
    const TraceText text = with_pieces(random, clip);
    if (!update_in_backward_obstacle(text.trace).empty()) continue;
    EXPECT_EQ(needs_norm_pass(text.trace), clip);
    ++tried;
    const auto expected = results_of(text.trace);
    PlanOptions options;
    options.update_in_backward = Choice::on;
    const Planner planner(text.trace, options);
    const Plan whole = planner.plan({});
    EXPECT_EQ(most_gradients(whole), 1);
    const int64_t least = planner.minimum_budget();
    for (int part = 0; part <= 3; ++part) {
      const Plan plan = planner.plan(least + (whole.peak_bytes - least) * part / 3);
      EXPECT_TRUE(plan.fits);
      recomputed += plan.checkpointed;
      EXPECT_EQ(find_fault(plan), "");
      ASSERT_EQ(results_of(plan.trace), expected) << "graph " << i;
    }
  }
  EXPECT_GE(tried, testing::rounds(80));
  EXPECT_GE(recomputed, testing::rounds(60));
}

// Backward reads `a` late. Recomputed there, it would be made from a parameter that has been updated.
Trace late_reader() {
  TraceText made(
      "buffer x 64 persistent\nbuffer w 64 state\nbuffer a 6400\nbuffer huge 20000\nbuffer g 640\nbuffer out 64 "
      "output\n"
      "micro\n"
      "f - a = x w\n"
      "f - b = x a\n"
      "f - huge = b\n"
      "f - c = huge\n"
      "b - d = c\n"
      "b - g = d w\n"
      "b - out = d a\n"
      "update\n"
      "u - w <- g\n");
  made.trace.buffers[made["w"]].role = Role::parameter;
  made.trace.buffers[made["g"]].role = Role::gradient;
  const int32_t op = made.trace.segment(SegmentKind::update)->begin;
  made.trace.update_pieces.push_back({UpdatePiece::Kind::update, made["w"], made["g"], op, op + 1});
  return made.trace;
}

TEST(UpdateInBackwardPass, AnUpdateWaitsForWhatIsRunAgain) {
  const Trace trace = late_reader();
  PlanOptions options;
  options.update_in_backward = Choice::on;
  options.gradient_checkpointing = Choice::automatic;
  const Planner planner(trace, options);
  const Plan plan = planner.plan(planner.minimum_budget());
  ASSERT_TRUE(plan.checkpointed);
  const std::vector<Op>& ops = plan.trace.ops;
  EXPECT_EQ(ops[ops.size() - 3].name, "make_a");
  EXPECT_TRUE(ops[ops.size() - 3].recomputed);
  EXPECT_EQ(ops[ops.size() - 2].name, "make_w");
  EXPECT_EQ(results_of(plan.trace), results_of(trace));
}

TEST(UpdateInBackwardPass, SettlingMovesAnUpdateBehindItsLastReader) {
  TraceText text(
      "buffer w 64 state\nbuffer v 64 state\nmicro\nf - a = w\nb - g = a\nu - w <- g\nb - h = w\nb - k = h\nu - v <- "
      "k\n");
  const Trace settled = sink_updates(text.trace);
  std::vector<std::string> names;
  for (const Op& op : settled.ops) names.push_back(op.name);
  EXPECT_THAT(names, ::testing::ElementsAre("make_a", "make_g", "make_h", "make_w", "make_k", "make_v"));
}

TEST(UpdateInBackwardPass, TheValidatorSeesAParameterReadAfterItsUpdate) {
  TraceText text("buffer w 64 state\nbuffer out 64 output\nmicro\nf - a = w\nb - g = a\nb - out = w\nu - w <- g\n");
  text.trace.buffers[text["w"]].role = Role::parameter;
  Plan plan = make_plan(text.trace);
  EXPECT_EQ(find_fault(plan), "");
  std::swap(plan.trace.ops[2], plan.trace.ops[3]);
  EXPECT_THAT(find_fault(plan), HasSubstr("is read after its update"));
}

// `w` is in host memory, and is updated among backward ops.
std::string fault_with_parameter_on_host(const std::string& rest) {
  TraceText text(
      "buffer x 64 persistent\nbuffer w 4096 state\nbuffer out 64 output\nmicro\nf - a = x w\nb - g = a\nu - w <- "
      "g\n" +
      rest);
  text.trace.buffers[text["w"]].role = Role::parameter;
  text.trace.buffers[text["w"]].memory = Memory::host;
  Plan plan = assign_offsets(offload(text.trace, {}, generic_cost_model(), 1 << 20), {});
  plan.budget.host = plan.host_bytes;
  return find_fault(plan);
}

TEST(UpdateInBackwardPass, AnUpdatedParameterMayLeaveAmongBackwardOps) {
  EXPECT_EQ(fault_with_parameter_on_host("b - d = a\nb - out = d\n"), "");
}

TEST(UpdateInBackwardPass, AnUpdatedParameterThatComesBackIsNotReadByBackward) {
  std::string later;
  for (int i = 0; i < 30; ++i) later += "b - d = a\n";
  EXPECT_EQ(fault_with_parameter_on_host(later + "b - out = a\n"), "");
  EXPECT_THAT(fault_with_parameter_on_host(later + "b - out = a w\n"), HasSubstr("is read after its update"));
}

TEST(UpdateInBackwardPass, ObstaclesAreNamed) {
  std::mt19937 random(1);
  TraceText text = with_pieces(random, true);
  text.trace.segments.insert(text.trace.segments.begin() + 1, Segment{SegmentKind::accumulate, 0, 0});
  EXPECT_THAT(update_in_backward_obstacle(text.trace), HasSubstr("max_grad_norm: 0"));
  text.trace.update_pieces.clear();
  EXPECT_THAT(update_in_backward_obstacle(text.trace), HasSubstr("no update"));
  PlanOptions options;
  options.update_in_backward = Choice::on;
  EXPECT_THROW(Planner(text.trace, options), UserError);
}

}  // namespace
}  // namespace plimsoll
