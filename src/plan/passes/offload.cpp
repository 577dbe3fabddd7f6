#include "plan/passes/offload.h"

#include <algorithm>

#include "plan/passes/segment_copies.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

Op copy_op(CopyStage stage, const Trace& trace, BufferId target, BufferId source, const Op& near) {
  const int64_t bytes = trace.buffers[source].bytes;
  const auto whole = [&](BufferId buffer) { return View{buffer, DType::uint8, 0, {bytes}, {1}}; };
  Op op;
  op.copy = stage;
  op.offload_memory = std::max(trace.buffers[target].memory, trace.buffers[source].memory);
  op.name = stage == CopyStage::wait ? "plimsoll::wait_for_copy"
                                     : "plimsoll::copy_to_" + std::string(name_of(trace.buffers[target].memory));
  op.arguments.push_back({Argument::Kind::tensor, stage == CopyStage::start, {whole(target)}});
  op.arguments.push_back({Argument::Kind::tensor, false, {whole(source)}});
  op.phase = near.phase;
  op.module = near.module;
  if (stage == CopyStage::start) op.bytes_moved = 2 * bytes;
  return op;
}

}  // namespace

Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit) {
  if (choice.host_updates) {
    const std::vector<char> on_host = host_updates(trace);
    for (size_t i = 0; i < on_host.size(); ++i) trace.ops[i].on_host = on_host[i];
  }
  SegmentCopies::Context context{trace, choice.offloaded_saved, cost,
                                 limit, lifetimes_of(trace),    std::vector<char>(trace.buffers.size(), 0)};
  for (const ConstantData& constant : trace.constants) context.written_before[constant.buffer] = 1;
  std::vector<SegmentCopies> segments;
  for (const Segment& segment : trace.segments) segments.emplace_back(context, segment);
  const std::vector<int64_t> live = transient_bytes_by_op(trace, context.lifetimes);
  TraceRewriter rewriter(trace);
  for (SegmentCopies& segment : segments)
    if (!segment.empty()) segment.plan(context, rewriter, live);

  size_t s = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(trace.ops.size()); ++i) {
    while (s < segments.size() && trace.segments[s].end <= i) ++s;
    if (s == segments.size() || i < trace.segments[s].begin || segments[s].empty()) {
      rewriter.keep(i);
      continue;
    }
    Op op = std::move(trace.ops[i]);
    Op near;  // phase and module for a copy, from the op next to it
    near.phase = op.phase;
    near.module = op.module;
    const auto insert = [&](CopyStage stage, BufferId target, BufferId source) {
      rewriter.insert(copy_op(stage, trace, target, source, near), i);
    };
    segments[s].insert_before(i, insert);
    rewriter.replace(i, segments[s].with_copies(std::move(op), i));
    if (i + 1 == trace.segments[s].end) segments[s].insert_before(i + 1, insert);
  }
  return rewriter.finish();
}

namespace {

// Returns whether the op's own operands allow it to run on the host.
bool is_candidate(const Trace& trace, const Op& op) {
  if (op.phase != Phase::update || op.copy != CopyStage::none || op.random_id >= 0 || !op.results.empty()) return false;
  bool good = true, state = false;
  for_each_view(op, [&](const View& view, bool written) {
    const Buffer& buffer = trace.buffers[view.buffer];
    if (buffer.memory == Memory::disk) good = false;
    if (!written) return;
    if (!buffer.persistent && buffer.role == Role::gradient) return;
    good = good && buffer.persistent;
    if (buffer.memory == Memory::host)
      state = state || buffer.role == Role::optimizer_state;
    else
      good = good && buffer.role == Role::parameter;
  });
  return good && state;
}

}  // namespace

std::vector<char> host_updates(const Trace& trace) {
  std::vector<char> result(trace.ops.size(), 0);
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int32_t> last_use(trace.buffers.size()), updates(trace.buffers.size());
  for (const Segment& segment : trace.segments) {
    std::fill(last_use.begin(), last_use.end(), -1);
    std::fill(updates.begin(), updates.end(), 0);
    for (int32_t i = segment.begin; i < segment.end; ++i)
      for_each_view(trace.ops[i], [&](const View& view, bool) {
        if (trace.ops[i].phase == Phase::update && last_use[view.buffer] != i) ++updates[view.buffer];
        last_use[view.buffer] = i;
      });
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      if (!is_candidate(trace, trace.ops[i])) continue;
      bool alone = true;
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        if (!written) return;
        if (!trace.buffers[view.buffer].persistent) {
          alone = alone && lifetimes[view.buffer].death == i + 1;
          return;
        }
        const bool last = last_use[view.buffer] == i || !trace.buffers[view.buffer].on_device();
        alone = alone && updates[view.buffer] == 1 && last;
      });
      result[i] = alone;
    }
  }
  return result;
}

Trace assign_memories(Trace trace, const std::vector<Memory>& memory) {
  for (size_t b = 0; b < memory.size(); ++b) trace.buffers[b].memory = memory[b];
  return trace;
}

}  // namespace plimsoll
