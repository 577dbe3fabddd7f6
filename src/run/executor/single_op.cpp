#include "run/executor/single_op.h"

#include <map>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// Returns a plan of one op: its operands contiguous, its scratch after them.
Plan plan_of(const Trace& trace, const Op& op) {
  Plan plan;
  plan.trace.modules = trace.modules;
  plan.trace.alignment = trace.alignment;
  std::map<BufferId, BufferId> names;
  int64_t end = 0;
  const auto place = [&](View& view) {
    if (view.buffer == kNoBuffer) return;
    const auto [entry, added] = names.try_emplace(view.buffer, static_cast<BufferId>(names.size()));
    if (added) {
      Buffer buffer = trace.buffers[view.buffer];
      buffer.persistent = buffer.output = false;  // no op comes before this one, and none after it
      buffer.memory = Memory::device;             // one arena holds all operands, also those of an op on the host
      plan.trace.buffers.push_back(std::move(buffer));
      plan.offsets.push_back(end);
      end += placed_bytes(trace, trace.buffers[view.buffer].bytes);
    }
    view.buffer = entry->second;
  };
  Op copy = op;
  copy.on_host = false;
  for (Argument& argument : copy.arguments)
    for (View& view : argument.views) place(view);
  for (View& view : copy.results) place(view);
  plan.workspace_offsets.push_back(op.workspace_bytes > 0 ? end : -1);
  end += placed_bytes(trace, op.workspace_bytes);
  plan.trace.ops.push_back(std::move(copy));
  plan.trace.segments.push_back({SegmentKind::micro, 0, 1});
  plan.arena_bytes = plan.peak_bytes = plan.live_bytes = end;
  return plan;
}

}  // namespace

int64_t operand_bytes(const Trace& trace, const Op& op) {
  std::map<BufferId, int64_t> bytes;
  for_each_view(
      op, [&](const View& view, bool) { bytes[view.buffer] = placed_bytes(trace, trace.buffers[view.buffer].bytes); });
  int64_t sum = placed_bytes(trace, op.workspace_bytes);
  for (const auto& [buffer, size] : bytes) sum += size;
  return sum;
}

SingleOp::SingleOp(const Trace& trace, const Op& op, Backend& backend)
    : plan_(plan_of(trace, op)),
      backend_(backend),
      arena_(backend.allocate_arena(std::max<int64_t>(plan_.arena_bytes, trace.alignment))),
      executor_(plan_, backend, *arena_) {
  backend.zero(*arena_);
}

std::vector<std::span<const std::byte>> SingleOp::operands() const {
  check(&backend_ == &cpu_backend(), "operands() is for the CPU backend");
  std::vector<std::span<const std::byte>> operands;
  for_each_view(plan_.trace.ops[0], [&](const View& view, bool) {
    const auto [begin, end] = byte_range(view);
    const std::byte* const first = arena_->data() + plan_.offsets[view.buffer];
    operands.emplace_back(first + begin, first + end);
  });
  return operands;
}

int64_t SingleOp::unplanned_bytes() const {
  const auto found = executor_.unplanned_workspace().find(0);
  return found == executor_.unplanned_workspace().end() ? 0 : found->second;
}

}  // namespace plimsoll
