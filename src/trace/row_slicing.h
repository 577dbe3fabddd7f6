// Declares what the pass slice_rows needs to know of operators: which dimensions of an op are walked together, and
// which of them may be cut into chunks. It depends on libtorch; the planner does not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// A description of an op by labels, as those of einsum. Dimensions with one label are walked together.
///
///     mm(a, b) > c               a: i k    b: k j    c: i j     sums: k may be cut, and the parts are added
///     _log_softmax(x) > y        x: i j    y: i j               j is whole: it must not be cut
///     sum(x, dim=[1]) > y        x: i j    y: i                 sums
struct RowRule {
  static constexpr int kNone = -1;  ///< label of a dimension that is whole

  /// For each operand, in the order of for_each_view(): the label of each dimension. A dimension of size 1 broadcasts.
  std::vector<std::vector<int>> labels;
  std::vector<char> whole;  ///< by label: true if it must not be cut
  /// The result is a sum over the labels that it does not have.
  bool sums = false;
  bool means = false;  ///< a sum that is divided by the number of its elements
  /// The op multiplies matrices: (a, b) > c, or (bias, a, b) > c. Otherwise one element of the result depends on one
  /// row of each operand.
  bool product = false;
  /// For each operand: true if no chunk needs its value, and every chunk writes the same value.
  std::vector<char> unused;
};

/// A description of ops that the pass slice_rows may cut, and of those that it makes.
struct RowSlicing {
  int64_t min_bytes = 4 << 20;     ///< results of fewer bytes, in float32, are not cut
  int64_t chunk_bytes = 64 << 20;  ///< bytes of a chunk of a result in float32, at most
  int64_t min_chunks = 4;          ///< chunks, at least, of results with enough rows
  int64_t min_rows = 8;            ///< rows of a chunk, at least

  /// Returns the rule of an op; nullopt: it has none, and is never cut.
  std::function<std::optional<RowRule>(const Op&)> rule;
  /// Returns the op value *= factor.
  std::function<Op(const View& value, double factor)> scale;
  /// Returns the op sum += a b. The caller sets phase and module.
  std::function<Op(const View& sum, const View& a, const View& b)> add_product;
  /// Returns the op sum += factor addend.
  std::function<Op(const View& sum, const View& addend, double factor)> add;
  /// Returns the op target = source.
  std::function<Op(const View& target, const View& source)> copy;
};

}  // namespace plimsoll
