#include "plan/graph/rewrite.h"

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

}  // namespace plimsoll
