#include "run/training_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "collectives/exchange.h"
#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Returns the persistent buffers that have another offset in the new plan. Without other memories they keep their
// offsets, whatever is planned above them; with them, buffers may move between the memories.
std::vector<BufferId> buffers_to_relocate(const Plan& before, const Plan& plan, size_t recorded_buffers) {
  std::vector<BufferId> relocated;
  for (BufferId b = 0; b < static_cast<BufferId>(recorded_buffers); ++b) {
    const Buffer &was = before.trace.buffers[b], &is = plan.trace.buffers[b];
    if (!was.persistent || before.offsets[b] < 0) continue;
    if (was.memory != is.memory || before.offsets[b] != plan.offsets[b]) relocated.push_back(b);
  }
  return relocated;
}

}  // namespace

void TrainingMemory::require(const Plan& plan, int64_t scratch) const {
  const int64_t of_device = plan.arena_bytes - (arena_ ? arena_->bytes() : 0);
  const int64_t of_host = plan.host_bytes - (host_arena_ ? host_arena_->bytes() : 0) + scratch;
  using Owner = MemoryUnavailable::Owner;
  const auto require = [](const std::optional<int64_t>& available, int64_t wanted, const std::string& who,
                          Owner owner) {
    if (available && *available < wanted)
      throw MemoryUnavailable(fmt::format("{} has {} available now, and the arena takes {}", who,
                                          format_bytes(*available), format_bytes(wanted)),
                              wanted, owner);
  };
  if (backend_.shares_host_memory())
    return require(current_host_memory(), of_device + of_host, "the machine", Owner::host);
  require(backend_.available_bytes(), of_device, backend_.name(), Owner::device);
  require(current_host_memory(), of_host, "the machine", Owner::host);
}

void TrainingMemory::allocate(const Plan& plan) {
  arena_ = backend_.allocate_arena(plan.arena_bytes);
  allocate_other_arenas(plan);
}

void TrainingMemory::start_counting() {
  backend_.reset_out_of_arena_peak();
  allocations_at_start_ = backend_.out_of_arena_allocations();
}

// Grows or allocates the arenas of host and disk to the plan's sizes; an arena never shrinks.
void TrainingMemory::allocate_other_arenas(const Plan& plan) {
  if (host_arena_) host_arena_->grow(plan.host_bytes);
  if (!host_arena_ && plan.host_bytes > 0)
    host_arena_ = backend_.allocate_host_arena(plan.host_bytes, options_.budget.host);
  if (disk_arena_) disk_arena_->grow(plan.disk_bytes);
  if (!disk_arena_ && plan.disk_bytes > 0)
    disk_arena_ = std::make_unique<DiskArena>(options_.disk_path, plan.disk_bytes, options_.budget.disk);
}

void TrainingMemory::change_plan(const Plan& before, const Plan& plan, size_t recorded_buffers) {
  backend_.reset_out_of_arena_peak();
  const std::vector<BufferId> relocated = buffers_to_relocate(before, plan, recorded_buffers);
  int64_t relocated_bytes = 0;
  for (const BufferId b : relocated) relocated_bytes += placed_bytes(before.trace, before.trace.buffers[b].bytes);
  require(plan, backend_.relocation_scratch_bytes(relocated_bytes));
  arena_->grow(plan.arena_bytes);
  allocate_other_arenas(plan);
  relocate(before, plan, relocated);
}

std::byte* TrainingMemory::place_of(const Plan& plan, BufferId buffer) const {
  const Memory memory = plan.trace.buffers[buffer].memory;
  std::byte* const begin = memory == Memory::device ? arena_->data()
                           : memory == Memory::host ? host_arena_->data()
                                                    : disk_arena_->data();
  return begin + plan.offsets[buffer];
}

void TrainingMemory::relocate(const Plan& before, const Plan& plan, const std::vector<BufferId>& relocated) {
  if (relocated.empty()) return;
  std::vector<Relocation> relocations;
  relocations.reserve(relocated.size());
  for (const BufferId b : relocated)
    relocations.push_back(
        {place_of(before, b), place_of(plan, b), placed_bytes(before.trace, before.trace.buffers[b].bytes)});
  backend_.relocate(std::move(relocations));
  if (disk_arena_) disk_arena_->evict(0, disk_arena_->bytes(), /*written=*/true);
}

void TrainingMemory::note_use(const Executor& executor, bool look_through) {
  const Exchange* const exchange = options_.exchange.get();
  use_.out_of_arena_allocations = backend_.out_of_arena_allocations() - allocations_at_start_;
  use_.arena = std::max(use_.arena, executor.arena_bytes_used());
  if (look_through) use_.touched = std::max(use_.touched, arena_->touched_bytes());
  // On the CPU, the bytes that the exchange holds are memory of the device.
  const int64_t held = exchange && backend_.shares_host_memory() ? exchange->held_bytes() : 0;
  use_.workspace = std::max(use_.workspace, backend_.out_of_arena_peak() + held);
  use_.host = std::max(use_.host, executor.host_bytes_used());
  use_.disk = std::max(use_.disk, executor.disk_bytes_used());
  use_.peak = std::max(use_.peak, executor.arena_bytes_used() + backend_.out_of_arena_peak() + held);
}

}  // namespace plimsoll
