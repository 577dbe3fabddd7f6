#include "plan/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/passes/rewrite.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

class GroupUpdates {
 public:
  GroupUpdates(Trace trace, const UpdateGrouping& grouping, const WorkspaceModel& workspace,
               const MergingParameters& limits)
      : trace_(std::move(trace)),
        grouping_(grouping),
        workspace_(workspace),
        limits_(limits),
        lifetimes_(lifetimes_of(trace_)) {
    live_ = transient_bytes_by_op(trace_, lifetimes_);
    peak_ = live_.empty() ? 0 : *std::ranges::max_element(live_);
    copied_.resize(trace_.buffers.size(), Copied::no);
    for (const Op& op : trace_.ops) {
      if (op.copy != CopyStage::start) continue;
      copied_[op.arguments[0].views[0].buffer] = Copied::to;
      if (Copied& source = copied_[op.arguments[1].views[0].buffer]; source == Copied::no) source = Copied::from;
    }
  }

  Trace run() {
    for (const Segment& segment : trace_.segments) {
      if (segment.kind != SegmentKind::update) continue;
      for (int32_t i = segment.begin; i < segment.end; ++i) visit(i);
      while (!open_.empty()) close(0);
    }
    return with_merged(trace_, std::move(made_), gone_);
  }

 private:
  struct Group {
    std::vector<int32_t> members;
    std::set<BufferId> read, written, shared;
    int64_t elements = 0;
  };

  bool shares_results(const Op& op) const { return grouping_.shares_results && grouping_.shares_results(op); }

  // Returns the number of elements that the op updates; nullopt: it must not wait for others.
  std::optional<int64_t> elements_of(const Op& op) const {
    if (op.phase != Phase::update || op.copy != CopyStage::none || op.on_host || op.random_id >= 0) return std::nullopt;
    const std::optional<int64_t> elements = grouping_.elements(op);
    if (!elements || *elements > limits_.max_grouped_elements) return std::nullopt;
    bool stays = true;
    for_each_view(op, [&](const View& view, bool written) {
      const Buffer& buffer = trace_.buffers[view.buffer];
      // A buffer that is only read may be the source of a copy meanwhile: scalars that updates on the host read too.
      const Copied copied = copied_[view.buffer];
      stays = stays && buffer.on_device() && (copied == Copied::no || (copied == Copied::from && !written)) &&
              (!written || buffer.persistent || shares_results(op));
    });
    return stays ? elements : std::nullopt;
  }

  bool conflicts(const Group& group, const Op& op) const {
    const bool shares = shares_results(op);
    bool any = false;
    for_each_view(op, [&](const View& view, bool written) {
      any = any || group.written.contains(view.buffer) || (written && group.read.contains(view.buffer)) ||
            (!(written && shares) && group.shared.contains(view.buffer));
    });
    return any;
  }

  void visit(int32_t index) {
    const Op& op = trace_.ops[index];
    for (size_t g = open_.size(); g-- > 0;)
      if (conflicts(open_[g], op)) close(g);
    const std::optional<int64_t> elements = elements_of(op);
    if (!elements) return;
    const auto alike = [&](const Group& group) { return grouping_.alike(trace_.ops[group.members.front()], op); };
    auto found = std::ranges::find_if(open_, alike);
    if (found != open_.end() && found->elements + *elements > limits_.max_group_elements) {
      close(static_cast<size_t>(found - open_.begin()));
      found = open_.end();
    }
    if (found == open_.end()) {
      if (open_.size() == limits_.max_open_groups) close(0);
      open_.emplace_back();
      found = open_.end() - 1;
    }
    found->members.push_back(index);
    found->elements += *elements;
    const bool shares = shares_results(op);
    for_each_view(op, [&](const View& view, bool written) {
      (!written ? found->read : shares ? found->shared : found->written).insert(view.buffer);
    });
  }

  // Returns the additional live bytes at each op from the first member to the last; members except the last are no
  // longer there.
  std::map<int32_t, int64_t> more_live(const std::vector<int32_t>& members) const {
    std::set<BufferId> waiting;  // buffers that members read and no op after the last of them uses
    for (const int32_t member : members)
      for_each_view(trace_.ops[member], [&](const View& view, bool) {
        if (!trace_.buffers[view.buffer].persistent && lifetimes_[view.buffer].death <= members.back())
          waiting.insert(view.buffer);
      });
    std::map<int32_t, int64_t> more;
    for (const BufferId buffer : waiting)
      for (int32_t at = lifetimes_[buffer].death; at <= members.back(); ++at)
        if (at == members.back() || !std::ranges::binary_search(members, at))
          more[at] += placed_bytes(trace_, trace_.buffers[buffer].bytes);
    return more;
  }

  Op op_of(const std::vector<int32_t>& members) const {
    std::vector<const Op*> ops;
    for (const int32_t member : members) ops.push_back(&trace_.ops[member]);
    Op op = grouping_.group(ops);
    op.phase = Phase::update;
    op.module = ops.front()->module;
    for (const Op* member : ops) {
      if (member->module != op.module) op.module = 0;
      op.flops += member->flops;
      op.bytes_moved += member->bytes_moved;
    }
    if (workspace_) op.workspace_bytes = placed_bytes(trace_, workspace_(op).value_or(0));
    return op;
  }

  void close(size_t g) {
    std::vector<int32_t> members = std::move(open_[g].members);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(g));
    // The first members hold their gradients longest: without them fewer bytes are live.
    for (; members.size() > 1; members.erase(members.begin())) {
      std::map<int32_t, int64_t> more = more_live(members);
      const auto within = [&](const auto& entry) { return live_[entry.first] + entry.second <= peak_; };
      if (!std::ranges::all_of(more, within)) continue;
      Op merged = op_of(members);
      const int64_t scratch = merged.workspace_bytes - trace_.ops[members.back()].workspace_bytes;
      if (scratch > 0 && live_[members.back()] + more[members.back()] + scratch > peak_) continue;
      more[members.back()] += scratch;
      for (const auto& [at, bytes] : more) live_[at] += bytes;
      made_[members.back()] = std::move(merged);
      gone_.insert(members.begin(), members.end() - 1);
      return;
    }
  }

  Trace trace_;
  const UpdateGrouping& grouping_;
  const WorkspaceModel& workspace_;
  const MergingParameters limits_;
  std::vector<Lifetime> lifetimes_;
  std::vector<int64_t> live_;  // live bytes by op
  int64_t peak_ = 0;
  enum class Copied : char { no, from, to };  // role in copies between memories
  std::vector<Copied> copied_;                // by buffer
  std::vector<Group> open_;
  std::map<int32_t, Op> made_;  // by the op that each replaces
  std::set<int32_t> gone_;
};

}  // namespace

Trace group_updates(Trace trace, const UpdateGrouping& grouping, const WorkspaceModel& workspace,
                    const MergingParameters& limits) {
  return GroupUpdates(std::move(trace), grouping, workspace, limits).run();
}

GroupedUpdates grouped_updates_of(const Trace& trace) {
  GroupedUpdates count;
  for (const Op& op : trace.ops) {
    if (!is_update_group(op.name)) continue;
    const bool norms = op.name == kNormGroup;
    ++(norms ? count.norm_groups : count.groups);
    (norms ? count.norms : count.updates) += static_cast<int64_t>(op.arguments.at(norms ? 2 : 0).views.size());
  }
  return count;
}

}  // namespace plimsoll
