#include "data/masks/slice_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace plimsoll {
namespace {

constexpr size_t kUses = 4;                                       // of SliceUse
constexpr size_t kSampled = kUses - 1;                            // all but unused
using StructureCounts = std::vector<std::array<int64_t, kUses>>;  // slices of each structure in each use

/// Structures that parts lack: those that no training slice shows, then those of all parts.
using Lacking = std::pair<int64_t, int64_t>;

void count(const SplitVolume& volume, int64_t gap, int64_t sign, StructureCounts& counts) {
  const std::vector<SliceUse> uses = uses_of_slices(std::ssize(volume.structures), volume.blocks, gap);
  for (size_t slice = 0; slice < uses.size(); ++slice)
    for (const int32_t structure : volume.structures[slice])
      counts[static_cast<size_t>(structure)][static_cast<size_t>(uses[slice])] += sign;
}

Lacking lacking(const StructureCounts& counts, const std::array<bool, kUses>& used) {
  Lacking result;
  for (const auto& structure : counts) {
    if (std::ranges::count(structure, 0) == kUses) continue;
    result.first += structure[static_cast<size_t>(SliceUse::train)] == 0;
    for (size_t use = 0; use < kSampled; ++use) result.second += used[use] && structure[use] == 0;
  }
  return result;
}

/// Returns true if a block of `volume` may begin at `begin`.
bool is_free(const SplitVolume& volume, size_t block, int64_t begin, int64_t gap) {
  const int64_t end = begin + volume.blocks[block].end - volume.blocks[block].begin;
  for (size_t other = 0; other < volume.blocks.size(); ++other)
    if (other != block && begin < volume.blocks[other].end + gap && volume.blocks[other].begin < end + gap)
      return false;
  return true;
}

/// Returns true if the volume shows a structure that a part lacks.
bool shows_lacking(const SplitVolume& volume, const StructureCounts& counts, const std::array<bool, kUses>& used) {
  return std::ranges::any_of(volume.structures, [&](const std::vector<int32_t>& slice) {
    return std::ranges::any_of(slice, [&](int32_t structure) {
      for (size_t use = 0; use < kSampled; ++use)
        if (used[use] && counts[static_cast<size_t>(structure)][use] == 0) return true;
      return false;
    });
  });
}

}  // namespace

std::vector<SliceBlock> spread_blocks(int64_t count, const SliceParts& parts) {
  const auto slices = static_cast<double>(count);
  const auto blocks_of = [&](double share) {
    if (share <= 0 || count == 0) return int64_t{0};
    return std::max<int64_t>(1, std::llround(share * slices / static_cast<double>(parts.block)));
  };
  const int64_t tests = blocks_of(parts.test), blocks = blocks_of(parts.validation) + tests;
  std::vector<SliceBlock> spread;
  for (int64_t i = 0; i < blocks; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * slices / static_cast<double>(blocks);
    const int64_t begin =
        std::clamp<int64_t>(static_cast<int64_t>(std::floor(middle - static_cast<double>(parts.block) / 2)), 0,
                            std::max<int64_t>(0, count - parts.block));
    // The first i blocks have as many test blocks as the test share, rounded down.
    const bool test = (i + 1) * tests / blocks > i * tests / blocks;
    spread.push_back({begin, std::min(count, begin + parts.block), test ? SliceUse::test : SliceUse::validation});
  }
  return spread;
}

std::vector<SliceUse> uses_of_slices(int64_t count, const std::vector<SliceBlock>& blocks, int64_t gap) {
  std::vector<SliceUse> uses(static_cast<size_t>(count), SliceUse::train);
  for (const SliceBlock& block : blocks)
    for (int64_t at = std::max<int64_t>(0, block.begin - gap); at < std::min(count, block.end + gap); ++at)
      uses[static_cast<size_t>(at)] = SliceUse::unused;
  for (const SliceBlock& block : blocks)
    for (int64_t at = block.begin; at < block.end; ++at) uses[static_cast<size_t>(at)] = block.use;
  return uses;
}

void cover_structures(std::vector<SplitVolume>& volumes, int64_t gap) {
  StructureCounts counts;
  std::array<bool, kUses> used = {true};
  for (const SplitVolume& volume : volumes) {
    for (const SliceBlock& block : volume.blocks) used[static_cast<size_t>(block.use)] = true;
    for (const std::vector<int32_t>& slice : volume.structures)
      for (const int32_t structure : slice) counts.resize(std::max(counts.size(), static_cast<size_t>(structure) + 1));
  }
  for (const SplitVolume& volume : volumes) count(volume, gap, 1, counts);
  Lacking least = lacking(counts, used);
  for (bool moved = true; moved && least != Lacking{};) {
    moved = false;
    for (SplitVolume& volume : volumes) {
      if (!shows_lacking(volume, counts, used)) continue;
      for (size_t b = 0; b < volume.blocks.size(); ++b) {
        const SliceBlock before = volume.blocks[b];
        SliceBlock best = before;
        count(volume, gap, -1, counts);
        for (int64_t begin = 0; begin + before.end - before.begin <= std::ssize(volume.structures); ++begin) {
          if (!is_free(volume, b, begin, gap)) continue;
          volume.blocks[b] = {begin, begin + before.end - before.begin, before.use};
          count(volume, gap, 1, counts);
          const Lacking now = lacking(counts, used);
          count(volume, gap, -1, counts);
          const bool nearer = std::abs(begin - before.begin) < std::abs(best.begin - before.begin);
          if (now < least || (now == least && best.begin != before.begin && nearer)) {
            least = now;
            best = volume.blocks[b];
          }
        }
        volume.blocks[b] = best;
        count(volume, gap, 1, counts);
        moved |= best.begin != before.begin;
      }
    }
  }
}

}  // namespace plimsoll
