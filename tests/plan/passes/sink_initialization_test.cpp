#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/trace_text.h"

namespace plimsoll {
namespace {

using testing::names;

/// An op on whole buffers: writes `to`, reads `from`.
Op op_writing(const std::string& name, BufferId to, const std::vector<BufferId>& from) {
  Op made;
  made.name = name;
  made.phase = Phase::initialize;
  for (BufferId each : from) {
    Argument argument;
    argument.kind = Argument::Kind::tensor;
    argument.views = {View{each, DType::float32, 0, {4}, {1}}};
    made.arguments.push_back(argument);
  }
  made.results = {View{to, DType::float32, 0, {4}, {1}}};
  return made;
}

Trace trace_of(std::vector<Op> ops, const std::vector<bool>& persistent) {
  Trace trace;
  for (bool each : persistent) trace.buffers.push_back({16, Role::temporary, each, false, {}});
  trace.modules = {""};
  trace.segments = {{SegmentKind::initialize, 0, static_cast<int32_t>(ops.size())}};
  trace.ops = std::move(ops);
  return trace;
}

TEST(SinkInitialization, WeightsAreMadeOneByOneJustBeforeTheyAreQuantized) {
  // Buffers 0 to 2 are whole weights, 3 to 5 the kept slices of them.
  const Trace trace = trace_of({op_writing("make0", 0, {}), op_writing("make1", 1, {}), op_writing("make2", 2, {}),
                                op_writing("keep0", 3, {0}), op_writing("keep1", 4, {1}), op_writing("keep2", 5, {2})},
                               {false, false, false, true, true, true});
  EXPECT_THAT(names(sink_initialization(trace)),
              ::testing::ElementsAre("make0", "keep0", "make1", "keep1", "make2", "keep2"));
}

TEST(SinkInitialization, ChainsStayInOrderAndWhatIsKeptStaysWhereItIs) {
  // 0 is made, scaled in place through 1, and read into 3; 2 is persistent from the start.
  const Trace trace = trace_of({op_writing("make0", 0, {}), op_writing("make2", 2, {}), op_writing("half", 1, {0}),
                                op_writing("unused", 4, {1}), op_writing("again", 0, {1}), op_writing("keep3", 3, {0})},
                               {false, false, true, true, false});
  EXPECT_THAT(names(sink_initialization(trace)),
              ::testing::ElementsAre("make2", "make0", "half", "unused", "again", "keep3"));
}

// For any order of ops, replayed by hand, every persistent buffer ends as before.
TEST(SinkInitialization, ChangesNoResult) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int buffers = 3 + static_cast<int>(random() % 8), count = static_cast<int>(random() % 30);
    std::vector<bool> persistent(buffers);
    for (int b = 0; b < buffers; ++b) persistent[b] = random() % 3 == 0;
    std::vector<Op> ops;
    for (int i = 0; i < count; ++i) {
      std::vector<BufferId> from;
      for (uint32_t n = random() % 3; n > 0; --n) from.push_back(static_cast<BufferId>(random() % buffers));
      ops.push_back(op_writing(std::to_string(i), static_cast<BufferId>(random() % buffers), from));
    }
    const Trace before = trace_of(ops, persistent);
    const Trace after = sink_initialization(before);
    const auto replay = [&](const Trace& trace) {
      std::vector<size_t> value(buffers, 1);
      for (const Op& each : trace.ops) {
        size_t made = std::hash<std::string>()(each.name);
        for (const Argument& argument : each.arguments) made = made * 31 + value[argument.views[0].buffer];
        value[each.results[0].buffer] = made;
      }
      for (int b = 0; b < buffers; ++b)
        if (!persistent[b]) value[b] = 0;
      return value;
    };
    EXPECT_EQ(replay(after), replay(before));
    auto sorted = names(after), wanted = names(before);
    std::ranges::sort(sorted);
    std::ranges::sort(wanted);
    EXPECT_EQ(sorted, wanted);
  }
}

}  // namespace
}  // namespace plimsoll
