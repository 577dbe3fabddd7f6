#include "data/masks/slice_samples.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <string>

namespace plimsoll {
namespace {

std::string drawn(const std::vector<SliceUse>& use) {
  std::string text;
  for (SliceUse each : use) text += "tve-"[static_cast<size_t>(each)];
  return text;
}

std::vector<SliceUse> split_slices(int64_t count, const SliceParts& parts) {
  return uses_of_slices(count, spread_blocks(count, parts), parts.gap);
}

TEST(SliceSplit, IsTheDrawnExample) {
  EXPECT_EQ(drawn(split_slices(16, {0.125, 0.125, 2, 1})), "tt-vv-tttt-ee-tt");
  EXPECT_EQ(drawn(split_slices(16, {0.25, 0, 2, 1})), "tt-vv-tttt-vv-tt");
  EXPECT_EQ(drawn(split_slices(16, {0, 0.25, 2, 1})), "tt-ee-tttt-ee-tt");
}

TEST(SliceSplit, MixesThePartsEvenly) {
  std::string held_out;
  for (char each : drawn(split_slices(24, {0.25, 0.125, 1, 0})))
    if (each != 't') held_out += each;
  EXPECT_EQ(held_out, "vvevvevve");
}

TEST(SliceSplit, HoldsNothingOutOfNothing) {
  EXPECT_EQ(drawn(split_slices(5, {0, 0, 2, 1})), "ttttt");
  EXPECT_EQ(drawn(split_slices(0, {0.5, 0.5, 2, 1})), "");
}

TEST(SliceSplit, BlocksLargerThanAllTakeAll) {
  EXPECT_EQ(drawn(split_slices(3, {0.1, 0, 10, 1})), "vvv");
}

TEST(SliceSplit, NoSliceThatIsTrainedOnIsNearAHeldOutOne) {
  for (int64_t count : {7, 40, 100, 181})
    for (double fraction : {0.05, 0.2, 0.5})
      for (int64_t block : {1, 4, 9})
        for (int64_t gap : {0, 1, 3}) {
          const auto use = split_slices(count, {fraction * 0.75, fraction * 0.25, block, gap});
          int64_t held_out = 0;
          for (int64_t i = 0; i < count; ++i) {
            if (use[i] != SliceUse::validation && use[i] != SliceUse::test) continue;
            ++held_out;
            for (int64_t j = std::max<int64_t>(0, i - gap); j <= std::min(count - 1, i + gap); ++j)
              EXPECT_NE(use[j], SliceUse::train);
          }
          EXPECT_GE(held_out, 1);
          EXPECT_NEAR(static_cast<double>(held_out), fraction * static_cast<double>(count),
                      2 * static_cast<double>(block));
        }
}

/// Returns volumes of `count` slices each. `places`: volume, first and last slice of structures 0, 1, ...
std::vector<SplitVolume> volumes_of(int64_t count, const SliceParts& parts,
                                    const std::vector<std::array<int64_t, 3>>& places, int64_t volumes = 1) {
  std::vector<SplitVolume> all(static_cast<size_t>(volumes));
  for (SplitVolume& volume : all) {
    volume.structures.resize(static_cast<size_t>(count));
    volume.blocks = spread_blocks(count, parts);
  }
  for (size_t s = 0; s < places.size(); ++s)
    for (int64_t slice = places[s][1]; slice <= places[s][2]; ++slice)
      all[static_cast<size_t>(places[s][0])].structures[static_cast<size_t>(slice)].push_back(static_cast<int32_t>(s));
  return all;
}

/// Returns the uses of the slices of a structure, each once: "tv".
std::string uses_of(const std::vector<SplitVolume>& volumes, int32_t structure, int64_t gap) {
  std::string found;
  for (const SplitVolume& volume : volumes) {
    const std::string use = drawn(uses_of_slices(std::ssize(volume.structures), volume.blocks, gap));
    for (size_t slice = 0; slice < use.size(); ++slice)
      if (std::ranges::count(volume.structures[slice], structure) > 0 && found.find(use[slice]) == std::string::npos)
        found += use[slice];
  }
  std::ranges::sort(found);
  return found;
}

TEST(SliceSplit, BlocksStayIfEveryPartShowsEveryStructure) {
  const SliceParts parts{.validation = 0.25, .test = 0, .block = 4, .gap = 1};
  auto volumes = volumes_of(32, parts, {{0, 0, 31}, {0, 4, 20}});
  const auto before = drawn(uses_of_slices(32, volumes[0].blocks, 1));
  cover_structures(volumes, 1);
  EXPECT_EQ(drawn(uses_of_slices(32, volumes[0].blocks, 1)), before);
}

TEST(SliceSplit, BlocksMoveToWhatTheyWouldMissOrTakeWhole) {
  const SliceParts parts{.validation = 0.1, .test = 0, .block = 4, .gap = 1};
  // The block of slices 14 to 17 and its gaps take all of structure 1, and structure 2 is not in it.
  auto volumes = volumes_of(32, parts, {{0, 0, 31}, {0, 14, 18}, {0, 20, 24}});
  EXPECT_EQ(uses_of(volumes, 1, 1), "-v");
  EXPECT_EQ(uses_of(volumes, 2, 1), "t");
  cover_structures(volumes, 1);
  EXPECT_EQ(uses_of(volumes, 0, 1), "-tv");
  EXPECT_NE(uses_of(volumes, 1, 1).find('t'), std::string::npos);
  EXPECT_EQ(std::ranges::count(uses_of_slices(32, volumes[0].blocks, 1), SliceUse::validation), 4);
}

// One volume's block covers the structure that the other's misses; each part of the test is looked at, too.
TEST(SliceSplit, VolumesShareTheStructures) {
  const SliceParts parts{.validation = 0.1, .test = 0.1, .block = 3, .gap = 1};
  auto volumes = volumes_of(30, parts, {{0, 0, 29}, {1, 0, 29}, {0, 0, 4}, {1, 26, 29}}, 2);
  for (const int32_t structure : {2, 3}) EXPECT_EQ(uses_of(volumes, structure, 1), "t");
  cover_structures(volumes, 1);
  for (const int32_t structure : {0, 1}) EXPECT_EQ(uses_of(volumes, structure, 1), "-etv");
  for (const int32_t structure : {2, 3}) {
    EXPECT_NE(uses_of(volumes, structure, 1).find('t'), std::string::npos) << structure;
    EXPECT_NE(uses_of(volumes, structure, 1).find('v'), std::string::npos) << structure;
  }
}

}  // namespace
}  // namespace plimsoll
