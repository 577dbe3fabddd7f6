#include "plan/passes/buffer_use.h"

namespace plimsoll {

std::vector<int32_t> uses_of(const Trace& trace) {
  std::vector<int32_t> uses(trace.buffers.size(), 0);
  for (const Op& op : trace.ops) for_each_buffer(op, [&](BufferId buffer) { ++uses[buffer]; });
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (trace.buffers[b].persistent || trace.buffers[b].output) uses[b] = 0;
  for (const auto* names : {&trace.inputs, &trace.outputs, &trace.state})
    for (const NamedView& entry : *names) uses[entry.view.buffer] = 0;
  return uses;
}

}  // namespace plimsoll
