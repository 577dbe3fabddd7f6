// The cache of an operand goes by its reuse distance, and operands keep their bytes while they are moved.
#include "run/operand_caches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "plimsoll/error.h"

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

using ::testing::ElementsAre;

constexpr int64_t kKiB = 1024;

// A plan of bytes: buffers at offsets, and ops that read views of some and write views of others.
struct TouchedBytes {
  BufferId buffer = 0;
  int64_t count = 0;
  int64_t offset = 0;
};

struct ByteOps {
  Plan plan;

  BufferId buffer(int64_t offset, int64_t bytes, Memory memory = Memory::device) {
    plan.trace.buffers.push_back({.bytes = bytes, .memory = memory});
    plan.offsets.push_back(offset);
    if (memory == Memory::device) plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    return static_cast<BufferId>(plan.offsets.size()) - 1;
  }

  void op(const std::vector<TouchedBytes>& operands, Phase phase = Phase::forward) {
    Op op;
    op.phase = phase;
    for (const TouchedBytes& each : operands)
      op.arguments.push_back(
          {Argument::Kind::tensor, false, {{each.buffer, DType::uint8, each.offset, {each.count}, {1}}}});
    plan.trace.ops.push_back(std::move(op));
    plan.workspace_offsets.push_back(-1);
  }
};

TEST(ReuseDistances, CountTheBytesSinceTheStartOfTheLastTouch) {
  ByteOps step;
  const BufferId a = step.buffer(0, 8 * kKiB), b = step.buffer(8 * kKiB, 8 * kKiB), c = step.buffer(16 * kKiB, 100);
  step.op({{a, 8 * kKiB}}, Phase::initialize);
  step.op({{a, 8 * kKiB}, {b, 8 * kKiB}});
  step.op({{b, 8 * kKiB}, {c, 100}});
  step.op({{c, 100}});
  step.op({{a, 8 * kKiB}, {b, 8 * kKiB}});
  const auto distances = reuse_distances(step.plan);
  EXPECT_THAT(distances[0], ElementsAre());
  // The step before touched a and b in its last op.
  EXPECT_THAT(distances[1], ElementsAre(16 * kKiB, 16 * kKiB));
  EXPECT_THAT(distances[2], ElementsAre(16 * kKiB, 32 * kKiB + 100));
  EXPECT_THAT(distances[3], ElementsAre(8 * kKiB + 100));
  EXPECT_THAT(distances[4], ElementsAre(24 * kKiB + 200, 8 * kKiB + 200));
}

TEST(ReuseDistances, CountMemoryAndNotBuffers) {
  ByteOps step;
  const BufferId old = step.buffer(0, 8 * kKiB), other = step.buffer(64 * kKiB, 4 * kKiB),
                 reused = step.buffer(4 * kKiB, 4 * kKiB), host = step.buffer(0, 4 * kKiB, Memory::host);
  step.op({{old, 8 * kKiB}});
  step.op({{other, 4 * kKiB}});
  step.op({{reused, 4 * kKiB}, {host, 4 * kKiB}, {old, 0}});
  EXPECT_THAT(reuse_distances(step.plan)[2], ElementsAre(12 * kKiB, kNotCached, kNotCached));
}

TEST(ReuseDistances, CountScratchAndItsPlace) {
  ByteOps step;
  const BufferId a = step.buffer(0, 4 * kKiB), b = step.buffer(4 * kKiB, 4 * kKiB);
  step.op({{a, 4 * kKiB}});
  step.op({{b, 4 * kKiB}});
  step.plan.trace.ops[1].workspace_bytes = 4 * kKiB;
  step.plan.workspace_offsets[1] = 0;
  step.op({{a, 4 * kKiB}, {b, 4 * kKiB}});
  EXPECT_THAT(reuse_distances(step.plan)[2], ElementsAre(8 * kKiB, 8 * kKiB));
}

// Bytes of an expanded view count once, a copy's wait touches nothing, and no step evaluates.
TEST(ReuseDistances, CountOnlyWhatAStepTouches) {
  ByteOps step;
  const BufferId a = step.buffer(0, 4 * kKiB), b = step.buffer(4 * kKiB, 4 * kKiB);
  step.op({{a, 4 * kKiB}});
  step.op({{b, 4 * kKiB}});
  step.plan.trace.ops[1].arguments[0].views[0].strides = {0};
  step.op({{a, 4 * kKiB}});
  step.plan.trace.ops[2].copy = CopyStage::wait;
  step.op({{b, 4 * kKiB}});
  step.op({{a, 4 * kKiB}}, Phase::evaluate);
  const auto distances = reuse_distances(step.plan);
  EXPECT_THAT(distances[0], ElementsAre(8 * kKiB + 1));
  EXPECT_THAT(distances[2], ElementsAre(4 * kKiB + 1));
  EXPECT_THAT(distances[4], ElementsAre(8 * kKiB + 1));
}

TEST(ReuseDistances, OfALargeOperandAreTheMedianOfItsPages) {
  ByteOps step;
  const BufferId all = step.buffer(0, 1000 * 4 * kKiB);
  step.op({{all, 1000 * 4 * kKiB}});
  step.op({{all, 400 * 4 * kKiB, 100 * 4 * kKiB}});
  step.op({{all, 1000 * 4 * kKiB}});
  step.op({{all, 600 * 4 * kKiB, 400 * 4 * kKiB}});
  step.op({{all, 1000 * 4 * kKiB}});
  const auto distances = reuse_distances(step.plan);
  EXPECT_THAT(distances[2], ElementsAre(1400 * 4 * kKiB));
  EXPECT_THAT(distances[4], ElementsAre(600 * 4 * kKiB));
}

// Against a list of the bytes' last touches, for plans of one page an operand.
TEST(ReuseDistances, EqualThoseOfAList) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ByteOps step;
    std::vector<BufferId> buffers;
    for (int i = 0; i < 6; ++i) buffers.push_back(step.buffer(4 * kKiB * (random() % 5), 4 * kKiB));
    for (int i = 0; i < 8; ++i) {
      std::vector<TouchedBytes> operands;
      for (unsigned j = 0; j < 1 + random() % 3; ++j)
        operands.push_back({buffers[random() % buffers.size()], 1 + static_cast<int64_t>(random() % (4 * kKiB))});
      step.op(operands);
    }
    const auto distances = reuse_distances(step.plan);
    const std::vector<Op>& ops = step.plan.trace.ops;
    const auto touched_by = [&](const Op& op, int64_t offset) {
      bool found = false;
      for_each_view(op, [&](const View& view, bool) { found |= step.plan.offsets[view.buffer] == offset; });
      return found;
    };
    const auto bytes_of = [](const Op& op) {
      int64_t bytes = 0;
      for_each_view(op, [&](const View& view, bool) { bytes += view.elements(); });
      return bytes;
    };
    for (size_t i = 0; i < ops.size(); ++i) {
      size_t operand = 0;
      for_each_view(ops[i], [&](const View& view, bool) {
        int64_t expected = 0;
        for (size_t back = 1; back <= ops.size(); ++back) {
          const Op& before = ops[(i + ops.size() - back) % ops.size()];
          expected += bytes_of(before);
          if (touched_by(before, step.plan.offsets[view.buffer])) break;
        }
        EXPECT_EQ(distances[i][operand++], expected);
      });
    }
  }
}

}  // namespace
}  // namespace plimsoll
