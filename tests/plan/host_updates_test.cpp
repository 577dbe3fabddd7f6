// Updates that run on the host: which copies of operands on the device they get, and when these are renewed.
#include "plan/host_updates.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/lay_out.h"
#include "plan/passes/offload.h"
#include "plan/random_trace.h"
#include "plan/validator.h"
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
  Plan plan = lay_out(moved, {});
  plan.host_budget_bytes = plan.host_bytes;
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

// The update of `v` writes gradient `g`, which the update of `w` has read. No later op reads `g`: one copy is enough.
TEST(HostUpdates, AnUpdateMayWriteTheHostCopyThatAnotherHasRead) {
  const TraceText text = two_updates_on_the_host("u - s = g h\nu - w,m <- g s\nu - v,n,g <- h\n");
  EXPECT_EQ(copies_for_host_updates(text, "g"), 1);
}

}  // namespace
}  // namespace plimsoll
