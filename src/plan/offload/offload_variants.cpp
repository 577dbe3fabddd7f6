#include "plan/offload/offload_variants.h"

#include "plan/passes/pipeline.h"
#include "plimsoll/trace.h"

namespace plimsoll {

OffloadVariants::OffloadVariants(const Trace& trace, const RecomputeSearch& search, const PlanOptions& options)
    : trace_(trace),
      search_(search),
      options_(options),
      candidates_(trace, options.micro_batches, options.solver.offload),
      offload_search_(trace, search, options.cost, options.solver.offload) {}

const OffloadVariant& OffloadVariants::at(double fraction, int64_t host_room) const {
  const int64_t disk_room = options_.cost.disk_link > 0 ? options_.budget.disk : 0;
  OffloadAssignment assignment = candidates_.choose(fraction, host_room, disk_room);
  auto& made = made_[assignment.memory];
  if (made) return *made;
  made = std::make_unique<OffloadVariant>();
  made->assignment = std::move(assignment);
  PlanChoices choices;
  choices.memory = made->assignment.memory;
  made->trace = apply_choices(trace_, choices, search_.graphs(), options_.cost);
  for (const Buffer& buffer : made->trace.buffers)
    if (buffer.persistent && buffer.on_device()) made->persistent_bytes += placed_bytes(trace_, buffer.bytes);
  if (made->assignment.used_by_micro_batches) {
    made->own_recompute_search =
        std::make_unique<RecomputeSearch>(made->trace, options_.cost, options_.solver.recompute);
    made->own_offload_search = std::make_unique<OffloadSearch>(made->trace, *made->own_recompute_search, options_.cost,
                                                               options_.solver.offload);
    made->offload_search = made->own_offload_search.get();
  } else {
    made->offload_search = &offload_search_;  // buffers that only the update uses do not affect micro batches
  }
  return *made;
}

}  // namespace plimsoll
