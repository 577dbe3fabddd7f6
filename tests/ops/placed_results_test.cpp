// Tests that kernels of libtorch fill given tensors.
#include "ops/placed_results.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace plimsoll::ops {
namespace {

using at::Tensor;

TEST(PlacedResults, EachPlaceIsTakenOnceAndInOrder) {
  const Tensor packed = at::zeros({4, 6}), like = at::ones({4, 2});
  const Tensor first = packed.narrow(1, 0, 2), second = packed.narrow(1, 2, 2);
  const PlacedResults placed({first, second});
  EXPECT_FALSE(at::empty_like(at::ones({4, 3})).is_alias_of(packed));   // other sizes
  EXPECT_FALSE(at::empty_like(like, at::kDouble).is_alias_of(packed));  // another dtype
  EXPECT_FALSE(at::empty_like(at::ones({4, 2}, at::kBFloat16)).is_alias_of(packed));
  at::empty_like(like).fill_(1);
  const Tensor place = at::empty_like(like);
  EXPECT_EQ(place.data_ptr(), second.data_ptr());
  EXPECT_EQ(place.strides(), second.strides());
  EXPECT_FALSE(at::empty_like(like).is_alias_of(packed));
  EXPECT_TRUE(at::equal(packed, at::cat({like, at::zeros({4, 4})}, 1)));
}

// A kernel makes results by empty_like() of operands that are views, and sums into one of them.
TEST(PlacedResults, HoldInsideOfOperators) {
  const Tensor packed = at::zeros({3, 8}), x = at::randn({3, 8}).narrow(1, 2, 5);
  {
    const PlacedResults placed({packed.narrow(1, 1, 5)});
    EXPECT_TRUE(at::ones_like(x).is_alias_of(packed));
  }
  EXPECT_TRUE(at::equal(packed.narrow(1, 1, 5), at::ones({3, 5})));
  EXPECT_EQ(packed.sum().item<float>(), 15);
}

TEST(PlacedResults, EndWithTheScope) {
  const Tensor place = at::zeros({2});
  { const PlacedResults placed({place}); }
  EXPECT_FALSE(at::empty_like(place).is_alias_of(place));
  const PlacedResults again({place});
  EXPECT_TRUE(at::empty_like(place).is_alias_of(place));
}

}  // namespace
}  // namespace plimsoll::ops
