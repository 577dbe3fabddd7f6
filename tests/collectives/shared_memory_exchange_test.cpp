#include "collectives/shared_memory_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/exchange_bits.h"
#include "collectives/ranks.h"

namespace plimsoll {
namespace {

using testing::Each;
using testing::HasSubstr;

class SharedMemory : public ::testing::TestWithParam<int> {};

TEST_P(SharedMemory, SumsHaveTheBitsOfASerialLoop) {
  EXPECT_THAT(run_ranks(GetParam(), [](Exchange& e) { check_all_sums(e, {0, 1, 2, 5, 64, 1001}); }), Each(""));
}

// More than a piece of 1 MiB, and not a multiple of it.
TEST_P(SharedMemory, SumsOfSeveralPiecesHaveTheBitsOfASerialLoop) {
  EXPECT_THAT(run_ranks(GetParam(),
                        [](Exchange& e) {
                          check_sums(e, 600'011, 600'011, at::kFloat, at::kFloat, true);
                          check_sums(e, 600'011, (600'011 + e.size()) / e.size() + 500, at::kBFloat16, at::kBFloat16,
                                     false);
                          check_sums(e, 600'011, 600'020, at::kDouble, at::kHalf, false);
                        }),
              Each(""));
}

TEST_P(SharedMemory, CopiesOfAnyTypeAreWhole) {
  EXPECT_THAT(run_ranks(GetParam(),
                        [](Exchange& e) {
                          for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte, at::kLong, at::kBool})
                            for (const int64_t slice : {0, 1, 17, 300'001}) check_copies(e, slice, type);
                        }),
              Each(""));
}

TEST_P(SharedMemory, TextsComeInRankOrder) {
  EXPECT_THAT(run_ranks(GetParam(),
                        [](Exchange& e) {
                          for (int i = 0; i < 50; ++i) {
                            const auto texts = e.gather_text(std::string(static_cast<size_t>(i * e.rank()), 'x'));
                            check(std::ssize(texts) == e.size(), "a text is missing");
                            for (int r = 0; r < e.size(); ++r)
                              check(std::ssize(texts[static_cast<size_t>(r)]) == i * r, "another text");
                          }
                        }),
              Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemory, testing::Values(1, 2, 3, 4, 8));

TEST(SharedMemoryExchange, CountsTheBytesThatItSends) {
  EXPECT_THAT(run_ranks(4, check_bytes_sent), Each(""));
}

TEST(SharedMemoryExchange, HoldsItsShareOfTheBlock) {
  SharedMemoryExchange exchange(shared_block(1), 0, 1);
  EXPECT_EQ(exchange.held_bytes(), SharedBlock::bytes(1));
  EXPECT_LT(SharedBlock::bytes(8) / 8, 2 * kExchangeBuffer + (32 << 10));
}

// A defect of the program: neither a hang nor wrong numbers follow.
TEST(SharedMemoryExchange, CallsThatDifferAreNamed) {
  const auto errors = run_ranks(3, [](Exchange& e) {
    const at::Tensor whole = at::zeros({6}), half = at::zeros({3});
    e.all_gather(whole);
    if (e.rank() == 2) {
      e.all_reduce(half, half.clone(), true);
    } else {
      e.reduce_scatter(half, whole, false);
    }
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 0 calls reduce_scatter of 6 Float into 3 Float (first: 0) (exchange 1)"));
    EXPECT_THAT(error, HasSubstr("rank 2 calls all_reduce of 3 Float into 3 Float (first: 1) (exchange 1)"));
  }
}

TEST(SharedMemoryExchange, SizesThatDifferAreNamed) {
  const auto errors = run_ranks(2, [](Exchange& e) { e.broadcast(at::zeros({4 + e.rank()}, at::kInt), 0); });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("broadcast of 4 Int from rank 0"));
    EXPECT_THAT(error, HasSubstr("rank 1 calls broadcast of 5 Int from rank 0"));
  }
}

TEST(SharedMemoryExchange, TypesThatCannotBeSummedAreADefect) {
  const auto errors =
      run_ranks(2, [](Exchange& e) { e.all_reduce(at::zeros({4}, at::kBFloat16), at::zeros({4}), true); });
  EXPECT_THAT(errors, Each(HasSubstr("all_reduce: dtypes that cannot be summed")));
}

}  // namespace
}  // namespace plimsoll
