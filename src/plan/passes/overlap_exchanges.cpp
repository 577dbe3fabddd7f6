#include "plan/passes/passes.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/cost.h"
#include "cost/operators.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Factor on predicted times, because predictions are not exact. Gathers start earlier by it, and waits that no op needs
// yet come later.
constexpr double kMargin = 1.25;

// Limit of the bytes held longer for exchanges: those of kExchangesHeld of the largest, at least kHeldAnyway bytes. A
// few exchanges keep a link busy; more would only hold bytes.
constexpr int64_t kExchangesHeld = 3, kHeldAnyway = int64_t{64} << 20;

bool can_overlap(const Op& op) {
  return op.link_bytes > 0 && op.exchange == CopyStage::none && op.copy == CopyStage::none && !op.on_host &&
         exchange_op_of(op) != ExchangeOp::broadcast;
}

// Returns whether the op gathers a parameter, which is stored in slices, for its next use.
bool is_gather(const Op& op) {
  return can_overlap(op) && exchange_op_of(op) == ExchangeOp::gather && op.phase != Phase::update;
}

// Returns the source of an exchange; the target for an exchange in place.
BufferId source_of(const Op& op) {
  return op.arguments.size() > 1 && !op.arguments[1].views.empty() ? op.arguments[1].views[0].buffer : target_of(op);
}

View whole_of(const Trace& trace, BufferId buffer) {
  return {buffer, DType::uint8, 0, {trace.buffers[buffer].bytes}, {1}};
}

Op wait_for(const Trace& trace, const Op& exchange) {
  Op op;
  op.name = "plimsoll::wait_for_exchange";
  op.exchange = CopyStage::wait;
  op.arguments.push_back({Argument::Kind::tensor, false, {whole_of(trace, target_of(exchange))}});
  op.arguments.push_back({Argument::Kind::tensor, false, {whole_of(trace, source_of(exchange))}});
  op.phase = exchange.phase;
  op.module = exchange.module;
  return op;
}

// A set of the buffers that an op reads and writes.
struct Touched {
  std::set<BufferId> read, written;

  explicit Touched(const Op& op) {
    for_each_view(op, [&](const View& view, bool is_written) { (is_written ? written : read).insert(view.buffer); });
    if (op.copy == CopyStage::wait) written.insert(target_of(op));  // the copy writes to it until the wait
  }
  bool reads(BufferId buffer) const { return read.contains(buffer); }
  bool writes(BufferId buffer) const { return written.contains(buffer); }
};

// Writes the ops of one segment in a new order. Its own clock predicts when exchanges are done.
class SegmentOverlap {
 public:
  SegmentOverlap(const Trace& trace, const Segment& segment, const CostModel& cost,
                 const std::vector<Lifetime>& lifetimes, const std::vector<int64_t>& live, int64_t limit)
      : trace_(trace), segment_(segment), cost_(cost), lifetimes_(lifetimes), live_(live), limit_(limit) {
    double seconds = 0;
    std::map<BufferId, int32_t> touched_before,
        written_before;  // index after the last op that used or wrote the buffer
    const auto behind = [&](const std::map<BufferId, int32_t>& last, BufferId buffer) {
      const auto found = last.find(buffer);
      return found == last.end() ? segment.begin : found->second;
    };
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace.ops[i];
      seconds_before_.push_back(seconds);
      if (!can_overlap(op)) seconds += seconds_of(cost, op);
      const Touched touched(op);
      if (can_overlap(op)) most_held_ = std::max(most_held_, kExchangesHeld * held_bytes_of(op));
      if (is_gather(op)) {
        int32_t earliest = segment.begin;
        for (const BufferId buffer : touched.written) earliest = std::max(earliest, behind(touched_before, buffer));
        for (const BufferId buffer : touched.read) earliest = std::max(earliest, behind(written_before, buffer));
        gathers_.push_back({i, earliest, 0});
      }
      for (const BufferId buffer : touched.read) touched_before[buffer] = i + 1;
      for (const BufferId buffer : touched.written) touched_before[buffer] = written_before[buffer] = i + 1;
    }
    double next = std::numeric_limits<double>::infinity();
    for (auto gather = gathers_.rbegin(); gather != gathers_.rend(); ++gather) {
      next = std::min(next, seconds_before_[gather->index - segment.begin]) -
             kMargin * seconds_of_exchange(cost, trace.ops[gather->index]);
      gather->latest = next;
    }
  }

  std::vector<Op> run() {
    std::vector<std::vector<BufferId>> dying(segment_.end - segment_.begin);
    for (BufferId b = 0; b < static_cast<BufferId>(trace_.buffers.size()); ++b)
      if (is_transient(b) && lifetimes_[b].death > segment_.begin && lifetimes_[b].death < segment_.end)
        dying[lifetimes_[b].death - segment_.begin].push_back(b);
    for (now_ = segment_.begin; now_ < segment_.end; ++now_) {
      for (const BufferId buffer : dying[now_ - segment_.begin])
        if (holders_.contains(buffer)) hold_longer(buffer);
      for (; !early_until_.empty() && early_until_.front().first <= now_; early_until_.pop_front())
        early_ -= early_until_.front().second;
      take_what_is_done();
      start_gathers();
      if (!is_gather(trace_.ops[now_])) place(now_);
    }
    flush();
    return std::move(ops_);
  }

 private:
  int64_t held_bytes_of(const Op& op) const {
    int64_t bytes = 0;
    for (const BufferId buffer : buffers_of(op)) bytes += placed_bytes(trace_, trace_.buffers[buffer].bytes);
    return bytes;
  }

  struct Gather {
    int32_t index;
    int32_t earliest;  // it may start before this op, or later
    double latest;     // time by which it must start to be done when it is needed, in seconds of the segment's own ops
  };
  struct Pending {
    int32_t index;
    double done, late;  // predicted time at which it is done, and the time at which it is surely done
  };

  bool is_transient(BufferId buffer) const {
    return !trace_.buffers[buffer].persistent && trace_.buffers[buffer].on_device();
  }

  // Keeps the buffers of an op until release(): those of an exchange in progress, or of a deferred update.
  void hold(const Op& op) {
    for (const BufferId buffer : buffers_of(op)) ++holders_[buffer];
  }
  void release(const Op& op) {
    for (const BufferId buffer : buffers_of(op)) {
      const auto found = holders_.find(buffer);
      if (--found->second > 0) continue;
      holders_.erase(found);
      if (const auto longer = longer_.find(buffer); longer != longer_.end()) {
        extra_ -= placed_bytes(trace_, trace_.buffers[buffer].bytes);
        longer_.erase(longer);
      }
    }
  }
  void hold_longer(BufferId buffer) {
    if (longer_.insert(buffer).second) extra_ += placed_bytes(trace_, trace_.buffers[buffer].bytes);
  }
  std::set<BufferId> buffers_of(const Op& op) const {
    std::set<BufferId> buffers;
    for_each_view(op, [&](const View& view, bool) {
      if (is_transient(view.buffer)) buffers.insert(view.buffer);
    });
    return buffers;
  }

  // Returns whether `op` must run after the exchange.
  static bool needs(const Touched& op, const Op& exchange) {
    const BufferId target = target_of(exchange);
    return op.reads(target) || op.writes(target) || op.writes(source_of(exchange));
  }
  bool needs_pending(const Touched& op) const {
    return std::ranges::any_of(pending_, [&](const Pending& each) { return needs(op, trace_.ops[each.index]); });
  }
  bool needs_deferred(const Touched& op) const {
    return std::ranges::any_of(op.written, [&](BufferId b) { return deferred_reads_.contains(b); }) ||
           std::ranges::any_of(op.written, [&](BufferId b) { return deferred_writes_.contains(b); }) ||
           std::ranges::any_of(op.read, [&](BufferId b) { return deferred_writes_.contains(b); });
  }

  void wait_for_first() {
    const Pending first = pending_.front();
    pending_.pop_front();
    clock_ = std::max(clock_, first.done);
    ops_.push_back(wait_for(trace_, trace_.ops[first.index]));
    release(trace_.ops[first.index]);
  }

  void emit(int32_t index) {
    const Op& op = trace_.ops[index];
    Op copy = op;
    if (can_overlap(op)) {
      copy.exchange = CopyStage::start;
      clock_ += cost_.overhead_seconds;
      const double seconds = seconds_of_exchange(cost_, op);
      link_free_ = std::max(link_free_, clock_) + seconds;
      pending_.push_back({index, link_free_, link_free_ + (kMargin - 1) * seconds});
      hold(op);
    } else {
      clock_ += seconds_of(cost_, op);
    }
    ops_.push_back(std::move(copy));
  }

  void defer(int32_t index, const Touched& touched) {
    deferred_.push_back(index);
    for (const BufferId buffer : touched.read) deferred_reads_.insert(buffer);
    for (const BufferId buffer : touched.written) deferred_writes_.insert(buffer);
    hold(trace_.ops[index]);
  }
  void emit_first_deferred() {
    const int32_t index = deferred_.front();
    deferred_.pop_front();
    const Touched touched(trace_.ops[index]);
    for (const BufferId buffer : touched.read) deferred_reads_.erase(deferred_reads_.find(buffer));
    for (const BufferId buffer : touched.written) deferred_writes_.erase(deferred_writes_.find(buffer));
    emit(index);
    release(trace_.ops[index]);
  }
  void emit_ready_deferred() {
    while (!deferred_.empty() && !needs_pending(Touched(trace_.ops[deferred_.front()]))) emit_first_deferred();
  }

  void take_what_is_done() {
    while (!pending_.empty() && pending_.front().late <= clock_) wait_for_first();
    emit_ready_deferred();
  }
  void flush_deferred() {
    while (!deferred_.empty()) {
      if (needs_pending(Touched(trace_.ops[deferred_.front()])))
        wait_for_first();
      else
        emit_first_deferred();
    }
  }
  // Waits for exchanges that `op` needs. Updates that can run meanwhile run first.
  void wait_for_needed(const Touched& op) {
    while (needs_pending(op)) {
      wait_for_first();
      emit_ready_deferred();
    }
  }
  void flush() {
    flush_deferred();
    while (!pending_.empty()) wait_for_first();
  }

  void place(int32_t index) {
    const Op& op = trace_.ops[index];
    const Touched touched(op);
    const bool waits = needs_pending(touched) || needs_deferred(touched);
    if (waits && op.phase == Phase::update && !op.on_host && op.copy == CopyStage::none && now_ + 1 < segment_.end &&
        has_room(0))
      return defer(index, touched);
    if (needs_deferred(touched)) flush_deferred();
    wait_for_needed(touched);
    while (!has_room(0) && extra_ > 0 && (!pending_.empty() || !deferred_.empty())) {
      if (!pending_.empty()) wait_for_first();
      emit_ready_deferred();
    }
    emit(index);
  }

  bool has_room(int64_t bytes) const {
    return live_[now_] + extra_ + early_ + bytes <= limit_ && extra_ + early_ + bytes <= most_held_;
  }

  bool has_room_until(int64_t bytes, int32_t end) const {
    if (!has_room(bytes)) return false;
    for (int32_t i = now_; i < end; ++i)
      if (live_[i] + extra_ + early_ + bytes > limit_) return false;
    return true;
  }

  void start_gathers() {
    for (; next_gather_ < gathers_.size(); ++next_gather_) {
      const Gather& gather = gathers_[next_gather_];
      const Op& op = trace_.ops[gather.index];
      const Touched touched(op);
      const int64_t bytes = placed_bytes(trace_, trace_.buffers[target_of(op)].bytes);
      if (now_ < gather.index) {
        const double backlog = std::max(0.0, link_free_ - clock_);
        if (now_ < gather.earliest || seconds_before_[now_ - segment_.begin] + backlog < gather.latest) return;
        // If the queue of the link is long, an early start would only hold memory.
        if (backlog > kMargin * seconds_of_exchange(cost_, op)) return;
        if (needs_deferred(touched) || needs_pending(touched) || !has_room_until(bytes, gather.index)) return;
        early_until_.push_back({gather.index, bytes});
        early_ += bytes;
      } else {
        if (needs_deferred(touched)) flush_deferred();
        wait_for_needed(touched);
      }
      emit(gather.index);
    }
  }

  const Trace& trace_;
  const Segment segment_;
  const CostModel& cost_;
  const std::vector<Lifetime>& lifetimes_;
  const std::vector<int64_t>& live_;  // live bytes by op of the old trace
  const int64_t limit_;
  std::vector<double> seconds_before_;  // by op of the segment: seconds of the ops before it, without exchanges
  std::vector<Gather> gathers_;         // in order
  size_t next_gather_ = 0;
  int32_t now_ = 0;  // index of the current op in the old order
  double clock_ = 0, link_free_ = 0;
  std::deque<Pending> pending_;   // started exchanges without a wait so far
  std::deque<int32_t> deferred_;  // updates that are moved behind their old place
  std::multiset<BufferId> deferred_reads_, deferred_writes_;
  std::map<BufferId, int32_t> holders_;
  std::set<BufferId> longer_;        // buffers held longer than their old lifetime
  int64_t extra_ = 0;                // bytes of these buffers
  int64_t most_held_ = kHeldAnyway;  // limit of extra_ + early_, in bytes
  int64_t early_ = 0;                // bytes of parameters gathered before their old place
  std::deque<std::pair<int32_t, int64_t>> early_until_;
  std::vector<Op> ops_;
};

// Turns a start that is followed directly by its wait into a plain exchange.
std::vector<Op> without_empty_overlap(std::vector<Op> ops) {
  std::vector<Op> kept;
  for (Op& op : ops) {
    if (op.exchange == CopyStage::wait && !kept.empty() && kept.back().exchange == CopyStage::start &&
        target_of(kept.back()) == target_of(op)) {
      kept.back().exchange = CopyStage::none;
      continue;
    }
    kept.push_back(std::move(op));
  }
  return kept;
}

// Adds one scratch buffer for all overlapping exchanges, which run one at a time.
void add_landing(Trace& trace, std::vector<Op>& ops) {
  int64_t bytes = 0;
  for (const Op& op : ops)
    if (op.exchange == CopyStage::start) bytes = std::max(bytes, op.workspace_bytes);
  if (bytes == 0) return;
  Buffer landing;
  landing.bytes = bytes;
  landing.role = Role::workspace;
  landing.label = "parts of sums of other ranks";
  trace.buffers.push_back(landing);
  const auto buffer = static_cast<BufferId>(trace.buffers.size() - 1);
  for (Op& op : ops) {
    if (op.exchange == CopyStage::none) continue;
    op.arguments.push_back({Argument::Kind::tensor, op.exchange == CopyStage::start, {whole_of(trace, buffer)}});
    op.workspace_bytes = 0;
  }
}

}  // namespace

CostModel cost_of_all_ranks(const CostModel& cost) {
  if (cost.source == "catalogue") return cost;
  CostModel same = generic_cost_model();
  same.peer_link = cost.peer_link;
  same.peer_latency = cost.peer_latency;
  same.exchanges_overlap = cost.exchanges_overlap;
  return same;
}

bool has_exchanges(const Trace& trace) {
  return std::ranges::any_of(trace.ops, can_overlap);
}

Trace overlap_exchanges(Trace trace, const CostModel& cost, int64_t limit) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes);
  check(trace.segments.empty() || trace.segments.back().end == static_cast<int32_t>(trace.ops.size()),
        "ops behind the last segment");
  std::vector<std::vector<Op>> listed;
  for (const Segment& segment : trace.segments) {
    int64_t landing = 0;
    for (int32_t i = segment.begin; i < segment.end; ++i)
      if (can_overlap(trace.ops[i])) landing = std::max(landing, trace.ops[i].workspace_bytes);
    listed.push_back(
        without_empty_overlap(SegmentOverlap(trace, segment, cost, lifetimes, live, limit - landing).run()));
  }
  trace.ops.clear();
  for (size_t s = 0; s < listed.size(); ++s) {
    add_landing(trace, listed[s]);
    trace.segments[s].begin = static_cast<int32_t>(trace.ops.size());
    for (Op& op : listed[s]) trace.ops.push_back(std::move(op));
    trace.segments[s].end = static_cast<int32_t>(trace.ops.size());
  }
  return trace;
}

}  // namespace plimsoll
