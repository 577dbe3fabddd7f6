// Declares a group of pointwise ops that is collected to become one op, and the order in which an op visits the
// elements of an operand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/trace.h"
#include "trace/merged_ops.h"

namespace plimsoll {

/// The order in which a pointwise op visits the elements of an operand: sizes and strides in elements, outermost first.
/// Adjacent dimensions are merged if one stride serves both: two walks visit the same elements in the same order
/// exactly if they are equal. A single element has no dimensions.
///
///     [4, 6] of strides [6, 1]   ->  [24] by [1]        dense: one run
///     [4, 6] of strides [8, 1]   ->  [4, 6] by [8, 1]   rows of a wider matrix
///     [6] broadcast to [4, 6]    ->  [4, 6] by [0, 1]
struct Walk {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool operator==(const Walk&) const = default;

  /// Returns whether the walk is one contiguous run, or one element repeated.
  bool dense() const { return sizes.empty() || (sizes.size() == 1 && strides[0] <= 1); }
};

/// Returns the walk through `sizes` x `strides` with dimensions in `order`.
Walk walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const std::vector<int>& order);

/// Returns the strides of `view` broadcast to `sizes`; nullopt: it does not broadcast.
std::optional<std::vector<int64_t>> broadcast_strides(const View& view, const std::vector<int64_t>& sizes);

/// Returns the dimensions of a view from the largest stride to the smallest, which is their order in memory.
std::vector<int> memory_order(const View& view);

/// Returns the sizes of the loop with the fewest dimensions that can express all walks, each of which visits `elements`
/// elements. nullopt: their runs do not divide each other.
std::optional<std::vector<int64_t>> common_sizes(const std::vector<Walk>& walks, int64_t elements);

/// Returns the strides of `walk` over sizes from common_sizes().
std::vector<int64_t> strides_over(const Walk& walk, const std::vector<int64_t>& sizes);

/// An operand in the order in which the loop visits it.
struct WalkedView {
  BufferId buffer = kNoBuffer;
  DType dtype = DType::float32;
  int64_t offset = 0;  ///< in elements
  Walk walk;
  bool operator==(const WalkedView&) const = default;
};

/// A pointwise op. Its operands are walked in the memory order of its result.
struct PointwiseNode {
  int32_t index = 0;  ///< index of the op in the trace
  Opcode opcode = Opcode::cast;
  struct Operand {
    WalkedView view;  ///< view without buffer: the constant
    double constant = 0;
    int64_t elements = 0;  ///< number of different elements
  };
  std::vector<Operand> operands;
  WalkedView result;
  int64_t elements = 0;
};

/// Returns the node of an op. nullopt: fused ops do not support the shape (no elements, operands that do not broadcast,
/// a result that writes an element twice).
std::optional<PointwiseNode> node_of(int32_t index, const PointwiseOp& op);

/// A group of nodes in order, and the program that they make.
class FusedGroup {
 public:
  /// Appends `node` if it can be computed in the same loop; otherwise returns false and changes nothing.
  bool join(const PointwiseNode& node);

  /// Returns whether `node` reads or writes what the group writes, or reads as many elements of a buffer that the group
  /// reads.
  bool connects(const PointwiseNode& node) const;
  /// Returns whether `op`, which is not in the group, must stay in its order: it uses what the group writes, or writes
  /// what the group reads.
  bool conflicts(const Op& op) const;

  const std::vector<PointwiseNode>& nodes() const { return nodes_; }
  const std::vector<WalkedView>& inputs() const { return inputs_; }
  bool reads(BufferId buffer) const;
  bool writes(BufferId buffer) const;
  std::vector<BufferId> written() const;

  /// A program that stores the kept buffers, and the views of its inputs and outputs.
  struct Result {
    FusedProgram program;
    std::vector<View> inputs, outputs;
  };
  Result result(const std::vector<BufferId>& kept) const;

 private:
  struct Reference {
    enum class Kind : uint8_t { input, constant, step } kind;
    int32_t index;
  };
  struct Step {
    Opcode opcode;
    DType dtype;
    std::vector<Reference> operands;
  };
  struct Written {
    WalkedView view;
    int32_t step;  // last step that wrote it
  };
  std::vector<Walk> walks() const;

  int64_t elements_ = 0;
  std::vector<PointwiseNode> nodes_;
  std::vector<WalkedView> inputs_;
  std::vector<double> constants_;
  std::vector<Step> steps_;
  std::vector<Written> written_;
};

}  // namespace plimsoll
