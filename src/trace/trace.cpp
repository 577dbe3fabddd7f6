#include "plimsoll/trace.h"

namespace plimsoll {

int64_t View::elements() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

std::string_view name_of(Memory memory) {
  switch (memory) {
    case Memory::device:
      return "device";
    case Memory::host:
      return "host";
    case Memory::disk:
      return "disk";
  }
  return "unknown";
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::parameter:
      return "parameter";
    case Role::gradient:
      return "gradient";
    case Role::optimizer_state:
      return "optimizer_state";
    case Role::activation:
      return "activation";
    case Role::input:
      return "input";
    case Role::temporary:
      return "temporary";
    case Role::workspace:
      return "workspace";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::initialize:
      return "initialize";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
    case Phase::evaluate:
      return "evaluate";
  }
  return "?";
}

std::string_view name_of(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::initialize:
      return "initialize";
    case SegmentKind::norms:
      return "norms";
    case SegmentKind::micro:
      return "micro";
    case SegmentKind::accumulate:
      return "accumulate";
    case SegmentKind::remainder:
      return "remainder";
    case SegmentKind::last:
      return "last";
    case SegmentKind::update:
      return "update";
    case SegmentKind::finish:
      return "finish";
    case SegmentKind::evaluate:
      return "evaluate";
  }
  return "?";
}

const Segment* Trace::segment(SegmentKind kind) const {
  for (const Segment& segment : segments)
    if (segment.kind == kind) return &segment;
  return nullptr;
}

const Segment* Trace::segment_named(std::string_view name) const {
  for (const Segment& segment : segments)
    if (name_of(segment.kind) == name) return &segment;
  return nullptr;
}

const NamedView* Trace::find(const std::vector<NamedView>& list, std::string_view name) {
  for (const NamedView& entry : list)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace plimsoll
