// Declares the plan of a step: a schedule with an offset for every buffer, its bytes, times and reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/options.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A split of the live bytes at the plan's peak by kind. The parts add up to the plan's peak_bytes.
struct Breakdown {
  int64_t parameters = 0;  ///< parameters and module buffers
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t activations = 0;    ///< saved values and temporaries
  int64_t inputs = 0;         ///< the batch, constants and the step's scalars
  int64_t workspace = 0;      ///< scratch of the kernels that run
  int64_t context = 0;        ///< bytes that the device's runtime allocates for itself
  int64_t fragmentation = 0;  ///< bytes of the arena that no buffer occupies at the peak

  /// Returns the sum of all parts, in bytes.
  int64_t total() const {
    return parameters + gradients + optimizer_state + activations + inputs + workspace + context + fragmentation;
  }
};

/// A count of the bytes in use.
struct MemoryUse {
  int64_t arena = 0;      ///< highest byte of the device's arena that was assigned to an op so far
  int64_t touched = 0;    ///< highest byte of the device's arena that was written to
  int64_t workspace = 0;  ///< largest sum of bytes that kernels allocated outside the arena at one time
  int64_t peak = 0;       ///< largest sum of arena and workspace at one time
  int64_t host = 0;       ///< highest byte of the host's arena that was assigned to a copy or an op so far
  int64_t disk = 0;  ///< highest byte of the disk's arena that was assigned to a copy or an op so far. It is not host
                     ///< memory: pages are written back and dropped
  /// Allocations by kernels outside the arenas since start(), over the whole process, other trainings included.
  int64_t out_of_arena_allocations = 0;
  /// Returns the counted peak, in bytes.
  int64_t measured_peak() const { return peak; }
};

/// A prediction of the cost model for each part of a step, in seconds.
struct StepTime {
  double norms = 0;  ///< forward and backward only for the norms of gradients, if updates in backward need these first
  double micro = 0;  ///< forward and backward of the first micro batch, and updates that run in it
  double accumulate = 0;  ///< forward and backward of every further micro batch
  double remainder = 0;   ///< forward and backward of the last micro batch if it is smaller than the others
  double last = 0;        ///< last micro batch with updates in its backward; 0: updates run after it
  double update = 0;      ///< update of the parameters; with updates in backward only the rest of it
  double finish = 0;      ///< rest of the update after `last`, or after a remainder with updates
  double recompute = 0;   ///< part of micro, and of accumulate, that recomputed ops take
  double offload = 0;     ///< part of micro, and of accumulate, in which ops wait for copies to and from host memory
  double update_offload = 0;         ///< part of update in which ops wait for copies
  double recompute_lower_bound = 0;  ///< lower bound of `recompute` + `offload` over all choices that fit the budget;
                                     ///< the choice is optimal if it reaches the bound

  /// Returns the time of recomputed ops as a fraction of the time of all other ops.
  double recompute_share() const {
    const double once = micro - recompute - offload;
    return once > 0 ? recompute / once : 0;
  }

  /// Returns the seconds of a step of `micro_batches` micro batches. `ragged`: the last of at least two is the
  /// remainder.
  double step(int64_t micro_batches, bool ragged = false) const {
    if (micro_batches < 2) return norms + micro + update;
    const double ending = ragged ? remainder : last > 0 ? last : accumulate;
    return micro + accumulate * static_cast<double>(micro_batches - 2) + ending + (last > 0 ? finish : update);
  }
};

/// A decision and its reason, as text.
struct Reason {
  std::string decision;  ///< "gradient_checkpointing: on"
  std::string why;
};

/// A set of choices that the passes apply (src/plan/passes/pipeline.cpp).
struct PlanChoices {
  bool loss_rows = false;           ///< losses of large linear layers are computed in chunks of rows
  bool update_in_backward = false;  ///< parameters are updated during backward
  bool recompute = false;           ///< values of forward that are not kept are recomputed in backward
  std::vector<Memory> memory;       ///< memory of each buffer of the recorded trace; empty: all on the device
  /// For each forward value (plan/passes/training_graph): 1 if it is kept, 0 if it is recomputed.
  std::vector<char> kept;
  bool offload = false;          ///< copies are inserted for what is offloaded or not stored on the device
  std::vector<char> offloaded;   ///< for each forward value: 1 if it is offloaded between forward and backward
  bool host_updates = false;     ///< updates of state in host memory run on the host
  int64_t copy_limit_bytes = 0;  ///< live bytes on the device, at most, at which copies may overlap ops
  /// Live bytes on the device, at most, at which exchanges between ranks may overlap ops; < 0: no exchange does.
  int64_t exchange_limit_bytes = -1;
  /// Live transient bytes on the device, at most, up to which ops take forms with more scratch; < 0: no op does.
  int64_t scratch_limit_bytes = -1;
};

/// A schedule and its placement. Offsets are bytes from the arena's start, multiples of trace.alignment.
struct Plan {
  Trace trace;                   ///< schedule: the recorded trace after the passes
  std::vector<int64_t> offsets;  ///< bytes by buffer, in the arena of its memory; -1: the buffer is never used
  std::vector<int64_t> workspace_offsets;  ///< bytes by op; -1: the op has no workspace

  bool fits = true;        ///< peak_bytes, host_bytes and disk_bytes are within the budget
  Budget budget;           ///< budget of the plan
  int64_t peak_bytes = 0;  ///< arena_bytes + budget.context + budget.library
  int64_t host_bytes = 0;  ///< size of the host arena; 0: nothing is offloaded to host memory
  int64_t disk_bytes = 0;  ///< size of the disk arena; 0: nothing is offloaded to disk
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;        ///< largest sum of live bytes: a lower bound of every placement
  int64_t persistent_bytes = 0;  ///< [0, persistent_bytes) holds the buffers that live from step to step
  int32_t peak_op = 0;           ///< op at which most bytes are live
  Breakdown breakdown;           ///< live bytes at peak_op
  StepTime time;
  bool checkpointed = false;  ///< true: activations are recomputed
  bool update_in_backward = false;
  int64_t fused_ops = 0;  ///< recorded ops that run within others, over all segments
  int64_t offloaded_saved_bytes =
      0;  ///< bytes of saved values that are copied to host memory and back in each micro batch
  int64_t offloaded_state_bytes = 0;     ///< bytes of optimizer state in host memory or on disk
  int64_t offloaded_gradient_bytes = 0;  ///< bytes of gradients in host memory or on disk
  /// Bytes of parameters in host memory or on disk, which are copied in for each use.
  int64_t offloaded_parameter_bytes = 0;
  int64_t host_updates = 0;  ///< number of parameters whose update runs on the host
  std::vector<Reason> reasons;
  PlanChoices choices;  ///< choices that the passes applied
  double plan_seconds = 0;

  /// Returns the waste of the placement as a fraction: (arena_bytes - live_bytes) / live_bytes.
  double arena_waste() const {
    return live_bytes > 0 ? static_cast<double>(arena_bytes - live_bytes) / static_cast<double>(live_bytes) : 0;
  }
};

/// Returns a hash of everything that determines a run of the plan: ops and their operands in order, offsets, choices,
/// budgets. It has 16 hexadecimal digits, the same on every machine. Predicted times, reasons and constant arguments of
/// ops are not in it.
std::string plan_hash(const Plan& plan);

/// A point of memory against step time: the planner's result for one budget.
struct FrontierPoint {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;
  double step_seconds = 0;  ///< predicted; 0 or not finite: not known
  std::string choices;      ///< choices as text: "micro batch 4 x 8, 12.3 ms of recomputation"
  bool fits = true;
};

/// Returns the largest sum of bytes that parameters, their gradients and optimizer state occupy on the device at one
/// time, as placed.
int64_t peak_model_bytes(const Plan& plan);

/// A buffer that is live at the plan's peak.
struct Resident {
  std::string label;
  Role role;
  int64_t bytes;
};
/// Returns the largest buffers at the plan's peak, largest first; at most `count`.
std::vector<Resident> largest_at_peak(const Plan& plan, size_t count);

/// A share of the peak by part of the model: the first word of the dotted path ("vision", "llm"). "" has everything
/// without a part: inputs, context, memory reserved by libraries, fragmentation, scratch of the update.
struct ModuleBytes {
  std::string module;
  Breakdown bytes;
};

/// Returns the shares of all parts, largest first and "" last. Each kind of bytes adds up to the plan's breakdown.
/// Parameters, gradients and optimizer state belong to the parameter's part. Other values belong to the part whose
/// operator made them, which is the one that read a parameter last (docs/architecture.md).
std::vector<ModuleBytes> bytes_by_module(const Plan& plan);

}  // namespace plimsoll
