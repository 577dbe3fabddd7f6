#include "cost/exchange_cost.h"

#include <algorithm>

#include "cost/cost.h"
#include "cost/segment_clock.h"

namespace plimsoll {

double exchange_seconds(const CostModel& model, int64_t bytes) {
  return model.peer_link > 0 ? model.peer_latency + static_cast<double>(bytes) / model.peer_link : 0;
}

double seconds_of_exchange(const CostModel& model, const Op& op) {
  const OpRate& rate = model.rate(OpKind::streaming, compute_type_of(op));
  const double local = rate.bytes > 0 ? static_cast<double>(op.bytes_moved) / rate.bytes : 0;
  return model.overhead_seconds + std::max(local, exchange_seconds(model, op.link_bytes));
}

StepExchanges exchanges_of_step(const CostModel& model, const Trace& trace, int64_t micro_batches, bool ragged) {
  StepExchanges all;
  const auto add = [&](SegmentKind kind, int64_t times) {
    const Segment* const segment = trace.segment(kind);
    if (!segment) return;
    SegmentClock clock(model, trace);
    for (int32_t i = segment->begin; i < segment->end; ++i) {
      const Op& op = trace.ops[i];
      clock.run(op);
      if (op.link_bytes == 0) continue;
      all.count += times;
      all.bytes += times * op.link_bytes;
      all.seconds += static_cast<double>(times) * seconds_of_exchange(model, op);
    }
    all.waited += static_cast<double>(times) * clock.waited();
  };
  add(SegmentKind::micro, 1);
  if (micro_batches < 2) {
    add(SegmentKind::norms, 1);
    add(SegmentKind::update, 1);
    return all;
  }
  const bool last = trace.segment(SegmentKind::last) != nullptr;
  add(SegmentKind::accumulate, micro_batches - 2);
  add(ragged ? SegmentKind::remainder : last ? SegmentKind::last : SegmentKind::accumulate, 1);
  add(last ? SegmentKind::finish : SegmentKind::update, 1);
  return all;
}

}  // namespace plimsoll
