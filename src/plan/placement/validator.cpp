#include "plan/placement/validator.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

constexpr BufferId kWorkspace = -2;

// A map from bytes of each memory's arena to the buffer that owns them.
class Arena {
 public:
  explicit Arena(const Plan& plan)
      : plan_(plan), owned_(plan.trace.buffers.size(), 0), born_(plan.trace.buffers.size(), -1) {
    for (int32_t i = 0; i < static_cast<int32_t>(plan.trace.ops.size()); ++i)
      for_each_view(plan.trace.ops[i], [&](const View& view, bool written) {
        if (written && born_[view.buffer] < 0) born_[view.buffer] = i;
      });
  }

  void run(const Segment& segment) {
    written_here_.clear();
    updated_here_.clear();
    for (int32_t i = segment.begin; i < segment.end && fault_.empty(); ++i) {
      check_copies(i, segment);
      run_op(i, segment);
    }
    for (const auto& [what, under_way] : {std::pair("copy", &copies_), {"exchange", &exchanges_}})
      for (const auto& [target, source] : *under_way)
        if (fault_.empty())
          fault_ = fmt::format("segment '{}' ends before the {} to buffer {} ('{}') was waited for",
                               name_of(segment.kind), what, target, plan_.trace.buffers[target].label);
  }

  // Records a write by the host, before the first op or before a segment. The buffer owns its bytes from the first
  // write on.
  void host_write(const std::string& name, BufferId buffer) {
    if (plan_.offsets[buffer] < 0 || !fault_.empty()) return;  // no op uses it
    if (!inside(buffer)) {
      fault_ = fmt::format("'{}' ends outside the arena", name);
    } else if (host_wrote_.insert(buffer).second) {
      take(buffer, plan_.trace.buffers[buffer].memory, plan_.offsets[buffer], plan_.trace.buffers[buffer].bytes);
    } else if (!owns(buffer)) {
      fault_ = fmt::format("'{}', which the host writes, was overwritten", name);
    }
  }
  // Checks that a state buffer which the last segment neither made nor used still has its bytes.
  void host_keeps(const NamedView& state) {
    if (fault_.empty() && plan_.offsets[state.view.buffer] >= 0 && !owns(state.view.buffer))
      fault_ = fmt::format("the state '{}' was overwritten", state.name);
  }
  // Checks an output after its segment.
  void host_read(const NamedView& output, const Segment& segment) {
    if (fault_.empty() && !owns(output.view.buffer))
      fault_ = fmt::format("output '{}' does not survive segment '{}'", output.name, name_of(segment.kind));
  }

  const std::string& fault() const { return fault_; }
  bool written(BufferId buffer) const { return written_here_.contains(buffer); }

 private:
  struct Extent {
    int64_t end;
    BufferId buffer;
  };

  int64_t arena_bytes(Memory memory) const {
    return memory == Memory::device ? plan_.arena_bytes : memory == Memory::host ? plan_.host_bytes : plan_.disk_bytes;
  }
  bool inside(BufferId buffer) const {
    return plan_.offsets[buffer] + plan_.trace.buffers[buffer].bytes <= arena_bytes(plan_.trace.buffers[buffer].memory);
  }
  bool owns(BufferId buffer) const { return owned_[buffer] == plan_.trace.buffers[buffer].bytes; }

  // Assigns [offset, offset + bytes) to `buffer`; other buffers lose the bytes that they owned in it.
  void take(BufferId buffer, Memory memory, int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    std::map<int64_t, Extent>& extents = extents_[static_cast<int>(memory)];
    const int64_t end = offset + bytes;
    auto at = extents.lower_bound(offset);
    if (at != extents.begin() && std::prev(at)->second.end > offset) --at;
    while (at != extents.end() && at->first < end) {
      const int64_t begin = at->first;
      const Extent extent = at->second;
      at = extents.erase(at);
      if (extent.buffer >= 0) owned_[extent.buffer] -= std::min(end, extent.end) - std::max(offset, begin);
      if (begin < offset) extents[begin] = {offset, extent.buffer};
      if (extent.end > end) at = extents.insert({end, {extent.end, extent.buffer}}).first;
    }
    extents[offset] = {end, buffer};
    if (buffer >= 0) owned_[buffer] += bytes;
  }

  // Records a fault; only the first one is reported.
  void complain_of(int32_t index, const Segment& segment, BufferId buffer, const std::string& what) {
    if (fault_.empty())
      fault_ = fmt::format("op {} ({}, segment '{}'): buffer {} ('{}') {}", index, plan_.trace.ops[index].name,
                           name_of(segment.kind), buffer, plan_.trace.buffers[buffer].label, what);
  }

  // Checks a copy or an exchange that overlaps other ops. Between its start and its wait no op may use its target or
  // write to its source. Returns false for the wait itself.
  template <typename Complain>
  bool check_under_way(const Op& op, CopyStage stage, std::map<BufferId, BufferId>& under_way, const char* what,
                       const char* done, const Complain& complain) {
    if (stage == CopyStage::wait) {
      const BufferId target = op.arguments[0].views[0].buffer, source = op.arguments[1].views[0].buffer;
      const auto found = under_way.find(target);
      if (found == under_way.end() || found->second != source) {
        complain(target, fmt::format("is waited for, not {}", done));
      } else {
        under_way.erase(found);
      }
      return false;
    }
    for_each_view(op, [&](const View& view, bool written) {
      for (const auto& [target, source] : under_way) {
        if (view.buffer == target) complain(view.buffer, fmt::format("is used while {} to it is under way", what));
        if (view.buffer == source && written)
          complain(view.buffer, fmt::format("is written while {} of it is under way", what));
      }
    });
    return true;
  }

  void check_copies(int32_t index, const Segment& segment) {
    const Op& op = plan_.trace.ops[index];
    const auto complain = [&](BufferId buffer, const std::string& what) { complain_of(index, segment, buffer, what); };
    // A wait for an exchange may run while a copy is in progress, and the reverse.
    if (!check_under_way(op, op.exchange, exchanges_, "an exchange", "exchanged", complain)) return;
    if (!check_under_way(op, op.copy, copies_, "a copy", "copied to", complain)) return;
    if (op.exchange == CopyStage::start) {
      const bool in_place = op.arguments[1].views.empty();
      exchanges_[op.arguments[0].views[0].buffer] = op.arguments[in_place ? 0 : 1].views[0].buffer;
    }
    for_each_view(op, [&](const View& view, bool written) {
      const Buffer& buffer = plan_.trace.buffers[view.buffer];
      const Memory runs_in = op.on_host ? Memory::host : Memory::device;
      if (buffer.memory != runs_in && op.copy == CopyStage::none)
        complain(view.buffer, buffer.on_device()              ? "lies on the device, and the op runs on the host"
                              : buffer.memory == Memory::host ? "lies in host memory"
                                                              : "lies on disk");
    });
    if (op.copy != CopyStage::start) return;
    const View &target = op.arguments[0].views[0], &source = op.arguments[1].views[0];
    const Memory to = plan_.trace.buffers[target.buffer].memory, from = plan_.trace.buffers[source.buffer].memory;
    if (to == from) complain(target.buffer, "is copied to from the same memory");
    if (std::max(to, from) != op.offload_memory || std::min(to, from) != Memory::device)
      complain(target.buffer, "is copied between other memories than the copy says");
    if (target.elements() != source.elements()) complain(target.buffer, "is of another size than what is copied to it");
    copies_[target.buffer] = source.buffer;
  }

  // Checks that backward and recomputed ops read parameters as forward read them.
  void check_updates(int32_t index, const Segment& segment) {
    const Op& op = plan_.trace.ops[index];
    for_each_view(op, [&](const View& view, bool written) {
      if (op.phase != Phase::update && !written && updated_here_.contains(view.buffer))
        complain_of(index, segment, view.buffer, "is read after its update");
    });
    for_each_view(op, [&](const View& view, bool written) {
      if (op.phase == Phase::update && written && plan_.trace.buffers[view.buffer].role == Role::parameter)
        updated_here_.insert(view.buffer);
    });
  }

  // Updates the set of changed parameters for a copy. A copy computes nothing, so it may copy an updated parameter at
  // any time; its target is updated exactly if its source is.
  void copy_updates(const Op& op) {
    const BufferId target = op.arguments[0].views[0].buffer, source = op.arguments[1].views[0].buffer;
    if (updated_here_.contains(source))
      updated_here_.insert(target);
    else
      updated_here_.erase(target);
  }

  /// Returns the bytes from the buffer's start to the end of the view's last element. Does not use
  /// byte_range(), because the validator shares no code with the planner.
  static int64_t end_of(const View& view) {
    int64_t last = view.offset;
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      if (view.sizes[d] == 0) return 0;
      last += (view.sizes[d] - 1) * view.strides[d];
    }
    return (last + 1) * element_bytes(view.dtype);
  }

  void run_op(int32_t index, const Segment& segment) {
    const Op& op = plan_.trace.ops[index];
    const auto complain = [&](BufferId buffer, const char* what) { complain_of(index, segment, buffer, what); };
    std::set<BufferId> operands;
    if (op.copy == CopyStage::none)
      check_updates(index, segment);
    else if (op.copy == CopyStage::start)
      copy_updates(op);
    for_each_view(op, [&](const View& view, bool written) {
      const Buffer& buffer = plan_.trace.buffers[view.buffer];
      const int64_t offset = plan_.offsets[view.buffer];
      operands.insert(view.buffer);
      if (buffer.bytes == 0) return;
      if (offset < 0) return complain(view.buffer, "has no place");
      if (!inside(view.buffer)) return complain(view.buffer, "ends outside the arena");
      if (offset % plan_.trace.alignment != 0) return complain(view.buffer, "is not aligned");
      if (end_of(view) > buffer.bytes) return complain(view.buffer, "is smaller than what is seen of it");
      if (owns(view.buffer)) {
        if (written) written_here_.insert(view.buffer);
        return;
      }
      if (!written) return complain(view.buffer, "is read, but is not whole: never written, or overwritten since");
      // Only the op that makes a buffer may overwrite the bytes of another buffer.
      if (born_[view.buffer] != index) return complain(view.buffer, "is changed, but is not whole: overwritten since");
      written_here_.insert(view.buffer);
      take(view.buffer, buffer.memory, offset, buffer.bytes);
    });
    if (const int64_t offset = plan_.workspace_offsets[index]; offset >= 0) {
      const Memory memory = op.on_host ? Memory::host : Memory::device;
      if (offset + op.workspace_bytes > arena_bytes(memory) && fault_.empty())
        fault_ = fmt::format("op {} ({}): its workspace ends outside the arena", index, op.name);
      take(kWorkspace, memory, offset, op.workspace_bytes);
    }
    for (BufferId buffer : operands)
      if (plan_.trace.buffers[buffer].bytes > 0 && !owns(buffer))
        complain(buffer, "overlaps another operand or the workspace of the same op");
  }

  const Plan& plan_;
  std::array<std::map<int64_t, Extent>, kMemories> extents_;  // by memory: begin -> end and owner; disjoint
  std::map<BufferId, BufferId> copies_, exchanges_;           // started, without a wait so far: target -> source
  std::vector<int64_t> owned_;                                // by buffer: number of its bytes that it owns
  std::vector<int32_t> born_;        // by buffer: the op of the trace that writes it first, or -1
  std::set<BufferId> written_here_;  // buffers written in the current segment
  std::set<BufferId> updated_here_;  // parameters updated in the current segment
  std::set<BufferId> host_wrote_;
  std::string fault_;
};

}  // namespace

std::string find_fault(const Plan& plan) {
  const Trace& trace = plan.trace;
  if (plan.offsets.size() != trace.buffers.size() || plan.workspace_offsets.size() != trace.ops.size())
    return "the plan does not place every buffer and every op";
  if (plan.fits && plan.budget.device_bytes() > 0 && plan.peak_bytes > plan.budget.device_bytes())
    return fmt::format("the plan says that it fits, but its peak of {} bytes is over the budget of {}", plan.peak_bytes,
                       plan.budget.device_bytes());
  if (plan.fits && plan.host_bytes > plan.budget.host)
    return fmt::format("the plan says that it fits, but its {} bytes of host memory are over the budget of {}",
                       plan.host_bytes, plan.budget.host);
  if (plan.fits && plan.disk_bytes > plan.budget.disk)
    return fmt::format("the plan says that it fits, but its {} bytes on disk are over the budget of {}",
                       plan.disk_bytes, plan.budget.disk);
  if (plan.peak_bytes < plan.arena_bytes) return "the peak is below the size of the arena";
  if (plan.breakdown.total() != plan.peak_bytes) return "the breakdown does not add up to the peak";

  Arena arena(plan);
  using enum SegmentKind;
  const auto run = [&](SegmentKind kind) {
    const Segment* segment = trace.segment(kind);
    if (!segment || !arena.fault().empty()) return;
    for (const NamedView& input : trace.inputs) arena.host_write(input.name, input.view.buffer);
    arena.run(*segment);
    for (const NamedView& state : trace.state) arena.host_keeps(state);
    for (const NamedView& output : trace.outputs)
      if (arena.written(output.view.buffer)) arena.host_read(output, *segment);
  };
  // Constants and state exist before initialize: the host uploads them, or a checkpoint has them.
  for (const ConstantData& constant : trace.constants)
    arena.host_write(trace.buffers[constant.buffer].label, constant.buffer);
  run(initialize);
  run(evaluate);  // for a new model, or one from a checkpoint
  // Steps of one micro batch, of several, and of several with a smaller last one.
  const bool in_last = trace.segment(last) != nullptr;
  const auto single = [&] {
    for (const SegmentKind kind : {norms, micro, update}) run(kind);
  };
  const auto several = [&] {
    if (!trace.segment(accumulate)) return single();
    for (const SegmentKind kind : {micro, accumulate, accumulate}) run(kind);
    run(in_last ? last : accumulate);
    run(in_last ? finish : update);
  };
  const auto ragged = [&](bool several_whole) {
    if (!trace.segment(remainder)) return several();
    run(micro);
    if (several_whole) run(accumulate);
    run(remainder);
    run(in_last ? finish : update);
  };
  several();
  run(evaluate);
  run(evaluate);
  ragged(true);
  run(evaluate);
  single();
  ragged(false);
  several();
  return arena.fault();
}

}  // namespace plimsoll
