// Ops that are to become one, while they are gathered.
#pragma once

#include <vector>

#include "plan/graph/iteration.h"
#include "plimsoll/trace.h"
#include "trace/pointwise.h"

namespace plimsoll {

/// An operand as the loop goes through it.
struct WalkedView {
  BufferId buffer = kNoBuffer;
  DType dtype = DType::float32;
  int64_t offset = 0;  ///< in elements
  Walk walk;
  bool operator==(const WalkedView&) const = default;
};

/// A pointwise op, its operands walked in the order in which its result lies in memory.
struct PointwiseNode {
  int32_t index = 0;  ///< of the op in the trace
  Opcode opcode = Opcode::cast;
  struct Operand {
    WalkedView view;  ///< of no buffer: the constant
    double constant = 0;
    int64_t elements = 0;  ///< that are different
  };
  std::vector<Operand> operands;
  WalkedView result;
  int64_t elements = 0;
};

/// nullopt: a shape that fused ops do not go through (nothing in it, operands that do not broadcast, a result that
/// writes an element twice).
std::optional<PointwiseNode> node_of(int32_t index, const PointwiseOp& op);

class FusedGroup {
 public:
  /// Adds `node` behind the others; false, and nothing is changed: it does not go with them.
  bool join(const PointwiseNode& node);

  /// Whether it reads or writes what the group writes, or reads as many elements of a buffer that the group reads too.
  bool connects(const PointwiseNode& node) const;
  /// Whether `op`, which is not in the group, must stay behind it.
  bool conflicts(const Op& op) const;

  const std::vector<PointwiseNode>& nodes() const { return nodes_; }
  const std::vector<WalkedView>& inputs() const { return inputs_; }
  bool reads(BufferId buffer) const;
  bool writes(BufferId buffer) const;
  std::vector<BufferId> written() const;

  /// The program that stores what `kept` says of each buffer that is written, and the views of its inputs and outputs.
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
    int32_t step;  // the last that wrote it
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
