#include "ops/optimizer/gradient_norm.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "ops/ops_testing.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// None is a multiple of a vector's width, and the last three take more than one block of the sum (2^16 elements).
constexpr int64_t kCounts[] = {1, 3, 7, 17, 33, 129, 1001, (1 << 16) + 1, (1 << 17) - 1, (1 << 17) + 3};

struct NormResult {
  double norm, skipped;
};

/// The norm is written at 1 of 3, and its neighbors must stay.
NormResult norm_of(const Tensor& gradient, double skipped_before = 0) {
  const Tensor norms = torch::full({3}, -1.0, at::kFloat), skipped = torch::full({}, skipped_before, at::kFloat);
  gradient_norm_(norms, skipped, gradient, 1);
  EXPECT_EQ(norms[0].item<double>(), -1);
  EXPECT_EQ(norms[2].item<double>(), -1);
  return {norms[1].item<double>(), skipped.item<double>()};
}

TEST(GradientNorm, AgreesWithDoublePrecision) {
  torch::manual_seed(1);
  for (const auto type : kTypes)
    for (const int64_t count : kCounts) {
      const Tensor gradient = torch::randn({count}).to(type);
      const double want = gradient.to(at::kDouble).norm().item<double>();
      const NormResult result = norm_of(gradient);
      EXPECT_NEAR(result.norm, want, 1e-6 * want) << c10::toString(type) << " " << count;
      EXPECT_EQ(result.skipped, 0) << c10::toString(type) << " " << count;
    }
}

TEST(GradientNorm, OneInfinityOrNaNSkipsTheStep) {
  torch::manual_seed(2);
  for (const auto type : kTypes)
    for (const int64_t count : kCounts) {
      Tensor gradient = torch::randn({count}).to(type);
      for (const int64_t at : {int64_t{0}, count / 2, count - 1})
        for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
          gradient[at] = bad;
          const NormResult result = norm_of(gradient);
          gradient[at] = 1;
          const std::string what = c10::str(bad, " at ", at, " of ", count, " ", c10::toString(type));
          EXPECT_EQ(result.skipped, 1) << what;
          EXPECT_FALSE(std::isfinite(result.norm)) << what;
        }
    }
}

TEST(GradientNorm, AnInfinityIsFoundInTransposedGradients) {
  Tensor gradient = torch::ones({5, 9}).t();
  gradient[8][4] = -kInfinity;
  EXPECT_EQ(norm_of(gradient).skipped, 1);
  EXPECT_EQ(norm_of(gradient.slice(0, 0, 9, 2)).skipped, 1) << "with gaps between its elements";
  EXPECT_EQ(norm_of(gradient.slice(0, 0, 8, 2)).skipped, 0) << "the infinity is no element of this view";
}

// Squares of 3e30 are above the largest float32 (3.4e38), and squares of 1e-25 below its least (1.4e-45).
TEST(GradientNorm, FiniteGradientsMayHaveSquaresOutsideOfFloat32) {
  for (const double value : {3e30, 1e-25, 65504.0})
    for (const auto type : kTypes)
      for (const int64_t count : kCounts) {
        if (type == at::kHalf && value != 65504.0) continue;
        const Tensor gradient = torch::full({count}, value, type);
        const double want = gradient[0].item<double>() * std::sqrt(static_cast<double>(count));
        const NormResult result = norm_of(gradient);
        EXPECT_EQ(result.skipped, 0) << value << " " << c10::toString(type) << " " << count;
        EXPECT_NEAR(result.norm, want, 1e-6 * want) << value << " " << c10::toString(type) << " " << count;
      }
}

TEST(GradientNorm, ANormBeyondFloat32SkipsTheStep) {
  EXPECT_EQ(norm_of(torch::full({1}, 3e38)).skipped, 0);
  EXPECT_EQ(norm_of(torch::full({33}, 3e38)).skipped, 1);
}

TEST(GradientNorm, AFiniteGradientDoesNotClearTheMark) {
  EXPECT_EQ(norm_of(torch::ones({33}), 1).skipped, 1);
  EXPECT_EQ(norm_of(torch::empty({0}), 1).skipped, 1);
}

TEST(GradientNorm, OfNoElementsIsZero) {
  const NormResult result = norm_of(torch::empty({0}));
  EXPECT_EQ(result.norm, 0);
  EXPECT_EQ(result.skipped, 0);
}

}  // namespace
}  // namespace plimsoll::ops
