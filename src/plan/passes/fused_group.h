// Declares a group of pointwise ops that is collected to become one op.
#pragma once

#include <vector>

#include "plan/graph/iteration.h"
#include "plimsoll/trace.h"
#include "trace/pointwise.h"

namespace plimsoll {

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
