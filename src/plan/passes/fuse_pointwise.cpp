#include "plan/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/passes/fused_group.h"
#include "plan/passes/rewrite.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

class FusePointwise {
 public:
  FusePointwise(Trace trace, const FusionRules& fusion_rules, const CostModel& cost, const MergingParameters& limits)
      : trace_(std::move(trace)),
        fusion_rules_(fusion_rules),
        cost_(cost),
        limits_(limits),
        lifetimes_(lifetimes_of(trace_)) {
    cost_.measured_seconds = nullptr;  // no fused op was timed, so all ops are compared by the same rates
    live_ = transient_bytes_by_op(trace_, lifetimes_);
    peak_ = live_.empty() ? 0 : *std::ranges::max_element(live_);
    touched_ = uses_of(trace_);
  }

  Trace run() {
    for (const Segment& segment : trace_.segments) {
      if (segment.kind == SegmentKind::initialize) continue;
      for (int32_t i = segment.begin; i < segment.end; ++i) visit(i);
      while (!open_.empty()) close(0);
    }
    return with_merged(trace_, std::move(fused_), gone_);
  }

 private:
  std::optional<PointwiseNode> node_at(int32_t index) const {
    const Op& op = trace_.ops[index];
    if (op.copy != CopyStage::none || op.on_host || op.random_id >= 0) return std::nullopt;
    const auto translated = fusion_rules_.translate(op);
    return translated ? node_of(index, *translated) : std::nullopt;
  }

  bool belong_together(const FusedGroup& group, const PointwiseNode& node) const {
    const Op &first = trace_.ops[group.nodes().front().index], &op = trace_.ops[node.index];
    return (first.phase == Phase::update) == (op.phase == Phase::update) &&
           node.index - group.nodes().front().index <= limits_.max_distance;
  }

  // Visits the next op. Open groups use a common buffer only if both read it, so they may run in any order.
  void visit(int32_t index) {
    const std::optional<PointwiseNode> node = node_at(index);
    std::optional<FusedGroup> joined;
    if (node) {
      for (size_t g = open_.size(); g-- > 0;) {
        if (!open_[g].connects(*node) || !belong_together(open_[g], *node)) continue;
        FusedGroup candidate = open_[g];
        // Merge the groups found so far; the op itself is the last node.
        if (joined) {
          std::vector<PointwiseNode> nodes = candidate.nodes();
          nodes.insert(nodes.end(), joined->nodes().begin(), joined->nodes().end());
          auto merged = group_of(std::move(nodes));
          if (!merged) continue;
          joined = std::move(merged);
        } else {
          if (!candidate.join(*node)) continue;
          joined = std::move(candidate);
        }
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(g));
      }
    }
    for (size_t g = open_.size(); g-- > 0;)
      if (open_[g].conflicts(trace_.ops[index])) close(g);
    if (!node) return;
    if (!joined) {
      joined.emplace();
      if (!joined->join(*node)) return;
    }
    if (open_.size() == limits_.max_open_groups) close(0);
    open_.push_back(std::move(*joined));
  }

  static std::optional<FusedGroup> group_of(std::vector<PointwiseNode> nodes) {
    std::ranges::sort(nodes, {}, &PointwiseNode::index);
    FusedGroup group;
    for (const PointwiseNode& node : nodes)
      if (!group.join(node)) return std::nullopt;
    return group;
  }

  // Returns the buffers of the group that are used outside it: by other ops or by callers.
  std::vector<BufferId> kept_of(const FusedGroup& group) const {
    std::map<BufferId, int32_t> touches;
    for (const PointwiseNode& node : group.nodes())
      for_each_buffer(trace_.ops[node.index], [&](BufferId buffer) { ++touches[buffer]; });
    std::vector<BufferId> kept;
    for (const BufferId buffer : group.written())
      if (touched_[buffer] != touches[buffer]) kept.push_back(buffer);
    return kept;
  }

  Op op_of(const FusedGroup& group, const std::vector<BufferId>& kept) const {
    FusedGroup::Result result = group.result(kept);
    const Op& last = trace_.ops[group.nodes().back().index];
    Op op;
    op.name = std::string(kFusedPrefix) + result.program.text();
    op.phase = last.phase;
    op.module = last.module;
    op.recomputed =
        std::ranges::all_of(group.nodes(), [&](const auto& node) { return trace_.ops[node.index].recomputed; });
    const int64_t elements = group.nodes().front().elements;
    op.flops = static_cast<double>(elements) * static_cast<double>(result.program.steps.size());
    const auto count = [&](const WalkedView& view) {
      int64_t different = 1;
      for (size_t d = 0; d < view.walk.sizes.size(); ++d)
        different *= view.walk.strides[d] == 0 ? 1 : view.walk.sizes[d];
      op.bytes_moved += different * element_bytes(view.dtype);
    };
    for (const WalkedView& input : group.inputs()) count(input);
    for (const View& output : result.outputs) op.bytes_moved += elements * element_bytes(output.dtype);
    op.call = fusion_rules_.call(result.program);
    op.arguments.push_back({Argument::Kind::tensor_list, false, std::move(result.inputs)});
    op.arguments.push_back({Argument::Kind::tensor_list, true, std::move(result.outputs)});
    op.arguments.resize(4);  // the program and its constants are in the call
    return op;
  }

  // Returns the additional live bytes at each op from the group's first to its last. Ops of the group except the last
  // are no longer there.
  std::map<int32_t, int64_t> more_live(const FusedGroup& group, const std::vector<BufferId>& kept) const {
    const int32_t first = group.nodes().front().index, last = group.nodes().back().index;
    std::set<int32_t> members;
    for (const PointwiseNode& node : group.nodes()) members.insert(node.index);
    std::set<BufferId> read, written;
    for (const WalkedView& input : group.inputs()) read.insert(input.buffer);
    for (const BufferId buffer : group.written()) written.insert(buffer);
    std::map<int32_t, int64_t> more;
    for (int32_t at = first; at <= last; ++at) {
      if (at != last && members.contains(at)) continue;
      int64_t& sum = more[at];
      for (const BufferId buffer : read)
        if (!trace_.buffers[buffer].persistent && lifetimes_[buffer].death <= at)
          sum += placed_bytes(trace_, trace_.buffers[buffer].bytes);
      for (const BufferId buffer : written) {
        if (trace_.buffers[buffer].persistent || read.contains(buffer)) continue;
        const bool stays = std::ranges::find(kept, buffer) != kept.end() && at == last;
        const bool made_here = lifetimes_[buffer].birth >= first;
        if (made_here && !stays && lifetimes_[buffer].live_at(at))
          sum -= placed_bytes(trace_, trace_.buffers[buffer].bytes);
      }
      if (at == last) sum -= trace_.ops[at].workspace_bytes;
    }
    return more;
  }

  bool gains(const FusedGroup& group, const Op& op, const std::map<int32_t, int64_t>& more) const {
    int64_t scratch = 0;
    double seconds = 0;
    for (const PointwiseNode& node : group.nodes()) {
      scratch += trace_.ops[node.index].workspace_bytes;
      seconds += seconds_of(cost_, trace_.ops[node.index]);
    }
    const bool casts = scratch > trace_.alignment;  // a single number has that much scratch
    if (group.nodes().size() < 2 && !casts) return false;
    if (fusion_rules_.all) return true;
    if (seconds_of(cost_, op) >= seconds && !casts) return false;
    const int32_t first = group.nodes().front().index, last = group.nodes().back().index;
    const int64_t allowed = std::max(peak_, *std::max_element(live_.begin() + first, live_.begin() + last + 1));
    return std::ranges::all_of(more, [&](const auto& entry) { return live_[entry.first] + entry.second <= allowed; });
  }

  void close(size_t g) {
    std::optional<FusedGroup> group = std::move(open_[g]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(g));
    // The first ops hold their values longest: without them the rest of the group may still gain.
    while (group && !group->nodes().empty()) {
      const std::vector<BufferId> kept = kept_of(*group);
      if (kept.empty()) return;
      Op op = op_of(*group, kept);
      const std::map<int32_t, int64_t> more = more_live(*group, kept);
      if (gains(*group, op, more)) {
        for (const auto& [at, bytes] : more) live_[at] += bytes;
        for (const PointwiseNode& node : group->nodes()) gone_.insert(node.index);
        fused_[group->nodes().back().index] = std::move(op);
        return;
      }
      std::vector<PointwiseNode> rest(group->nodes().begin() + 1, group->nodes().end());
      group = group_of(std::move(rest));
    }
  }

  Trace trace_;
  const FusionRules& fusion_rules_;
  CostModel cost_;
  const MergingParameters limits_;
  std::vector<Lifetime> lifetimes_;
  std::vector<int64_t> live_;  // live bytes by op
  int64_t peak_ = 0;
  std::vector<int32_t> touched_;  // by buffer: number of ops that use it; 0: callers use it too
  std::vector<FusedGroup> open_;
  std::map<int32_t, Op> fused_;  // by the op that each replaces
  std::set<int32_t> gone_;
};

}  // namespace

Trace fuse_pointwise(Trace trace, const FusionRules& fusion_rules, const CostModel& cost,
                     const MergingParameters& limits) {
  return FusePointwise(std::move(trace), fusion_rules, cost, limits).run();
}

int64_t fused_ops_of(const Trace& trace) {
  int64_t count = 0;
  for (const Op& op : trace.ops)
    if (is_fused(op)) count += 1 + std::ranges::count(op.name, ',');
  return count;
}

}  // namespace plimsoll
