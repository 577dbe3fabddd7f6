// Implements plan_hash(): one number for everything that a run does by a plan.
#include <fmt/format.h>

#include <span>
#include <string_view>
#include <type_traits>

#include "base/hash.h"
#include "plimsoll/plan.h"

namespace plimsoll {
namespace {

// Numbers are hashed with a fixed width, texts and lists with their length, so that different plans never give the same
// bytes.
class PlanHasher {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) {
    const auto wide = static_cast<int64_t>(number);
    hasher_.update(std::as_bytes(std::span(&wide, 1)));
  }
  void add(std::string_view text) {
    add(text.size());
    hasher_.update(std::as_bytes(std::span(text)));
  }
  void add(const std::vector<int64_t>& numbers) {
    add(numbers.size());
    hasher_.update(std::as_bytes(std::span(numbers)));
  }
  void add(const View& view) {
    add(view.buffer);
    add(view.dtype);
    add(view.offset);
    add(view.sizes);
    add(view.strides);
  }
  void add(const std::vector<View>& views) {
    add(views.size());
    for (const View& view : views) add(view);
  }
  void add(const Buffer& buffer) {
    add(buffer.bytes);
    add(buffer.role);
    add(buffer.persistent);
    add(buffer.output);
    add(buffer.memory);
  }
  void add(const Op& op) {
    add(op.name);
    add(op.arguments.size());
    for (const Argument& argument : op.arguments) {
      add(argument.kind);
      add(argument.written);
      add(argument.views);
    }
    add(op.results);
    add(op.random_id);
    add(op.workspace_bytes);
    add(op.on_host);
    add(op.copy);
    add(op.exchange);
    add(op.offload_memory);
  }
  std::string digits() const { return fmt::format("{:016x}", hasher_.digest()); }

 private:
  ContentHasher hasher_;
};

}  // namespace

std::string plan_hash(const Plan& plan) {
  PlanHasher hash;
  const Trace& trace = plan.trace;
  for (const Buffer& buffer : trace.buffers) hash.add(buffer);
  for (const Op& op : trace.ops) hash.add(op);
  for (const Segment& segment : trace.segments) {
    hash.add(name_of(segment.kind));
    hash.add(segment.begin);
    hash.add(segment.end);
  }
  hash.add(trace.alignment);
  hash.add(plan.offsets);
  hash.add(plan.workspace_offsets);
  for (const int64_t bytes : {plan.budget.device_bytes(), plan.budget.host, plan.budget.disk, plan.arena_bytes,
                              plan.host_bytes, plan.disk_bytes, plan.peak_bytes})
    hash.add(bytes);
  hash.add(plan.checkpointed);
  hash.add(plan.update_in_backward);
  return hash.digits();
}

}  // namespace plimsoll
