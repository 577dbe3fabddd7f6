// Tests moving saved values and optimizer state to host memory and back.
#include "plan/passes/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "plan/passes/pipeline.h"
#include "plan/placement/validator.h"
#include "plan/random_trace.h"
#include "plan/search/offload_search.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using testing::random_step;
using testing::results_of;
using testing::TraceText;

// An op takes one picosecond for each byte it moves, and an overhead; the link copies `link` bytes a picosecond.
CostModel test_cost(double link) {
  CostModel cost;
  cost.overhead_seconds = 10e-12;
  cost.host_link = link * 1e12;
  for (auto& kind : cost.rates) kind.fill({0, 1e12});
  return cost;
}

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const Op& op : trace.ops) {
    std::string name = op.name;
    if (op.copy != CopyStage::none)
      name = name.substr(name.find("::") + 2) + " " + trace.buffers[op.arguments[1].views[0].buffer].label;
    names.push_back(name);
  }
  return names;
}

const char* kLongWait = R"(
buffer x 64 persistent
buffer w 64 state
buffer a 4096
buffer g 64 output
micro
f layers.0 a = x w
f layers.0 b = a
f layers.1 c = b
f layers.2 d = c
b layers.2 e = d
b layers.1 h = e
b layers.0 g = h a
update
u - w <- g
)";

TEST(Offload, ASavedValueIsAwayUntilItIsWanted) {
  const TraceText text(kLongWait);
  OffloadChoice choice{std::vector<char>(text.trace.buffers.size(), 0)};
  choice.offloaded_saved[text["a"]] = 1;
  const Trace moved = offload(text.trace, choice, test_cost(1000), 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "copy_to_host a", "make_b", "wait_for_copy a", "make_c", "make_d",
                                     "make_e", "copy_to_device a", "make_h", "wait_for_copy a", "make_g", "make_w"));
  EXPECT_EQ(results_of(moved), results_of(text.trace));
  EXPECT_EQ(lifetimes_of(moved)[text["a"]].death, 4);  // when the copy is done
  // Nothing is read from a place after its value has left.
  EXPECT_NE(moved.ops[10].arguments[1].views[0].buffer, text["a"]);
  EXPECT_TRUE(moved.buffers[moved.ops[10].arguments[1].views[0].buffer].on_device());
}

TEST(Offload, StateComesForTheUpdateAndGoesAfterIt) {
  TraceText text(R"(
buffer x 64 persistent
buffer w 64 state
buffer m 4096 state
buffer g 64
micro
f layers.0 a = x w
b layers.0 g = a
update
u - n = g
u - w,m <- g n
u - k = g
u - w <- k
)");
  text.trace.buffers[text["m"]].memory = Memory::host;
  const Trace moved = offload(text.trace, {}, test_cost(1000), 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "make_g", "copy_to_device m", "make_n", "wait_for_copy m", "make_w,m",
                                     "copy_to_host m", "make_k", "wait_for_copy m", "make_w"));
  EXPECT_EQ(moved.buffers[text["m"]].memory, Memory::host);
  EXPECT_EQ(results_of(moved), results_of(text.trace));
}

const char* kOneLayer = R"(
buffer x 64 persistent
buffer w 4096 state
buffer m 4096 state
buffer g 4096
micro
f layers.0 a = x w
f layers.1 b = a
b layers.1 c = b
b layers.0 g = c w
update
u - s = g
u - w,m <- g s
)";

Trace one_layer() {
  TraceText text(kOneLayer);
  text.trace.buffers[text["w"]].role = Role::parameter;
  text.trace.buffers[text["m"]].role = Role::optimizer_state;
  text.trace.buffers[text["g"]].role = Role::gradient;
  return text.trace;
}

Trace with_memory(Trace trace, const std::string& labels, Memory memory) {
  for (Buffer& buffer : trace.buffers)
    if (labels.find(buffer.label) != std::string::npos) buffer.memory = memory;
  return trace;
}

// A buffer that is copied in and not written is not copied back.
TEST(Offload, AParameterComesForEachUseAndGoesWhenItWasWritten) {
  for (const Memory memory : {Memory::host, Memory::disk}) {
    CostModel cost = test_cost(1000);
    cost.disk_link = cost.host_link;
    const Trace moved = offload(with_memory(one_layer(), "w", memory), {}, cost, 1 << 20);
    const std::string away = "copy_to_" + std::string(name_of(memory)) + " w";
    EXPECT_THAT(names_of(moved), ::testing::ElementsAre("copy_to_device w", "wait_for_copy w", "make_a", "make_b",
                                                        "make_c", "make_g", "copy_to_device w", "make_s",
                                                        "wait_for_copy w", "make_w,m", away, "wait_for_copy w"));
    EXPECT_EQ(results_of(moved), results_of(one_layer()));
  }
}

TEST(Offload, AGradientLeavesWhenItIsMadeAndComesForTheUpdate) {
  const Trace moved = offload(with_memory(one_layer(), "g", Memory::host), {}, test_cost(1000), 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "make_b", "make_c", "make_g", "copy_to_host g", "wait_for_copy g",
                                     "copy_to_device g", "wait_for_copy g", "make_s", "make_w,m"));
  EXPECT_EQ(results_of(moved), results_of(one_layer()));
}

TEST(Offload, AnUpdateOnTheHostWantsTheGradientAndTheScalars) {
  CostModel cost = test_cost(1000);
  cost.host_bytes = 1e12;
  OffloadChoice choice;
  choice.host_updates = true;
  // The parameter, on the device, is copied out and in.
  Trace moved = offload(with_memory(one_layer(), "m", Memory::host), choice, cost, 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "make_b", "make_c", "make_g", "copy_to_host w", "copy_to_host g",
                                     "make_s", "wait_for_copy w", "wait_for_copy g", "copy_to_host s",
                                     "wait_for_copy s", "make_w,m", "copy_to_device w", "wait_for_copy w"));
  EXPECT_EQ(results_of(moved), results_of(one_layer()));
  // In host memory, it is updated in place.
  moved = offload(with_memory(one_layer(), "mwg", Memory::host), choice, cost, 1 << 20);
  std::vector<std::string> update = names_of(moved);
  update.erase(update.begin(), update.begin() + moved.segment(SegmentKind::update)->begin);
  EXPECT_THAT(update, ::testing::ElementsAre("copy_to_device g", "wait_for_copy g", "make_s", "copy_to_host s",
                                             "wait_for_copy s", "make_w,m"));
  EXPECT_EQ(results_of(moved), results_of(one_layer()));
  // The host does not update buffers on disk.
  moved = offload(with_memory(one_layer(), "mw", Memory::disk), choice, cost, 1 << 20);
  EXPECT_FALSE(moved.ops.back().on_host);
  EXPECT_EQ(results_of(moved), results_of(one_layer()));
}

TEST(Offload, AnUpdateOfSeveralOpsStaysOnTheDevice) {
  TraceText text(std::string(kOneLayer) + "u - m <- w\n");
  text.trace.buffers[text["w"]].role = Role::parameter;
  text.trace.buffers[text["m"]].role = Role::optimizer_state;
  text.trace.buffers[text["m"]].memory = Memory::host;
  OffloadChoice choice;
  choice.host_updates = true;
  for (const Op& op : offload(text.trace, choice, test_cost(1000), 1 << 20).ops) EXPECT_FALSE(op.on_host);
}

// A second use far enough from the first: the state is copied out and in twice, and never at the same time.
TEST(Offload, AVisitWaitsForTheOneBefore) {
  std::string text =
      "buffer x 64 persistent\nbuffer w 64 state\nbuffer m 4096 state\nbuffer g 64\nmicro\n"
      "f - a = x w\nb - g = a\nupdate\nu - w,m <- g\n";
  for (int i = 0; i < 30; ++i) text += "u - w <- g\n";
  text += "u - w,m <- g\n";
  TraceText trace(text);
  trace.trace.buffers[trace["m"]].memory = Memory::host;
  for (const double link : {1000.0, 1.0, 0.01})
    for (const int64_t limit : {0, 1 << 20}) {
      const Trace moved = offload(trace.trace, {}, test_cost(link), limit);
      EXPECT_EQ(results_of(moved), results_of(trace.trace));
      bool on_its_way = false;  // one copy of m at a time
      int visits = 0;
      for (const Op& op : moved.ops) {
        if (op.copy == CopyStage::none) continue;
        EXPECT_EQ(on_its_way, op.copy == CopyStage::wait);
        on_its_way = op.copy == CopyStage::start;
        visits += op.name == "plimsoll::copy_to_device" && on_its_way;
      }
      EXPECT_EQ(visits, 2);
    }
}

// The validator's rules for copies, each broken by hand.
class CopyFaults : public ::testing::Test {
 protected:
  CopyFaults() {
    const TraceText text(std::string("buffer d 4096\n") + kLongWait);  // large when a is away
    PlanOptions options;
    options.cost = test_cost(1000);
    options.budget.host = 1 << 20;
    const int64_t whole = make_plan(text.trace, options).peak_bytes;
    options.gradient_checkpointing = Choice::off;
    options.budget.device = whole - 1024;
    plan_ = make_plan(text.trace, options);
    EXPECT_TRUE(plan_.fits);
    EXPECT_GT(plan_.offloaded_saved_bytes, 0);
  }
  int32_t find(CopyStage stage, bool to_host) const {
    for (size_t i = 0; i < plan_.trace.ops.size(); ++i) {
      const Op& op = plan_.trace.ops[i];
      if (op.copy == stage && plan_.trace.buffers[op.arguments[0].views[0].buffer].on_device() != to_host)
        return static_cast<int32_t>(i);
    }
    return -1;
  }
  // Op `from` comes just before op `to` instead.
  void move(int32_t from, int32_t to) {
    auto& ops = plan_.trace.ops;
    if (from < to)
      std::rotate(ops.begin() + from, ops.begin() + from + 1, ops.begin() + to);
    else
      std::rotate(ops.begin() + to, ops.begin() + from, ops.begin() + from + 1);
  }
  Plan plan_;
};

TEST_F(CopyFaults, NoneAtFirst) {
  EXPECT_EQ(find_fault(plan_), "");
}
TEST_F(CopyFaults, UsedBeforeItHasArrived) {
  const int32_t wait = find(CopyStage::wait, false);
  move(wait, wait + 2);
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("while a copy to it is under way"));
}
TEST_F(CopyFaults, FetchedBeforeItIsThere) {
  move(find(CopyStage::start, false), find(CopyStage::wait, true));
  EXPECT_NE(find_fault(plan_), "");
}
TEST_F(CopyFaults, WaitedForButNotCopied) {
  move(find(CopyStage::wait, true), find(CopyStage::start, true));
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("is waited for, not copied to"));
}
TEST_F(CopyFaults, UnderWayWhenTheSegmentEnds) {
  const int32_t wait = find(CopyStage::wait, false);
  plan_.trace.ops[wait].copy = CopyStage::none;  // an op without effect
  plan_.trace.ops[wait].arguments.clear();
  plan_.trace.ops[wait + 1].arguments.resize(1);
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("was waited for"));
}
TEST_F(CopyFaults, AnOpThatUsesHostMemory) {
  const BufferId host = plan_.trace.ops[find(CopyStage::start, true)].arguments[0].views[0].buffer;
  plan_.trace.ops[0].arguments[0].views[0].buffer = host;
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("lies in host memory"));
}
TEST_F(CopyFaults, AnOpOnTheHostThatUsesTheDevice) {
  plan_.trace.ops[0].on_host = true;
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("lies on the device, and the op runs on the host"));
}
TEST_F(CopyFaults, BetweenOtherMemoriesThanItSays) {
  plan_.trace.ops[find(CopyStage::start, true)].offload_memory = Memory::disk;
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("between other memories"));
}
TEST_F(CopyFaults, OverTheDiskBudget) {
  plan_.disk_bytes = plan_.budget.disk + 1;
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("on disk are over the budget"));
}
TEST_F(CopyFaults, OverTheHostBudget) {
  plan_.budget.host = plan_.host_bytes - 1;
  EXPECT_THAT(find_fault(plan_), ::testing::HasSubstr("of host memory are over the budget"));
}

// A bound is below every choice that fits: on small graphs all choices are tried.
TEST(OffloadSearch, TheBoundHoldsForWhatIsFound) {
  std::mt19937 random(12);
  int above_nothing = 0;
  for (int graphs = 0; graphs < 150;) {
    const TraceText text(random_step(random, {.blocks = 2, .ops_a_block = 3}));
    const Trace trace = prepare_trace(text.trace);
    CostModel cost = test_cost(std::pow(4.0, static_cast<int>(random() % 5) - 2));
    cost.copies_overlap = random() % 2 == 0;
    const RecomputeSearch search(trace, cost);
    const size_t values = search.graphs().front().values.size();
    if (values < 3 || values > 7) continue;
    ++graphs;
    const OffloadSearch moving(trace, search, cost);
    for (int64_t host : {int64_t{0}, int64_t{1024}, int64_t{1} << 20}) {
      const int64_t least = moving.min_memory_solution(host).peak, most = search.keep_all_solution().peak;
      for (int part = 0; part <= 4; ++part) {
        const int64_t limit = least + (most - least) * part / 4;
        const auto found = moving.cheapest(limit, host);
        ASSERT_TRUE(found);
        EXPECT_LE(found->peak, limit);
        EXPECT_LE(found->host_bytes, host);
        const double bound = moving.lower_bound(limit, host);
        EXPECT_LE(bound, found->seconds + 1e-15);
        above_nothing += bound > 0;
      }
    }
  }
  EXPECT_GT(above_nothing, 100);
}

// The search evaluates the plan that is carried out: an offloaded gradient leaves within the micro batch.
TEST(OffloadSearch, SeesGradientsLeave) {
  TraceText text(
      "buffer x 64 persistent\nbuffer w 64 state\nbuffer g 8192\nmicro\nf - a = x w\nb - g = a\nb - d = a\nupdate\n"
      "u - w <- g\n");
  text.trace.buffers[text["g"]].role = Role::gradient;
  text.trace.buffers[text["g"]].memory = Memory::host;
  const CostModel cost = test_cost(1);
  const RecomputeSearch search(text.trace, cost);
  const OffloadSearch moving(text.trace, search, cost);
  const auto found = moving.cheapest(1 << 20, 0);
  ASSERT_TRUE(found);
  PlanChoices choices;
  choices.recompute = true;
  choices.kept = found->kept;
  choices.offload = true;
  choices.offloaded = found->offloaded;
  choices.copy_limit_bytes = 1 << 20;
  const Trace done = apply_choices(text.trace, choices, search.graphs(), cost);
  const double longer =
      segment_seconds(cost, done, SegmentKind::micro) - segment_seconds(cost, text.trace, SegmentKind::micro);
  EXPECT_GT(longer, 7000e-12);
  EXPECT_NEAR(found->seconds, longer, 1e-15);
}

Trace with_state(TraceText text) {
  Trace& trace = text.trace;
  for (Op& op : trace.ops) {
    if (op.phase != Phase::update) continue;
    const auto id = static_cast<BufferId>(trace.buffers.size());
    const std::string label = "state of " + trace.buffers[op.arguments[0].views[0].buffer].label;
    trace.buffers.push_back({512, Role::optimizer_state, true, false, label});
    const View view{id, DType::uint8, 0, {512}, {1}};
    op.arguments.push_back({Argument::Kind::tensor, true, {view}});
    trace.state.push_back({label, view});
    trace.constants.push_back({id, std::vector<std::byte>(512)});
  }
  return trace;
}

// Every plan is sound (make_plan asks the validator), within both budgets, computes the same; host memory never makes
// it slower, and makes smaller budgets possible.
TEST(Offload, RandomStepsUnderTighterAndTighterBudgets) {
  std::mt19937 random(11);
  int moved_values = 0, moved_state = 0, both = 0, gradients = 0, parameters = 0, on_disk = 0, on_host = 0;
  for (int round = 0; round < testing::rounds(80); ++round) {
    const std::string step = random_step(random, {.blocks = 1 + static_cast<int>(random() % 6),
                                                  .ops_a_block = 2 + static_cast<int>(random() % 6),
                                                  .accumulate = random() % 2 == 0,
                                                  .hazards = random() % 3 != 0,
                                                  .roles = random() % 3 != 0});
    SCOPED_TRACE(step);
    Trace trace = with_state(TraceText(step));
    testing::with_roles(trace);
    PlanOptions options;
    options.cost = test_cost(std::pow(4.0, static_cast<int>(random() % 5) - 2));
    options.cost.copies_overlap = random() % 4 != 0;
    options.gradient_checkpointing = random() % 5 == 0   ? Choice::on
                                     : random() % 5 == 0 ? Choice::off
                                                         : Choice::automatic;
    options.micro_batches = 1 + random() % 4;
    options.cost.disk_link = options.cost.host_link / 4;
    options.cost.host_bytes = random() % 2 == 0 ? 1e12 : 0;
    options.budget.disk = random() % 3 == 0 ? 2048 : random() % 2 == 0 ? 1 << 20 : 0;
    // One planner answers all budgets with as much host memory, as make_plan does each.
    std::map<int64_t, Planner> planners;
    const auto planner_with = [&](int64_t host) -> const Planner& {
      PlanOptions with = options;
      with.budget.host = host;
      if (host == 0) with.budget.disk = 0;
      return planners.try_emplace(host, trace, with).first->second;
    };
    const auto plan_with = [&](std::optional<int64_t> budget, int64_t host) {
      PlanOptions with = options;
      with.budget.device = budget;
      with.budget.host = host;
      if (host == 0) with.budget.disk = 0;
      const Plan plan = planner_with(host).plan(budget);
      if (round % 10 == 0) {
        EXPECT_EQ(plan_hash(plan), plan_hash(make_plan(trace, with)));
      }
      return plan;
    };
    const auto expected = results_of(trace);
    const int64_t host = round % 4 == 0 ? 1024 : random() % 3 == 0 ? 4096 : 1 << 20;
    const int64_t without = planner_with(0).minimum_budget();
    const int64_t least = planner_with(host).minimum_budget();
    EXPECT_FALSE(plan_with(1, host).fits);
    EXPECT_LE(least, without);
    EXPECT_TRUE(plan_with(least, host).fits);
    EXPECT_FALSE(plan_with(least - 1, host).fits);
    const Plan whole = plan_with({}, host);
    EXPECT_EQ(whole.host_bytes + whole.disk_bytes, 0);
    for (int i = 0; i < 5; ++i) {
      const int64_t budget = whole.peak_bytes - (whole.peak_bytes - least) * i / 4;
      const Plan plan = plan_with(budget, host);
      ASSERT_TRUE(plan.fits) << budget;
      EXPECT_LE(plan.peak_bytes, budget);
      EXPECT_LE(plan.host_bytes, host);
      EXPECT_LE(plan.disk_bytes, options.budget.disk);
      EXPECT_EQ(results_of(plan.trace), expected);
      EXPECT_LE(plan.time.recompute_lower_bound, plan.time.recompute + plan.time.offload + 1e-15);
      if (budget >= without) {
        const Plan apart = plan_with(budget, 0);
        EXPECT_LE(plan.time.step(options.micro_batches), apart.time.step(options.micro_batches) + 1e-15);
      }
      moved_values += plan.offloaded_saved_bytes > 0;
      moved_state += plan.offloaded_state_bytes > 0;
      both += plan.offloaded_saved_bytes > 0 && plan.checkpointed;
      gradients += plan.offloaded_gradient_bytes > 0;
      parameters += plan.offloaded_parameter_bytes > 0;
      on_disk += plan.disk_bytes > 0;
      on_host += plan.host_updates > 0;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(moved_values, testing::rounds(60));
  EXPECT_GE(moved_state, testing::rounds(100));
  EXPECT_GE(both, testing::rounds(20));
  EXPECT_GE(gradients, testing::rounds(50));
  EXPECT_GE(parameters, testing::rounds(50));
  EXPECT_GE(on_disk, testing::rounds(10));
  EXPECT_GE(on_host, testing::rounds(20));
}

}  // namespace
}  // namespace plimsoll
