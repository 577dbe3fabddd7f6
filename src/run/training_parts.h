// Declares the parts of a training that its start makes: the options of its plan, arenas, batches, the tensors of
// the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/disk_arena.h"
#include "plimsoll/plan.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "run/executor/executor.h"
#include "trace/row_slicing.h"

namespace plimsoll {

/// The counters of a training that a checkpoint stores.
struct TrainingCounters {
  int64_t steps = 0, skipped = 0;  ///< optimizer steps, and those skipped among them
  double loss_scale = 1;
  int64_t loss_scale_growth = 0;  ///< LossScaler::growth_tracker()
};

/// Returns the counters as text, by name.
std::map<std::string, std::string> text_of(const TrainingCounters& counters);

/// Returns the counters of text_of(). Throws UserError (failure) if one is missing or out of range.
TrainingCounters counters_of(const std::map<std::string, std::string>& text);

/// The inputs of a step, which micro batches are copied to.
class MicroBatchInputs {
 public:
  using MicroBatch = std::map<std::string, at::Tensor>;

  MicroBatchInputs(const Step& step, const TrainingOptions& options);

  /// Returns true if a step may end with a smaller micro batch.
  bool ragged_steps() const { return last_samples_ > 0; }
  /// Returns the samples of the other micro batches, if ragged_steps().
  int64_t samples() const { return samples_; }
  /// Returns true if the batch is the smaller last micro batch that was recorded. If its tensors disagree, bind()
  /// reports it.
  bool is_remainder(const MicroBatch& batch) const;

  /// Copies a batch to the inputs of the executor's plan. `rows` > 0: to the first `rows` rows of every input. Throws
  /// UserError for a tensor that is missing or has another size or type than declared. On other devices than
  /// the CPU throws UserError (failure) for an index that is too large: a device's kernel would find it later, without
  /// a name, and the device would be lost for the program.
  void bind(Executor& executor, const Trace& trace, const MicroBatch& batch, int64_t rows = 0) const;

 private:
  void require_in_range(const std::string& name, const at::Tensor& values) const;

  std::map<std::string, c10::ScalarType> types_;  // declared types; in memory they may be narrower
  std::map<std::string, int64_t> bounds_;         // upper bounds of whole numbers, by input
  int64_t last_samples_;                          // samples of a step's smaller last micro batch; 0: all are alike
  int64_t samples_;
};

/// The arenas of a training and the memory that it uses.
class TrainingMemory {
 public:
  /// Allocates nothing. Both arguments must outlive this.
  TrainingMemory(Backend& backend, const TrainingOptions& options) : backend_(backend), options_(options) {}

  /// Throws MemoryUnavailable if the machine does not have the memory of `plan`. The system does not refuse an
  /// allocation for lack of memory; it ends the program later, when pages are touched. Bytes that the arenas already
  /// have are subtracted. `scratch`: bytes of host memory needed temporarily in addition.
  void require(const Plan& plan, int64_t scratch = 0) const;
  /// Allocates the arenas of `plan`.
  void allocate(const Plan& plan);
  /// Begins to count the allocations outside the arenas, and their peak.
  void start_counting();
  /// Grows the arenas from `before` to `plan` and moves persistent buffers to their new offsets, within the arenas,
  /// because there is no other memory for it. `recorded_buffers`: number of buffers of the recorded step, the first of
  /// both plans. The peak outside the arenas begins again. Throws as require(), or MemoryUnavailable if an arena cannot
  /// grow.
  void change_plan(const Plan& before, const Plan& plan, size_t recorded_buffers);

  /// Returns an executor of `plan` in the arenas. It checks each op if a CheckedOps exists.
  std::unique_ptr<Executor> make_executor(const Plan& plan) const {
    auto executor = std::make_unique<Executor>(plan, backend_, *arena_, host_arena_.get(), disk_arena_.get());
    if (CheckedOps::current()) executor->check_ops();
    return executor;
  }

  /// Throws UserError (failure) if the arena on disk has lost bytes or could not be written.
  void require_disk() const {
    if (disk_arena_) disk_arena_->require_written();
  }

  /// Records the memory that was in use under the executor's plan. `look_through`: searches the arena for the highest
  /// byte written to.
  void note_use(const Executor& executor, bool look_through);
  const MemoryUse& use() const { return use_; }

 private:
  void allocate_other_arenas(const Plan& plan);
  std::byte* place_of(const Plan& plan, BufferId buffer) const;
  void relocate(const Plan& before, const Plan& plan, const std::vector<BufferId>& relocated);

  Backend& backend_;
  const TrainingOptions& options_;
  std::unique_ptr<Arena> arena_, host_arena_;
  std::unique_ptr<DiskArena> disk_arena_;
  int64_t allocations_at_start_ = 0;
  MemoryUse use_;
};

/// Returns the planned parts, adjusted so that they add up to use.measured_peak(). Tensors are at their planned
/// offsets, so parts differ from the plan only by counted allocations. An excess is scratch; a shortfall is subtracted
/// from the gaps, then from the scratch, then from the activations.
Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use);

class Backend;
class MeasuredWorkspace;
class MeasureAllowance;

/// Throws UserError (does_not_fit) if planning itself exceeds the process budget; called before each schedule.
void require_room_for_planning(const Budget& budget);

/// Returns how many of `most` bytes an op may take that is tried before arenas are allocated: what the process budget
/// leaves now.
int64_t room_to_try(const Budget& budget, int64_t most);

/// Returns the number of CPU threads that kernels run on.
int threads_of(const TrainingOptions& options);

/// Returns the budget, the user's choices, and the scratch that the device's kernels are known to allocate by rule.
/// `here`: the device of the plan, if it is one of this machine; nullptr: any device of its kind, so that properties of
/// this machine do not count. `allowance` limits the measurement of CPU scratch (device/kernel_scratch.h); nullptr: the
/// run is about to allocate the memory.
PlanOptions plan_options_of(const TrainingOptions& options, const Backend* here,
                            std::shared_ptr<MeasureAllowance> allowance = nullptr);

/// Returns `recorded` with the ops of its losses in chunks of rows behind its ops, so that the scratch of all ops of
/// its plans can be measured. It is no step.
Trace with_loss_rows(const Trace& recorded, const RowSlicing& slicing);

/// Returns `options` with the scratch that was measured by running kernels.
PlanOptions with_measured(PlanOptions options, const MeasuredWorkspace& workspace);

}  // namespace plimsoll
