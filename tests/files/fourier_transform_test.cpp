#include "files/fourier_transform.h"

#include <gtest/gtest.h>

#include <numbers>
#include <vector>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// The sum as it is defined, with exact angles: n k is taken modulo the size first.
std::complex<double> term_of(const std::vector<std::complex<double>>& values, size_t k) {
  std::complex<double> sum = 0;
  for (size_t n = 0; n < values.size(); ++n)
    sum += values[n] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(n * k % values.size()) /
                                           static_cast<double>(values.size()));
  return sum;
}

TEST(FourierTransform, IsTheSumThatDefinesIt) {
  SplitMix64 random(11);
  const auto number = [&] { return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1; };  // in [-1, 1)
  for (const size_t size : {1u, 2u, 16u, 512u, 2048u}) {
    const std::unique_ptr<FourierTransform> transform = make_fourier_transform(static_cast<int64_t>(size));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::complex<double>> values;
      for (size_t i = 0; i < size; ++i) values.emplace_back(number(), number());
      const std::vector<std::complex<double>> given = values;
      const auto spectrum = transform->of(values);
      ASSERT_EQ(spectrum.size(), size);
      for (size_t k = 0; k < size; ++k) EXPECT_LT(std::abs(spectrum[k] - term_of(given, k)), 1e-11) << size << " " << k;
    }
  }
}

TEST(FourierTransform, HasAPowerOfTwoOfValues) {
  EXPECT_THROW(make_fourier_transform(0), InternalError);
  EXPECT_THROW(make_fourier_transform(12), InternalError);
}

}  // namespace
}  // namespace plimsoll
