// Declares the facts that the recorder needs about an operator, computed once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <string>
#include <vector>

namespace plimsoll {

/// Computes an operator's outputs on the meta device from its arguments (plan tensors already replaced by meta ones).
using ShapeRule = std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>& arguments)>;

/// A recorder's facts about one operator.
struct OpSignature {
  c10::OperatorHandle op;
  std::string name;                  ///< "aten::mm.out"
  std::vector<bool> written;         ///< by argument: it is written in place or as `out`
  std::vector<int> result_argument;  ///< by output: the argument it aliases, or -1 for a fresh tensor
  std::vector<bool> result_is_view;  ///< by output: aliases an argument without writing it
  bool only_views = false;           ///< every output is a view: the op is not replayed
  bool random = false;               ///< draws random numbers
  /// Plimsoll's shape rule if libtorch's Meta kernel is missing or wrong; otherwise null.
  const ShapeRule* rule = nullptr;
  const std::string* refusal = nullptr;  ///< not null: the operator cannot be recorded; reason and remedy
};

/// Returns the signature of `op`, cached. Safe from any thread.
const OpSignature& signature_of(const c10::OperatorHandle& op);

}  // namespace plimsoll
