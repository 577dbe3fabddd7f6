#include "train/peak_memory_model.h"

#include <set>
#include <vector>

namespace plimsoll {

PeakMemoryModel peak_memory_of(const PlannedJob& planned, const std::string& decoder_layers) {
  const Trace& trace = planned.recorded;
  std::vector<char> updated(trace.buffers.size(), 0);
  for (const Op& op : trace.ops)
    if (op.phase == Phase::update)
      for_each_view(op, [&](const View& view, bool written) {
        if (written) updated[view.buffer] = 1;
      });
  PeakMemoryModel memory;
  std::set<BufferId> known;
  for (const NamedView& entry : trace.state) {
    const auto& [name, view, whole_sizes] = entry;
    if (trace.buffers[view.buffer].role != Role::parameter || !known.insert(view.buffer).second) continue;
    const auto bytes = static_cast<double>(trace.buffers[view.buffer].bytes);
    const bool wide = view.dtype == DType::float32,
               half = view.dtype == DType::bfloat16 || view.dtype == DType::float16;
    if (!wide && !half) continue;  // quantized blocks, counters
    const bool layers = name.starts_with(decoder_layers + ".") && view.sizes.size() == 2;
    memory.trains_linear |= layers && updated[view.buffer] && name.ends_with(".weight");
    if (updated[view.buffer])
      (wide ? memory.trained_wide : memory.trained_half) += bytes;
    else if (layers)
      (wide ? memory.frozen_linear_wide : memory.frozen_linear_half) += bytes;
    else
      (wide ? memory.frozen_other_wide : memory.frozen_other_half) += bytes;
  }
  const Breakdown& at_peak = planned.plan.breakdown;
  memory.gradients = static_cast<double>(at_peak.gradients);
  memory.state = static_cast<double>(at_peak.optimizer_state);
  memory.activations = static_cast<double>(at_peak.activations);
  memory.inputs = static_cast<double>(at_peak.inputs);
  // The rest makes the sum equal to the plan's peak.
  memory.rest = static_cast<double>(planned.plan.peak_bytes) - memory.total();
  return memory;
}

}  // namespace plimsoll
