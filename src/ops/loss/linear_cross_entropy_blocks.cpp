#include "ops/loss/linear_cross_entropy_blocks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "ops/loss/loss_tiles_cpu.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

struct Problem {
  LossShape shape;
  HeadRows x, weight;
  MutableHeadRows grad_x, grad_weight;  ///< no data if not requested
  const int64_t* targets;
  int64_t target_stride, ignore_index;
  double cap;
  float* losses;
};

template <typename Data>
HeadRowsOf<Data> part_of(const HeadRowsOf<Data>& rows, int64_t first, int64_t count, int64_t column, int64_t width) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  const int64_t offset = (first * rows.stride + column) * static_cast<int64_t>(element_bytes(rows.dtype));
  return {static_cast<Byte*>(rows.data) + offset, rows.dtype, rows.stride, count, width};
}
template <typename Data>
HeadRowsOf<Data> part_of(const HeadRowsOf<Data>& rows, int64_t first, int64_t count) {
  return part_of(rows, first, count, 0, rows.width);
}

/// Returns the rows of one of `parts` equal parts.
HeadRows share_of(const HeadRows& rows, int64_t part, int64_t parts) {
  const int64_t begin = rows.count * part / parts;
  return part_of(rows, begin, rows.count * (part + 1) / parts - begin);
}

/// Returns rows for a matmul to load into the cache.
template <typename Data>
ReadAhead read_ahead(const HeadRowsOf<Data>& rows) {
  const auto bytes = static_cast<int64_t>(element_bytes(rows.dtype));
  return {static_cast<const char*>(rows.data), rows.count, rows.stride * bytes, rows.width * bytes};
}

/// A chunk of tokens.
class Chunk {
 public:
  Chunk(const Problem& problem, const LossBlocks& places, char* scratch, int64_t index)
      : p_(problem),
        places_(places),
        scratch_(scratch),
        index_(index),
        first_(index * places.chunks.rows),
        tokens_(std::min(places.chunks.rows, problem.shape.tokens - first_)),
        lanes_(loss_lanes(tokens_)),
        pairs_(problem.shape.dtype == DType::bfloat16) {}

  void run() const {
    pack();
    // Lanes are independent. If there are fewer stretches than threads need, the tokens of a stretch are divided too.
    const int64_t strips_of_tokens = div_up(lanes_, kLossBlock);
    const int64_t groups =
        std::clamp<int64_t>(div_up(4 * at::get_num_threads(), places_.stretches), 1, strips_of_tokens);
    const int64_t group = div_up(strips_of_tokens, groups) * kLossBlock;
    parallel(places_.stretches * groups, [&](int64_t task) {
      const int64_t begin = task % groups * group;
      if (begin < lanes_) scores(task / groups, begin, std::min(lanes_, begin + group));
    });
    finish_losses();
    if (!p_.grad_x.data && !p_.grad_weight.data) return;
    const int64_t vocabulary = p_.shape.vocabulary;
    for (int64_t panel = 0; panel < vocabulary; panel += places_.panel) {
      const int64_t rows = std::min(places_.panel, vocabulary - panel);
      const auto rows_of = [&](int64_t block) {
        const int64_t begin = std::min(rows, block * kLossBlock);
        return PanelRows{panel, begin, std::min(kLossBlock, rows - begin)};
      };
      // The block that the same thread is likely to take next.
      const int64_t next = at::get_num_threads();
      parallel(div_up(rows, kLossBlock),
               [&](int64_t block) { compute_gradients(rows_of(block), rows_of(block + next)); });
      if (!p_.grad_x.data) continue;
      // A thread computes consecutive blocks of tokens of a strip, which share the strip's packed weight.
      const int64_t blocks = div_up(tokens_, kLossBlock), strips = div_up(places_.columns, kLossBlock);
      at::parallel_for(0, blocks * strips, 1, [&](int64_t begin, int64_t end) {
        for (int64_t strip = begin / blocks; strip * blocks < end; ++strip)
          x_gradients(panel, rows, strip * kLossBlock, std::max<int64_t>(begin - strip * blocks, 0),
                      std::min(end - strip * blocks, blocks));
      });
    }
    if (!p_.grad_x.data) return;
    parallel(div_up(tokens_, kLossBlock), [&](int64_t block) {
      const int64_t begin = block * kLossBlock, count = std::min(kLossBlock, tokens_ - begin);
      store_rows(at<float>(places_.grad_x) + begin * places_.columns, places_.columns,
                 part_of(p_.grad_x, first_ + begin, count));
    });
  }

 private:
  template <typename T>
  T* at(int64_t place) const {
    return reinterpret_cast<T*>(scratch_ + place);
  }
  float* log_sum() const { return at<float>(places_.numbers); }
  float* counts() const { return log_sum() + lanes_; }
  float* target_logits() const { return log_sum() + 2 * lanes_; }
  int64_t bytes() const { return static_cast<int64_t>(element_bytes(p_.shape.dtype)); }
  int64_t target(int64_t token) const { return p_.targets[(first_ + token) * p_.target_stride]; }
  /// Returns the columns of the strip that begins at `column`.
  int64_t strip(int64_t column) const { return std::min(kLossBlock, places_.columns - column); }

  template <typename Task>
  static void parallel(int64_t count, const Task& task) {
    // Threads take tasks one by one, so that a delayed thread leaves its tasks to the others.
    std::atomic<int64_t> next{0};
    at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
      for (int64_t i = next++; i < count; i = next++) task(i);
    });
  }

  /// Packs x for the matmuls, and records which tokens count.
  void pack() const {
    const HeadRows x = part_of(p_.x, first_, tokens_);
    parallel(div_up(lanes_, kLossBlock), [&](int64_t block) {
      const int64_t begin = block * kLossBlock, lanes = std::min(kLossBlock, lanes_ - begin);
      const HeadRows rows = part_of(x, begin, std::min(lanes, tokens_ - begin));
      if (pairs_)
        transpose_pairs(rows, lanes, at<Pair>(places_.transposed) + begin * (x.width / 2));
      else
        transpose_rows(rows, lanes, at<float>(places_.transposed) + begin * x.width);
    });
    if (p_.grad_weight.data)
      parallel(div_up(places_.columns, kLossBlock), [&](int64_t block) {
        const int64_t column = block * kLossBlock;
        pack_strip(x, column, at<float>(places_.rows) + column * div_up(tokens_, pairs_ ? 2 : 1));
      });
    for (int64_t token = 0; token < lanes_; ++token)
      counts()[token] = token < tokens_ && target(token) != p_.ignore_index ? 1 : 0;
  }

  /// Returns the part of a strip's columns that `rows` has.
  template <typename Data>
  HeadRowsOf<Data> strip_of(const HeadRowsOf<Data>& rows, int64_t column) const {
    return part_of(rows, 0, rows.count, column, std::min(kLossBlock, rows.width - column));
  }

  /// Packs the strip of columns from `column` on to `to`: float32 [rows, columns] or pairs [(rows + 1) / 2, columns].
  void pack_strip(const HeadRows& rows, int64_t column, float* to) const {
    if (pairs_)
      pair_rows(strip_of(rows, column), strip(column), reinterpret_cast<Pair*>(to));
    else
      widen_rows(strip_of(rows, column), strip(column), to);
  }

  /// Computes the logits of a stretch of the vocabulary for lanes [first, last), and the inputs of their softmax.
  void scores(int64_t stretch, int64_t first, int64_t last) const {
    const int64_t begin = stretch * kLossStretch, end = std::min(p_.shape.vocabulary, begin + kLossStretch);
    float* maximum = at<float>(places_.maximum) + stretch * lanes_;
    float* sums = at<float>(places_.sums) + stretch * lanes_;
    std::fill_n(maximum + first, last - first, -std::numeric_limits<float>::infinity());
    std::fill_n(sums + first, last - first, 0.f);
    const bool kept = p_.grad_x.data || p_.grad_weight.data;
    alignas(64) float tile[kLossBlock * kLossBlock];
    for (int64_t row = begin; row < end; row += kLossBlock) {
      const int64_t rows = std::min(kLossBlock, end - row);
      const HeadRows weight = part_of(p_.weight, row, rows);
      const HeadRows next = part_of(p_.weight, row + rows, std::min(kLossBlock, end - row - rows));
      for (int64_t token = first; token < last; token += kLossBlock) {
        const int64_t lanes = std::min(kLossBlock, last - token);
        char* const logits = kept ? at<char>(places_.logits) + (row * lanes_ + token) * bytes() : nullptr;
        const std::array ahead{
            ReadAhead{logits, kept ? rows : 0, lanes_ * bytes(), lanes * bytes(), /*written=*/true},
            read_ahead(share_of(next, (token - first) / kLossBlock, div_up(last - first, kLossBlock)))};
        if (pairs_)
          block_product(tile, lanes, {static_cast<const uint16_t*>(weight.data), weight.stride, 2},
                        at<Pair>(places_.transposed) + token * (weight.width / 2), lanes, rows, weight.width / 2, lanes,
                        /*add=*/false, ahead);
        else
          block_product(tile, lanes, {static_cast<const float*>(weight.data), weight.stride, 1},
                        at<float>(places_.transposed) + token * weight.width, lanes, rows, weight.width, lanes,
                        /*add=*/false, ahead);
        logit_tile({.scores = tile,
                    .rows = rows,
                    .lanes = lanes,
                    .cap = p_.cap,
                    .maximum = maximum + token,
                    .sums = sums + token,
                    .logits = logits,
                    .dtype = p_.shape.dtype,
                    .stride = lanes_});
        for (int64_t i = 0; i < std::min(lanes, tokens_ - token); ++i)
          if (const int64_t its = target(token + i); its >= row && its < row + rows)
            target_logits()[token + i] = tile[(its - row) * lanes + i];
      }
    }
  }

  void finish_losses() const {
    logarithm_of_sums(at<float>(places_.maximum), at<float>(places_.sums), places_.stretches, lanes_, log_sum());
    for (int64_t token = 0; token < tokens_; ++token)
      p_.losses[first_ + token] = counts()[token] != 0 ? log_sum()[token] - target_logits()[token] : 0;
  }

  /// A block of rows of the weight: `count` rows from row `begin` of the panel that begins at row `panel`.
  struct PanelRows {
    int64_t panel, begin, count;
  };

  /// Computes the gradients of the logits of a block of a panel, and their share of the weight's gradient. `next` is
  /// the block whose logits are read ahead; it may be empty.
  void compute_gradients(const PanelRows& block, const PanelRows& next) const {
    const int64_t begin = block.begin, row = block.panel + begin;
    const LogitGradients args{
        .logits = at<char>(places_.logits) + row * lanes_ * bytes(),
        .dtype = p_.shape.dtype,
        .rows = block.count,
        .lanes = lanes_,
        .cap = p_.cap,
        .log_sum = log_sum(),
        .counts = counts(),
        .gradients =
            pairs_ && !p_.grad_weight.data ? nullptr : at<char>(places_.gradients) + begin * places_.stride * bytes(),
        .pairs = pairs_ && p_.grad_x.data ? at<Pair>(places_.pairs) + begin / 2 * places_.stride : nullptr,
        .stride = places_.stride};
    logit_gradients(args);
    for (int64_t token = 0; token < tokens_; ++token)
      if (const int64_t its = target(token); its >= row && its < row + block.count && counts()[token] != 0)
        target_gradient(args, its - row, token);
    if (!p_.grad_weight.data) return;
    const char* const logits = at<char>(places_.logits) + (next.panel + next.begin) * lanes_ * bytes();
    const int64_t size = next.count * lanes_ * bytes();
    for (int64_t column = 0; column < places_.columns; column += kLossBlock) {
      // Each strip reads ahead its share of the next block's logits.
      const int64_t first = size * column / places_.columns,
                    last = size * std::min(column + kLossBlock, places_.columns) / places_.columns;
      weight_gradients(args, row, column, {logits + first, last > first ? 1 : 0, 0, last - first});
    }
  }

  void weight_gradients(const LogitGradients& from, int64_t row, int64_t column, const ReadAhead& logits) const {
    const int64_t columns = strip(column);
    const MutableHeadRows to = strip_of(part_of(p_.grad_weight, row, from.rows), column);
    // The next sums to be added to, those of the next strip or rows, are in memory.
    const int64_t next_row = row + from.rows;
    const std::array ahead{
        index_ == 0 ? ReadAhead{}
        : column + kLossBlock < places_.columns
            ? read_ahead(strip_of(part_of(p_.grad_weight, row, from.rows), column + kLossBlock))
            : read_ahead(
                  strip_of(part_of(p_.grad_weight, next_row, std::min(kLossBlock, p_.shape.vocabulary - next_row)), 0)),
        logits};
    const bool split = pairs_ && places_.chunks.count > 2;
    // The remainders are laid out as a contiguous gradient.
    char* low = split ? at<char>(places_.low) + (row * p_.grad_weight.stride + column) * 2 : nullptr;
    alignas(64) float tile[kLossBlock * kLossBlock];
    const bool add = index_ > 0;
    if (pairs_) {
      if (add) load_split({to, low}, columns, tile);
      block_product(tile, columns, {static_cast<const uint16_t*>(from.gradients), from.stride, 2},
                    at<Pair>(places_.rows) + column * div_up(tokens_, 2), columns, from.rows, div_up(tokens_, 2),
                    columns, add, ahead);
      store_split(tile, columns, {to, index_ + 1 < places_.chunks.count ? low : nullptr});
    } else if (to.width == columns) {
      block_product(static_cast<float*>(to.data), to.stride,
                    {static_cast<const float*>(from.gradients), from.stride, 1},
                    at<float>(places_.rows) + column * tokens_, columns, from.rows, tokens_, columns, add, ahead);
    } else {
      if (add) widen_rows({to.data, to.dtype, to.stride, to.count, to.width}, columns, tile);
      block_product(tile, columns, {static_cast<const float*>(from.gradients), from.stride, 1},
                    at<float>(places_.rows) + column * tokens_, columns, from.rows, tokens_, columns, add, ahead);
      store_rows(tile, columns, to);
    }
  }

  /// Computes a panel's share of x's gradient: columns of one strip, blocks [first, last) of tokens.
  void x_gradients(int64_t panel, int64_t rows, int64_t column, int64_t first, int64_t last) const {
    // Rows of the panel whose strip stays in the first-level cache.
    constexpr int64_t kDepth = 128;
    const int64_t columns = strip(column);
    const bool in_place = can_multiply_in_place();
    alignas(64) float packed[kDepth * kLossBlock];
    for (int64_t begin = 0; begin < rows; begin += kDepth) {
      const int64_t depth = std::min(kDepth, rows - begin);
      const bool add = panel > 0 || begin > 0;
      const HeadRows weight = part_of(p_.weight, panel + begin, depth);
      if (!in_place) pack_strip(weight, column, packed);
      const float* const right = in_place ? static_cast<const float*>(weight.data) + column : packed;
      const int64_t right_row = in_place ? weight.stride : columns;
      const HeadRows next =
          strip_of(part_of(p_.weight, panel + begin + depth, std::min(kDepth, rows - begin - depth)), column);
      for (int64_t block = first; block < last; ++block) {
        const int64_t token = block * kLossBlock, count = std::min(kLossBlock, tokens_ - token);
        float* to = at<float>(places_.grad_x) + token * places_.columns + column;
        // Another core may have written the gradients of the next matmul.
        const std::array ahead{block + 1 < last ? read_ahead_of_gradients(begin, depth, block + 1)
                                                : read_ahead_of_gradients(begin + depth, next.count, first),
                               read_ahead(share_of(next, block - first, last - first))};
        if (pairs_)
          block_product(to, places_.columns,
                        {reinterpret_cast<const uint16_t*>(pair_gradients(begin, token)), 2, 2 * places_.stride},
                        reinterpret_cast<const Pair*>(packed), columns, count, div_up(depth, 2), columns, add, ahead);
        else
          block_product(to, places_.columns, {gradients(begin, token), 1, places_.stride}, right, right_row, count,
                        depth, columns, add, ahead);
      }
    }
  }

  /// Returns the gradients of the logits from a row of the panel and a token on.
  const float* gradients(int64_t row, int64_t token) const {
    return at<float>(places_.gradients) + row * places_.stride + token;
  }
  const Pair* pair_gradients(int64_t row, int64_t token) const {
    return at<Pair>(places_.pairs) + row / 2 * places_.stride + token;
  }
  ReadAhead read_ahead_of_gradients(int64_t row, int64_t rows, int64_t block) const {
    const int64_t token = block * kLossBlock, lanes = std::min(kLossBlock, lanes_ - token);
    // A pair and a float32 have the same size.
    const void* const data =
        pairs_ ? static_cast<const void*>(pair_gradients(row, token)) : static_cast<const void*>(gradients(row, token));
    return {static_cast<const char*>(data), pairs_ ? div_up(rows, 2) : rows, places_.stride * 4, lanes * 4};
  }

  /// Returns true if strips of the weight need no packing. Rows at a multiple of 1 KiB would share few sets of the
  /// first-level cache.
  bool can_multiply_in_place() const {
    return !pairs_ && p_.shape.width == places_.columns && p_.weight.stride * bytes() % 1024 != 0;
  }

  const Problem& p_;
  const LossBlocks& places_;
  char* scratch_;
  int64_t index_, first_, tokens_, lanes_;
  bool pairs_;
};

HeadRows const_matrix(const Tensor& matrix) {
  return {matrix.const_data_ptr(), dtype_of(matrix), matrix.stride(0), matrix.size(0), matrix.size(1)};
}
MutableHeadRows matrix(const Tensor& matrix) {
  if (!matrix.defined() || matrix.numel() == 0) return {};
  return {matrix.data_ptr(), dtype_of(matrix), matrix.stride(0), matrix.size(0), matrix.size(1)};
}

}  // namespace

Tensor linear_cross_entropy_blocks(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                   double softcap, const Tensor& grad_x, const Tensor& grad_weight) {
  const Tensor from = matrix_rows(x), rows_of_weight = matrix_rows(weight);
  const Tensor losses = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
  const Problem problem{.shape = {.tokens = x.size(0),
                                  .vocabulary = weight.size(0),
                                  .width = x.size(1),
                                  .dtype = dtype_of(x),
                                  .wants_x = grad_x.defined() && grad_x.numel() > 0,
                                  .wants_weight = grad_weight.defined() && grad_weight.numel() > 0},
                        .x = const_matrix(from),
                        .weight = const_matrix(rows_of_weight),
                        .grad_x = matrix(grad_x),
                        .grad_weight = matrix(grad_weight),
                        .targets = targets.const_data_ptr<int64_t>(),
                        .target_stride = targets.stride(0),
                        .ignore_index = ignore_index,
                        .cap = softcap,
                        .losses = losses.mutable_data_ptr<float>()};
  const LossBlocks blocks = loss_blocks(problem.shape, at::get_num_threads());
  const Tensor scratch = at::empty({blocks.total}, x.options().dtype(at::kByte));
  for (int64_t chunk = 0; chunk < blocks.chunks.count; ++chunk)
    Chunk(problem, blocks, static_cast<char*>(scratch.data_ptr()), chunk).run();
  return losses;
}

namespace {

/// An allocator that returns consecutive offsets in bytes.
struct Places {
  int64_t next = 0;
  int64_t take(bool wanted, int64_t bytes) {
    const int64_t place = next;
    if (wanted) next += div_up(bytes, 64) * 64;
    return place;
  }
};

}  // namespace

LossBlocks loss_blocks(const LossShape& shape, int threads) {
  const bool pairs = shape.dtype == DType::bfloat16, wants_any = shape.wants_x || shape.wants_weight;
  const int64_t bytes = element_bytes(shape.dtype);
  LossBlocks blocks{};
  blocks.chunks = loss_chunks(shape.tokens, shape.vocabulary, bytes, kLossChunkBytes);
  const int64_t rows = blocks.chunks.rows, halved = pairs ? 2 : 1;
  const int64_t lanes = loss_lanes(rows), columns = blocks.columns = loss_lanes(shape.width);
  blocks.stretches = div_up(shape.vocabulary, kLossStretch);
  // Two blocks a thread even out their different durations. Panels for eight threads or fewer have one size.
  blocks.panel = std::min(div_up(shape.vocabulary, kLossBlock), std::max<int64_t>(16, 2 * threads)) * kLossBlock;
  // A matmul walks down a column of gradients (float32 or pairs). An odd number of cache lines from a row to the next
  // lets the rows use all sets of the first-level cache; a power of two would leave them a few.
  blocks.stride = (lanes / kLossLanes | 1) * kLossLanes;
  Places places;
  blocks.logits = places.take(wants_any, shape.vocabulary * lanes * bytes);
  blocks.maximum = places.take(true, blocks.stretches * lanes * 4);
  blocks.sums = places.take(true, blocks.stretches * lanes * 4);
  blocks.numbers = places.take(true, 3 * lanes * 4);
  blocks.transposed = places.take(true, shape.width / halved * lanes * 4);
  blocks.rows = places.take(shape.wants_weight, div_up(rows, halved) * columns * 4);
  blocks.gradients = places.take(shape.wants_weight || (shape.wants_x && !pairs), blocks.panel * blocks.stride * bytes);
  blocks.pairs = places.take(pairs && shape.wants_x, blocks.panel / 2 * blocks.stride * 4);
  blocks.grad_x = places.take(shape.wants_x, rows * columns * 4);
  blocks.low =
      places.take(pairs && shape.wants_weight && blocks.chunks.count > 2, shape.vocabulary * shape.width * bytes);
  blocks.total = places.next;
  return blocks;
}

}  // namespace plimsoll::ops
