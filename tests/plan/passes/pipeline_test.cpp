// Tests the order of the passes, the passes of each feature, and that running the passes again gives the plan.
#include "plan/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "plan/random_trace.h"
#include "plimsoll/error.h"
#include "rounds.h"
#include "trace/merged_ops.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::random_step;
using testing::rounds;
using testing::TraceText;
using testing::with_roles;

using Names = std::vector<std::string>;

struct Observed {
  Names all, applied, changed;
  std::vector<PassReport> reports;
  Trace last;
};

Observed observe(const Trace& recorded, const Plan& plan, const PlanOptions& options) {
  Observed seen;
  Trace before;
  observe_passes(recorded, plan, options, [&](const PassReport& report, const Trace& after) {
    const std::string name(report.pass);
    seen.all.push_back(name);
    if (report.applied) seen.applied.push_back(name);
    if (report.changed) seen.changed.push_back(name);
    EXPECT_EQ(report.changed, seen.reports.empty() || !same_trace(before, after)) << name;
    EXPECT_EQ(report.ops, static_cast<int64_t>(after.ops.size()));
    seen.reports.push_back(report);
    before = after;
  });
  seen.last = std::move(before);
  return seen;
}

// Three blocks, one with a result that no op reads; the parameters have state, and update_pieces are recorded.
TraceText small_step() {
  TraceText text(R"(
buffer x 640 persistent
buffer w0 640 state
buffer w1 640 state
buffer w2 640 state
buffer m0 640 state
buffer m1 640 state
buffer m2 640 state
buffer a0 4096
buffer a1 4096
buffer a2 4096
buffer b0 8192
buffer b1 8192
buffer b2 8192
buffer unread 64
buffer g0 640
buffer g1 640
buffer g2 640
micro
f layers.0 a0 = x w0
f layers.0 unread = a0
f layers.0 b0 = a0
f layers.1 a1 = b0 w1
f layers.1 b1 = a1
f layers.2 a2 = b1 w2
f layers.2 b2 = a2
b layers.2 d2 = b2 a2 w2
b layers.2 g2 = d2 b1
b layers.1 d1 = d2 a1 w1
b layers.1 g1 = d1 b0
b layers.0 d0 = d1 a0 w0
b layers.0 g0 = d0 x
update
u - w0,m0 <- g0
u - w1,m1 <- g1
u - w2,m2 <- g2
)");
  with_roles(text.trace);
  for (int b = 0; b < 3; ++b) {
    const std::string n = std::to_string(b);
    text.trace.buffers[text["m" + n]].role = Role::optimizer_state;
    const int32_t op = text.trace.segment(SegmentKind::update)->begin + b;
    text.trace.update_pieces.push_back({UpdatePiece::Kind::update, text["w" + n], text["g" + n], op, op + 1});
  }
  return text;
}

PlanOptions options_for_test() {
  PlanOptions options;
  options.cost.overhead_seconds = 10e-12;
  for (auto& kind : options.cost.rates) kind.fill({0, 1e12});
  return options;
}

// Merges every two updates of one kind.
std::shared_ptr<const FusionRules> merging() {
  FusionRules fusion_rules;
  fusion_rules.translate = [](const Op&) { return std::nullopt; };
  fusion_rules.call = [](const FusedProgram&) { return nullptr; };
  fusion_rules.updates =
      UpdateGrouping{[](const Op& op) -> std::optional<int64_t> {
                       return op.phase == Phase::update ? std::optional<int64_t>(16) : std::nullopt;
                     },
                     [](const Op& a, const Op& b) { return true; },
                     [](const std::vector<const Op*>& members) {
                       Op made;
                       made.name = group_name("plimsoll::update_");
                       for (size_t i = 0; i < members.front()->arguments.size(); ++i) {
                         Argument list{Argument::Kind::tensor_list, members.front()->arguments[i].written, {}};
                         for (const Op* member : members) list.views.push_back(member->arguments[i].views[0]);
                         made.arguments.push_back(std::move(list));
                       }
                       return made;
                     }};
  return std::make_shared<const FusionRules>(std::move(fusion_rules));
}

TEST(Pipeline, RunsEveryPassInOrder) {
  const TraceText text = small_step();
  const PlanOptions options = options_for_test();
  const Plan plan = make_plan(text.trace, options);
  const Observed seen = observe(text.trace, plan, options);
  EXPECT_THAT(seen.all,
              ElementsAre("recorded", "slice_rows", "apply_workspace_model", "fold_casts", "update_in_backward",
                          "add_products", "gather_late", "remove_dead_ops", "sink_initialization", "assign_memories",
                          "recompute", "sink_updates", "offload", "fuse_norms", "fuse_pointwise", "group_updates",
                          "overlap_exchanges", "grow_scratch", "placement", "validation"));
  EXPECT_THAT(seen.applied, ElementsAre("recorded", "fold_casts", "remove_dead_ops", "sink_initialization", "recompute",
                                        "sink_updates", "placement", "validation"));
  EXPECT_THAT(seen.changed, ElementsAre("recorded", "remove_dead_ops"));
  EXPECT_TRUE(same_trace(seen.last, plan.trace));
  EXPECT_EQ(seen.reports.back().live_bytes, plan.live_bytes);
}

TEST(Pipeline, EachFeatureMakesItsPassesRun) {
  const TraceText text = small_step();
  const auto passes = [&](const PlanOptions& options) {
    const Plan plan = make_plan(text.trace, options);
    const Observed seen = observe(text.trace, plan, options);
    EXPECT_TRUE(same_trace(seen.last, plan.trace));
    EXPECT_EQ(seen.reports.back().live_bytes, plan.live_bytes);
    return seen;
  };
  PlanOptions options = options_for_test();
  options.gradient_checkpointing = Choice::on;
  EXPECT_THAT(passes(options).changed, ElementsAre("recorded", "remove_dead_ops", "recompute"));

  options = options_for_test();
  options.update_in_backward = Choice::on;
  EXPECT_THAT(passes(options).changed, ElementsAre("recorded", "update_in_backward", "remove_dead_ops"));

  options = options_for_test();
  options.fusion_rules = merging();
  const Observed merged = passes(options);
  EXPECT_THAT(merged.applied, IsSupersetOf({"fuse_norms", "fuse_pointwise", "group_updates"}));
  EXPECT_THAT(merged.changed, ElementsAre("recorded", "remove_dead_ops", "group_updates"));

  options = options_for_test();
  options.workspace = [](const Op& op) { return op.phase == Phase::forward ? 128 : 0; };
  EXPECT_THAT(passes(options).changed, ElementsAre("recorded", "apply_workspace_model", "remove_dead_ops"));

  options.forms = [](const Op& op) { return op.phase == Phase::forward ? std::vector<Op>{op} : std::vector<Op>(); };
  for (const Op& op : text.trace.ops) ASSERT_EQ(op.call, nullptr);
  EXPECT_THAT(passes(options).changed, ElementsAre("recorded", "apply_workspace_model", "remove_dead_ops"));

  options = options_for_test();
  options.product_sum = [](const Op& product, const Op*, const Op& sum) {
    return product.phase == Phase::forward && sum.phase == Phase::forward ? std::optional<Op>(product) : std::nullopt;
  };
  EXPECT_THAT(passes(options).applied, Contains("add_products"));

  options = options_for_test();
  options.budget.host = 1 << 20;
  options.cost.host_link = 1e12;
  options.gradient_checkpointing = Choice::off;
  options.budget.device = Planner(text.trace, options).minimum_budget();
  EXPECT_THAT(passes(options).changed, ElementsAre("recorded", "remove_dead_ops", "assign_memories", "offload"));
}

TEST(Pipeline, AStepWithoutTrainingIsPlacedAsPrepared) {
  const TraceText text("buffer x 64 persistent\nbuffer y 64 output\nevaluate\nf - y = x\n");
  const PlanOptions options = options_for_test();
  const Plan plan = make_plan(text.trace, options);
  EXPECT_THAT(observe(text.trace, plan, options).applied, Not(Contains("recompute")));
}

// Nothing can be recomputed, which leaves no pass out: updates among backward ops are settled all the same.
TEST(Pipeline, AStepWithoutSavedValuesRunsTheSamePasses) {
  TraceText text(
      "buffer x 64 persistent\nbuffer w 64 state\nbuffer g 64\nbuffer out 64 output\nmicro\n"
      "f - out = x w\nb - g = x w\nb - out = w\nupdate\nu - w <- g\n");
  text.trace.buffers[text["w"]].role = Role::parameter;
  text.trace.buffers[text["g"]].role = Role::gradient;
  const int32_t op = text.trace.segment(SegmentKind::update)->begin;
  text.trace.update_pieces.push_back({UpdatePiece::Kind::update, text["w"], text["g"], op, op + 1});
  PlanOptions options = options_for_test();
  options.update_in_backward = Choice::on;
  const Plan plan = make_plan(text.trace, options);
  EXPECT_THAT(plan.choices.kept, ::testing::IsEmpty());
  EXPECT_THAT(observe(text.trace, plan, options).applied,
              IsSupersetOf({"update_in_backward", "recompute", "sink_updates"}));
}

TEST(Pipeline, APlanOfOtherChoicesIsAnError) {
  const TraceText text = small_step();
  PlanOptions options = options_for_test();
  options.gradient_checkpointing = Choice::on;
  Plan plan = make_plan(text.trace, options);
  plan.choices.kept.assign(plan.choices.kept.size(), 1);
  EXPECT_THROW(observe(text.trace, plan, options), InternalError);
}

// For any choices of the planner, they give the plan again.
TEST(Pipeline, RandomPlansComeOutAgain) {
  std::mt19937 random(31);
  std::map<std::string, int> changed;
  for (int round = 0; round < rounds(60); ++round) {
    const bool accumulate = random() % 2;
    TraceText text(random_step(random, {.accumulate = accumulate, .roles = true}));
    with_roles(text.trace);
    PlanOptions options = options_for_test();
    options.micro_batches = accumulate ? 3 : 1;
    if (random() % 2) {
      options.budget.host = 1 << (10 + random() % 6);
      options.cost.host_link = 1e12;
    }
    const Planner planner(text.trace, options);
    const int64_t least = planner.minimum_budget(), most = planner.plan({}).peak_bytes;
    for (int part = 0; part < 3; ++part) {
      const Plan plan = planner.plan(least + (most - least) * part / 2);
      const Observed seen = observe(text.trace, plan, options);
      EXPECT_EQ(seen.reports.back().live_bytes, plan.live_bytes);
      for (const std::string& name : seen.changed) ++changed[name];
    }
  }
  EXPECT_GT(changed["recompute"], 0);
  EXPECT_GT(changed["offload"], 0);
}

}  // namespace
}  // namespace plimsoll
