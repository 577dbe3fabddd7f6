// What the recorder needs to know of an operator, worked out once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <string>
#include <vector>

namespace plimsoll {

/// Computes an operator's outputs on the meta device from its arguments (plan tensors already replaced by meta ones).
using ShapeRule = std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>& arguments)>;

struct OpSignature {
  c10::OperatorHandle op;
  std::string name;                      ///< "aten::mm.out"
  std::vector<bool> written;             ///< by argument: written in place or `out`
  std::vector<int> result_argument;      ///< by output: the argument it aliases, or -1 for a fresh tensor
  std::vector<bool> result_is_view;      ///< by output: aliases an argument without writing it
  bool only_views = false;               ///< every output is a view: nothing to replay
  bool random = false;                   ///< draws random numbers
  const ShapeRule* rule = nullptr;       ///< our shape rule, where libtorch's Meta kernel is missing or wrong
  const std::string* refusal = nullptr;  ///< set: cannot be recorded; why, and what to use
};

/// The signature of `op`, cached. Safe to call from any thread.
const OpSignature& signature_of(const c10::OperatorHandle& op);

}  // namespace plimsoll
