#include "device/copy_engine.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace plimsoll {
namespace {

TEST(CopyThread, CopiesInOrderAndWaits) {
  std::mt19937 random(3);
  std::vector<std::byte> bytes(1 << 20), middle(1 << 20), end(1 << 20);
  CopyThread copies;
  for (int round = 0; round < 50; ++round) {
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    copies.start(middle.data(), bytes.data(), bytes.size());
    const int64_t second = copies.start(end.data(), middle.data(), middle.size());  // depends on the result of the
                                                                                    // first copy
    copies.wait(second);
    ASSERT_EQ(end, bytes);
  }
}

TEST(CopyThread, WhatWasBegunIsFinishedBeforeItEnds) {
  std::vector<std::byte> bytes(8 << 20, std::byte{7}), copy(8 << 20);
  {
    CopyThread copies;
    for (size_t at = 0; at < bytes.size(); at += 1 << 18) copies.start(copy.data() + at, bytes.data() + at, 1 << 18);
  }
  EXPECT_EQ(copy, bytes);
  CopyThread unused;
  unused.wait_for_all();
}

}  // namespace
}  // namespace plimsoll
