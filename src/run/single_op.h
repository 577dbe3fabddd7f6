// One op of a trace on its own: run apart from everything, to see what it takes.
#pragma once

#include "device/cpu_backend.h"
#include "plimsoll/plan.h"
#include "run/executor.h"

namespace plimsoll {

/// Bytes of the op's operands and scratch, each buffer once.
int64_t operand_bytes(const Trace& trace, const Op& op);

class SingleOp {
 public:
  /// Takes memory for the op's operands, filled with zeros: indices in range, numbers that are not slow.
  SingleOp(const Trace& trace, const Op& op, Backend& backend = cpu_backend());

  /// Throws UserError if the kernel refuses zeros.
  void run() { executor_.run(plan_.trace.segments[0], {}); }

  /// Returns when a device has done what it was given.
  void synchronize() { backend_.synchronize(); }

  /// Scratch beyond what the op was planned with, as planned: laid out first-fit.
  int64_t unplanned_bytes() const;

  /// What other threads took elsewhere at a time.
  int64_t beside_bytes() const { return executor_.beside_bytes(); }

 private:
  Plan plan_;
  Backend& backend_;
  std::unique_ptr<Arena> arena_;
  Executor executor_;
};

}  // namespace plimsoll
