#include "record/loss_head.h"

#include <ATen/WrapDimUtils.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ops/libtorch_types.h"
#include "record/plan_device.h"

namespace plimsoll {
namespace {

using at::Tensor;

// Returns, for each row of a view of logits in the order of the other dimensions, its row in the buffer. Empty if the
// view has parts of rows.
std::optional<std::vector<int64_t>> rows_in_buffer(const View& view, int64_t classes) {
  const int64_t width = view.sizes[classes];
  if (view.strides[classes] != 1 || view.offset % width != 0) return std::nullopt;
  std::vector<int64_t> rows = {view.offset / width};
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (static_cast<int64_t>(d) == classes || view.sizes[d] == 1) continue;
    if (view.strides[d] % width != 0) return std::nullopt;
    std::vector<int64_t> inner;
    inner.reserve(rows.size() * view.sizes[d]);
    for (const int64_t row : rows)
      for (int64_t i = 0; i < view.sizes[d]; ++i) inner.push_back(row + i * (view.strides[d] / width));
    rows = std::move(inner);
  }
  return rows;
}

// Returns the dimension with `width` consecutive elements; -1: none.
int64_t dimension_of_classes(const View& view, int64_t width) {
  for (size_t d = 0; d < view.sizes.size(); ++d)
    if (view.sizes[d] == width && view.strides[d] == 1) return static_cast<int64_t>(d);
  return -1;
}

// Returns the ops from `first` on that write to the buffer.
std::vector<size_t> writers_of(const Trace& trace, BufferId buffer, size_t first) {
  std::vector<size_t> writers;
  for (size_t i = first; i < trace.ops.size(); ++i) {
    bool writes = false;
    for_each_view(trace.ops[i], [&](const View& view, bool written) { writes |= written && view.buffer == buffer; });
    if (writes) writers.push_back(i);
  }
  return writers;
}

// Names of nodes of views, copies and casts.
constexpr std::array<std::string_view, 12> kPlain = {
    "ViewBackward0",    "UnsafeViewBackward0", "ReshapeAliasBackward0", "ToCopyBackward0",
    "CloneBackward0",   "SliceBackward0",      "AliasBackward0",        "TransposeBackward0",
    "PermuteBackward0", "UnsqueezeBackward0",  "SqueezeBackward1",      "LogSoftmaxBackward0"};

// Returns the rows of x, which is [..., tokens, width], in this order; an undefined tensor if they are not all rows or
// the same range of each sequence.
Tensor rows_of_input(const Tensor& x, const std::vector<int64_t>& rows) {
  const int64_t width = x.size(-1), all = x.numel() / width;
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t tokens = x.dim() > 1 ? x.size(-2) : 1, sequences = all / tokens;
  if (count == 0 || count % sequences != 0) return {};
  const int64_t length = count / sequences, begin = rows[0];
  if (begin < 0 || begin + length > tokens) return {};
  for (int64_t i = 0; i < count; ++i)
    if (rows[i] != i / length * tokens + begin + i % length) return {};
  if (count == all) return x.reshape({-1, width});
  return x.reshape({sequences, tokens, width}).slice(1, begin, begin + length).reshape({-1, width});
}

}  // namespace

void LossHeads::note_linear(const Trace& trace, const Tensor& x, const Tensor& weight, const Tensor& result) {
  // The operator keeps gradients of the sum over all tokens, which can exceed the range of float16.
  if (result.dim() < 2 || result.scalar_type() == at::kHalf || weight.dim() != 2 ||
      !at::isFloatingType(result.scalar_type()) || x.scalar_type() != weight.scalar_type() ||
      result.scalar_type() != x.scalar_type() || !result.is_contiguous() || result.storage_offset() != 0 ||
      result.numel() * 4 < kMinLogitsBytes ||
      2 * result.numel() < weight.numel())  // the weight's gradient, which is kept, would be larger
    return;
  layers_[buffer_of(result)] = {x, weight, result.grad_fn(), trace.ops.size()};
}

std::optional<LossHeads::Rows> LossHeads::rows_of(const Trace& trace, const Tensor& logits, int64_t classes,
                                                  bool log_softmax) const {
  View view = view_of(logits);
  const int64_t width = view.sizes[classes];
  auto rows = rows_in_buffer(view, classes);
  const size_t begin = trace.segments.back().begin;
  Rows result;
  while (rows) {
    result.found.logits.push_back(view.buffer);
    if (const auto layer = layers_.find(view.buffer); layer != layers_.end()) {
      if (log_softmax || layer->second.weight.size(0) != width) return std::nullopt;
      result.layer = &layer->second;
      result.rows = std::move(*rows);
      return result;
    }
    const std::vector<size_t> writers = writers_of(trace, view.buffer, begin);
    if (writers.size() != 1) return std::nullopt;
    const Op& op = trace.ops[writers[0]];
    View made, source;
    for_each_view(op, [&](const View& each, bool written) { (written ? made : source) = each; });
    if (made.buffer == kNoBuffer || source.buffer == kNoBuffer || made.sizes != source.sizes) return std::nullopt;
    const int64_t dimension = dimension_of_classes(made, width);
    if (dimension < 0) return std::nullopt;
    if (log_softmax && op.name.starts_with("aten::_log_softmax") &&
        at::maybe_wrap_dim(op.call->constants[1].toInt(), static_cast<int64_t>(made.sizes.size())) == dimension)
      log_softmax = false;
    else if (op.name != "aten::copy_" || (made.dtype != source.dtype && made.dtype != DType::float32))
      return std::nullopt;
    const auto made_rows = rows_in_buffer(made, dimension), source_rows = rows_in_buffer(source, dimension);
    if (!made_rows || !source_rows) return std::nullopt;
    std::unordered_map<int64_t, int64_t> source_of;
    for (size_t i = 0; i < made_rows->size(); ++i) source_of[(*made_rows)[i]] = (*source_rows)[i];
    for (int64_t& row : *rows) {
      const auto its_source = source_of.find(row);
      if (its_source == source_of.end()) return std::nullopt;  // the op writes a part of the buffer
      row = its_source->second;
    }
    result.found.copies.insert(writers[0]);
    view = source;
  }
  return std::nullopt;
}

std::optional<LossHeads::Head> LossHeads::find(const Trace& trace, const Tensor& logits, int64_t classes,
                                               bool log_softmax) {
  if (layers_.empty() || trace.segments.empty()) return std::nullopt;
  std::optional<Rows> found = rows_of(trace, logits, classes, log_softmax);
  if (!found) return std::nullopt;
  const Layer& layer = *found->layer;
  for (const Tensor& operand : {layer.x, layer.weight})
    if (!writers_of(trace, buffer_of(operand), layer.first).empty()) return std::nullopt;
  if (!writers_of(trace, found->found.logits.back(), layer.first).empty()) return std::nullopt;
  if (at::GradMode::is_enabled()) {
    const bool differentiable = layer.x.requires_grad() || layer.weight.requires_grad();
    if (logits.requires_grad() != differentiable) return std::nullopt;  // detached, or recorded without gradients
    if (differentiable) {
      found->found.path = plain_path(logits.grad_fn(), layer.node.get(), kPlain);
      if (found->found.path.empty()) return std::nullopt;
    }
  }
  const Tensor rows = rows_of_input(layer.x, found->rows);
  if (!rows.defined()) return std::nullopt;
  const auto number = static_cast<int64_t>(found_.size());
  const bool kept = kept_.contains(number);
  found_.push_back(kept ? Found{} : std::move(found->found));
  if (kept) return std::nullopt;
  return Head{number, rows, layer.weight};
}

void LossHeads::begin_segment() {
  layers_.clear();
  for (Found& found : found_) found.path.clear();
}

void LossHeads::begin_backward(int64_t number) {
  for (const NodePointer& node : found_.at(number).path)
    if (is_requested(*node) || is_watched(*node)) differentiated_whole_.insert(number);
}

std::set<int64_t> LossHeads::needed_whole(const Trace& trace) const {
  std::unordered_map<BufferId, std::vector<int64_t>> heads_of;
  std::set<size_t> copies;
  for (size_t head = 0; head < found_.size(); ++head) {
    for (const BufferId buffer : found_[head].logits) heads_of[buffer].push_back(static_cast<int64_t>(head));
    copies.insert(found_[head].copies.begin(), found_[head].copies.end());
  }
  std::set<int64_t> needed = differentiated_whole_;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (copies.contains(i)) continue;
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      if (const auto found = heads_of.find(view.buffer); found != heads_of.end() && !written)
        needed.insert(found->second.begin(), found->second.end());
    });
  }
  return needed;
}

}  // namespace plimsoll
