// Declares the geometry of the pass slice_rows: which rows of a head's result a view has, and the part of a view that
// belongs to a chunk of rows.
//
// The rows are tokens of sequences. A chunk has some tokens of one sequence, or all tokens of several.
//
//     rows      (0,0) (0,1) (0,2) | (1,0) (1,1) (1,2)        2 sequences, 3 tokens
//     buffer     ───── 2 rows      |  ───── 2 rows           RowLayout{width, 0, 2, 1, 2}: tokens 1 and 2 of each
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/trace.h"
#include "trace/row_slicing.h"

namespace plimsoll {

/// A half-open range of indices.
struct IndexRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end > begin ? end - begin : 0; }
};

/// A chunk of rows: some tokens of one sequence, or all tokens of several.
struct RowChunk {
  IndexRange sequences, tokens;
};

/// The rows of a head's result, in order: sequences x tokens.
struct RowSpace {
  int64_t sequences = 1, tokens = 0;

  int64_t rows() const { return sequences * tokens; }
  /// Returns chunks of at most `rows` rows, evenly split, that have all rows together.
  std::vector<RowChunk> chunks(int64_t rows) const;
};

/// An arrangement of a buffer's elements in rows of `width` elements, one after the other. Row (s, t) belongs to
/// sequence first_sequence + s and token first_token + t.
struct RowLayout {
  int64_t width = 1;
  int64_t first_sequence = 0, sequences = 1, first_token = 0, tokens = 0;
  bool operator==(const RowLayout&) const = default;

  int64_t rows() const { return sequences * tokens; }
  /// Returns the sequences and tokens of the buffer, counted from its first, that the chunk has.
  RowChunk own(const RowChunk& chunk) const;
};

/// The rows that an op walks: the label of each direction, and the first row.
struct OpRows {
  int sequence_label = RowRule::kNone, token_label = RowRule::kNone;
  int both_label = RowRule::kNone;  ///< a dimension of all tokens of several sequences
  int64_t first_sequence = 0, first_token = 0;
  int64_t tokens = 0;  ///< tokens of each sequence within `both_label`; 0: there is no such label
  bool operator==(const OpRows&) const = default;

  bool cuts(int label) const {
    return label != RowRule::kNone && (label == sequence_label || label == token_label || label == both_label);
  }
};

/// Returns whether an operand with these labels does not walk all rows: it is a sum over rows, or broadcasts.
bool lacks_rows(const OpRows& rows, const std::vector<int>& labels);

/// Returns the rows that `view` of a buffer with `layout` walks; nullopt: it cuts rows into pieces, or is no grid of
/// rows. `other_tokens`: set to the number of tokens with which it may be one.
std::optional<OpRows> rows_of(const View& view, const RowLayout& layout, const std::vector<int>& labels,
                              int64_t& other_tokens);

/// Returns the layout of the buffer of `view`, of `elements` elements, whose dimensions with row labels walk `rows`;
/// nullopt: it has none.
std::optional<RowLayout> layout_of(const View& view, int64_t elements, const OpRows& rows,
                                   const std::vector<int>& labels);

/// Returns the part of `view` that belongs to a chunk; nullopt: no element does.
std::optional<View> part_of(const View& view, const OpRows& rows, const std::vector<int>& labels,
                            const RowChunk& chunk);

/// Returns `part`, the part of a view of a buffer with `layout`, as a view of a buffer that has the chunk's rows only.
View in_chunk(View part, const RowLayout& layout, const RowChunk& chunk, BufferId buffer);

}  // namespace plimsoll
