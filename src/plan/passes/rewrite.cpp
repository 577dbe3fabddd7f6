#include "plan/passes/rewrite.h"

#include "plimsoll/error.h"

namespace plimsoll {

TraceRewriter::TraceRewriter(Trace& trace) : trace_(trace), segments_(trace.segments) {
  ops_.reserve(trace.ops.size());
  if (!segments_.empty()) segments_[0].begin = 0;
}

// Ends the segments whose last old op is before `index`.
void TraceRewriter::advance_to(int32_t index) {
  const auto here = static_cast<int32_t>(ops_.size());
  while (segment_ < segments_.size() && trace_.segments[segment_].end <= index) {
    segments_[segment_].end = here;
    if (++segment_ < segments_.size()) segments_[segment_].begin = here;
  }
}

void TraceRewriter::keep(int32_t index) {
  advance_to(index);
  ops_.push_back(std::move(trace_.ops[index]));
}

void TraceRewriter::replace(int32_t index, Op op) {
  advance_to(index);
  ops_.push_back(std::move(op));
}

void TraceRewriter::insert(Op op, int32_t near) {
  advance_to(near);
  ops_.push_back(std::move(op));
}

BufferId TraceRewriter::add_buffer(Buffer buffer) {
  trace_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(trace_.buffers.size() - 1);
}

Trace TraceRewriter::finish() {
  advance_to(static_cast<int32_t>(trace_.ops.size()));
  while (segment_ < segments_.size()) {
    segments_[segment_].end = static_cast<int32_t>(ops_.size());
    if (++segment_ < segments_.size()) segments_[segment_].begin = static_cast<int32_t>(ops_.size());
  }
  trace_.ops = std::move(ops_);
  trace_.segments = std::move(segments_);
  return std::move(trace_);
}

Trace with_merged(Trace& trace, std::map<int32_t, Op> made, const std::set<int32_t>& gone) {
  TraceRewriter rewriter(trace);
  for (int32_t i = 0; i < static_cast<int32_t>(trace.ops.size()); ++i) {
    if (const auto found = made.find(i); found != made.end())
      rewriter.replace(i, std::move(found->second));
    else if (!gone.contains(i))
      rewriter.keep(i);
  }
  return rewriter.finish();
}

std::vector<int32_t> uses_of(const Trace& trace) {
  std::vector<int32_t> uses(trace.buffers.size(), 0);
  for (const Op& op : trace.ops) for_each_buffer(op, [&](BufferId buffer) { ++uses[buffer]; });
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (trace.buffers[b].persistent || trace.buffers[b].output) uses[b] = 0;
  for (const auto* names : {&trace.inputs, &trace.outputs, &trace.state})
    for (const NamedView& entry : *names) uses[entry.view.buffer] = 0;
  return uses;
}

Trace remove_dead_ops(Trace trace) {
  trace.update_pieces.clear();
  // Goes backward: a buffer is needed from the last op that reads it up to the first that writes it. A buffer that
  // lives from one run of a segment to the next is persistent, and always needed.
  std::vector<bool> wanted(trace.buffers.size(), false), keep(trace.ops.size(), true);
  for (size_t b = 0; b < trace.buffers.size(); ++b) wanted[b] = trace.buffers[b].persistent || trace.buffers[b].output;
  for (size_t i = trace.ops.size(); i-- > 0;) {
    const Op& op = trace.ops[i];
    bool alive = false;
    for_each_view(op, [&](const View& view, bool written) { alive |= written && wanted[view.buffer]; });
    keep[i] = alive;
    if (alive) for_each_view(op, [&](const View& view, bool) { wanted[view.buffer] = true; });
  }
  TraceRewriter rewriter(trace);
  for (size_t i = 0; i < trace.ops.size(); ++i)
    if (keep[i]) rewriter.keep(static_cast<int32_t>(i));
  return rewriter.finish();
}

}  // namespace plimsoll
