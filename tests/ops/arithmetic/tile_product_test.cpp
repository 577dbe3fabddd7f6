// Tests products of small matrices, each element compared with a sum in double precision. The instruction set is that
// of the process: the runs under masks (scripts/test-masks.py) have the others.
#include "ops/arithmetic/tile_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "rounds.h"

namespace plimsoll::ops {
namespace {

template <typename S>
void expect_right_products(double tolerance) {
  std::mt19937 random(7);
  const auto upto = [&](int64_t most) { return static_cast<int64_t>(1 + random() % most); };
  std::uniform_real_distribution<S> number(-1, 1);
  for (int round = 0; round < plimsoll::testing::rounds(200); ++round) {
    const int64_t rows = upto(20), columns = upto(150), gap = upto(5) - 1;
    const auto filled = static_cast<Filled>(random() % 3);
    const int64_t depth = filled == Filled::whole ? upto(40) : rows;
    const bool turned = random() % 2, add = random() % 2;
    const int64_t b_row = columns + gap, c_row = columns + gap;
    std::vector<S> a(rows * depth), b(depth * b_row), c(rows * c_row);
    for (auto* each : {&a, &b, &c})
      for (S& element : *each) element = number(random);
    const TileLeft<S> left{a.data(), turned ? 1 : depth, turned ? rows : 1, filled};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < depth; ++k)
        if ((filled == Filled::lower && k > i) || (filled == Filled::upper && k < i))
          a[i * left.row + k * left.column] = 0;
    const std::vector<S> before = c;
    tile_product(c.data(), c_row, left, b.data(), b_row, rows, depth, columns, add);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < c_row; ++j) {
        const S got = c[i * c_row + j], was = before[i * c_row + j];
        if (j >= columns) {
          ASSERT_EQ(got, was) << "beside the product";
          continue;
        }
        double sum = add ? was : 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += static_cast<double>(a[i * left.row + k * left.column]) * static_cast<double>(b[k * b_row + j]);
        ASSERT_NEAR(got, sum, tolerance) << "round " << round << ": " << rows << " x " << depth << " x " << columns;
      }
  }
}

TEST(TileProduct, IsTheSumOfProducts) {
  expect_right_products<float>(2e-5);
  expect_right_products<double>(4e-14);
}

}  // namespace
}  // namespace plimsoll::ops
