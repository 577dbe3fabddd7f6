#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cost/operators.h"
#include "plan/placement/assign_offsets.h"
#include "plan/placement/validator.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "trace/merged_ops.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

View vector_view(BufferId buffer, int64_t elements) {
  return {buffer, DType::float32, 0, {elements}, {1}};
}

const int64_t kMaxElements = MergingParameters().max_grouped_elements;

// Arguments of "update": a parameter and a state that it writes, a gradient and a scalar that it reads.
Op update(View parameter, View state, View gradient, BufferId scalar, std::string name = "update_") {
  Op op;
  op.name = "plimsoll::" + std::move(name);
  op.phase = Phase::update;
  op.flops = static_cast<double>(parameter.elements());
  op.bytes_moved = 16 * parameter.elements();
  op.arguments = {{Argument::Kind::tensor, true, {std::move(parameter)}},
                  {Argument::Kind::tensor, true, {std::move(state)}},
                  {Argument::Kind::tensor, false, {std::move(gradient)}},
                  {Argument::Kind::tensor, false, {vector_view(scalar, 1)}}};
  return op;
}

Op other(std::vector<View> read, View written, std::string name = "other") {
  Op op;
  op.name = std::move(name);
  op.phase = Phase::update;
  for (View& each : read) op.arguments.push_back({Argument::Kind::tensor, false, {std::move(each)}});
  op.arguments.push_back({Argument::Kind::tensor, true, {std::move(written)}});
  return op;
}

const std::string kNorm(kNormGroup.substr(0, kNormGroup.size() - kGroupSuffix.size()));

// Arguments of a norm: the norms and the mark that it writes, the gradient.
Op norm(View gradient, BufferId norms, BufferId mark) {
  Op op;
  op.name = kNorm;
  op.phase = Phase::update;
  op.arguments = {{Argument::Kind::tensor, true, {vector_view(norms, 1)}},
                  {Argument::Kind::tensor, true, {vector_view(mark, 1)}},
                  {Argument::Kind::tensor, false, {std::move(gradient)}}};
  return op;
}

// "update_" and "plain_" are operators with groups; those of one scalar are alike. So are norms of one dtype.
UpdateGrouping grouping() {
  return {[](const Op& op) -> std::optional<int64_t> {
            if (op.name == kNorm) return op.arguments[2].views[0].elements();
            if (op.name != "plimsoll::update_" && op.name != "plimsoll::plain_") return std::nullopt;
            return op.arguments[0].views[0].elements();
          },
          [](const Op& a, const Op& b) {
            if (a.name == kNorm)
              return b.name == kNorm && a.arguments[2].views[0].dtype == b.arguments[2].views[0].dtype;
            return a.name == b.name && a.arguments[3].views == b.arguments[3].views;
          },
          [](const std::vector<const Op*>& members) {
            Op made;
            made.name = group_name(members.front()->name);
            if (made.name == kNormGroup) {
              made.arguments = members.front()->arguments;
              made.arguments[2] = {Argument::Kind::tensor_list, false, {}};
              for (const Op* member : members) made.arguments[2].views.push_back(member->arguments[2].views[0]);
              return made;
            }
            for (size_t i = 0; i < 3; ++i) {
              Argument list{Argument::Kind::tensor_list, i < 2, {}};
              for (const Op* member : members) list.views.push_back(member->arguments[i].views[0]);
              made.arguments.push_back(std::move(list));
            }
            made.arguments.push_back(members.front()->arguments[3]);
            return made;
          },
          [](const Op& op) { return op.name == kNorm; }};
}

std::vector<std::string> names_with_members(const Trace& trace) {
  std::vector<std::string> names;
  for (const Op& op : trace.ops) {
    const std::string_view name = std::string_view(op.name).substr(op.name.starts_with("plimsoll::") ? 10 : 0);
    const size_t list = op.name == kNormGroup ? 2 : 0;
    names.push_back(is_update_group(op.name) ? std::string(name) + std::to_string(op.arguments[list].views.size())
                                             : std::string(name));
  }
  return names;
}

// Micro makes the gradients of four parameters of 1 000 numbers out of x; update uses them.
class GroupUpdatesTest : public ::testing::Test {
 protected:
  static constexpr int kParameters = 4;
  static constexpr int64_t kElements = 1000;
  static constexpr BufferId kScalar = 3 * kParameters, kInput = kScalar + 1, kFree = kInput + 1;

  GroupUpdatesTest() {
    trace_.modules = {"", "layers.0"};
    for (const auto& [role, persistent] :
         {std::pair{Role::parameter, true}, {Role::optimizer_state, true}, {Role::gradient, false}})
      for (int p = 0; p < kParameters; ++p) trace_.buffers.push_back({4 * kElements, role, persistent, false, "b"});
    trace_.buffers.push_back({4, Role::input, true, false, "scalar"});
    trace_.buffers.push_back({4 * kElements, Role::input, true, false, "x"});
    trace_.buffers.push_back({4 * kElements, Role::temporary, true, false, "free"});
    trace_.inputs = {{"scalar", vector_view(kScalar, 1)}, {"x", vector_view(kInput, kElements)}};
    for (BufferId b = 0; b < 2 * kParameters; ++b) {
      trace_.state.push_back({"s" + std::to_string(b), vector_view(b, kElements)});
      trace_.constants.push_back({b, std::vector<std::byte>(4 * kElements)});
    }
    for (int p = 0; p < kParameters; ++p) {
      trace_.ops.push_back(other({vector_view(kInput, kElements), vector_view(parameter(p), kElements)},
                                 vector_view(gradient(p), kElements), "backward"));
      trace_.ops.back().phase = Phase::backward;
    }
    for (int p = 0; p < kParameters; ++p) trace_.ops.push_back(of(p));
    trace_.segments = {{SegmentKind::micro, 0, kParameters}, {SegmentKind::update, kParameters, 2 * kParameters}};
  }
  static BufferId parameter(int p) { return p; }
  static BufferId state(int p) { return kParameters + p; }
  static BufferId gradient(int p) { return 2 * kParameters + p; }
  static Op of(int p, std::string name = "update_") {
    return update(vector_view(parameter(p), kElements), vector_view(state(p), kElements),
                  vector_view(gradient(p), kElements), kScalar, std::move(name));
  }
  /// Inserts an op before update `p`.
  void insert(int p, Op op) {
    trace_.ops.insert(trace_.ops.begin() + kParameters + p, std::move(op));
    ++trace_.segments[1].end;
  }
  /// Returns the ops of segment update, grouped and placed.
  std::vector<std::string> grouped() const {
    const Plan plan = assign_offsets(group_updates(trace_, grouping()), {});
    EXPECT_EQ(find_fault(plan), "");
    EXPECT_LE(plan.live_bytes, assign_offsets(trace_, {}).live_bytes);
    const std::vector<std::string> all = names_with_members(plan.trace);
    const Segment& segment = *plan.trace.segment(SegmentKind::update);
    return {all.begin() + segment.begin, all.begin() + segment.end};
  }
  static std::shared_ptr<const FusionRules> fusion_rules() {
    FusionRules fusion_rules{false, [](const Op&) { return std::nullopt; }, nullptr};
    fusion_rules.updates = grouping();
    return std::make_shared<const FusionRules>(std::move(fusion_rules));
  }
  Trace trace_;
};

TEST_F(GroupUpdatesTest, ThoseOfSmallParametersAreOne) {
  PlanOptions options;
  const Plan before = make_plan(trace_, options);
  options.fusion_rules = fusion_rules();
  const Plan after = make_plan(trace_, options);
  EXPECT_THAT(names_with_members(after.trace),
              ElementsAre("backward", "backward", "backward", "backward", "update_group_4"));
  // All gradients live at the last op of micro, and at the first of update: no byte more, no byte less.
  EXPECT_EQ(before.arena_bytes - before.persistent_bytes, 4 * 4032);
  EXPECT_EQ(after.arena_bytes - after.persistent_bytes, 4 * 4032);
  EXPECT_EQ(after.peak_bytes, before.peak_bytes);
  const Op& group = after.trace.ops.back();
  EXPECT_EQ(group.flops, 4 * kElements);
  EXPECT_EQ(group.bytes_moved, 4 * 16 * kElements);
  EXPECT_EQ(group.phase, Phase::update);
  EXPECT_LT(after.time.update, before.time.update);
  EXPECT_EQ(after.time.micro, before.time.micro);
  EXPECT_EQ(grouped_updates_of(after.trace).updates, 4);
  EXPECT_EQ(grouped_updates_of(after.trace).groups, 1);
  ASSERT_FALSE(after.reasons.empty());
  EXPECT_EQ(after.reasons.back().decision, "compile: auto");
  EXPECT_THAT(after.reasons.back().why, HasSubstr("4 updates of small parameters run as 1"));
  EXPECT_EQ(find_fault(after), "");
}

TEST_F(GroupUpdatesTest, CostWhatUpdatesCost) {
  Op op;
  for (const char* name : {"adamw_", "lion_", "sgd_", "momentum_sgd_", "adamw_group_", "lion_group_", "sgd_group_",
                           "momentum_sgd_group_"}) {
    op.name = std::string("plimsoll::") + name;
    EXPECT_EQ(kind_of(op), OpKind::update) << name;
  }
  EXPECT_FALSE(is_update_group("plimsoll::adamw_"));
  EXPECT_EQ(single_name("aten::_group_"), "aten::_group_");
}

TEST_F(GroupUpdatesTest, KindsAreGroupedApart) {
  trace_.ops[5] = of(1, "plain_");
  trace_.ops[7] = of(3, "plain_");
  EXPECT_THAT(grouped(), ElementsAre("update_group_2", "plain_group_2"));
  trace_.ops[7] = of(3);
  EXPECT_THAT(grouped(), ElementsAre("plain_", "update_group_3"));
  trace_.ops[5].name = "plimsoll::adafactor_";  // has no groups
  EXPECT_THAT(grouped(), ElementsAre("adafactor_", "update_group_3"));
  trace_.ops[6].arguments[3].views[0] = vector_view(kInput, 1);  // another scalar
  EXPECT_THAT(grouped(), ElementsAre("adafactor_", "update_", "update_group_2"));
}

TEST_F(GroupUpdatesTest, NothingPassesWhoReadsOrWritesTheSame) {
  const Trace plain = trace_;
  insert(2,
         other({vector_view(parameter(0), kElements)}, vector_view(kFree, kElements)));  // reads what the first writes
  EXPECT_THAT(grouped(), ElementsAre("update_group_2", "other", "update_group_2"));
  trace_ = plain;
  insert(2, other({}, vector_view(gradient(1), kElements)));  // writes what the second reads
  EXPECT_THAT(grouped(), ElementsAre("update_group_2", "other", "update_group_2"));
  trace_ = plain;
  insert(2, other({}, vector_view(kScalar, 1)));
  EXPECT_THAT(grouped(), ElementsAre("update_group_2", "other", "update_group_2"));
  trace_ = plain;
  insert(2,
         other({vector_view(parameter(3), kElements)}, vector_view(kFree, kElements)));  // before the last, as it was
  EXPECT_THAT(grouped(), ElementsAre("other", "update_group_4"));
  trace_ = plain;
  insert(2, of(1));  // a second update of the same parameter
  EXPECT_THAT(grouped(), ElementsAre("update_group_2", "update_group_3"));
}

TEST_F(GroupUpdatesTest, LargeOnesStayAlone) {
  const auto resize = [&](int p, int64_t elements) {
    for (const BufferId b : {parameter(p), state(p), gradient(p)}) trace_.buffers[b].bytes = 4 * elements;
    for (ConstantData& constant : trace_.constants)
      constant.bytes.resize(static_cast<size_t>(trace_.buffers[constant.buffer].bytes));
    for (Op& op : trace_.ops)
      for (Argument& argument : op.arguments)
        for (View& each : argument.views)
          if (each.buffer == parameter(p) || each.buffer == state(p) || each.buffer == gradient(p))
            each.sizes = {elements};
  };
  resize(1, kMaxElements + 1);
  EXPECT_THAT(grouped(), ElementsAre("update_", "update_group_3"));
  resize(1, kMaxElements);
  EXPECT_THAT(grouped(), ElementsAre("update_group_4"));
}

TEST_F(GroupUpdatesTest, TheLimitsAreParameters) {
  EXPECT_THAT(names_with_members(group_updates(trace_, grouping(), {}, {.max_grouped_elements = kElements - 1})),
              ::testing::Not(::testing::Contains(HasSubstr("group"))));
  EXPECT_THAT(names_with_members(group_updates(trace_, grouping(), {}, {.max_group_elements = 2 * kElements})),
              ::testing::IsSupersetOf({"update_group_2", "update_group_2"}));
}

TEST_F(GroupUpdatesTest, AGroupHasABound) {
  // The largest size of grouped parameters.
  trace_ = {};
  trace_.modules = {""};
  for (int p = 0; p < 20; ++p)
    for (const auto& [role, persistent] :
         {std::pair{Role::parameter, true}, {Role::optimizer_state, true}, {Role::gradient, true}})
      trace_.buffers.push_back({4 * kMaxElements, role, persistent, false, "b"});
  trace_.buffers.push_back({4, Role::input, true, false, "scalar"});
  for (int p = 0; p < 20; ++p)
    trace_.ops.push_back(update(vector_view(3 * p, kMaxElements), vector_view(3 * p + 1, kMaxElements),
                                vector_view(3 * p + 2, kMaxElements), 60));
  trace_.segments = {{SegmentKind::update, 0, 20}};
  EXPECT_THAT(names_with_members(group_updates(trace_, grouping())),
              ElementsAre("update_group_8", "update_group_8", "update_group_4"));
}

TEST_F(GroupUpdatesTest, WhatCopiesOrTheHostHasToDoWithStaysWhereItIs) {
  const Trace plain = trace_;
  trace_.ops[5].on_host = true;
  EXPECT_THAT(names_with_members(group_updates(trace_, grouping())),
              ElementsAre("backward", "backward", "backward", "backward", "update_", "update_group_3"));
  trace_ = plain;
  trace_.ops[5].random_id = 1;
  EXPECT_EQ(grouped_updates_of(group_updates(trace_, grouping())).updates, 3);
  trace_ = plain;
  trace_.buffers[kFree].memory = Memory::host;
  Op start = other({vector_view(state(1), kElements)}, vector_view(kFree, kElements), "plimsoll::copy_to_host");
  start.copy = CopyStage::start;
  insert(2, start);
  Op wait = start;
  wait.copy = CopyStage::wait;
  wait.arguments[1].written = false;
  insert(5, wait);
  EXPECT_THAT(names_with_members(group_updates(trace_, grouping())),
              ElementsAre("backward", "backward", "backward", "backward", "update_", "copy_to_host", "update_group_3",
                          "copy_to_host"));
}

// The scalars of all updates are copied to the host if one of the updates runs there.
TEST_F(GroupUpdatesTest, WhatIsOnlyReadMayBeCopiedAway) {
  trace_.buffers[kFree].memory = Memory::host;
  Op start = other({vector_view(kScalar, 1)}, vector_view(kFree, 1), "plimsoll::copy_to_host");
  std::swap(start.arguments[0], start.arguments[1]);
  start.copy = CopyStage::start;
  insert(2, start);
  Op wait = start;
  wait.copy = CopyStage::wait;
  wait.arguments[0].written = false;
  insert(4, wait);
  EXPECT_EQ(grouped_updates_of(group_updates(trace_, grouping())).updates, kParameters);
  // Not what comes from there.
  for (const int at : {2, 4})
    std::swap(trace_.ops[kParameters + at].arguments[0].views, trace_.ops[kParameters + at].arguments[1].views);
  EXPECT_EQ(grouped_updates_of(group_updates(trace_, grouping())).updates, 0);
}

TEST_F(GroupUpdatesTest, UpdatesWithinBackwardStayAlone) {
  trace_.segments = {{SegmentKind::micro, 0, 2 * kParameters}};
  EXPECT_EQ(grouped_updates_of(group_updates(trace_, grouping())).groups, 0);
}

// Norms of the gradients, and their total, before the updates. All norms write to the same two buffers.
class GroupNormsTest : public GroupUpdatesTest {
 protected:
  static constexpr BufferId kNorms = kFree + 1, kMark = kNorms + 1;

  GroupNormsTest() {
    for (const char* label : {"norms", "mark"}) trace_.buffers.push_back({16, Role::temporary, false, false, label});
    insert(0, other({vector_view(kNorms, 1), vector_view(kMark, 1)}, vector_view(kFree, 1), "total"));
    for (int p = kParameters; p-- > 0;) insert(0, norm(vector_view(gradient(p), kElements), kNorms, kMark));
    for (const BufferId b : {kNorms, kMark}) insert(0, other({}, vector_view(b, 1), "zero"));
  }
  static constexpr int kFirst = 2;  // position of the first norm in segment update
  Op& norm_at(int p) { return trace_.ops[static_cast<size_t>(kParameters + kFirst + p)]; }
};

TEST_F(GroupNormsTest, AreGroupedToo) {
  EXPECT_THAT(grouped(), ElementsAre("zero", "zero", "gradient_norm_group_4", "total", "update_group_4"));
  const GroupedUpdates count = grouped_updates_of(group_updates(trace_, grouping()));
  EXPECT_EQ(count.norms, 4);
  EXPECT_EQ(count.norm_groups, 1);
  EXPECT_EQ(count.updates, 4);
  EXPECT_EQ(count.groups, 1);
  PlanOptions options;
  options.fusion_rules = fusion_rules();
  const Plan plan = make_plan(trace_, options);
  EXPECT_THAT(plan.reasons.back().why,
              HasSubstr("4 updates of small parameters and 4 norms of their gradients run as 2"));
}

// Norms that stay alone write to the same buffers, between the members of a group.
TEST_F(GroupNormsTest, PassOtherNorms) {
  norm_at(1).arguments[2].views[0].dtype = DType::bfloat16;
  norm_at(3).arguments[2].views[0].dtype = DType::bfloat16;
  EXPECT_THAT(grouped(),
              ElementsAre("zero", "zero", "gradient_norm_group_2", "gradient_norm_group_2", "total", "update_group_4"));
  norm_at(1).arguments[2].views[0].dtype = norm_at(3).arguments[2].views[0].dtype = DType::float32;
  norm_at(1).random_id = 1;
  EXPECT_THAT(grouped(),
              ElementsAre("zero", "zero", "gradient_norm_", "gradient_norm_group_3", "total", "update_group_4"));
}

TEST_F(GroupNormsTest, DoNotPassOtherUsesOfTheirResults) {
  const Trace plain = trace_;
  insert(kFirst + 2, other({vector_view(kNorms, 1)}, vector_view(kFree, 1)));
  EXPECT_THAT(grouped(), ElementsAre("zero", "zero", "gradient_norm_group_2", "other", "gradient_norm_group_2", "total",
                                     "update_group_4"));
  trace_ = plain;
  insert(kFirst + 2, other({}, vector_view(kMark, 1)));
  EXPECT_THAT(grouped(), ElementsAre("zero", "zero", "gradient_norm_group_2", "other", "gradient_norm_group_2", "total",
                                     "update_group_4"));
  trace_ = plain;
  insert(kFirst + 2, other({}, vector_view(gradient(1), kElements)));
  EXPECT_THAT(grouped(), ElementsAre("zero", "zero", "gradient_norm_group_2", "other", "gradient_norm_group_2", "total",
                                     "update_group_4"));
}

// All gradients are live at the norms: a group has scratch only below the peak of another op.
TEST_F(GroupNormsTest, ScratchOfAGroupIsWithinThePeak) {
  const auto with_scratch = [&](int64_t bytes) {
    return group_updates(trace_, grouping(),
                         [bytes](const Op& op) -> std::optional<int64_t> { return op.name == kNormGroup ? bytes : 0; });
  };
  const auto norms_of = [](const Trace& trace) { return grouped_updates_of(trace).norms; };
  EXPECT_EQ(norms_of(with_scratch(64)), 0);
  trace_.ops[kParameters - 1].workspace_bytes = 256;  // at the last gradient
  EXPECT_EQ(norms_of(with_scratch(64)), 4);
  const Trace after = with_scratch(64);
  const auto made = std::ranges::find(after.ops, kNormGroup, &Op::name);
  ASSERT_NE(made, after.ops.end());
  EXPECT_EQ(made->workspace_bytes, 64);
  EXPECT_EQ(norms_of(with_scratch(1024)), 0);
}

// A waiting gradient stays live: not if that would exceed the bytes live at the peak.
TEST_F(GroupUpdatesTest, NoMoreBytesThanWereAtThePeak) {
  const auto live = [](const Trace& trace) {
    return std::ranges::max(transient_bytes_by_op(trace, lifetimes_of(trace)));
  };
  // At the first update four gradients are live, between the second and the third two and something else.
  insert(2, other({}, vector_view(kFree, kElements)));
  trace_.buffers[kFree].persistent = false;
  EXPECT_EQ(live(trace_), 4 * 4032);
  EXPECT_THAT(grouped(), ElementsAre("update_", "other", "update_group_3"));
  EXPECT_EQ(live(group_updates(trace_, grouping())), 4 * 4032);
  trace_.buffers[kFree].bytes = 4032 + 1;
  EXPECT_THAT(grouped(), ElementsAre("update_", "update_", "other", "update_group_2"));
  trace_.buffers[kFree].bytes = 3 * 4032;  // the peak itself, and there nothing may wait
  EXPECT_EQ(live(trace_), 5 * 4032);
  EXPECT_THAT(grouped(), ElementsAre("update_", "update_", "other", "update_group_2"));
}

// A world of floats: what ops do to it, one by one and grouped.
using World = std::vector<double>;
void run_update(const Op& op, World& world) {
  const auto at = [&](size_t argument, size_t i = 0) -> double& {
    return world[static_cast<size_t>(op.arguments[argument].views[i].buffer)];
  };
  if (single_name(op.name) == "plimsoll::update_" || single_name(op.name) == "plimsoll::plain_") {
    const double scalar = at(3);
    for (size_t i = 0; i < op.arguments[0].views.size(); ++i) {
      at(1, i) = at(1, i) / 2 + at(2, i);
      at(0, i) -= scalar * at(1, i);
    }
    return;
  }
  if (single_name(op.name) == kNorm) {
    // In any order the same.
    for (size_t i = 0; i < op.arguments[2].views.size(); ++i) {
      at(0) = std::max(at(0), 2 * at(2, i));
      at(1) = std::max(at(1), at(2, i));
    }
    return;
  }
  double sum = 1;
  for (size_t i = 0; i + 1 < op.arguments.size(); ++i) sum += at(i) / 4;
  at(op.arguments.size() - 1) = sum;
}

// Any schedule of updates and other ops gives the same results, with no more bytes live.
TEST(GroupUpdatesRandom, DoesTheSame) {
  int64_t grouped = 0, norms = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint32_t>(below)); };
    Trace trace;
    trace.modules = {""};
    const int parameters = 2 + draw(10), buffers = 3 * parameters + 4;
    for (int b = 0; b < buffers; ++b) {
      const bool transient = b % 3 == 2 && b < 3 * parameters && draw(4) > 0;
      trace.buffers.push_back({64 + 64 * draw(4), Role::temporary, !transient, false, "b"});
    }
    const auto one = [](int b) { return vector_view(b, 1); };
    const auto any = [&] { return one(draw(buffers)); };
    for (int p = 0; p < parameters; ++p) trace.ops.push_back(other({}, one(3 * p + 2)));
    const int first = parameters;
    for (int p = 0; p < parameters; ++p) {
      if (draw(3) > 0) {
        View of = one(3 * p + 2);
        if (draw(4) == 0) of.dtype = DType::bfloat16;
        trace.ops.push_back(norm(std::move(of), buffers - 2, buffers - 1));
        if (draw(4) == 0) trace.ops.push_back(other({any(), any()}, any()));
      }
      const char* name = draw(4) == 0 ? "plain_" : "update_";
      trace.ops.push_back(update(one(3 * p), one(3 * p + 1), one(3 * p + 2), 3 * parameters + draw(2), name));
      if (draw(3) == 0) trace.ops.push_back(other({any(), any()}, any()));
    }
    const auto end = static_cast<int32_t>(trace.ops.size());
    trace.segments = {{SegmentKind::micro, 0, first}, {SegmentKind::update, first, end}};
    const Trace after = group_updates(trace, grouping());
    grouped += grouped_updates_of(after).updates;
    norms += grouped_updates_of(after).norms;
    EXPECT_EQ(after.segments[0].end, first);
    EXPECT_EQ(after.segments[1].end, static_cast<int32_t>(after.ops.size()));
    const auto live = [](const Trace& of) { return std::ranges::max(transient_bytes_by_op(of, lifetimes_of(of))); };
    ASSERT_LE(live(after), live(trace)) << "seed " << seed;
    World plain(static_cast<size_t>(buffers)), world;
    for (double& number : plain) number = draw(5);
    world = plain;
    for (const Op& op : trace.ops) run_update(op, plain);
    for (const Op& op : after.ops) run_update(op, world);
    for (size_t b = 0; b < plain.size(); ++b) {
      if (!trace.buffers[b].persistent) continue;
      ASSERT_EQ(plain[b], world[b]) << "seed " << seed << ", buffer " << b;
    }
  }
  EXPECT_GT(grouped, 1000);
  EXPECT_GT(norms, 300);
}

}  // namespace
}  // namespace plimsoll
