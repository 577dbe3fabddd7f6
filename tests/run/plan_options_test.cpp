#include "run/plan_options.h"

#include <gtest/gtest.h>

#include <memory>

#include "collectives/nccl_memory.h"
#include "collectives/ranks.h"

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

// Gloo's places for messages, say, are larger than a rank's share of the memory of one host.
TEST(PlanOptions, WhatTheExchangeHoldsIsPlannedOnTheCpu) {
  class Holding : public SharedMemoryExchange {
   public:
    using SharedMemoryExchange::SharedMemoryExchange;
    int64_t held_bytes() const override { return 12345; }
  };
  TrainingOptions options;
  options.ranks.count = 2;
  options.budget.library = 1000;
  EXPECT_EQ(plan_options_of(options, nullptr, nullptr).budget.library, 1000 + SharedBlock::bytes(2) / 2);
  options.exchange = std::make_shared<Holding>(shared_block(2), 0, 2);
  EXPECT_EQ(plan_options_of(options, nullptr, nullptr).budget.library, 1000 + 12345);
}

}  // namespace
}  // namespace plimsoll
