// The cache of an operand goes by its reuse distance, and operands keep their bytes while they are moved.
#include "run/operand_caches.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plimsoll/error.h"
#include "run/reuse_distances.h"

namespace plimsoll {
namespace {

TEST(CacheLevelOf, GoesByTheDistanceThatEachCacheHolds) {
  constexpr int64_t kMiB = 1 << 20;
  const CacheSizes sizes{2 * kMiB, 64 * kMiB};
  EXPECT_EQ(cache_level_of(0, sizes, 2), CacheLevel::core);
  EXPECT_EQ(cache_level_of(4 * kMiB, sizes, 2), CacheLevel::core);
  EXPECT_EQ(cache_level_of(4 * kMiB + 1, sizes, 2), CacheLevel::shared);
  EXPECT_EQ(cache_level_of(4 * kMiB + 1, sizes, 4), CacheLevel::core);
  // 8 MiB for each thread, but not more than the cache has.
  EXPECT_EQ(cache_level_of(16 * kMiB, sizes, 2), CacheLevel::shared);
  EXPECT_EQ(cache_level_of(16 * kMiB + 1, sizes, 2), CacheLevel::memory);
  EXPECT_EQ(cache_level_of(64 * kMiB, sizes, 16), CacheLevel::shared);
  EXPECT_EQ(cache_level_of(64 * kMiB + 1, sizes, 16), CacheLevel::memory);
  EXPECT_EQ(cache_level_of(kNotCached, sizes, 16), CacheLevel::memory);
}

TEST(OperandCaches, ChangeNoByte) {
  std::vector<std::byte> bytes(3 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  const std::vector<std::byte> before = bytes;
  const std::span<const std::byte> all = bytes;
  const std::vector<std::span<const std::byte>> operands{all.subspan(0, 1), all.subspan(5, 100), all.subspan(200, 0),
                                                         all.subspan(4096)};
  OperandCaches caches;
  for (const int64_t distance : {int64_t{0}, int64_t{6} << 20, int64_t{1} << 40, kNotCached}) {
    caches.prepare(operands, std::vector<int64_t>(operands.size(), distance));
    EXPECT_EQ(bytes, before) << distance;
  }
  EXPECT_THROW(caches.prepare(operands, std::vector<int64_t>{1}), InternalError);
}

}  // namespace
}  // namespace plimsoll
