#include "plan/passes/passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cost/operators.h"
#include "plan/passes/rewrite.h"
#include "plan/passes/row_region.h"

namespace plimsoll {
namespace {

bool is_narrow(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16;
}

// Inserts the loops of one region into a trace, in place of its ops.
class RegionWriter {
 public:
  RegionWriter(Trace& trace, const RowRegion& region, const RowSlicing& slicing, int64_t rows_of_chunk)
      : trace_(trace),
        region_(region),
        slicing_(slicing),
        old_(trace.ops),
        chunks_(region.space.chunks(rows_of_chunk)),
        rewriter_(trace) {
    find_casts();
    for (const RowLoop& loop : region.loops) delayed_.insert(loop.delayed.begin(), loop.delayed.end());
  }

  Trace run() {
    size_t loop = 0;
    const auto count = static_cast<int32_t>(old_.size());
    for (int32_t i = 0; i <= count; ++i) {
      for (; loop < region_.loops.size() && region_.loops[loop].position == i; ++loop) write(region_.loops[loop]);
      if (i < count && !region_.ops.contains(i) && !removed_casts_.contains(i) && !delayed_.contains(i))
        rewriter_.keep(i);
    }
    return rewriter_.finish();
  }

  size_t chunks() const { return chunks_.size(); }

 private:
  // A sum over rows, or the part of it that belongs to some of them.
  struct Sum {
    View whole;
    View total;           // the sum of the chunks so far: `whole`, or a value in float32
    bool copied = false;  // `total` is copied to `whole` behind the loop
  };
  using Sums = std::map<std::pair<int32_t, std::vector<int64_t>>, Sum>;  // by op and part

  // Finds the sums over rows in 16 bits of which only a cast to float32 is used. The chunks are added to its target.
  void find_casts() {
    std::map<BufferId, std::vector<int32_t>> uses;
    for (int32_t i = 0; i < static_cast<int32_t>(old_.size()); ++i)
      for_each_buffer(old_[i], [&](BufferId buffer) { uses[buffer].push_back(i); });
    for (const auto& [index, op] : region_.ops) {
      if (!op.rule.sums || !is_sum(index)) continue;
      const View* sum = nullptr;
      bool in_parts = false;
      size_t number = 0;
      for_each_view(old_[index], [&](const View& view, bool written) {
        const std::vector<int>& labels = op.rule.labels[number++];
        if (!written) return;
        sum = &view;
        in_parts = std::ranges::any_of(labels, [&](int label) { return op.rows.cuts(label); });
      });
      if (in_parts || !is_narrow(sum->dtype) || uses[sum->buffer].size() != 2 || uses[sum->buffer][0] != index)
        continue;
      const int32_t reader = uses[sum->buffer][1];
      const Op& cast = old_[reader];
      if (cast.name != "aten::copy_" || region_.ops.contains(reader) || cast.phase != old_[index].phase) continue;
      const View &to = cast.arguments[0].views[0], &from = cast.arguments[1].views[0];
      if (from.buffer != sum->buffer || to.dtype != DType::float32 || uses[to.buffer].front() != reader ||
          trace_.buffers[to.buffer].persistent || from.elements() != sum->elements())
        continue;
      removed_casts_.insert(reader);
      cast_of_[index] = {to, from};
    }
  }

  void write(const RowLoop& loop) {
    Sums sums;
    for (const RowChunk& chunk : chunks_) {
      std::map<BufferId, BufferId> fresh;
      for (const int32_t index : loop.ops) {
        const RegionOp& described = region_.ops.at(index);
        Op op = old_[index];
        op.phase = loop.phase;
        op.recomputed = done_.contains(index);
        if (cut(op, described, chunk, fresh)) append(std::move(op), index, loop, sums);
      }
    }
    for (const auto& [part, sum] : sums)
      if (sum.copied) emit(slicing_.copy(sum.whole, sum.total), part.first, loop);
    done_.insert(loop.ops.begin(), loop.ops.end());
    for (const int32_t index : loop.delayed) {
      if (removed_casts_.contains(index)) continue;
      Op op = old_[index];
      op.phase = loop.phase;
      rewriter_.insert(std::move(op), near(loop));
    }
  }

  // Replaces the operands of `op` by their parts. Returns false if the chunk has none of them.
  bool cut(Op& op, const RegionOp& described, const RowChunk& chunk, std::map<BufferId, BufferId>& fresh) {
    size_t number = 0;
    const auto cut_view = [&](View& view) {
      if (view.buffer == kNoBuffer) return true;
      const std::vector<int>& labels = described.rule.labels[number];
      const bool unused = described.rule.unused[number];
      ++number;
      if (unused) return true;
      const std::optional<View> part = part_of(view, described.rows, labels, chunk);
      if (!part) return false;
      view = region_.chunked.contains(view.buffer) ? in_chunk(*part, fresh, chunk) : *part;
      return true;
    };
    for (Argument& argument : op.arguments)
      for (View& view : argument.views)
        if (!cut_view(view)) return false;
    for (View& view : op.results)
      if (!cut_view(view)) return false;
    return true;
  }

  View in_chunk(View part, std::map<BufferId, BufferId>& fresh, const RowChunk& chunk) {
    const BufferId old = part.buffer;
    const RowLayout& layout = region_.layouts.at(old);
    if (!fresh.contains(old)) {
      Buffer buffer = trace_.buffers[old];
      const RowChunk own = layout.own(chunk);
      buffer.bytes = buffer.bytes / layout.rows() * own.sequences.size() * own.tokens.size();
      buffer.role = Role::temporary;
      fresh[old] = rewriter_.add_buffer(std::move(buffer));
    }
    return plimsoll::in_chunk(std::move(part), layout, chunk, fresh[old]);
  }

  // Appends an op of a chunk. A sum over rows is written by the first chunk, and the other chunks add to it. A mean
  // is the sum of the chunks' means, each times its fraction of the elements. Sums in 16 bits are added up in float32.
  void append(Op op, int32_t index, const RowLoop& loop, Sums& sums) {
    const RegionOp& described = region_.ops.at(index);
    View* result = nullptr;
    if (described.rule.sums && is_sum(index))
      for (Argument& argument : op.arguments)
        if (argument.written) result = &argument.views[0];
    if (!result) return emit(std::move(op), index, loop);
    const double fraction = described.rule.means ? addends_of(op) / addends_of(old_[index]) : 1;
    std::vector<int64_t> part = result->sizes;
    part.push_back(result->offset);
    const auto [found, first] = sums.insert({{index, std::move(part)}, {*result, *result}});
    Sum& sum = found->second;
    View addend = *result;
    if (const auto cast = cast_of_.find(index); cast != cast_of_.end()) {
      sum.total = cast->second.first;
      addend = cast->second.second;
    } else if (is_narrow(sum.whole.dtype)) {
      if (first) sum.total = temporary_like(sum.whole, DType::float32);
      sum.copied = true;
      *result = addend = temporary_like(sum.whole, sum.whole.dtype);
    } else if (first) {
      emit(std::move(op), index, loop);
      if (fraction != 1) emit(slicing_.scale(sum.total, fraction), index, loop);
      return;
    } else if (described.rule.product) {
      std::vector<View> factors;
      for (const Argument& argument : op.arguments)
        if (argument.kind == Argument::Kind::tensor && !argument.written) factors.push_back(argument.views[0]);
      return emit(slicing_.add_product(sum.total, factors.at(0), factors.at(1)), index, loop);
    } else {
      *result = addend = temporary_like(sum.whole, sum.whole.dtype);
    }
    emit(std::move(op), index, loop);
    if (!first) return emit(slicing_.add(sum.total, addend, fraction), index, loop);
    emit(slicing_.copy(sum.total, addend), index, loop);
    if (fraction != 1) emit(slicing_.scale(sum.total, fraction), index, loop);
  }

  // Returns the number of elements that `op`, a sum with one operand, adds up for each element of its result.
  static double addends_of(const Op& op) {
    std::vector<double> elements;
    for_each_view(op, [&](const View& view, bool) { elements.push_back(static_cast<double>(view.elements())); });
    return elements.front() / elements.back();
  }

  // Returns a new contiguous value with the sizes of `view`.
  View temporary_like(View view, DType dtype) {
    Buffer buffer = trace_.buffers[view.buffer];
    buffer.bytes = view.elements() * element_bytes(dtype);
    buffer.role = Role::temporary;
    buffer.persistent = buffer.output = false;
    view.buffer = rewriter_.add_buffer(std::move(buffer));
    view.dtype = dtype;
    view.offset = 0;
    int64_t stride = 1;
    for (size_t d = view.sizes.size(); d-- > 0;) {
      view.strides[d] = stride;
      stride *= std::max<int64_t>(view.sizes[d], 1);
    }
    return view;
  }

  // Returns whether the op sums over rows.
  bool is_sum(int32_t index) const {
    const RegionOp& described = region_.ops.at(index);
    bool sums = false;
    size_t number = 0;
    for_each_view(old_[index], [&](const View&, bool written) {
      sums |= lacks_rows(described.rows, described.rule.labels[number++]) && written;
    });
    return sums;
  }

  void emit(Op op, int32_t index, const RowLoop& loop) {
    op.phase = loop.phase;
    op.module = old_[index].module;
    op.flops = flops_of(op);
    op.bytes_moved = bytes_moved_by(op);
    rewriter_.insert(std::move(op), near(loop));
  }

  // Returns an op of the segment, by which the rewriter finds it.
  int32_t near(const RowLoop& loop) const { return std::min(loop.position, region_.segment.end - 1); }

  Trace& trace_;
  const RowRegion& region_;
  const RowSlicing& slicing_;
  const std::vector<Op> old_;
  const std::vector<RowChunk> chunks_;
  TraceRewriter rewriter_;
  std::map<int32_t, std::pair<View, View>> cast_of_;  // the target and the source of a sum's cast, by op
  std::set<int32_t> removed_casts_;
  std::set<int32_t> done_;     // ops of the loops so far
  std::set<int32_t> delayed_;  // by all loops
};

class SliceRows {
 public:
  SliceRows(Trace trace, const RowSlicing& slicing, std::vector<SlicedHead>* heads)
      : trace_(std::move(trace)), slicing_(slicing), heads_(heads), recorded_(trace_.buffers.size()) {}

  Trace run() {
    for (size_t s = 0; s < trace_.segments.size(); ++s) {
      const SegmentKind kind = trace_.segments[s].kind;
      const bool trained =
          kind == SegmentKind::micro || kind == SegmentKind::accumulate || kind == SegmentKind::remainder;
      if (!trained && kind != SegmentKind::evaluate) continue;
      size_t number = 0;  // of the head in its segment
      for (int32_t i = trace_.segments[s].begin; i < trace_.segments[s].end; ++i)
        if (is_head(trace_.ops[i], trained && number < chunks_.size()) && slice(s, i, kind, trained, number)) {
          ++number;
          i = trace_.segments[s].begin - 1;  // all ops have moved
        }
    }
    return std::move(trace_);
  }

 private:
  // Returns whether `op` may be the layer of logits: a matmul with many more results than inputs for each row. `known`:
  // the first micro batch has such a head, and that of a smaller one is cut too.
  bool is_head(const Op& op, bool known) const {
    if (op.arguments.empty() || !op.arguments.back().written || op.arguments.back().views.size() != 1) return false;
    const View& logits = op.arguments.back().views[0];
    if (logits.buffer >= static_cast<BufferId>(recorded_) || logits.sizes.size() != 2 || logits.offset != 0 ||
        logits.strides[1] != 1 || logits.strides[0] != logits.sizes[1] ||
        logits.elements() * element_bytes(logits.dtype) != trace_.buffers[logits.buffer].bytes ||
        (!known && logits.elements() * 4 < slicing_.min_bytes) || logits.sizes[0] < 2 * slicing_.min_rows)
      return false;
    const std::optional<RowRule> rule = slicing_.rule(op);
    if (!rule || !rule->product) return false;
    std::vector<const View*> operands;
    for_each_view(op, [&](const View& view, bool) { operands.push_back(&view); });
    const View& x = *operands[operands.size() - 3];
    return x.sizes.size() == 2 && x.sizes[0] == logits.sizes[0] && logits.sizes[1] > 4 * x.sizes[1];
  }

  bool slice(size_t segment, int32_t head, SegmentKind kind, bool trained, size_t number) {
    std::optional<RowRegion> region = row_region(trace_, trace_.segments[segment], head, slicing_);
    if (!region) return false;
    const View logits = trace_.ops[head].arguments.back().views[0];
    const int64_t row_bytes = logits.sizes[1] * 4, rows = logits.sizes[0];
    int64_t chunks =
        std::max((rows * row_bytes + slicing_.chunk_bytes - 1) / slicing_.chunk_bytes, slicing_.min_chunks);
    // Micro batches of other sizes have as many chunks, so that the same choice applies to their values.
    if (trained && number < chunks_.size()) chunks = chunks_[number];
    const int64_t each = std::max((rows + chunks - 1) / chunks, slicing_.min_rows);
    const std::string module = trace_.modules[trace_.ops[head].module];
    const bool repeats = std::ranges::any_of(region->loops, [&](const RowLoop& loop) {
      return &loop != &region->loops.front() && std::ranges::binary_search(loop.ops, head);
    });
    const int32_t update = begin_of_update();
    RegionWriter writer(trace_, *region, slicing_, each);
    const auto count = static_cast<int64_t>(writer.chunks());
    if (count < 2) return false;
    trace_ = writer.run();
    for (UpdatePiece& piece : trace_.update_pieces) {
      piece.begin += begin_of_update() - update;
      piece.end += begin_of_update() - update;
    }
    if (kind == SegmentKind::micro) {
      chunks_.push_back(count);
      const int64_t bytes = trace_.buffers[logits.buffer].bytes;
      if (heads_) heads_->push_back({module, count, bytes, bytes / count, repeats});
    }
    return true;
  }

  int32_t begin_of_update() const {
    const Segment* const update = trace_.segment(SegmentKind::update);
    return update ? update->begin : 0;
  }

  Trace trace_;
  const RowSlicing& slicing_;
  std::vector<SlicedHead>* const heads_;
  const size_t recorded_;        // buffers of the recorded trace: the others are those of chunks
  std::vector<int64_t> chunks_;  // by head of the first micro batch
};

}  // namespace

Trace slice_rows(Trace trace, const RowSlicing& slicing, std::vector<SlicedHead>* heads) {
  return SliceRows(std::move(trace), slicing, heads).run();
}

}  // namespace plimsoll
