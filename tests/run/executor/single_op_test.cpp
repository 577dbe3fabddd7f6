// One op by itself: where its operands are, and ops whose operands a plan has in host memory.
#include "run/executor/single_op.h"

#include <gtest/gtest.h>

#include <map>

#include "run/training_runs.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

TEST(SingleOp, HasAnOperandForEachViewAtItsPlaceInTheBuffer) {
  const Trace trace = small_trace();
  int with_offset = 0;
  for (const Op& op : trace.ops) {
    if (!op.call) continue;
    SingleOp single(trace, op);
    const auto operands = single.operands();
    std::map<BufferId, const std::byte*> starts;
    size_t i = 0;
    for_each_view(op, [&](const View& view, bool) {
      ASSERT_LT(i, operands.size());
      const ByteRange range = byte_range(view);
      EXPECT_EQ(std::ssize(operands[i]), range.end - range.begin) << op.name;
      const std::byte* const start = operands[i].data() - range.begin;
      EXPECT_EQ(starts.try_emplace(view.buffer, start).first->second, start) << op.name;
      with_offset += range.begin > 0;
      ++i;
    });
    EXPECT_EQ(i, operands.size()) << op.name;
  }
  EXPECT_GT(with_offset, 0);
}

TEST(SingleOp, RunsAnOpOfTheHost) {
  Trace trace = small_trace();
  int runs = 0;
  for (Op& op : trace.ops) {
    if (!op.call || op.phase != Phase::update) continue;
    for_each_view(op, [&](const View& view, bool) { trace.buffers[view.buffer].memory = Memory::host; });
    op.on_host = true;
    SingleOp single(trace, op);
    single.run();
    ++runs;
  }
  EXPECT_GT(runs, 0);
}

}  // namespace
}  // namespace plimsoll
