#include "trace/trace_queries.h"

#include <algorithm>
#include <tuple>

namespace plimsoll {
namespace {

// Each function names all members of its type: a new member does not compile until it is compared here.

bool same_buffer(const Buffer& a, const Buffer& b) {
  const auto fields = [](const Buffer& buffer) {
    const auto& [bytes, role, persistent, output, label, memory] = buffer;
    return std::tie(bytes, role, persistent, output, label, memory);
  };
  return fields(a) == fields(b);
}

bool same_argument(const Argument& a, const Argument& b) {
  const auto fields = [](const Argument& argument) {
    const auto& [kind, written, views] = argument;
    return std::tie(kind, written, views);
  };
  return fields(a) == fields(b);
}

bool same_op(const Op& a, const Op& b) {
  const auto fields = [](const Op& op) {
    const auto& [name, arguments, results, phase, module, random_id, flops, bytes_moved, staged_bytes, link_bytes,
                 workspace_bytes, recomputed, on_host, copy, exchange, offload_memory, call] = op;
    return std::tie(name, results, phase, module, random_id, flops, bytes_moved, staged_bytes, link_bytes,
                    workspace_bytes, recomputed, on_host, copy, exchange, offload_memory);
  };
  return fields(a) == fields(b) && std::ranges::equal(a.arguments, b.arguments, same_argument) &&
         (a.call == nullptr) == (b.call == nullptr);
}

bool same_segment(const Segment& a, const Segment& b) {
  const auto fields = [](const Segment& segment) {
    const auto& [kind, begin, end] = segment;
    return std::tie(kind, begin, end);
  };
  return fields(a) == fields(b);
}

bool same_named_view(const NamedView& a, const NamedView& b) {
  return a.name == b.name && a.view == b.view && a.whole_sizes == b.whole_sizes;
}

bool same_constant(const ConstantData& a, const ConstantData& b) {
  return a.buffer == b.buffer && a.bytes == b.bytes;
}

}  // namespace

bool same_trace(const Trace& a, const Trace& b) {
  [[maybe_unused]] const auto& [buffers, ops, segments, modules, inputs, outputs, state, constants, alignment, pieces,
                                model_parameters, trained_parameters] = a;
  using std::ranges::equal;
  return a.alignment == b.alignment && a.model_parameters == b.model_parameters &&
         a.trained_parameters == b.trained_parameters && a.modules == b.modules &&
         equal(a.segments, b.segments, same_segment) && equal(a.buffers, b.buffers, same_buffer) &&
         equal(a.ops, b.ops, same_op) && equal(a.inputs, b.inputs, same_named_view) &&
         equal(a.outputs, b.outputs, same_named_view) && equal(a.state, b.state, same_named_view) &&
         equal(a.constants, b.constants, same_constant);
}

bool is_training(SegmentKind kind) {
  using enum SegmentKind;
  return kind == norms || kind == micro || kind == accumulate || kind == remainder || kind == last;
}

int64_t runs_in_step(const Trace& trace, SegmentKind kind, int64_t micro_batches, bool ragged) {
  const bool several = micro_batches > 1;
  const bool with_remainder = several && ragged;
  // Updates run in `last`, or in the remainder if there is one.
  const bool in_last = several && trace.segment(SegmentKind::last) != nullptr;
  switch (kind) {
    case SegmentKind::norms:
    case SegmentKind::micro:
      return 1;
    case SegmentKind::accumulate:
      return several ? micro_batches - (with_remainder || in_last ? 2 : 1) : 0;
    case SegmentKind::remainder:
      return with_remainder ? 1 : 0;
    case SegmentKind::last:
      return in_last && !with_remainder ? 1 : 0;
    case SegmentKind::update:
      return in_last ? 0 : 1;
    case SegmentKind::finish:
      return in_last ? 1 : 0;
    case SegmentKind::initialize:
    case SegmentKind::evaluate:
      return 0;
  }
  return 0;
}

}  // namespace plimsoll
