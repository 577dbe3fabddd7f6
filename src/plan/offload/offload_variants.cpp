#include "plan/offload/offload_variants.h"

#include "plimsoll/trace.h"

namespace plimsoll {

Arrangements::Arrangements(const Trace& trace, const RecomputeSearch& search, const PlanOptions& options,
                           ApplyChoices apply)
    : trace_(trace),
      search_(search),
      options_(options),
      apply_(std::move(apply)),
      candidates_(trace, options.micro_batches, options.solver.offload),
      moving_(trace, search, options.cost, apply_, options.solver.offload) {}

const Arrangement& Arrangements::at(double part, int64_t host_room) const {
  const int64_t disk_room = options_.cost.disk_link > 0 ? options_.budget.disk : 0;
  AwayChoice away = candidates_.choose(part, host_room, disk_room);
  auto& made = made_[away.memory];
  if (made) return *made;
  made = std::make_unique<Arrangement>();
  made->away = std::move(away);
  PlanChoices choices;
  choices.memory = made->away.memory;
  made->trace = apply_(trace_, choices, search_.graphs(), options_.cost);
  for (const Buffer& buffer : made->trace.buffers)
    if (buffer.persistent && buffer.on_device()) made->persistent_bytes += placed_bytes(trace_, buffer.bytes);
  if (made->away.in_training) {
    made->own_search = std::make_unique<RecomputeSearch>(made->trace, options_.cost, options_.solver.recompute);
    made->own_moving =
        std::make_unique<OffloadSearch>(made->trace, *made->own_search, options_.cost, apply_, options_.solver.offload);
    made->moving = made->own_moving.get();
  } else {
    made->moving = &moving_;  // buffers that only the update uses do not affect micro batches
  }
  return *made;
}

}  // namespace plimsoll
