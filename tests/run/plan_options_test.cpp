#include "run/plan_options.h"

#include <gtest/gtest.h>

#include "collectives/nccl_memory.h"

namespace plimsoll {
namespace {

int64_t library_bytes(const char* device, int64_t ranks) {
  TrainingOptions options;
  options.device = device;
  options.ranks.count = ranks;
  options.budget.library = 1000;
  return plan_options_of(options, nullptr, nullptr).budget.library;
}

TEST(PlanOptions, SeveralNvidiaDevicesLeaveMemoryToNccl) {
  EXPECT_EQ(library_bytes("cuda", 1), 1000);
  EXPECT_EQ(library_bytes("cuda", 4), 1000 + nccl_bytes(4));
  EXPECT_EQ(library_bytes("rocm", 4), 1000);
}

}  // namespace
}  // namespace plimsoll
