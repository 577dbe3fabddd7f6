#include "ops/tile_product.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "ops/block_products_cpu.h"
#include "ops/cpu_capability.h"
#include "rounds.h"

namespace plimsoll::ops {
namespace {

struct BlockProductCase {
  int64_t rows, depth, columns;
};
constexpr BlockProductCase kCases[] = {{1, 1, 16},  {4, 8, 64},  {7, 5, 48},  {64, 64, 64},
                                       {9, 33, 32}, {17, 6, 80}, {3, 40, 144}};

/// Whole numbers, whose products and sums are exact in any order.
template <typename S>
std::vector<S> whole_numbers(int64_t count, std::mt19937& random) {
  std::vector<S> all(static_cast<size_t>(count));
  for (S& number : all) number = static_cast<S>(static_cast<int>(random() % 15) - 7);
  return all;
}

uint16_t bfloat16(float number) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16);
}

/// `is(i, k)` and `times(k, j)` are the matrices' elements.
template <typename S, typename Left, typename Right>
void expect_product(const BlockProductCase& c, const std::vector<S>& got, const std::vector<S>& before, int64_t row,
                    bool add, const Left& left, const Right& right) {
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < row; ++j) {
      const size_t at = static_cast<size_t>(i * row + j);
      S want = j < c.columns && !add ? S{0} : before[at];
      for (int64_t k = 0; k < c.depth && j < c.columns; ++k) want += left(i, k) * right(k, j);
      ASSERT_EQ(got[at], want) << c.rows << " x " << c.depth << " x " << c.columns << (add ? ", added" : "") << ": row "
                               << i << ", column " << j;
    }
}

template <typename S>
void check_products() {
  std::mt19937 random(3);
  for (const BlockProductCase& c : kCases)
    for (const bool add : {false, true})
      for (const bool turned : {false, true}) {
        const int64_t a_row = turned ? 1 : c.depth + 3, a_column = turned ? c.rows + 2 : 1;
        const int64_t b_row = c.columns + 16, c_row = c.columns + 5;
        const auto a = whole_numbers<S>((c.rows + 2) * (c.depth + 3), random);
        const auto b = whole_numbers<S>(c.depth * b_row, random), before = whole_numbers<S>(c.rows * c_row, random);
        std::vector<S> got = before;
        block_product(got.data(), c_row, BlockLeft<S>{a.data(), a_row, a_column}, b.data(), b_row, c.rows, c.depth,
                      c.columns, add);
        expect_product(
            c, got, before, c_row, add,
            [&](int64_t i, int64_t k) { return a[static_cast<size_t>(i * a_row + k * a_column)]; },
            [&](int64_t k, int64_t j) { return b[static_cast<size_t>(k * b_row + j)]; });
      }
}

TEST(BlockProducts, OfFloat32AreExactWhereNumbersAreWhole) {
  check_products<float>();
}

TEST(BlockProducts, OfFloat64AreExactWhereNumbersAreWhole) {
  check_products<double>();
}

// A matmul in slices of its depth continues each sum; the memory that it reads ahead may be any. The AVX2 and AVX-512
// kernels round a product and its sum once.
TEST(BlockProducts, ReadingAheadAndSlicesOfTheDepthChangeNoBit) {
  constexpr int64_t kRows = 37, kDepth = 700, kColumns = 112;
  std::vector<float> a(kRows * kDepth), b(kDepth * kColumns), c(kRows * kColumns), want(kRows * kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
  const bool fused = cpu_capability() != CpuCapability::baseline;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t k = 0; k < kDepth; ++k)
      for (int64_t j = 0; j < kColumns; ++j) {
        float& sum = want[static_cast<size_t>(i * kColumns + j)];
        const float left = a[static_cast<size_t>(i * kDepth + k)], right = b[static_cast<size_t>(k * kColumns + j)];
        sum = fused ? std::fma(left, right, sum) : sum + left * right;
      }
  const ReadAhead whole{reinterpret_cast<const char*>(b.data()), kDepth, kColumns * 4, kColumns * 4},
      row{reinterpret_cast<const char*>(c.data()), 1, 0, 4, /*written=*/true}, none{};
  for (const std::vector<ReadAhead>& ahead : {std::vector<ReadAhead>{}, {whole}, {none, whole, none, row}, {none}}) {
    block_product(c.data(), kColumns, {a.data(), kDepth, 1}, b.data(), kColumns, kRows, kDepth, kColumns,
                  /*add=*/false, ahead);
    EXPECT_EQ(c, want);
  }
}

TEST(BlockProducts, OfPairsAreExactWhereNumbersAreWhole) {
  if (!has_pair_products()) GTEST_SKIP() << "this machine has no products of bfloat16 pairs";
  std::mt19937 random(4);
  for (const BlockProductCase& c : kCases)
    for (const bool add : {false, true}) {
      const BlockProductCase whole{c.rows, 2 * c.depth, c.columns};
      const int64_t a_row = whole.depth + 1, b_row = c.columns, c_row = c.columns + 5;  // rows at odd addresses too
      const auto a = whole_numbers<float>(c.rows * a_row, random),
                 b = whole_numbers<float>(whole.depth * b_row, random);
      const auto before = whole_numbers<float>(c.rows * c_row, random);
      std::vector<uint16_t> left;
      for (const float number : a) left.push_back(bfloat16(number));
      std::vector<Pair> right(static_cast<size_t>(c.depth * b_row));
      for (int64_t k = 0; k < c.depth; ++k)
        for (int64_t j = 0; j < b_row; ++j) {
          const auto at = [&](int64_t row) { return Pair{bfloat16(b[static_cast<size_t>(row * b_row + j)])}; };
          right[static_cast<size_t>(k * b_row + j)] = at(2 * k) | at(2 * k + 1) << 16;
        }
      std::vector<float> got = before;
      block_product(got.data(), c_row, BlockLeft<uint16_t>{left.data(), a_row, 2}, right.data(), b_row, c.rows, c.depth,
                    c.columns, add);
      expect_product(
          whole, got, before, c_row, add, [&](int64_t i, int64_t k) { return a[static_cast<size_t>(i * a_row + k)]; },
          [&](int64_t k, int64_t j) { return b[static_cast<size_t>(k * b_row + j)]; });
    }
}

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
