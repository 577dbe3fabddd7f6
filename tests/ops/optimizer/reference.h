// Implements the optimizer operators in plain code, one element at a time, in float64 except where rounding is the
// subject. The tests compare the kernels with it. It is not part of the library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/formats.h"

namespace plimsoll::ops::reference {

/// A small float: code = sign, exponent, mantissa; codes with exponent 0 are evenly spaced around zero.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  bool sign;
  int last;       ///< the code of the largest value
  int sign_code;  ///< the offset that is added to the code of a negative value

  double magnitude(int code) const {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  double value(int code) const { return sign && code >= sign_code ? -magnitude(code - sign_code) : magnitude(code); }
};
inline SmallFloat small_float(Format format, bool squares) {
  if (format == Format::bits8) return squares ? SmallFloat{3, 15, false, 255, 0} : SmallFloat{3, 7, true, 126, 128};
  return squares ? SmallFloat{1, 3, false, 15, 0} : SmallFloat{1, 1, true, 7, 8};
}

/// Returns the exponent of the smallest power of two that brings the largest value of a block into range.
inline int scale_exponent(const SmallFloat& small, double largest) {
  int exponent = -126;
  while (std::ldexp(small.magnitude(small.last), exponent) < largest) ++exponent;
  return exponent;
}

/// Returns the code of `x` for the block's scale 2^exponent. It is the code below, or the code above if the fraction
/// between them plus sixteen random bits reaches one.
inline int encode(const SmallFloat& small, double x, int exponent, uint32_t random) {
  const double y = std::ldexp(std::abs(x), -exponent);
  int code = 0;
  while (code < small.last && small.magnitude(code + 1) <= y) ++code;
  if (code < small.last) {
    const double below = small.magnitude(code), above = small.magnitude(code + 1);
    if ((y - below) / (above - below) + (random + 0.5) / 65536 >= 1) ++code;
  }
  if (!small.sign && code == 0 && y > 0) code = 1;
  return small.sign && std::signbit(x) ? code + small.sign_code : code;
}

/// The codes of a tensor in order, and the bytes of its blocks' scales.
struct Block {
  std::vector<int> codes;
  std::vector<int> scales;
};
inline Block pack(Format format, bool squares, const std::vector<float>& numbers, const Draw& draw) {
  const SmallFloat small = small_float(format, squares);
  const auto block = static_cast<size_t>(format == Format::bits8 ? kBlock8 : kBlock4);
  Block packed;
  for (size_t begin = 0; begin < numbers.size(); begin += block) {
    const size_t end = std::min(begin + block, numbers.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(numbers[i])));
    const int exponent = scale_exponent(small, largest);
    packed.scales.push_back(exponent + 127);
    for (size_t i = begin; i < end; ++i)
      packed.codes.push_back(encode(small, numbers[i], exponent, random_bits(draw, static_cast<int64_t>(i))));
  }
  return packed;
}

/// An element of each optimizer: parameter, gradient (already divided by its scale) and means.
struct Element {
  double p, g, first = 0, second = 0;
};
inline Element adamw(Element e, double step, double rate, double beta1, double beta2, double decay, double eps) {
  e.first = beta1 * e.first + (1 - beta1) * e.g;
  e.second = beta2 * e.second + (1 - beta2) * e.g * e.g;
  const double mean = e.first / (1 - std::pow(beta1, step)), square = e.second / (1 - std::pow(beta2, step));
  e.p = e.p - rate * decay * e.p - rate * mean / (std::sqrt(square) + eps);
  return e;
}
inline Element lion(Element e, double rate, double beta1, double beta2, double decay) {
  const double direction = beta1 * e.first + (1 - beta1) * e.g;
  e.p = e.p - rate * decay * e.p - rate * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
  e.first = beta2 * e.first + (1 - beta2) * e.g;
  return e;
}
inline Element sgd(Element e, double rate, double momentum, double decay) {
  e.first = momentum * e.first + e.g;
  e.p = e.p - rate * decay * e.p - rate * e.first;
  return e;
}

/// A plain Adafactor on a matrix in row-major order; a vector is one row. Gradients are already divided by their scale.
struct Adafactor {
  int64_t rows, columns;
  std::vector<double> p, row_mean, column_mean;

  void step(const std::vector<double>& g, double number, double rate, double threshold, double decay) {
    const double forgotten = std::pow(number, -0.8);
    std::vector<double> by_row(static_cast<size_t>(rows)), by_column(static_cast<size_t>(columns));
    for (size_t i = 0; i < g.size(); ++i) {
      const double square = g[i] * g[i] + 1e-30;
      by_row[i / by_column.size()] += square / static_cast<double>(columns);
      by_column[i % by_column.size()] += square / static_cast<double>(rows);
    }
    double mean_of_rows = 0, length = 0;
    for (size_t r = 0; r < by_row.size(); ++r) {
      row_mean[r] += forgotten * (by_row[r] - row_mean[r]);
      mean_of_rows += row_mean[r] / static_cast<double>(rows);
    }
    for (size_t c = 0; c < by_column.size(); ++c) column_mean[c] += forgotten * (by_column[c] - column_mean[c]);
    std::vector<double> update = g;
    for (size_t i = 0; i < g.size(); ++i) {
      update[i] /= std::sqrt(row_mean[i / by_column.size()] * column_mean[i % by_column.size()] / mean_of_rows);
      length += update[i] * update[i] / static_cast<double>(g.size());
    }
    const double shortened = std::max(1.0, std::sqrt(length) / threshold);
    for (size_t i = 0; i < g.size(); ++i) p[i] -= rate * decay * p[i] + rate * update[i] / shortened;
  }
};

}  // namespace plimsoll::ops::reference
