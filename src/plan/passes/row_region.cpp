#include "plan/passes/row_region.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plimsoll {
namespace {

// A row of a chunked value has at least this fraction of the logits' row.
constexpr int64_t kWideRow = 8;

struct Access {
  int32_t op;
  bool written;
};

class RegionBuilder {
 public:
  RegionBuilder(const Trace& trace, const Segment& segment, int32_t head, const RowSlicing& slicing)
      : trace_(trace), segment_(segment), head_(head), slicing_(slicing), accesses_(trace.buffers.size()) {
    for (int32_t i = 0; i < static_cast<int32_t>(trace.ops.size()); ++i) {
      const bool here = segment.begin <= i && i < segment.end;
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        if (here)
          accesses_[view.buffer].push_back({i, written});
        else
          elsewhere_.insert(view.buffer);
      });
    }
    for (const auto* names : {&trace.inputs, &trace.outputs, &trace.state})
      for (const NamedView& entry : *names) elsewhere_.insert(entry.view.buffer);
  }

  std::optional<RowRegion> build() {
    const View& logits = trace_.ops[head_].arguments.back().views.front();
    const int64_t rows = logits.sizes[0];
    RowSpace space{1, rows};
    // Each try may tell that tokens are of several sequences, or that a buffer must stay whole.
    for (int i = 0; i < 16; ++i) {
      other_tokens_ = 0;
      whole_again_ = kNoBuffer;
      region_ = {segment_, space, head_, logits.sizes[1]};
      made_from_head_.clear();
      narrow_.clear();
      summed_.clear();
      if (close(logits)) return with_loops(trace_, std::move(region_), narrow_);
      if (whole_again_ != kNoBuffer)
        kept_whole_.insert(whole_again_);
      else if (other_tokens_ > 1 && rows % other_tokens_ == 0 && other_tokens_ != space.tokens)
        space = {rows / other_tokens_, other_tokens_};
      else
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool lives_here(BufferId buffer) const {
    const Buffer& description = trace_.buffers[buffer];
    return !description.persistent && !description.output && !elsewhere_.contains(buffer);
  }

  // Calls visit(view, number of the operand, written) for each operand.
  template <typename Visit>
  static void for_each_operand(const Op& op, const Visit& visit) {
    size_t number = 0;
    for_each_view(op, [&](const View& view, bool written) { visit(view, number++, written); });
  }

  // Returns the rows that the op walks, by its operands with a layout; nullopt: it cannot be cut.
  std::optional<OpRows> walked(const Op& op, const RowRule& rule) {
    std::optional<OpRows> rows;
    bool possible = true;
    for_each_operand(op, [&](const View& view, size_t number, bool) {
      const auto layout = region_.layouts.find(view.buffer);
      if (layout == region_.layouts.end() || !possible || rule.unused[number]) return;
      const auto here = rows_of(view, layout->second, rule.labels[number], other_tokens_);
      possible = here && (!rows || *rows == *here);
      rows = here;
    });
    if (!possible || !rows) return std::nullopt;
    for (const int label : {rows->sequence_label, rows->token_label, rows->both_label})
      if (label != RowRule::kNone && rule.whole[label]) return std::nullopt;
    return rows;
  }

  int64_t elements_of(const View& view) const { return trace_.buffers[view.buffer].bytes / element_bytes(view.dtype); }

  // Returns the different elements of a row of the view, 0 if it has no rows.
  static int64_t row_width(const View& view, const OpRows& rows, const std::vector<int>& labels) {
    int64_t inner = 1, all = 1;
    for (size_t d = 0; d < view.sizes.size(); ++d)
      if (view.strides[d] != 0) (rows.cuts(labels[d]) ? all : inner) *= view.sizes[d];
    return all > 1 ? inner : 0;
  }

  // Adds a buffer that exists in chunks only, with the ops that use it.
  bool add_chunked(const View& view, const RowLayout& layout, std::vector<int32_t>& work) {
    if (!lives_here(view.buffer) || (accesses_[view.buffer].empty())) return false;
    region_.chunked.insert(view.buffer);
    region_.layouts[view.buffer] = layout;
    for (const Access& access : accesses_[view.buffer]) work.push_back(access.op);
    return true;
  }

  // Finds all ops that must be cut, beginning with those that use the logits.
  bool close(const View& logits) {
    std::vector<int32_t> work;
    made_from_head_.insert(logits.buffer);
    const RowLayout layout{logits.sizes[1], 0, region_.space.sequences, 0, region_.space.tokens};
    if (!add_chunked(logits, layout, work)) return false;
    while (!work.empty()) {
      const int32_t index = work.back();
      work.pop_back();
      if (!add(index, work)) return false;
    }
    add_narrow();
    // Layouts that were found later must agree.
    for (auto& [index, op] : region_.ops) {
      const auto rows = walked(trace_.ops[index], op.rule);
      if (!rows || !(*rows == op.rows)) return false;
    }
    return true;
  }

  bool add(int32_t index, std::vector<int32_t>& work) {
    if (region_.ops.contains(index)) return true;
    const Op& op = trace_.ops[index];
    std::optional<RowRule> rule = op.random_id < 0 ? slicing_.rule(op) : std::nullopt;
    const std::optional<OpRows> rows = rule ? walked(op, *rule) : std::nullopt;
    if (!rows) {
      // A chunked operand that does not come from the head, such as another model's results, may stay whole.
      for_each_view(op, [&](const View& view, bool) {
        if (region_.chunked.contains(view.buffer) && !made_from_head_.contains(view.buffer)) whole_again_ = view.buffer;
      });
      return false;
    }
    if (!region_.ops.emplace(index, RegionOp{*rule, *rows}).second) return true;
    bool possible = true, from_head = false;
    for_each_operand(op, [&](const View& view, size_t, bool) { from_head |= made_from_head_.contains(view.buffer); });
    for_each_operand(op, [&](const View& view, size_t number, bool written) {
      if (written && from_head && !rule->product) made_from_head_.insert(view.buffer);
      if (!possible || region_.layouts.contains(view.buffer) || rule->unused[number]) return;
      const std::vector<int>& labels = rule->labels[number];
      const int64_t width = row_width(view, *rows, labels);
      const bool wide = width * kWideRow >= region_.classes && !rule->product;
      if (written && lacks_rows(*rows, labels)) {
        possible = rule->sums && summed_.insert(view.buffer).second;
      } else if (wide && (written || is_made_here(view.buffer))) {
        const auto layout = layout_of(view, elements_of(view), *rows, labels);
        possible = layout && add_chunked(view, *layout, work);
        if (!possible && !written) whole_again_ = view.buffer;
      } else if (written && width > 0 && !rule->product && lives_here(view.buffer)) {
        if (const auto layout = layout_of(view, elements_of(view), *rows, labels))
          region_.layouts[view.buffer] = *layout;
      }
    });
    return possible;
  }

  bool is_made_here(BufferId buffer) const {
    return lives_here(buffer) && !kept_whole_.contains(buffer) &&
           std::ranges::any_of(accesses_[buffer], &Access::written);
  }

  // Adds ops on values with few elements for each row that the region makes.
  void add_narrow() {
    for (int32_t i = segment_.begin; i < segment_.end; ++i) {
      const Op& op = trace_.ops[i];
      if (region_.ops.contains(i) || op.random_id >= 0) continue;
      bool reads = false, possible = true;
      for_each_view(op, [&](const View& view, bool) { reads |= region_.layouts.contains(view.buffer); });
      std::optional<RowRule> rule = reads ? slicing_.rule(op) : std::nullopt;
      if (!rule || rule->product || rule->sums) continue;
      const std::optional<OpRows> rows = walked(op, *rule);
      if (!rows) continue;
      std::vector<std::pair<BufferId, RowLayout>> made;
      for_each_operand(op, [&](const View& view, size_t number, bool written) {
        if (!written || region_.layouts.contains(view.buffer)) return;
        const auto layout = layout_of(view, elements_of(view), *rows, rule->labels[number]);
        possible &= layout && lives_here(view.buffer) && !rule->unused[number];
        if (layout) made.emplace_back(view.buffer, *layout);
      });
      if (!possible) continue;
      for (auto& [buffer, layout] : made) region_.layouts[buffer] = layout;
      region_.ops.emplace(i, RegionOp{std::move(*rule), *rows});
      narrow_.insert(i);
    }
  }

  const Trace& trace_;
  const Segment segment_;
  const int32_t head_;
  const RowSlicing& slicing_;
  std::vector<std::vector<Access>> accesses_;  // by buffer: of ops of the segment
  std::set<BufferId> elsewhere_;               // used by other segments or callers
  RowRegion region_;
  std::set<int32_t> narrow_;           // ops of the region that use no chunked buffer
  std::set<BufferId> made_from_head_;  // buffers that depend on the logits
  std::set<BufferId> kept_whole_;      // buffers that are not chunked, although their rows are wide
  std::set<BufferId> summed_;          // sums over rows
  int64_t other_tokens_ = 0;
  BufferId whole_again_ = kNoBuffer;
};

}  // namespace

std::optional<RowRegion> row_region(const Trace& trace, const Segment& segment, int32_t head,
                                    const RowSlicing& slicing) {
  return RegionBuilder(trace, segment, head, slicing).build();
}

}  // namespace plimsoll
