// Declares the arenas of a training and the memory that it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "device/disk_arena.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"
#include "run/executor/executor.h"

namespace plimsoll {

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

  std::unique_ptr<Executor> make_executor(const Plan& plan) const {
    return std::make_unique<Executor>(plan, backend_, *arena_, host_arena_.get(), disk_arena_.get());
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

}  // namespace plimsoll
