#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <thread>

#include "device/allocation_frame.h"

namespace plimsoll {
namespace {

TEST(ScratchLimit, HoldsForScratchOutsideTheArena) {
  std::array<std::byte, 256> arena{}, other{};
  AllocationFrame frame;
  frame.begin({{4096, other.data()}}, arena.data(), 256);
  const ScratchLimit limit(1000);
  EXPECT_EQ(frame.place_for(4096), other.data());  // an output
  EXPECT_EQ(frame.place_for(256), arena.data());   // planned scratch
  EXPECT_EQ(frame.place_for(640), nullptr);
  frame.add_out_of_arena(other.data(), 640);
  EXPECT_FALSE(limit.exceeded());
  EXPECT_THROW(frame.place_for(400), std::runtime_error);  // 640 + 448
  EXPECT_TRUE(limit.exceeded());
  frame.release(other.data());
  EXPECT_EQ(frame.place_for(400), nullptr);
}

TEST(ScratchLimit, TheInnermostHoldsForItsThreadAndItsLife) {
  AllocationFrame frame;
  frame.begin({}, nullptr, 0);
  const ScratchLimit outer(1000);
  {
    const ScratchLimit inner(5000);
    EXPECT_EQ(frame.place_for(2000), nullptr);
  }
  EXPECT_THROW(frame.place_for(2000), std::runtime_error);
  std::thread([&] {
    AllocationFrame of_thread;
    of_thread.begin({}, nullptr, 0);
    EXPECT_EQ(of_thread.place_for(2000), nullptr);
  }).join();
}

}  // namespace
}  // namespace plimsoll
