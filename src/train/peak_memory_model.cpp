#include "train/peak_memory_model.h"

#include <set>
#include <vector>

namespace plimsoll {

AdviceLoad load_of(const PlannedJob& planned, const std::string& linear_layers) {
  const Trace& trace = planned.recorded;
  std::vector<char> updated(trace.buffers.size(), 0);
  for (const Op& op : trace.ops)
    if (op.phase == Phase::update)
      for_each_view(op, [&](const View& view, bool written) {
        if (written) updated[view.buffer] = 1;
      });
  AdviceLoad load;
  std::set<BufferId> known;
  for (const NamedView& entry : trace.state) {
    const auto& [name, view, whole_sizes] = entry;
    if (trace.buffers[view.buffer].role != Role::parameter || !known.insert(view.buffer).second) continue;
    const auto bytes = static_cast<double>(trace.buffers[view.buffer].bytes);
    const bool wide = view.dtype == DType::float32,
               half = view.dtype == DType::bfloat16 || view.dtype == DType::float16;
    if (!wide && !half) continue;  // quantized blocks, counters
    const bool layers = name.starts_with(linear_layers + ".") && view.sizes.size() == 2;
    load.trains_linear |= layers && updated[view.buffer] && name.ends_with(".weight");
    if (updated[view.buffer])
      (wide ? load.trained_wide : load.trained_half) += bytes;
    else if (layers)
      (wide ? load.linear_wide : load.linear_half) += bytes;
    else
      (wide ? load.frozen_wide : load.frozen_half) += bytes;
  }
  const Breakdown& at_peak = planned.plan.breakdown;
  load.gradients = static_cast<double>(at_peak.gradients);
  load.state = static_cast<double>(at_peak.optimizer_state);
  load.activations = static_cast<double>(at_peak.activations);
  load.inputs = static_cast<double>(at_peak.inputs);
  // The rest makes the sum equal to the plan's peak.
  load.rest = static_cast<double>(planned.plan.peak_bytes) - load.total();
  return load;
}

}  // namespace plimsoll
