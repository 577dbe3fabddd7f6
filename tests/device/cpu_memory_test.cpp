// The arena, and the allocator that answers a kernel's requests while an op runs.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <thread>

#include "device/allocation_frame.h"
#include "device/arena.h"
#include "device/cpu_allocator.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(CpuArena, KnowsHowFarItWasWrittenTo) {
  CpuArena arena(10000);
  EXPECT_EQ(arena.touched_bytes(), 0);
  arena.data()[4321] = std::byte{0};
  EXPECT_EQ(arena.touched_bytes(), 4322);
  const std::byte* data = arena.data();
  arena.grow(1 << 20);
  EXPECT_EQ(arena.data(), data);
  EXPECT_EQ(arena.touched_bytes(), 4322);
  arena.data()[(1 << 20) - 1] = std::byte{1};
  EXPECT_EQ(arena.touched_bytes(), 1 << 20);
}

TEST(CpuArena, WhatTheMachineDoesNotGiveIsAnErrorOfItsOwn) {
  try {
    CpuArena arena(int64_t{1} << 50);
    FAIL();
  } catch (const MemoryUnavailable& error) {
    EXPECT_EQ(error.requested_bytes(), int64_t{1} << 50);
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
  }
}

TEST(CpuArena, EndsInAPageThatNobodyMayTouch) {
  CpuArena arena(4096);
  EXPECT_DEATH(const_cast<volatile std::byte*>(arena.data())[4096] = std::byte{1}, "");
}

class Frame : public ::testing::Test {
 protected:
  void* take(int64_t bytes) {
    tensors_.push_back(torch::empty({bytes}, torch::kUInt8));
    return tensors_.back().data_ptr();
  }
  alignas(64) std::byte place_[1024];
  alignas(64) std::byte scratch_[1024];
  std::vector<torch::Tensor> tensors_;
  void begin(const std::vector<AllocationFrame::Output>& outputs, std::byte* workspace, int64_t workspace_bytes) {
    cpu_allocator::install();
    frame_.begin(outputs, workspace, workspace_bytes);
    cpu_allocator::begin_op(frame_);
  }
  AllocationFrame::Usage end() {
    const int64_t beside = cpu_allocator::end_op();
    AllocationFrame::Usage usage = frame_.end();
    usage.other_thread_bytes = beside;
    return usage;
  }
  AllocationFrame frame_;
};

TEST_F(Frame, OutputsGetTheirPlacesBySize) {
  begin({{100, place_}, {200, place_ + 128}, {100, place_ + 512}}, scratch_, 1024);
  EXPECT_EQ(take(200), place_ + 128);
  EXPECT_EQ(take(100), place_);
  EXPECT_EQ(take(100), place_ + 512);
  tensors_.clear();
  const auto usage = end();
  EXPECT_EQ(usage.workspace_bytes, 0);
  EXPECT_FALSE(usage.escaped || usage.escaped_arena);
}

TEST_F(Frame, ScratchComesFromTheWorkspaceAndIsUsedAgain) {
  begin({}, scratch_, 1024);
  EXPECT_EQ(take(100), scratch_);
  EXPECT_EQ(take(300), scratch_ + 128);
  tensors_.erase(tensors_.begin());
  EXPECT_EQ(take(64), scratch_);
  tensors_.clear();
  const auto usage = end();
  EXPECT_EQ(usage.workspace_bytes, 128 + 320);
  EXPECT_EQ(usage.out_of_arena_bytes, 0);
}

TEST_F(Frame, WhatTheWorkspaceCannotHoldIsCounted) {
  cpu_allocator::reset_out_of_arena_peak();
  const int64_t before = cpu_allocator::out_of_arena_peak();
  begin({}, scratch_, 256);
  take(128);
  const void* outside = take(1000);
  EXPECT_TRUE(outside < scratch_ || outside >= scratch_ + 1024);
  tensors_.clear();
  const auto usage = end();
  EXPECT_EQ(usage.workspace_bytes, 128 + 1024);
  EXPECT_EQ(usage.out_of_arena_bytes, 1024);
  EXPECT_FALSE(usage.escaped);
  EXPECT_EQ(cpu_allocator::out_of_arena_peak() - before, 1000);
  cpu_allocator::reset_out_of_arena_peak();
  EXPECT_EQ(cpu_allocator::out_of_arena_peak(), before);  // what is freed no longer counts
}

TEST_F(Frame, NoBytesTakeNoScratchAndOneByteDoes) {
  begin({}, scratch_, 1024);
  take(0);
  EXPECT_EQ(take(1), scratch_);
  tensors_.clear();
  const auto usage = end();
  EXPECT_EQ(usage.workspace_bytes, 64);
  EXPECT_EQ(usage.out_of_arena_bytes, 0);
}

// Calls `work` on a worker of a kernel: in a parallel region, and not on the thread that runs the op.
void on_worker(const std::function<void()>& work) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    if (at::get_thread_num() == 1) work();
  });
  at::set_num_threads(threads);
}

// Scratch of an earlier op that a worker still keeps is not the next op's.
TEST_F(Frame, WhatWorkersKeptBeforeTheOpIsNotItsOwn) {
  torch::Tensor kept, later;
  begin({}, scratch_, 64);
  on_worker([&] { kept = torch::empty({3000}, torch::kUInt8); });
  EXPECT_EQ(end().other_thread_bytes, 3000);
  begin({}, scratch_, 64);
  on_worker([&] { later = torch::empty({500}, torch::kUInt8); });
  EXPECT_EQ(end().other_thread_bytes, 500);
  begin({}, scratch_, 64);
  EXPECT_EQ(end().other_thread_bytes, 0);
}

TEST_F(Frame, WhatIsKeptIsNoticed) {
  begin({}, scratch_, 64);
  take(64);
  EXPECT_TRUE(end().escaped_arena);
  tensors_.clear();
  begin({}, scratch_, 0);
  take(64);
  EXPECT_TRUE(end().escaped);
  tensors_.clear();
}

// Such as a thread that prepares data, or another training of the process.
TEST_F(Frame, TensorsOfOtherThreadsAreNotCharged) {
  cpu_allocator::reset_out_of_arena_peak();
  const int64_t before = cpu_allocator::out_of_arena_peak();
  begin({{100, place_}}, scratch_, 1024);
  torch::Tensor tensor;
  std::thread([&] { tensor = torch::full({5000}, 1, torch::kUInt8); }).join();
  EXPECT_EQ(end().other_thread_bytes, 0);
  EXPECT_EQ(cpu_allocator::out_of_arena_peak(), before);
  EXPECT_EQ(tensor.sum().item<int64_t>(), 5000);
  begin({}, scratch_, 64);
  tensor = torch::Tensor();  // freed while an op runs
  EXPECT_EQ(end().out_of_arena_bytes, 0);
}

TEST_F(Frame, WorkersGetTheirMemoryFromTheHeap) {
  begin({{100, place_}}, scratch_, 1024);
  void* taken = nullptr;
  torch::Tensor tensor;
  on_worker([&] { tensor = torch::empty({100}, torch::kUInt8), taken = tensor.data_ptr(); });
  EXPECT_NE(taken, place_);
  const auto usage = end();
  EXPECT_EQ(usage.workspace_bytes, 0);
  EXPECT_EQ(usage.other_thread_bytes, 100);
  tensor = torch::Tensor();  // freed on this thread, after the op
  EXPECT_NE(take(100), place_);
}

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
