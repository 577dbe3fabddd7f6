#include "trace/segment_runs.h"

namespace plimsoll {

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
