// Tests arena, copies and staging of the CUDA backend, on a fake runtime that does work late.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "cuda_device/fake_runtime.h"
#include "device/cuda/cuda_arena.h"
#include "device/cuda/cuda_copies.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {
namespace {

namespace fake = testing::fake_cuda;

constexpr int64_t kMiB = int64_t{1} << 20;

class CudaDevice : public ::testing::Test {
 protected:
  CudaDevice() { fake::reset(1, 64 * kMiB), stream_ = fake::make_stream(); }
  ~CudaDevice() override { cudaStreamDestroy(stream_); }
  std::vector<std::byte> read(const std::byte* from, int64_t bytes) {
    cudaStreamSynchronize(stream_);
    return {from, from + bytes};
  }
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaDevice, TheArenaTakesWholePiecesAndGivesThemBack) {
  {
    CudaArena arena(0, stream_, 3 * kMiB);
    EXPECT_EQ(arena.bytes(), 3 * kMiB);
    EXPECT_EQ(fake::mapped_bytes(), 4 * kMiB);
    cudaStreamSynchronize(stream_);
    EXPECT_EQ(arena.touched_bytes(), 0);
    EXPECT_EQ(std::to_integer<int>(arena.data()[3 * kMiB - 1]), 0xff);
  }
  EXPECT_EQ(fake::mapped_bytes(), 0);
}

TEST_F(CudaDevice, TheArenaGrowsWhereItIs) {
  CudaArena arena(0, stream_, kMiB);
  std::byte* const before = arena.data();
  fake::launch(stream_, [=] { before[100] = std::byte{7}; });
  arena.grow(kMiB + 5);
  EXPECT_EQ(fake::mapped_bytes(), 2 * kMiB);
  arena.grow(9 * kMiB);
  EXPECT_EQ(arena.data(), before);
  EXPECT_EQ(fake::mapped_bytes(), 10 * kMiB);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(std::to_integer<int>(before[100]), 7);
  EXPECT_EQ(arena.touched_bytes(), 101);
}

// A caller that received tensors in the arena reads them on its own stream, and may use another device by now.
TEST_F(CudaDevice, TheArenaWaitsForOtherStreamsBeforeItGoes) {
  cudaStream_t other = fake::make_stream();
  std::byte seen{};
  {
    CudaArena arena(0, stream_, kMiB);
    cudaStreamSynchronize(stream_);
    fake::launch(other, [&seen, from = arena.data()] { seen = from[17]; });
    cudaSetDevice(1);
  }
  int current = -1;
  cudaGetDevice(&current);
  EXPECT_EQ(current, 1);
  cudaSetDevice(0);
  EXPECT_EQ(std::to_integer<int>(seen), 0xff);
  cudaStreamDestroy(other);
}

TEST_F(CudaDevice, AnArenaThatCannotGrowIsAsItWas) {
  {
    CudaArena arena(0, stream_, kMiB);
    const int64_t mapped = fake::mapped_bytes();
    fake::refuse_access();
    EXPECT_THROW(arena.grow(9 * kMiB), MemoryUnavailable);
    EXPECT_EQ(arena.bytes(), kMiB);
    EXPECT_EQ(fake::mapped_bytes(), mapped);
    arena.grow(9 * kMiB);
    cudaStreamSynchronize(stream_);
    EXPECT_EQ(std::to_integer<int>(arena.data()[9 * kMiB - 1]), 0xff);
  }
  EXPECT_EQ(fake::mapped_bytes(), 0);
}

// Less memory would not help after a fault, and must not be advised.
TEST_F(CudaDevice, AnArenaThatCannotBeMadeForAnotherReasonIsNoLackOfMemory) {
  CudaArena arena(0, stream_, kMiB);
  fake::refuse_access(CUDA_ERROR_ILLEGAL_ADDRESS);
  try {
    arena.grow(9 * kMiB);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(dynamic_cast<const MemoryUnavailable*>(&error), nullptr);
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
    EXPECT_NE(std::string(error.what()).find("CUDA error 700"), std::string::npos) << error.what();
  }
  EXPECT_EQ(arena.bytes(), kMiB);
}

TEST_F(CudaDevice, WhatTheDeviceDoesNotHaveIsAnErrorOfItsOwn) {
  EXPECT_THROW(CudaArena(0, stream_, 65 * kMiB), MemoryUnavailable);
  EXPECT_EQ(fake::mapped_bytes(), 0);
  CudaArena arena(0, stream_, 60 * kMiB);
  EXPECT_THROW(arena.grow(70 * kMiB), MemoryUnavailable);
  EXPECT_EQ(arena.bytes(), 60 * kMiB);
  EXPECT_EQ(fake::mapped_bytes(), 60 * kMiB);
}

TEST_F(CudaDevice, HostMemoryIsLockedWhollyAndOnce) {
  {
    PinnedArena arena(5000, 100000);
    EXPECT_EQ(fake::locked_ranges(), 1);
    arena.grow(6000);  // within the same pages
    EXPECT_EQ(fake::locked_ranges(), 1);
    arena.grow(20000);  // the whole again: a copy must not cross a seam
    EXPECT_EQ(fake::locked_ranges(), 1);
    fake::refuse_to_lock();
    EXPECT_THROW(arena.grow(90000), MemoryUnavailable);
  }
  EXPECT_EQ(fake::locked_ranges(), 0);
}

TEST_F(CudaDevice, StagingCarriesMoreThanItHolds) {
  CudaArena arena(0, stream_, kMiB);
  Staging staging(stream_, 1000);
  std::vector<std::byte> values(12345), back(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> copy = values;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    fake::reset(seed, 64 * kMiB);
    values = copy;
    staging.write(arena.data() + 64, values.data(), static_cast<int64_t>(values.size()));
    std::ranges::fill(values, std::byte{0});  // the source is the caller's again
    staging.read(back.data(), arena.data() + 64, static_cast<int64_t>(back.size()));
    EXPECT_EQ(back, copy) << "seed " << seed;
    EXPECT_EQ(read(arena.data() + 64, static_cast<int64_t>(copy.size())), copy);
  }
}

// Ops that overwrite buffers read by earlier ones, copies out and back in, and places that are reused immediately: the
// result is that of doing all work in order.
TEST_F(CudaDevice, CopiesAreOrderedWithOpsHoweverLateTheyAreDone) {
  constexpr int64_t kSlots = 6, kBytes = 64, kPiece = 24;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    fake::reset(seed, 64 * kMiB);
    std::mt19937_64 random(seed);
    CudaArena device(0, stream_, kSlots * kBytes);
    // Host memory, pinned or not: the disk's arena is not.
    PinnedArena pinned(kSlots * kBytes);
    std::vector<std::byte> paged(kSlots * kBytes, std::byte{5});
    const std::array<std::byte*, 2> hosts{pinned.data(), paged.data()};
    std::vector<std::byte> device_reference(kSlots * kBytes, std::byte{0xff});
    std::array<std::vector<std::byte>, 2> host_references{
        std::vector<std::byte>(pinned.data(), pinned.data() + kSlots * kBytes), paged};
    int called = 0, wanted = 0;
    {
      CudaCopies copies(stream_, kPiece);
      for (int step = 0; step < 40; ++step) {
        const auto a = static_cast<int64_t>(random() % kSlots), b = static_cast<int64_t>(random() % kSlots);
        const int action = static_cast<int>(random() % 4);
        if (action <= 1) {  // an op
          const auto op = [=](std::byte* memory) {
            for (int64_t i = 0; i < kBytes; ++i)
              memory[b * kBytes + i] =
                  static_cast<std::byte>(std::to_integer<int>(memory[a * kBytes + i]) + static_cast<int>(i) + 1);
          };
          fake::launch(stream_, [=, memory = device.data()] { op(memory); });
          op(device_reference.data());
          continue;
        }
        // A copy, then ops that touch neither place, then its wait: as in a plan.
        const bool out = action == 2;
        const size_t which = random() % hosts.size();
        std::byte* const host = hosts[which];
        std::vector<std::byte>& host_reference = host_references[which];
        std::byte *from = device.data() + a * kBytes, *to = host + b * kBytes;
        if (!out) from = host + a * kBytes, to = device.data() + b * kBytes;
        std::vector<std::byte>&from_reference = out ? device_reference : host_reference,
        &to_reference = out ? host_reference : device_reference;
        const int64_t number = copies.start(to, from, kBytes, [&called] { ++called; });
        ++wanted;
        std::memcpy(to_reference.data() + b * kBytes, from_reference.data() + a * kBytes, kBytes);
        const auto other = static_cast<int64_t>(random() % kSlots);
        if (other != a && other != b) {
          const auto op = [=](std::byte* memory) { std::memset(memory + other * kBytes, step, kBytes); };
          fake::launch(stream_, [=, memory = device.data()] { op(memory); });
          op(device_reference.data());
        }
        copies.wait(number);
        if (random() % 3 == 0) {  // the host's turn
          copies.wait_on_host(number);
          std::memset(host + a * kBytes, 3, kBytes);
          std::memset(host_reference.data() + a * kBytes, 3, kBytes);
        }
      }
      copies.wait_for_all();
    }
    EXPECT_EQ(called, wanted);
    EXPECT_EQ(fake::pageable_copies(), 0);
    ASSERT_EQ(read(device.data(), kSlots * kBytes), device_reference) << "seed " << seed;
    for (size_t i = 0; i < hosts.size(); ++i)
      ASSERT_EQ(0, std::memcmp(hosts[i], host_references[i].data(), host_references[i].size())) << "seed " << seed;
  }
}

TEST_F(CudaDevice, NothingIsLeftBehind) {
  const int64_t before = fake::alive();
  {
    CudaArena device(0, stream_, 4096);
    PinnedArena host(4096);
    std::vector<std::byte> paged(100);
    CudaCopies copies(stream_);
    for (int i = 0; i < 100; ++i) copies.start(host.data(), device.data(), 64);
    copies.start(paged.data(), device.data(), 100);
    copies.start(device.data(), paged.data(), 100);
    Staging staging(stream_, 64);
  }
  EXPECT_EQ(fake::alive(), before);
}

}  // namespace
}  // namespace plimsoll::cuda
