// Tests every complaint of the validator that plan_test.cpp and offload_test.cpp do not provoke, with plans broken by
// hand.
#include "plan/placement/validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/placement/assign_offsets.h"
#include "plan/trace_text.h"
#include "plimsoll/plan.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::TraceText;

// A plan of `trace` as it is, with budgets that fit.
Plan plan_of(const Trace& trace) {
  Plan plan = assign_offsets(trace, {});
  plan.budget.host = plan.host_bytes;
  plan.budget.disk = plan.disk_bytes;
  return plan;
}

// A copy of the whole of `source` to `target`.
Op copy_op(const Trace& trace, CopyStage stage, BufferId target, BufferId source) {
  Op op;
  op.name = stage == CopyStage::start ? "copy" : "wait";
  op.copy = stage;
  op.offload_memory = std::max(trace.buffers[target].memory, trace.buffers[source].memory);
  for (const BufferId buffer : {target, source}) {
    const bool written = stage == CopyStage::start && buffer == target;
    op.arguments.push_back(
        {Argument::Kind::tensor, written, {{buffer, DType::uint8, 0, {trace.buffers[buffer].bytes}, {1}}}});
  }
  return op;
}

// One step with an input, state, an output and values; `late` is an input that only the update reads.
class Complaints : public ::testing::Test {
 protected:
  Complaints()
      : text(R"(
buffer x 64 persistent
buffer late 64 persistent
buffer w 64 state
buffer kept 64 state
buffer h 128
buffer loss 64 output
micro
f - h = x w
f - loss = h
b - g = h
b - d = g
update
u - w <- g late
u - end = w
)"),
        plan(plan_of(text.trace)) {
    EXPECT_EQ(find_fault(plan), "");
  }
  // Gives buffer `what` the place of `other`.
  void put(const char* what, const char* other) { plan.offsets[text[what]] = plan.offsets[text[other]]; }
  TraceText text;
  Plan plan;
};

TEST_F(Complaints, ABufferWithoutAnOffset) {
  plan.offsets.pop_back();
  EXPECT_EQ(find_fault(plan), "the plan does not place every buffer and every op");
}

TEST_F(Complaints, AnOpWithoutAWorkspaceOffset) {
  plan.workspace_offsets.pop_back();
  EXPECT_EQ(find_fault(plan), "the plan does not place every buffer and every op");
}

TEST_F(Complaints, AnOperandWithoutAPlace) {
  plan.offsets[text["h"]] = -1;
  EXPECT_EQ(find_fault(plan), "op 0 (make_h, segment 'micro'): buffer 4 ('h') has no place");
}

TEST_F(Complaints, AViewBeyondItsBuffer) {
  View& view = plan.trace.ops[1].arguments[0].views[0];
  view.offset = 1;
  EXPECT_THAT(find_fault(plan), HasSubstr("op 1 (make_loss, segment 'micro'): buffer 4 ('h') is smaller than what is "
                                          "seen of it"));
  view.offset = 200;
  view.sizes = {0};  // an empty view has no last element
  EXPECT_EQ(find_fault(plan), "");
  view.sizes = {2, 32};
  view.strides = {64, 1};
  view.offset = 32;  // its last element is byte 32 + 64 + 31 of 128
  EXPECT_EQ(find_fault(plan), "");
  view.strides = {65, 1};
  EXPECT_THAT(find_fault(plan), HasSubstr("is smaller than what is seen of it"));
}

TEST_F(Complaints, AWorkspaceOutsideTheArena) {
  plan.trace.ops[2].workspace_bytes = 65;
  plan.workspace_offsets[2] = plan.arena_bytes - 64;
  EXPECT_EQ(find_fault(plan), "op 2 (make_g): its workspace ends outside the arena");
}

TEST_F(Complaints, AWorkspaceOfTheHostIsInTheHostsArena) {
  plan.trace.ops[2].workspace_bytes = 64;
  plan.trace.ops[2].on_host = true;
  plan.trace.ops[2].results.clear();  // no operands on the device
  plan.trace.ops[2].arguments.clear();
  plan.trace.ops[3].arguments.clear();
  plan.trace.ops[4].arguments.erase(plan.trace.ops[4].arguments.begin() + 1);
  plan.workspace_offsets[2] = 0;
  EXPECT_EQ(find_fault(plan), "op 2 (make_g): its workspace ends outside the arena");
  plan.host_bytes = plan.budget.host = 64;
  EXPECT_EQ(find_fault(plan), "");
}

TEST_F(Complaints, TwoOperandsInOnePlace) {
  put("loss", "h");  // the op reads one and makes the other
  EXPECT_THAT(find_fault(plan),
              HasSubstr("op 1 (make_loss, segment 'micro'): buffer 4 ('h') overlaps another operand"));
}

TEST(ComplaintOfAWrite, ABufferThatAnotherHasOverwritten) {
  const TraceText text("buffer x 64 persistent\nmicro\nf - a = x\nf - b = x\nf - a <- b\n");
  Plan plan = plan_of(text.trace);
  EXPECT_EQ(find_fault(plan), "");
  plan.offsets[text["b"]] = plan.offsets[text["a"]];
  EXPECT_EQ(find_fault(plan),
            "op 2 (make_a, segment 'micro'): buffer 1 ('a') is changed, but is not whole: overwritten since");
}

TEST_F(Complaints, AnInputOutsideTheArena) {
  plan.offsets[text["late"]] = plan.arena_bytes - 63;
  EXPECT_EQ(find_fault(plan), "'late' ends outside the arena");
}

TEST_F(Complaints, AnInputThatAnOpOverwritesAfterItsLastReader) {
  put("end", "late");
  EXPECT_EQ(find_fault(plan), "'late', which the host writes, was overwritten");
}

TEST_F(Complaints, StateThatNoOpUsesIsOverwritten) {
  put("d", "kept");
  EXPECT_EQ(find_fault(plan), "the state 'kept' was overwritten");
}

TEST_F(Complaints, AnOutputThatIsOverwrittenBeforeTheHostReadsIt) {
  plan.trace.outputs = {{"loss", plan.trace.ops[1].results[0]}};
  EXPECT_EQ(find_fault(plan), "");
  put("d", "loss");
  EXPECT_EQ(find_fault(plan), "output 'loss' does not survive segment 'micro'");
}

TEST_F(Complaints, AnotherSegmentMayOverwriteAnOutputThatTheHostHasRead) {
  plan.trace.outputs = {{"loss", plan.trace.ops[1].results[0]}};
  put("end", "loss");
  EXPECT_EQ(find_fault(plan), "");
}

// `v` is copied to the host while op 2 runs, and back to `back` for op 5.
class CopyComplaints : public ::testing::Test {
 protected:
  CopyComplaints()
      : text(
            "buffer x 64 persistent\nbuffer v 128\nbuffer far 128\nbuffer back 128\nbuffer out 64 output\nmicro\n"
            "f - v = x\nf - h = v\nb - g = h\nb - out = g back\n") {
    Trace& trace = text.trace;
    trace.buffers[text["far"]].memory = Memory::host;
    const auto insert = [&](int at, CopyStage stage, const char* target, const char* source) {
      trace.ops.insert(trace.ops.begin() + at, copy_op(trace, stage, text[target], text[source]));
    };
    insert(1, CopyStage::start, "far", "v");
    insert(3, CopyStage::wait, "far", "v");
    insert(5, CopyStage::start, "back", "far");
    insert(6, CopyStage::wait, "back", "far");
    trace.segments[0].end = 8;
    plan = plan_of(trace);
    EXPECT_EQ(find_fault(plan), "");
  }
  TraceText text;
  Plan plan;
};

TEST_F(CopyComplaints, AnOpWritesTheSourceOfACopyThatIsUnderWay) {
  plan.trace.ops[2].arguments[0].written = true;
  EXPECT_EQ(find_fault(plan),
            "op 2 (make_h, segment 'micro'): buffer 1 ('v') is written while a copy of it is under way");
}

TEST_F(CopyComplaints, AnOpMayWriteTheSourceOnceTheCopyIsWaitedFor) {
  std::swap(plan.trace.ops[2], plan.trace.ops[3]);
  plan.trace.ops[3].arguments[0].written = true;
  EXPECT_EQ(find_fault(plan), "");
}

// v goes into sum while h is made.
struct ExchangeComplaints : ::testing::Test {
  ExchangeComplaints()
      : text(
            "buffer x 128 persistent\nbuffer sum 128 state\nmicro\nf - v = x\nf - sum <- v\nf - h = x\nf - k = h "
            "sum\n") {
    Trace trace = text.trace;
    trace.ops[1].exchange = CopyStage::start;
    trace.ops[1].link_bytes = 128;
    Op wait;
    wait.name = "wait";
    wait.exchange = CopyStage::wait;
    for (const char* name : {"sum", "v"}) {
      const View whole{text[name], DType::uint8, 0, {trace.buffers[text[name]].bytes}, {1}};
      wait.arguments.push_back({Argument::Kind::tensor, false, {whole}});
    }
    trace.ops.insert(trace.ops.begin() + 3, wait);
    trace.segments[0].end = 5;
    plan = plan_of(trace);
    EXPECT_EQ(find_fault(plan), "");
  }
  TraceText text;
  Plan plan;
};

TEST_F(ExchangeComplaints, AnOpUsesTheTargetBeforeTheWait) {
  std::swap(plan.trace.ops[3], plan.trace.ops[4]);
  EXPECT_THAT(find_fault(plan), HasSubstr("('sum') is used while an exchange to it is under way"));
}

TEST_F(ExchangeComplaints, AnOpWritesTheSourceBeforeTheWait) {
  plan.trace.ops[2].arguments.push_back(plan.trace.ops[3].arguments[1]);
  plan.trace.ops[2].arguments.back().written = true;
  EXPECT_THAT(find_fault(plan), HasSubstr("('v') is written while an exchange of it is under way"));
}

TEST_F(ExchangeComplaints, ASegmentEndsBeforeTheWait) {
  plan.trace.ops[3] = plan.trace.ops[2];
  EXPECT_THAT(find_fault(plan), HasSubstr("('sum')"));
  plan.trace.ops.erase(plan.trace.ops.begin() + 3, plan.trace.ops.end());
  plan.trace.segments[0].end = 3;
  plan.workspace_offsets.resize(3);
  EXPECT_THAT(find_fault(plan), HasSubstr("segment 'micro' ends before the exchange to buffer"));
}

TEST_F(ExchangeComplaints, AWaitForWhatWasNotStarted) {
  plan.trace.ops[1].exchange = CopyStage::none;
  EXPECT_THAT(find_fault(plan), HasSubstr("('sum') is waited for, not exchanged"));
}

TEST_F(CopyComplaints, ACopyWithinOneMemory) {
  text.trace.buffers[text["far"]].memory = Memory::device;
  EXPECT_EQ(find_fault(plan_of(text.trace)),
            "op 1 (copy, segment 'micro'): buffer 2 ('far') is copied to from the same memory");
}

TEST_F(CopyComplaints, ACopyBetweenHostMemoryAndDisk) {
  for (const char* name : {"v", "back"}) text.trace.buffers[text[name]].memory = Memory::disk;
  text.trace.ops.erase(text.trace.ops.begin());  // made by the copy back alone
  std::rotate(text.trace.ops.begin(), text.trace.ops.begin() + 4, text.trace.ops.begin() + 6);
  text.trace.ops.erase(text.trace.ops.begin() + 2, text.trace.ops.end());
  text.trace.segments[0].end = 2;
  text.trace.ops[0].offload_memory = text.trace.ops[1].offload_memory = Memory::disk;
  text.trace.constants = {{text["far"], std::vector<std::byte>(128)}};
  EXPECT_THAT(find_fault(plan_of(text.trace)),
              HasSubstr("('back') is copied between other memories than the copy says"));
}

TEST_F(CopyComplaints, ACopyOfAnotherSizeThanItsTarget) {
  plan.trace.ops[1].arguments[1].views[0].sizes = {127};
  EXPECT_EQ(find_fault(plan),
            "op 1 (copy, segment 'micro'): buffer 2 ('far') is of another size than what is copied to it");
}

TEST_F(CopyComplaints, AWaitForACopyOfAnotherSource) {
  plan.trace.ops[3].arguments[1].views[0].buffer = text["x"];
  EXPECT_EQ(find_fault(plan), "op 3 (wait, segment 'micro'): buffer 2 ('far') is waited for, not copied to");
}

// An update writes `back` before the copy fills it: backward reads what the copy brings.
TEST_F(CopyComplaints, ACopyIsAsUpdatedAsItsSource) {
  Trace& trace = text.trace;
  trace.buffers[text["back"]].role = trace.buffers[text["far"]].role = Role::parameter;
  Op update;
  update.phase = Phase::update;
  update.arguments.push_back(trace.ops[5].arguments[0]);
  trace.ops.insert(trace.ops.begin() + 5, update);
  trace.segments[0].end = 9;
  EXPECT_EQ(find_fault(plan_of(trace)), "");
  trace.ops[5].arguments[0] = trace.ops[1].arguments[0];  // `far`, on the host
  trace.ops[5].on_host = true;
  EXPECT_EQ(find_fault(plan_of(trace)), "op 8 (make_out, segment 'micro'): buffer 3 ('back') is read after its update");
}

TEST_F(CopyComplaints, AnOpUsesABufferOnDisk) {
  text.trace.buffers[text["far"]].memory = Memory::disk;
  for (const int copy : {1, 3, 5, 6}) text.trace.ops[copy].offload_memory = Memory::disk;
  EXPECT_EQ(find_fault(plan_of(text.trace)), "");
  text.trace.ops[4].arguments[0].views[0].buffer = text["far"];
  EXPECT_EQ(find_fault(plan_of(text.trace)), "op 4 (make_g, segment 'micro'): buffer 2 ('far') lies on disk");
}

}  // namespace
}  // namespace plimsoll
