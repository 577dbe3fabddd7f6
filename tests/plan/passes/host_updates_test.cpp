// Tests updates that run on the host: their copies of operands on the device, and the renewal of these copies.
#include "plan/passes/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plan/placement/assign_offsets.h"
#include "plan/placement/validator.h"
#include "plan/random_trace.h"
#include "plimsoll/cost_model.h"

namespace plimsoll {
namespace {

using testing::results_of;
using testing::TraceText;

// Parameters `w` and `v` on the device, with gradients `g` and `h`; their optimizer state `m` and `n` in host memory.
TraceText two_updates_on_the_host(const std::string& update) {
  TraceText text(
      "buffer x 64 persistent\nbuffer w 64 state\nbuffer v 64 state\nbuffer m 4096 state\nbuffer n 4096 state\n"
      "micro\nf layers.0 a = x w v\nb layers.0 g = a\nb layers.0 h = a\nupdate\n" +
      update);
  for (const char* name : {"w", "v"}) text.trace.buffers[text[name]].role = Role::parameter;
  for (const char* name : {"g", "h"}) text.trace.buffers[text[name]].role = Role::gradient;
  for (const char* name : {"m", "n"}) {
    text.trace.buffers[text[name]].role = Role::optimizer_state;
    text.trace.buffers[text[name]].memory = Memory::host;
  }
  return text;
}

// Runs both updates on the host. Returns how often buffer `name` of the device is copied there.
int64_t copies_for_host_updates(const TraceText& text, const std::string& name) {
  OffloadChoice choice;
  choice.host_updates = true;
  const Trace moved = offload(text.trace, choice, generic_cost_model(), 1 << 20);
  EXPECT_EQ(std::ranges::count_if(moved.ops, [](const Op& op) { return op.on_host; }), 2);
  EXPECT_EQ(results_of(moved), results_of(text.trace));
  // Host copies of operands are not persistent.
  const auto is_persistent = [](const Buffer& buffer) { return buffer.persistent; };
  EXPECT_EQ(std::ranges::count_if(moved.buffers, is_persistent),
            std::ranges::count_if(text.trace.buffers, is_persistent));
  Plan plan = assign_offsets(moved, {});
  plan.budget.host = plan.host_bytes;
  EXPECT_EQ(find_fault(plan), "");
  return std::ranges::count_if(moved.ops, [&](const Op& op) {
    return op.name == "plimsoll::copy_to_host" && op.copy == CopyStage::start &&
           moved.buffers[op.arguments[1].views[0].buffer].label == name;
  });
}

TEST(HostUpdates, TwoUpdatesShareTheHostCopyOfAScalar) {
  const TraceText text = two_updates_on_the_host("u - s = g\nu - w,m <- g s\nu - k = h\nu - v,n <- h s k\n");
  EXPECT_EQ(copies_for_host_updates(text, "s"), 1);
}

TEST(HostUpdates, AScalarThatTheDeviceWritesBetweenTwoUpdatesIsCopiedAgain) {
  const TraceText text = two_updates_on_the_host("u - s = g\nu - w,m <- g s\nu - s <- h\nu - v,n <- h s\n");
  EXPECT_EQ(copies_for_host_updates(text, "s"), 2);
}

TEST(HostUpdates, EachUpdateGetsItsOwnCopyOfALargeOperand) {
  const std::string update = "u - s = g\nu - w,m <- g s\nu - k = h\nu - v,n <- h s k\n";
  EXPECT_EQ(copies_for_host_updates(two_updates_on_the_host("buffer s 4096\n" + update), "s"), 1);
  EXPECT_EQ(copies_for_host_updates(two_updates_on_the_host("buffer s 4160\n" + update), "s"), 2);
}

// Host memory holds the large operands of two updates at a time.
TEST(HostUpdates, TheCopyForAnUpdateStartsAfterTheUpdateTwoBeforeIt) {
  std::string declared = "buffer x 64 persistent\n", micro = "micro\nf - a = x\n", update = "update\n";
  for (const std::string i : {"0", "1", "2", "3"}) {
    declared += "buffer w" + i + " 8192 state\nbuffer m" + i + " 8192 state\nbuffer g" + i + " 8192\n";
    micro += "b - g" + i + " = a\n";
    update += "u - w" + i + ",m" + i + " <- g" + i + "\n";
  }
  TraceText text(declared + micro + update);
  testing::with_roles(text.trace);
  for (const char* name : {"m0", "m1", "m2", "m3"}) {
    text.trace.buffers[text[name]].role = Role::optimizer_state;
    text.trace.buffers[text[name]].memory = Memory::host;
  }
  OffloadChoice choice;
  choice.host_updates = true;
  const Trace moved = offload(text.trace, choice, generic_cost_model(), 1 << 20);
  EXPECT_EQ(results_of(moved), results_of(text.trace));
  int updates = 0, copies = 0;
  for (const Op& op : moved.ops) {
    updates += op.on_host;
    const bool is_copy = op.copy == CopyStage::start && !moved.buffers[op.arguments[0].views[0].buffer].on_device();
    if (!is_copy || moved.buffers[op.arguments[1].views[0].buffer].label[0] != 'g') continue;
    EXPECT_GE(updates, copies - 1) << "gradient " << copies;
    ++copies;
  }
  EXPECT_EQ(updates, 4);
  EXPECT_EQ(copies, 4);
}

// The update of `v` writes gradient `g`, which the update of `w` has read. No later op reads `g`: one copy is enough.
TEST(HostUpdates, AnUpdateMayWriteTheHostCopyThatAnotherHasRead) {
  const TraceText text = two_updates_on_the_host("u - s = g h\nu - w,m <- g s\nu - v,n,g <- h\n");
  EXPECT_EQ(copies_for_host_updates(text, "g"), 1);
}

// The number of updates that may run on the host after `change` of a trace in which both may.
int64_t updates_on_the_host(const std::function<void(TraceText&)>& change) {
  TraceText text = two_updates_on_the_host("u - w,m <- g\nu - v,n <- h\n");
  change(text);
  return std::ranges::count(host_updates(text.trace), 1);
}

TEST(HostUpdates, MayRunOnTheHostUnderTheseConditions) {
  EXPECT_EQ(updates_on_the_host([](TraceText&) {}), 2);
  const auto buffer = [](const char* name, auto&& change) {
    return updates_on_the_host([&](TraceText& text) { change(text.trace.buffers[text[name]]); });
  };
  // Each of these changes prevents the update of `w` from running on the host.
  EXPECT_EQ(buffer("m", [](Buffer& m) { m.memory = Memory::disk; }), 1);
  EXPECT_EQ(buffer("g", [](Buffer& g) { g.memory = Memory::disk; }), 1);  // read only
  EXPECT_EQ(buffer("m", [](Buffer& m) { m.memory = Memory::device; }), 1);
  EXPECT_EQ(buffer("m", [](Buffer& m) { m.role = Role::temporary; }), 1);
  EXPECT_EQ(buffer("w", [](Buffer& w) { w.role = Role::temporary; }), 1);
  EXPECT_EQ(buffer("w", [](Buffer& w) { w.persistent = false; }), 1);
  const auto op = [](auto&& change) {
    return updates_on_the_host([&](TraceText& text) { change(text.trace.ops[text.trace.ops.size() - 2]); });
  };
  EXPECT_EQ(op([](Op& update) { update.phase = Phase::backward; }), 1);
  EXPECT_EQ(op([](Op& update) { update.random_id = 0; }), 1);
  EXPECT_EQ(op([](Op& update) { update.results = {update.arguments[0].views[0]}; }), 1);
  EXPECT_EQ(op([](Op& update) { update.copy = CopyStage::start; }), 1);
}

TEST(HostUpdates, NoOtherUpdateTouchesTheBuffersThatAnUpdateOnTheHostWrites) {
  const auto count = [](const std::string& update) {
    return std::ranges::count(host_updates(two_updates_on_the_host(update).trace), 1);
  };
  EXPECT_EQ(count("u - w,m <- g\nu - v,n <- h w\n"), 1);            // `w` is read by the update of `v`
  EXPECT_EQ(count("u - w,m <- g\nu - w <- h\nu - v,n <- h\n"), 1);  // `w` has an update of two ops
  EXPECT_EQ(count("u - w,m,g <- x\nu - v,n <- h\n"), 2);            // a gradient may be overwritten by its last reader
  EXPECT_EQ(count("u - w,m,g <- x\nu - v,n <- h g\n"), 1);          // only one, because another update reads it
}

}  // namespace
}  // namespace plimsoll
