// An op of a plan, bound to its places in the arenas.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/error.h"
#include "run/executor.h"

namespace plimsoll {

struct Executor::BoundOp {
  int32_t index;
  const Op* op;
  Backend* backend;
  std::optional<c10::OperatorHandle> handle;     // a copy has none
  std::vector<c10::IValue> arguments;            // tensors over the arena, constants
  std::vector<AllocationFrame::Output> outputs;  // what the kernel allocates itself
  std::vector<at::Tensor> results;               // where these belong, in schema order; undefined: not wanted
  std::vector<int> result_positions;  // by result: its place on the stack after the call, or -1 within a list
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
  std::array<int64_t, kMemories> extents{};  // by memory: the op's operands end here

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
