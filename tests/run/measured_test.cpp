#include "run/measured.h"

#include <gtest/gtest.h>

#include <random>

namespace plimsoll {
namespace {

MemoryUse used(int64_t arena, int64_t workspace) {
  MemoryUse use;
  use.arena = arena;
  use.workspace = workspace;
  use.peak = arena + workspace;
  return use;
}

const Breakdown kPlanned = {.parameters = 100,
                            .gradients = 90,
                            .optimizer_state = 200,
                            .activations = 400,
                            .inputs = 8,
                            .workspace = 50,
                            .context = 0,
                            .fragmentation = 20};

TEST(MeasuredBreakdown, IsThePlanWhereThePlanWasUsedToTheLastByte) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total(), 0));
  EXPECT_EQ(measured.activations, 400);
  EXPECT_EQ(measured.workspace, 50);
  EXPECT_EQ(measured.fragmentation, 20);
  EXPECT_EQ(measured.total(), kPlanned.total());
}

TEST(MeasuredBreakdown, CountsScratchFromTheHeapAsWorkspace) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total(), 7));
  EXPECT_EQ(measured.workspace, 57);
  EXPECT_EQ(measured.total(), kPlanned.total() + 7);
}

TEST(MeasuredBreakdown, TakesUntouchedBytesOffTheGapsFirstThenOffTheScratch) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total() - 30, 0));
  EXPECT_EQ(measured.fragmentation, 0);
  EXPECT_EQ(measured.workspace, 40);
  EXPECT_EQ(measured.activations, 400);
  EXPECT_EQ(measured.parameters, 100);
}

TEST(MeasuredBreakdown, AddsUpAndHasNoNegativePartWhateverWasUsed) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const auto any = [&] { return static_cast<int64_t>(random() % 1000); };
    const Breakdown planned = {any(), any(), any(), any(), any(), any(), any(), any()};
    const MemoryUse use = used(any() * 8, any());
    const Breakdown measured = measured_breakdown(planned, use);
    EXPECT_EQ(measured.total(), use.measured_peak());
    for (int64_t part : {measured.parameters, measured.gradients, measured.optimizer_state, measured.activations,
                         measured.inputs, measured.workspace, measured.context, measured.fragmentation})
      EXPECT_GE(part, 0);
  }
}

}  // namespace
}  // namespace plimsoll
