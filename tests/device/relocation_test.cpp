// Tests ranges that change places in any permutation, over three arenas.
#include "device/relocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kArenaUnits = 160;
constexpr int kArenas = 3;

struct Arenas {
  alignas(kRelocationUnit) std::array<std::byte, kArenas * kArenaUnits * kRelocationUnit> bytes;
  std::byte* at(int64_t unit) { return bytes.data() + unit * kRelocationUnit; }
};

// Returns places for ranges of these sizes in units, with gaps between them, in a random order or in that of the list;
// within each arena, as ranges do not cross the end of one.
std::vector<int64_t> places(std::mt19937& random, const std::vector<int64_t>& units, bool in_order) {
  while (true) {
    std::vector<size_t> order(units.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (!in_order) std::shuffle(order.begin(), order.end(), random);
    std::array<int64_t, kArenas> end{};
    std::vector<int64_t> result(units.size(), -1);
    bool fits = true;
    for (const size_t i : order) {
      const auto arena = static_cast<int>(random() % kArenas);
      end[arena] += random() % 3 == 0 ? static_cast<int64_t>(random() % 4) : 0;
      result[i] = arena * kArenaUnits + end[arena];
      end[arena] += units[i];
      fits = fits && end[arena] <= kArenaUnits;
    }
    if (fits) return result;
  }
}

TEST(Relocations, AnyPermutationKeepsEveryByte) {
  std::mt19937 random(17);
  auto arenas = std::make_unique<Arenas>();
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    std::vector<int64_t> units(1 + random() % 14);
    for (int64_t& each : units) each = static_cast<int64_t>(random() % 13);
    // A plan keeps the order of ranges that stay in one arena; this test does not.
    const bool in_order = round % 2 == 0;
    const std::vector<int64_t> from = places(random, units, in_order), to = places(random, units, in_order);
    for (std::byte& each : arenas->bytes) each = static_cast<std::byte>(random());
    const Arenas before = *arenas;
    std::vector<Relocation> relocations;
    Arenas expected = before;
    for (size_t i = 0; i < units.size(); ++i) {
      relocations.push_back({arenas->at(from[i]), arenas->at(to[i]), units[i] * kRelocationUnit});
      std::copy_n(before.bytes.begin() + from[i] * kRelocationUnit, units[i] * kRelocationUnit,
                  expected.bytes.begin() + to[i] * kRelocationUnit);
    }
    relocate_on_host(relocations);
    // Bytes outside of all new ranges are unchanged: a range that stays may own them.
    ASSERT_EQ(arenas->bytes, expected.bytes);
    *arenas = before;
    relocate_by_copies(
        relocations, [](void* to, const std::byte* from, int64_t bytes) { std::memcpy(to, from, bytes); },
        [](std::byte* to, const void* from, int64_t bytes) { std::memcpy(to, from, bytes); });
    ASSERT_EQ(arenas->bytes, expected.bytes);
  }
}

// A piece at a time, and towards itself from either side.
TEST(Relocations, ALargeRangeMayLieOverItsOwnNewPlace) {
  constexpr int64_t kLarge = (int64_t{20} << 20) + kRelocationUnit;
  for (const int64_t by : {3 * kRelocationUnit, int64_t{12} << 20}) {
    for (const bool forwards : {true, false}) {
      std::vector<std::byte> storage(static_cast<size_t>(kLarge + by + kRelocationUnit));
      const auto begin =
          (reinterpret_cast<uintptr_t>(storage.data()) + kRelocationUnit - 1) / kRelocationUnit * kRelocationUnit;
      const std::span<std::byte> memory(reinterpret_cast<std::byte*>(begin), static_cast<size_t>(kLarge + by));
      for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 31 >> 3);
      std::vector<std::byte> expected(memory.begin(), memory.end());
      std::byte* const from = memory.data() + (forwards ? by : 0);
      std::byte* const to = memory.data() + (forwards ? 0 : by);
      std::memmove(expected.data() + (to - memory.data()), expected.data() + (from - memory.data()), kLarge);
      int64_t most = 0;
      relocate_by_copies(
          {{from, to, kLarge}},
          [&](void* target, const std::byte* source, int64_t bytes) {
            most = std::max(most, bytes);
            std::memcpy(target, source, bytes);
          },
          [](std::byte* target, const void* source, int64_t bytes) { std::memcpy(target, source, bytes); });
      EXPECT_TRUE(std::ranges::equal(memory, expected)) << by << forwards;
      EXPECT_LE(most, int64_t{8} << 20);
    }
  }
}

TEST(Relocations, TwoThatChangePlaces) {
  auto arenas = std::make_unique<Arenas>();
  std::fill_n(arenas->at(0), 4 * kRelocationUnit, std::byte{1});
  std::fill_n(arenas->at(kArenaUnits), 3 * kRelocationUnit, std::byte{2});
  relocate_on_host({{arenas->at(0), arenas->at(kArenaUnits), 4 * kRelocationUnit},
                    {arenas->at(kArenaUnits), arenas->at(0), 3 * kRelocationUnit}});
  EXPECT_EQ(std::count(arenas->at(0), arenas->at(3), std::byte{2}), 3 * kRelocationUnit);
  EXPECT_EQ(std::count(arenas->at(kArenaUnits), arenas->at(kArenaUnits + 4), std::byte{1}), 4 * kRelocationUnit);
}

// Little compared with the ranges themselves, for any moves.
TEST(Relocations, ScratchIsAFewThousandths) {
  EXPECT_LE(relocation_scratch_bytes(int64_t{1} << 40), int64_t{3} << 30);
  EXPECT_GT(relocation_scratch_bytes(1), 0);
}

TEST(Relocations, WhatIsNotAlignedIsRefused) {
  auto arenas = std::make_unique<Arenas>();
  EXPECT_THROW(relocate_on_host({{arenas->at(0), arenas->at(1) + 1, kRelocationUnit}}), InternalError);
}

}  // namespace
}  // namespace plimsoll
