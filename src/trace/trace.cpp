#include "plimsoll/trace.h"

#include <algorithm>

#include "plimsoll/error.h"

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

int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
  }
  throw InternalError("element_bytes: not a dtype");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::int64:
      return "int64";
    case DType::int32:
      return "int32";
    case DType::int16:
      return "int16";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
    case DType::boolean:
      return "bool";
    case DType::complex64:
      return "complex64";
    case DType::complex128:
      return "complex128";
  }
  throw InternalError("name_of: not a dtype");
}

std::vector<Lifetime> lifetimes_of(const Trace& trace) {
  const auto end = static_cast<int32_t>(trace.ops.size());
  std::vector<Lifetime> lifetimes(trace.buffers.size(), Lifetime{end, 0});
  for (int32_t i = 0; i < end; ++i) {
    for_each_view(trace.ops[i], [&](const View& view, bool) {
      Lifetime& lifetime = lifetimes[view.buffer];
      lifetime.birth = std::min(lifetime.birth, i);
      lifetime.death = i + 1;
    });
  }
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    Lifetime& lifetime = lifetimes[b];
    if (trace.buffers[b].persistent)
      lifetime = {0, end};
    else if (lifetime.birth >= lifetime.death)
      lifetime = {0, 0};
    else if (trace.buffers[b].output)
      lifetime.death = end;
  }
  return lifetimes;
}

std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || !buffer.on_device() || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(trace, buffer.bytes);
    change[lifetimes[b].death] -= placed_bytes(trace, buffer.bytes);
  }
  std::vector<int64_t> live(trace.ops.size());
  int64_t sum = 0;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    sum += change[i];
    live[i] = sum + (trace.ops[i].on_host ? 0 : trace.ops[i].workspace_bytes);
  }
  return live;
}

}  // namespace plimsoll
