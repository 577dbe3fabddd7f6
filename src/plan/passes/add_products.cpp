#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

int64_t bytes_of(const View& view) {
  return view.elements() * element_bytes(view.dtype);
}

class AddProducts {
 public:
  AddProducts(Trace trace, const ProductSum& product_sum, const WorkspaceModel& workspace)
      : trace_(std::move(trace)), product_sum_(product_sum), workspace_(workspace), uses_(uses_of(trace_)) {}

  Trace run() {
    for (const Segment& segment : trace_.segments) {
      if (segment.kind == SegmentKind::initialize) continue;
      writers_.clear();
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        visit(i);
        if (gone_.contains(i)) continue;
        for_each_view(trace_.ops[i], [&](const View& view, bool written) {
          if (written) writers_[view.buffer] = i;
        });
      }
    }
    return with_merged(trace_, std::move(made_), gone_);
  }

 private:
  bool is_plain(int32_t index) const {
    const Op& op = trace_.ops[index];
    return op.copy == CopyStage::none && !op.on_host && op.random_id < 0 && !made_.contains(index) &&
           !gone_.contains(index);
  }

  // Returns the op that wrote the only operand of `index` that no other op uses; -1: there is none, or several.
  int32_t maker_of(int32_t index) const {
    int32_t maker = -1, makers = 0;
    for_each_view(trace_.ops[index], [&](const View& view, bool written) {
      const auto found = writers_.find(view.buffer);
      if (written || found == writers_.end() || uses_[view.buffer] != 2 || found->second == index) return;
      maker = found->second;
      ++makers;
    });
    return makers == 1 && is_plain(maker) ? maker : -1;
  }

  void visit(int32_t sum) {
    if (!is_plain(sum)) return;
    const int32_t last = maker_of(sum);
    if (last < 0 || take(last, -1, sum)) return;
    if (const int32_t product = maker_of(last); product >= 0) take(product, last, sum);
  }

  // Merges the ops if that is possible, at the place of the matmul: there its operands live anyway.
  bool take(int32_t product, int32_t cast, int32_t sum) {
    std::optional<Op> op = product_sum_(trace_.ops[product], cast < 0 ? nullptr : &trace_.ops[cast], trace_.ops[sum]);
    if (!op) return false;
    std::set<BufferId> summed, read;
    for_each_view(trace_.ops[sum],
                  [&](const View& view, bool written) { (written ? summed : read).insert(view.buffer); });
    // A copy that only one op reads may be the cast between a matmul and its sum, which is visited later.
    const bool adds = std::ranges::any_of(summed, [&](BufferId buffer) { return read.contains(buffer); });
    bool free = adds || std::ranges::none_of(summed, [&](BufferId buffer) { return uses_[buffer] == 2; });
    for (int32_t i = product; i < sum; ++i)
      if (i != cast && !gone_.contains(i))
        for_each_view(made_.contains(i) ? made_.at(i) : trace_.ops[i],
                      [&](const View& view, bool) { free = free && !summed.contains(view.buffer); });
    if (!free) return false;
    const Op& from = trace_.ops[product];
    op->phase = from.phase;
    op->module = from.module;
    op->recomputed = from.recomputed;
    op->flops = from.flops + trace_.ops[sum].flops;
    op->bytes_moved = 0;
    for_each_view(*op, [&](const View& view, bool) { op->bytes_moved += bytes_of(view); });
    // An operand that is read and written at one place in the argument list is listed once.
    if (op->arguments[0].written) op->bytes_moved += bytes_of(op->arguments[0].views[0]);
    if (workspace_) op->workspace_bytes = placed_bytes(trace_, workspace_(*op).value_or(0));
    for (const BufferId buffer : summed) writers_[buffer] = product;
    made_[product] = std::move(*op);
    if (cast >= 0) gone_.insert(cast);
    gone_.insert(sum);
    return true;
  }

  Trace trace_;
  const ProductSum& product_sum_;
  const WorkspaceModel& workspace_;
  const std::vector<int32_t> uses_;
  std::map<BufferId, int32_t> writers_;  // by buffer: the last op of the segment so far that writes it
  std::map<int32_t, Op> made_;           // by the matmul that each replaces
  std::set<int32_t> gone_;
};

}  // namespace

Trace add_products(Trace trace, const ProductSum& product_sum, const WorkspaceModel& workspace) {
  return AddProducts(std::move(trace), product_sum, workspace).run();
}

}  // namespace plimsoll
