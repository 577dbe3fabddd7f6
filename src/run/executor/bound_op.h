// Declares an op of a plan, bound to its addresses in the arenas.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/error.h"
#include "run/executor/executor.h"

namespace plimsoll {

struct Executor::BoundOp {
  int32_t index;
  const Op* op;
  Backend* backend;
  std::optional<c10::OperatorHandle> handle;     // none for a copy
  std::vector<c10::IValue> arguments;            // tensors in the arena, and constants
  std::vector<AllocationFrame::Output> outputs;  // the kernel allocates these itself
  std::vector<at::Tensor> results;               // tensors for the outputs, in schema order; undefined: unused
  std::vector<int> result_positions;  // by result: its position on the stack after the call, or -1 if it is within a
                                      // list
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
  bool sums_at_indices = false;              // index_put() that accumulates: on the CPU, with atomics in any order
  std::array<int64_t, kMemories> extents{};  // by memory: end of the op's operands, in bytes of the arena

  /// Returns the error for a kernel that refused the op, with its reason.
  UserError refused(const Trace& trace, const std::string& what) const {
    const std::string& module = trace.modules[op->module];
    return UserError(
        fmt::format("operator {}{} failed: {}", op->name, module.empty() ? "" : fmt::format(" in module '{}'", module),
                    what.substr(0, what.find('\n'))),
        UserError::Kind::failure);
  }
};

}  // namespace plimsoll
