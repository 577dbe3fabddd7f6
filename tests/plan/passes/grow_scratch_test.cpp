// Tests the pass that gives ops more scratch within the memory that remains, and the planner's limit for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/passes/passes.h"
#include "plan/placement/validator.h"
#include "plan/random_trace.h"
#include "plan/trace_text.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::names;
using testing::op;
using testing::TraceText;
using testing::view;

constexpr int64_t kUnit = kArenaAlignment;

// "head" may run as "head 8" and "head 4", whose scratch is 8 and 4 units; as it is it takes one.
std::vector<Op> forms(const Op& op) {
  if (op.name != "head") return {};
  std::vector<Op> all;
  for (const char* name : {"head 8", "head 4"}) {
    all.push_back(op);
    all.back().name = name;
    // A call of its own, as other constants have; its contents are not read.
    const auto owner = std::make_shared<char>();
    all.back().call = std::shared_ptr<const OpCall>(owner, reinterpret_cast<const OpCall*>(owner.get()));
  }
  return all;
}
std::optional<int64_t> scratch(const Op& op) {
  return op.name == "head 8" ? 8 * kUnit : op.name == "head 4" ? 4 * kUnit : op.name == "head" ? kUnit : 0;
}

// 10 units are live at the head, and 12 at the op after it, next to x.
Trace trace_of_head(int64_t x_units = 1) {
  Trace trace;
  trace.modules = {""};
  trace.buffers = {{x_units * kUnit, Role::input, true, false, "x"},
                   {10 * kUnit, Role::temporary, false, false, "h"},
                   {2 * kUnit, Role::temporary, false, false, "g"},
                   {4, Role::temporary, false, true, "loss"}};
  const auto all = [](BufferId buffer, int64_t units) { return view(buffer, {units * kUnit / 4}); };
  trace.ops = {op("make", {all(0, 1)}, all(1, 10)), op("head", {all(0, 1)}, view(3, {})),
               op("backward", {all(1, 10)}, all(2, 2)), op("use", {all(2, 2)}, view(3, {}))};
  trace.ops[1].workspace_bytes = kUnit;
  trace.segments = {{SegmentKind::micro, 0, 4}};
  trace.inputs = {{"x", all(0, 1)}};
  trace.outputs = {{"loss", view(3, {})}};
  return trace;
}

TEST(GrowScratch, TakesTheFirstFormThatFits) {
  // The head has 10 units and the loss next to its scratch.
  const auto grown = [](int64_t units) {
    return names(grow_scratch(trace_of_head(), forms, scratch, units * kUnit))[1];
  };
  EXPECT_EQ(grown(19), "head 8");
  EXPECT_EQ(grown(18), "head 4");
  EXPECT_EQ(grown(15), "head 4");
  EXPECT_EQ(grown(14), "head");
  const Trace trace = grow_scratch(trace_of_head(), forms, scratch, 19 * kUnit);
  EXPECT_EQ(trace.ops[1].workspace_bytes, 8 * kUnit);
  EXPECT_EQ(grown_ops_of(trace_of_head(), trace), 1);
}

// 13 units are live at most, which leaves 2 at the head. A step does not run it.
TEST(GrowScratch, OfEvaluationDoesNotRaiseThePeak) {
  Trace trace = trace_of_head();
  trace.segments[0].kind = SegmentKind::evaluate;
  EXPECT_EQ(names(grow_scratch(trace, forms, scratch, 100 * kUnit))[1], "head");
  trace.buffers.push_back({6 * kUnit, Role::temporary, false, false, "more"});
  trace.ops.insert(trace.ops.begin() + 3, op("use", {view(2, {2 * kUnit / 4})}, view(4, {6 * kUnit / 4})));
  trace.ops[4].arguments[0].views[0] = view(4, {6 * kUnit / 4});
  trace.ops[2].arguments[0].views.push_back(view(1, {10 * kUnit / 4}));
  trace.ops[3].arguments[0].views.push_back(view(1, {10 * kUnit / 4}));
  ++trace.segments[0].end;
  EXPECT_EQ(names(grow_scratch(trace, forms, scratch, 100 * kUnit))[1], "head 8");
}

TEST(GrowScratch, NotOnTheHostAndNotWithoutAnAmount) {
  Trace trace = trace_of_head();
  EXPECT_EQ(names(grow_scratch(
                trace, forms, [](const Op&) { return std::nullopt; }, 100 * kUnit))[1],
            "head");
  trace.ops[1].on_host = true;
  EXPECT_EQ(names(grow_scratch(trace, forms, scratch, 100 * kUnit))[1], "head");
}

class GrowScratchPlan : public ::testing::Test {
 protected:
  GrowScratchPlan() {
    options_.workspace = scratch;
    before_ = make_plan(trace_, options_);
    options_.forms = forms;
  }
  Plan plan(std::optional<int64_t> budget) const {
    const Plan made = Planner(trace_, options_).plan(budget);
    EXPECT_EQ(find_fault(made), "");
    return made;
  }
  static std::string head(const Plan& plan) { return names(plan.trace)[1]; }

  Trace trace_ = trace_of_head();
  PlanOptions options_;
  Plan before_;
};

TEST_F(GrowScratchPlan, WithoutABudgetThePeakStays) {
  const Plan made = plan({});
  EXPECT_EQ(head(made), "head");  // 12 units and the loss are live at most, which leaves 2 at the head
  EXPECT_EQ(made.peak_bytes, before_.peak_bytes);
}

TEST_F(GrowScratchPlan, ThePeakGrowsByAThirtySecondPartWithinABudget) {
  // 6 units more than the peak are needed, or 2.
  for (const auto& [x_units, form] : {std::pair{40, "head"}, {100, "head 4"}, {240, "head 8"}}) {
    trace_ = trace_of_head(x_units);
    const int64_t before = make_plan(trace_, {.workspace = scratch}).peak_bytes;
    EXPECT_EQ(head(plan(before + kUnit)), "head");
    const Plan made = plan(2 * before);
    EXPECT_EQ(head(made), form);
    EXPECT_LE(made.peak_bytes, before + before / 32);
    const auto found = std::ranges::find(made.reasons, "scratch", &Reason::decision);
    ASSERT_EQ(found != made.reasons.end(), std::string(form) != "head");
    if (found != made.reasons.end()) {
      EXPECT_THAT(found->why, HasSubstr("works in larger pieces"));
    }
  }
}

// 6 units more than the peak are needed, or 2.
TEST_F(GrowScratchPlan, ThePeakGrowsFurtherIfTheStepIsFaster) {
  trace_.ops[1].staged_bytes = 1 << 30;
  options_.forms = [](const Op& op) {
    std::vector<Op> all = forms(op);
    for (Op& form : all) form.staged_bytes = 1 << 20;
    return all;
  };
  const double before = before_.time.micro;
  for (const auto& [units, form] : {std::pair{1, "head"}, {2, "head 4"}, {5, "head 4"}, {6, "head 8"}}) {
    const Plan made = plan(before_.peak_bytes + units * kUnit);
    EXPECT_EQ(head(made), form) << units;
    EXPECT_LE(made.peak_bytes, before_.peak_bytes + units * kUnit);
  }
  EXPECT_LT(plan(2 * before_.peak_bytes).time.micro, before + 1e-4);
  EXPECT_EQ(head(plan({})), "head");
}

TEST_F(GrowScratchPlan, TheMinimumBudgetStays) {
  const int64_t least = Planner(trace_, options_).minimum_budget();
  options_.forms = {};
  EXPECT_EQ(least, Planner(trace_, options_).minimum_budget());
}

// Every plan is sound, fits, and is repeated by the passes.
TEST(GrowScratchPlans, OfRandomStepsFitTheirBudgets) {
  std::mt19937 random(11);
  int64_t grown = 0;
  for (int round = 0; round < testing::rounds(40); ++round) {
    TraceText text(testing::random_step(random, {.accumulate = false, .roles = true}));
    testing::with_roles(text.trace);
    for (Op& op : text.trace.ops)
      if (op.phase == Phase::forward && random() % 3 == 0) op.name = "head";
    PlanOptions options;
    options.workspace = scratch;
    options.forms = forms;
    const Planner planner(text.trace, options);
    const int64_t least = planner.minimum_budget();
    for (const int64_t budget : {least, least + 5 * kUnit, 32 * least}) {
      const Plan plan = planner.plan(budget);
      EXPECT_EQ(find_fault(plan), "");
      EXPECT_LE(plan.peak_bytes, budget);
      for (const Op& op : plan.trace.ops) grown += op.name == "head 8" || op.name == "head 4";
      observe_passes(text.trace, plan, options, [](const PassReport&, const Trace&) {});
    }
  }
  EXPECT_GT(grown, 0);
}

}  // namespace
}  // namespace plimsoll
