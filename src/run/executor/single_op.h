// Declares a runner of one op of a trace, separate from the rest of the plan, to measure its memory and time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/backend.h"
#include "plimsoll/plan.h"
#include "run/executor/executor.h"

namespace plimsoll {

/// Returns the bytes of the op's operands and scratch; each buffer counts once.
int64_t operand_bytes(const Trace& trace, const Op& op);

class SingleOp {
 public:
  /// Allocates the op's operands, filled with zeros: indices in range, and values that are not slow to compute with.
  SingleOp(const Trace& trace, const Op& op, Backend& backend = cpu_backend());

  /// Throws UserError if the kernel refuses zeros.
  void run() { executor_.run(plan_.trace.segments[0], {}); }

  /// Returns the memory of its operands, in the order of for_each_view(); the backend must be one of the CPU.
  std::vector<std::span<const std::byte>> operands() const;

  /// Returns when the device has done all submitted work.
  void synchronize() { backend_.synchronize(); }

  /// Returns scratch bytes beyond the op's plan, placed first-fit as in a plan.
  int64_t unplanned_bytes() const;

  /// Returns the largest number of bytes that other threads allocated outside the arena at one time.
  int64_t other_thread_bytes() const { return executor_.other_thread_bytes(); }

 private:
  Plan plan_;
  Backend& backend_;
  std::unique_ptr<Arena> arena_;
  Executor executor_;
};

}  // namespace plimsoll
