#include "plan/passes/row_layout.h"

#include <algorithm>

namespace plimsoll {
namespace {

IndexRange intersection(IndexRange a, IndexRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

IndexRange moved(IndexRange range, int64_t by) {
  return {range.begin + by, range.end + by};
}

// Returns the indices of a dimension of `size` elements with a row label that the chunk has.
IndexRange indices(const OpRows& rows, int label, int64_t size, const RowChunk& chunk) {
  const IndexRange sequences = moved(chunk.sequences, -rows.first_sequence);
  const IndexRange tokens = moved(chunk.tokens, -rows.first_token);
  if (label == rows.sequence_label) return intersection(sequences, {0, size});
  if (label == rows.token_label) return intersection(tokens, {0, size});
  const IndexRange s = intersection(sequences, {0, size / rows.tokens}), t = intersection(tokens, {0, rows.tokens});
  if (s.size() == 0 || t.size() == 0) return {};
  return {s.begin * rows.tokens + t.begin, (s.end - 1) * rows.tokens + t.end};
}

}  // namespace

std::vector<RowChunk> RowSpace::chunks(int64_t rows) const {
  std::vector<RowChunk> result;
  const auto split = [](int64_t count, int64_t most) {
    const int64_t parts = (count + most - 1) / most;
    std::vector<IndexRange> ranges;
    for (int64_t i = 0; i < parts; ++i) ranges.push_back({count * i / parts, count * (i + 1) / parts});
    return ranges;
  };
  if (rows >= tokens) {
    for (const IndexRange& each : split(sequences, std::max<int64_t>(1, rows / std::max<int64_t>(tokens, 1))))
      result.push_back({each, {0, tokens}});
    return result;
  }
  for (int64_t s = 0; s < sequences; ++s)
    for (const IndexRange& each : split(tokens, std::max<int64_t>(rows, 1))) result.push_back({{s, s + 1}, each});
  return result;
}

RowChunk RowLayout::own(const RowChunk& chunk) const {
  return {intersection(moved(chunk.sequences, -first_sequence), {0, sequences}),
          intersection(moved(chunk.tokens, -first_token), {0, tokens})};
}

bool lacks_rows(const OpRows& rows, const std::vector<int>& labels) {
  for (const int label : {rows.sequence_label, rows.token_label, rows.both_label})
    if (label != RowRule::kNone && std::ranges::find(labels, label) == labels.end()) return true;
  return false;
}

std::optional<OpRows> rows_of(const View& view, const RowLayout& layout, const std::vector<int>& labels,
                              int64_t& other_tokens) {
  OpRows rows;
  const int64_t first = view.offset / layout.width;
  const int64_t sequence = first / layout.tokens, token = first % layout.tokens;
  rows.first_sequence = layout.first_sequence + sequence;
  rows.first_token = layout.first_token + token;
  int64_t last_in_row = view.offset % layout.width;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    const int64_t size = view.sizes[d], stride = view.strides[d];
    if (size == 1 || stride == 0) continue;
    if (stride < layout.width) {
      last_in_row += (size - 1) * stride;
      continue;
    }
    if (stride % layout.width != 0) return std::nullopt;
    const int64_t step = stride / layout.width;
    int* label = nullptr;
    if (step == layout.tokens && sequence + size <= layout.sequences) {
      label = &rows.sequence_label;
    } else if (step == 1 && token + size <= layout.tokens) {
      label = &rows.token_label;
    } else if (step == 1 && token == 0 && size % layout.tokens == 0) {
      label = &rows.both_label;
      rows.tokens = layout.tokens;
    } else {
      if (step > 1) other_tokens = step;
      return std::nullopt;
    }
    if (*label != RowRule::kNone || labels[d] == RowRule::kNone) return std::nullopt;
    *label = labels[d];
  }
  const bool twice = rows.both_label != RowRule::kNone &&
                     (rows.sequence_label != RowRule::kNone || rows.token_label != RowRule::kNone);
  if (last_in_row >= layout.width || twice) return std::nullopt;
  return rows;
}

std::optional<RowLayout> layout_of(const View& view, int64_t elements, const OpRows& rows,
                                   const std::vector<int>& labels) {
  RowLayout layout;
  int64_t inner = 1, by_sequence = 0, by_token = 0, by_both = 0;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    const int label = labels[d];
    if (view.sizes[d] == 1) continue;
    if (!rows.cuts(label))
      inner *= view.sizes[d];
    else
      (label == rows.sequence_label ? by_sequence : label == rows.token_label ? by_token : by_both) = view.strides[d];
  }
  layout.width = by_token > 0 ? by_token : by_both > 0 ? by_both : inner;
  if (layout.width < inner || (by_sequence > 0 && by_sequence % layout.width != 0) || elements % layout.width != 0)
    return std::nullopt;
  const int64_t all = elements / layout.width;
  layout.tokens = by_both > 0 ? rows.tokens : by_sequence > 0 ? by_sequence / layout.width : all;
  if (layout.tokens == 0 || all % layout.tokens != 0) return std::nullopt;
  layout.sequences = all / layout.tokens;
  const int64_t first = view.offset / layout.width;
  layout.first_sequence = rows.first_sequence - first / layout.tokens;
  layout.first_token = rows.first_token - first % layout.tokens;
  // The layout must give the rows that the op walks.
  int64_t unused = 0;
  const std::optional<OpRows> again = rows_of(view, layout, labels, unused);
  if (!again || layout.first_sequence < 0 || layout.first_token < 0) return std::nullopt;
  return *again == rows ? std::optional(layout) : std::nullopt;
}

std::optional<View> part_of(const View& view, const OpRows& rows, const std::vector<int>& labels,
                            const RowChunk& chunk) {
  const auto has = [](IndexRange range, int64_t index) { return range.begin <= index && index < range.end; };
  if (rows.both_label == RowRule::kNone) {
    if (rows.sequence_label == RowRule::kNone && !has(chunk.sequences, rows.first_sequence)) return std::nullopt;
    if (rows.token_label == RowRule::kNone && !has(chunk.tokens, rows.first_token)) return std::nullopt;
  }
  View part = view;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (!rows.cuts(labels[d]) || view.sizes[d] == 1) continue;
    const IndexRange range = indices(rows, labels[d], view.sizes[d], chunk);
    if (range.size() == 0) return std::nullopt;
    part.offset += range.begin * view.strides[d];
    part.sizes[d] = range.size();
  }
  return part;
}

View in_chunk(View part, const RowLayout& layout, const RowChunk& chunk, BufferId buffer) {
  const RowChunk own = layout.own(chunk);
  const int64_t row = part.offset / layout.width, inner = part.offset % layout.width;
  const int64_t sequence = row / layout.tokens - own.sequences.begin, token = row % layout.tokens - own.tokens.begin;
  part.buffer = buffer;
  part.offset = (sequence * own.tokens.size() + token) * layout.width + inner;
  for (int64_t& stride : part.strides)
    if (stride >= layout.width && stride != 0 && stride / layout.width == layout.tokens && layout.tokens > 1)
      stride = own.tokens.size() * layout.width;
  return part;
}

}  // namespace plimsoll
