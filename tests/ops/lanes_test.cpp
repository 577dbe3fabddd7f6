#include "ops/lanes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/formats.h"

namespace plimsoll::ops {

template <>
struct Bits<lanes::Floats> {
  using Word = lanes::Words;
};

}  // namespace plimsoll::ops

namespace plimsoll::ops::lanes {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

/// Values at which comparisons and conversions differ from plain arithmetic, and others between them.
std::vector<float> numbers() {
  std::vector<float> all;
  for (const float x : {0.0F, 1e-45F, 1e-40F, 1e-38F, 0.5F, 0.625F, 1.0F, 10.0F, 87.0F, 88.72283F, 88.8F, 127.0F,
                        128.0F, 65504.0F, 65520.0F, 3.4e38F, kInfinity, kNaN})
    for (const float signed_x : {x, -x}) all.push_back(signed_x);
  std::mt19937 random(1);
  while (all.size() % kLanes != 0 || all.size() < 64) all.push_back(std::normal_distribution<float>(0, 30)(random));
  return all;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Formats.h's conversions of a vector and of its values one by one.
template <typename Small, bool squares, int bits>
void expect_formats_of(const std::vector<float>& all, uint32_t random) {
  for (size_t i = 0; i < all.size(); i += kLanes) {
    const Words codes = codes_of<Small, squares, bits, Floats>(load(all.data() + i), 1.0F, splat<Words>(random));
    const Floats back = numbers_of<Small, squares, bits, Floats>(codes, 2.0F);
    for (size_t j = 0; j < kLanes; ++j) {
      const uint32_t code = codes_of<Small, squares, bits, float>(all[i + j], 1.0F, random);
      EXPECT_EQ(codes[j], code) << all[i + j];
      EXPECT_TRUE(same(back[j], numbers_of<Small, squares, bits, float>(code, 2.0F))) << all[i + j];
    }
  }
}

TEST(Lanes, ConvertToFormatsAsScalarsDo) {
  std::vector<float> all = numbers();
  for (const uint32_t exponent :
       {100U, 112U, 113U, 120U, 121U, 124U, 125U, 126U, 127U, 128U})  // borders of normal values
    for (const uint32_t bits :
         {(exponent << 23) - 1, exponent << 23, (exponent << 23) + 1, (exponent << 23) + 0x600000})
      all.push_back(std::bit_cast<float>(bits));
  all.resize(all.size() / kLanes * kLanes);
  for (const uint32_t random : {0U, 0x7fffU, 0xffffU}) {
    expect_formats_of<E4M3, false, 8>(all, random);
    expect_formats_of<E5M3, true, 8>(all, random);
    expect_formats_of<E2M1, false, 4>(all, random);
    expect_formats_of<E3M1, true, 4>(all, random);
    for (size_t i = 0; i < all.size(); i += kLanes) {
      const Floats x = load(all.data() + i), brief = rounded_to_bfloat16(x, splat<Words>(random)),
                   half = rounded_to_float16(x, splat<Words>(random));
      for (size_t j = 0; j < kLanes; ++j) {
        EXPECT_TRUE(same(brief[j], rounded_to_bfloat16(all[i + j], random))) << all[i + j];
        EXPECT_TRUE(same(half[j], rounded_to_float16(all[i + j], random))) << all[i + j];
      }
    }
  }
}

TEST(Lanes, SelectAsComparisonsDo) {
  const std::vector<float> all = numbers();
  for (const float a : all)
    for (const float b : all) {
      const Floats x = splat<Floats>(a), y = splat<Floats>(b), yes = splat<Floats>(1.0F), no = splat<Floats>(2.0F);
      EXPECT_EQ(where_below(x, y, yes, no)[3], a < b ? 1 : 2) << a << " " << b;
      EXPECT_EQ(where_below(splat<Doubles>(double{a}), splat<Doubles>(double{b}), splat<Doubles>(1.0),
                            splat<Doubles>(2.0))[3],
                a < b ? 1 : 2);
      if (std::isnan(a) || std::isnan(b)) continue;
      EXPECT_EQ(larger(x, y)[5], a > b ? a : b) << a << " " << b;
      if (a == b) continue;
      EXPECT_EQ(below(x, y)[15] != 0, a < b) << a << " " << b;
    }
  for (const float a : all) EXPECT_EQ(is_nan(splat<Floats>(a))[7], std::isnan(a) ? -1 : 0) << a;
}

TEST(Lanes, KeepInfinitiesAndNaNs) {
  const std::vector<float> all = numbers();
  for (size_t i = 0; i < all.size(); i += kLanes) {
    const Floats x = load(all.data() + i), e = exp(x), t = tanh(x), p = power_of_two(x);
    for (size_t j = 0; j < kLanes; ++j) {
      const float a = all[i + j];
      SCOPED_TRACE(a);
      if (std::isnan(a)) {
        EXPECT_TRUE(std::isnan(e[j]) && std::isnan(t[j]) && std::isnan(p[j]));
        continue;
      }
      const auto near = [](float got, double want) {
        return got == want || std::abs(got - want) < 4e-7 * std::abs(want);
      };
      const double exponential = a > 88.72283F ? double{kInfinity} : a < -87.33654F ? 0 : std::exp(double{a});
      EXPECT_TRUE(near(e[j], exponential)) << e[j];
      EXPECT_TRUE(near(t[j], std::tanh(double{a}))) << t[j];
      const double power = a >= 0 ? 1 : a <= -127 ? 0 : std::exp2(double{a});
      EXPECT_TRUE(near(p[j], power)) << p[j];
    }
  }
}

TEST(Lanes, RoundTo16BitsAsLibtorchDoes) {
  std::vector<float> all = numbers();
  for (uint32_t bits = 0; bits < 4096; ++bits) all.push_back(std::bit_cast<float>((bits << 20) + 0x7fffU + bits % 3));
  for (size_t i = 0; i < all.size(); i += kLanes) {
    c10::BFloat16 brief[kLanes];
    c10::Half half[kLanes];
    store(static_cast<c10::BFloat16*>(brief), load(all.data() + i));
    store(static_cast<c10::Half*>(half), load(all.data() + i));
    for (size_t j = 0; j < kLanes; ++j) {
      EXPECT_TRUE(same(brief[j], c10::BFloat16(all[i + j]))) << all[i + j];
      EXPECT_TRUE(same(half[j], c10::Half(all[i + j]))) << all[i + j];
    }
  }
}

TEST(Lanes, WidenAll16BitValues) {
  for (uint32_t first = 0; first < 0x10000; first += kLanes) {
    c10::BFloat16 brief[kLanes];
    c10::Half half[kLanes];
    for (uint32_t j = 0; j < kLanes; ++j) {
      brief[j].x = static_cast<uint16_t>(first + j);
      half[j].x = static_cast<uint16_t>(first + j);
    }
    const Floats b = load(static_cast<const c10::BFloat16*>(brief)), h = load(static_cast<const c10::Half*>(half));
    for (size_t j = 0; j < kLanes; ++j) {
      ASSERT_TRUE(same(b[j], static_cast<float>(brief[j]))) << first + j;
      ASSERT_TRUE(same(h[j], static_cast<float>(half[j]))) << first + j;
    }
  }
}

TEST(Lanes, TurnIntoEachQuarter) {
  for (int degrees = -720; degrees <= 720; degrees += 15) {
    const double angle = degrees * 3.14159265358979323846 / 180;
    Floats sine{}, cosine{};
    sin_cos(splat<Doubles>(angle), sine, cosine);
    EXPECT_NEAR(sine[2], std::sin(angle), 2e-7) << degrees;
    EXPECT_NEAR(cosine[2], std::cos(angle), 2e-7) << degrees;
  }
}

}  // namespace
}  // namespace plimsoll::ops::lanes
