#include "ops/attention/attention_tasks_cpu.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace plimsoll::ops {
namespace {

/// A range of tokens.
struct Range {
  int64_t begin, count;
  int64_t end() const { return begin + count; }
};

Range block_at(int64_t index, int64_t tokens) {
  const int64_t begin = index * kAttentionBlock;
  return {begin, std::min(kAttentionBlock, tokens - begin)};
}

int64_t element(const HeadTensor& tensor, int64_t batch, int64_t head, int64_t token) {
  return batch * tensor.batch_stride + head * tensor.head_stride + token * tensor.token_stride;
}

MutableHeadRows rows_of(const HeadTensor& tensor, const AttentionShape& shape, int64_t batch, int64_t head,
                        const Range& tokens) {
  char* data = static_cast<char*>(tensor.data) +
               element(tensor, batch, head, tokens.begin) * static_cast<int64_t>(element_bytes(tensor.dtype));
  return {data, tensor.dtype, tensor.token_stride, tokens.count, shape.width};
}
HeadRows const_rows_of(const HeadTensor& tensor, const AttentionShape& shape, int64_t batch, int64_t head,
                       const Range& tokens) {
  const MutableHeadRows rows = rows_of(tensor, shape, batch, head, tokens);
  return {rows.data, rows.dtype, rows.stride, rows.count, rows.width};
}

/// Calls `each(Range)` for the blocks of keys in [begin, end) that some query of a block sees. `begin` is a multiple of
/// a block.
template <typename Each>
void for_keys(const AttentionShape& shape, const Range& queries, int64_t begin, int64_t end, const Each& each) {
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, queries.begin - shape.window + 1) : 0;
  const int64_t last = shape.causal ? queries.end() : shape.keys;
  const int64_t from = std::max(begin, first / kAttentionBlock * kAttentionBlock);
  for (int64_t key = from; key < std::min(end, last); key += kAttentionBlock)
    each(Range{key, std::min(kAttentionBlock, std::min(end, last) - key)});
}

template <typename S>
constexpr bool kIsDouble = std::is_same_v<S, double>;

/// The tiles of a thread, and the matmuls between them: of wide values S, or of pairs.
template <typename S>
class Tiles {
 public:
  Tiles(const AttentionWork& work, char* scratch) : work_(work), scratch_(scratch) {}

  S* at(int64_t place) const { return reinterpret_cast<S*>(scratch_ + place); }
  Pair* pairs_at(int64_t place) const { return reinterpret_cast<Pair*>(scratch_ + place); }

  /// Returns rows as the left matrix of a matmul, [tokens, width]. Rows that are not wide are widened at `place`.
  BlockLeft<S> left(const HeadRows& rows, int64_t place) const {
    if (element_bytes(rows.dtype) == sizeof(S)) return {static_cast<const S*>(rows.data), rows.stride, 1};
    const int64_t columns = attention_lanes(rows.width);
    widen_rows(rows, columns, at(place));
    return {at(place), columns, 1};
  }
  static BlockLeft<uint16_t> left_pairs(const HeadRows& rows) {
    return {static_cast<const uint16_t*>(rows.data), rows.stride, 2};
  }
  static BlockLeft<S> transposed(const BlockLeft<S>& left) { return {left.data, left.column, left.row}; }
  /// Returns rows of pairs, in pair_rows()'s layout, as the left matrix [width, pairs].
  static BlockLeft<uint16_t> transposed_pairs(const Pair* pairs, int64_t columns) {
    return {reinterpret_cast<const uint16_t*>(pairs), 2, 2 * columns};
  }

  /// Transposes queries for the matmuls with keys.
  void transpose(const HeadRows& rows, int64_t lanes, int64_t place) const {
    if (work_.pairs)
      transpose_pairs(rows, lanes, pairs_at(place));
    else
      transpose_rows(rows, lanes, at(place));
  }

 private:
  const AttentionWork& work_;
  char* scratch_;
};

/// The attention of one head: its number in the batch's heads, and its mask.
struct Head {
  int64_t batch, head;
};

/// Writes the mask's part for a block to `bias`; Seen::all without a mask.
Seen load_bias(const AttentionWork& work, const Head& head, const Range& queries, const Range& keys, int64_t lanes,
               void* bias) {
  const MaskTensor& mask = work.mask;
  if (mask.data == nullptr) return Seen::all;
  const int64_t first = head.batch * mask.batch_stride + head.head * mask.head_stride +
                        queries.begin * mask.query_stride + keys.begin * mask.key_stride;
  return load_mask_block({.data = static_cast<const char*>(mask.data) + first * element_bytes(mask.dtype),
                          .dtype = mask.dtype,
                          .query_stride = mask.query_stride,
                          .key_stride = mask.key_stride,
                          .queries = queries.count,
                          .keys = keys.count},
                         work.dtype == DType::float64, lanes, bias);
}

ScoreBlock score_block(const AttentionWork& work, const Head& head, void* scores, const void* bias,
                       const Range& queries, const Range& keys, int64_t lanes) {
  return {.scores = scores,
          .is_double = work.dtype == DType::float64,
          .keys = keys.count,
          .lanes = lanes,
          .scale = work.scale,
          .cap = work.cap,
          .causal = work.shape.causal,
          .window = work.shape.window,
          .lead = keys.begin - queries.begin,
          .pairs = work.pairs,
          .bias = bias,
          .split = work.shape.masked,
          .dropout = {.seed = head_seed(work.seed, head.batch * work.shape.query_heads + head.head),
                      .rule = dropout_rule(work.dropout),
                      .first_query = queries.begin,
                      .first_key = keys.begin}};
}

/// Returns the address of a query's value, in the accumulator's type.
template <typename S>
S* number_of(const HeadTensor& tensor, int64_t batch, int64_t head, int64_t query) {
  return static_cast<S*>(tensor.data) + element(tensor, batch, head, query);
}

template <typename S>
void forward_task(const AttentionWork& work, const ForwardTiles& places, int64_t index, char* scratch) {
  const AttentionShape& shape = work.shape;
  const int64_t blocks = attention_blocks(shape.queries), width = shape.width, columns = attention_lanes(width);
  const int64_t unit = index / blocks, batch = unit / shape.query_heads, head = unit % shape.query_heads;
  const int64_t kv_head = head / shape.group();
  const Range queries = block_at(balanced(index % blocks, blocks), shape.queries);
  const int64_t lanes = attention_lanes(queries.count);
  const Tiles<S> tiles(work, scratch);
  S *scores = tiles.at(places.scores), *result = tiles.at(places.result), *numbers = tiles.at(places.numbers);
  tiles.transpose(const_rows_of(work.q, shape, batch, head, queries), lanes, places.queries);
  std::fill_n(result, width * lanes, S{0});
  start_softmax(kIsDouble<S>, lanes, numbers);
  for_keys(shape, queries, 0, shape.keys, [&](const Range& keys) {
    const HeadRows k = const_rows_of(work.k, shape, batch, kv_head, keys);
    const HeadRows v = const_rows_of(work.v, shape, batch, kv_head, keys);
    S* const bias = tiles.at(places.bias);
    const Seen seen = load_bias(work, {batch, head}, queries, keys, lanes, bias);
    if (seen == Seen::none) return;
    const ScoreBlock block =
        score_block(work, {batch, head}, scores, seen == Seen::some ? bias : nullptr, queries, keys, lanes);
    if constexpr (!kIsDouble<S>) {
      if (work.pairs) {
        block_product(scores, lanes, tiles.left_pairs(k), tiles.pairs_at(places.queries), lanes, keys.count, width / 2,
                      lanes, /*add=*/false);
        softmax_block(block, numbers, result, width);
        Pair* pairs = tiles.pairs_at(places.values);
        pair_rows(v, columns, pairs);
        block_product(result, lanes, tiles.transposed_pairs(pairs, columns), reinterpret_cast<const Pair*>(scores),
                      lanes, width, div_up(keys.count, 2), lanes, /*add=*/true);
        return;
      }
    }
    block_product(scores, lanes, tiles.left(k, places.keys), tiles.at(places.queries), lanes, keys.count, width, lanes,
                  /*add=*/false);
    softmax_block(block, numbers, result, width);
    block_product(result, lanes, tiles.transposed(tiles.left(v, places.values)), scores, lanes, width, keys.count,
                  lanes,
                  /*add=*/true);
  });
  finish_softmax(kIsDouble<S>, lanes, numbers, 1 / (1 - work.dropout), shape.masked);
  store_transposed(result, lanes, numbers + lanes, rows_of(work.out, shape, batch, head, queries));
  for (int64_t i = 0; i < queries.count; ++i) {
    S* const kept = number_of<S>(work.logsumexp, batch, head, queries.begin + i);
    kept[0] = numbers[i];
    if (shape.masked) kept[1] = numbers[2 * lanes + i];
  }
}

/// The destinations of the gradients of a block of queries: `keys` from the first key of a task on; `query` may be
/// null.
template <typename S>
struct GradientSums {
  S *key, *value;  ///< [keys, columns]
  int64_t first_key;
  S* query;  ///< [width, lanes]
};

template <typename S>
class BackwardTasks {
 public:
  BackwardTasks(const AttentionWork& work, const BackwardTiles& places, char* scratch)
      : work_(work), shape_(work.shape), places_(places), tiles_(work, scratch) {}

  /// Computes a chunk of keys of a key head, with the queries of its group.
  void keys_task(const BackwardCut& cut, int64_t index) const {
    const int64_t unit = index / cut.chunks, batch = unit / shape_.kv_heads, kv_head = unit % shape_.kv_heads;
    const int64_t first = balanced(index % cut.chunks, cut.chunks) * cut.key_chunk;
    const Range chunk{first, std::min(cut.key_chunk, shape_.keys - first)};
    const GradientSums<S> sums{tiles_.at(places_.key_gradient), tiles_.at(places_.value_gradient), first,
                               cut.together ? tiles_.at(places_.query_gradient) : nullptr};
    std::fill_n(sums.key, chunk.count * columns_, S{0});
    std::fill_n(sums.value, chunk.count * columns_, S{0});
    for (int64_t head = kv_head * shape_.group(); head < (kv_head + 1) * shape_.group(); ++head)
      for (int64_t block = 0; block < attention_blocks(shape_.queries); ++block) {
        const Range queries = block_at(block, shape_.queries);
        if (!sees(queries, chunk)) continue;
        block_of_queries(batch, head, queries, chunk, sums);
      }
    store_rows(sums.key, columns_, rows_of(work_.dk, shape_, batch, kv_head, chunk));
    store_rows(sums.value, columns_, rows_of(work_.dv, shape_, batch, kv_head, chunk));
  }

  void queries_task(int64_t index) const {
    const int64_t blocks = attention_blocks(shape_.queries);
    const int64_t unit = index / blocks, batch = unit / shape_.query_heads, head = unit % shape_.query_heads;
    block_of_queries(batch, head, block_at(balanced(index % blocks, blocks), shape_.queries), {0, shape_.keys},
                     {nullptr, nullptr, 0, tiles_.at(places_.query_gradient)});
  }

 private:
  bool sees(const Range& queries, const Range& chunk) const {
    bool any = false;
    for_keys(shape_, queries, chunk.begin, chunk.end(), [&](const Range&) { any = true; });
    return any;
  }

  void block_of_queries(int64_t batch, int64_t head, const Range& queries, const Range& chunk,
                        const GradientSums<S>& sums) const {
    const int64_t lanes = attention_lanes(queries.count), kv_head = head / shape_.group();
    const HeadRows q = const_rows_of(work_.q, shape_, batch, head, queries);
    const HeadRows grad = const_rows_of(work_.grad_out, shape_, batch, head, queries);
    tiles_.transpose(q, lanes, places_.queries);
    tiles_.transpose(grad, lanes, places_.gradients);
    if (sums.key) {
      if (work_.pairs) {
        pair_rows(q, columns_, tiles_.pairs_at(places_.query_rows));
        pair_rows(grad, columns_, tiles_.pairs_at(places_.gradient_rows));
      } else {
        widen_rows(q, columns_, tiles_.at(places_.query_rows));
        widen_rows(grad, columns_, tiles_.at(places_.gradient_rows));
      }
    }
    S* numbers = tiles_.at(places_.numbers);
    std::fill_n(numbers, (shape_.masked ? 3 : 2) * lanes, S{0});
    for (int64_t i = 0; i < queries.count; ++i) {
      const S* const kept = number_of<S>(work_.logsumexp, batch, head, queries.begin + i);
      numbers[i] = kept[0];
      if (shape_.masked) numbers[2 * lanes + i] = kept[1];
    }
    row_products(grad, const_rows_of(work_.out, shape_, batch, head, queries), numbers + lanes);
    if (sums.query) std::fill_n(sums.query, shape_.width * lanes, S{0});
    for_keys(shape_, queries, chunk.begin, chunk.end(), [&](const Range& keys) {
      const HeadRows k = const_rows_of(work_.k, shape_, batch, kv_head, keys);
      const HeadRows v = const_rows_of(work_.v, shape_, batch, kv_head, keys);
      S* const bias = tiles_.at(places_.bias);
      const Seen seen = load_bias(work_, {batch, head}, queries, keys, lanes, bias);
      if (seen == Seen::none) return;
      const ScoreBlock block = score_block(work_, {batch, head}, tiles_.at(places_.scores),
                                           seen == Seen::some ? bias : nullptr, queries, keys, lanes);
      if constexpr (!kIsDouble<S>)
        if (work_.pairs) return pairs_block(block, queries, keys, lanes, k, v, sums);
      wide_block(block, queries, keys, lanes, k, v, sums);
    });
    if (sums.query) store_transposed(sums.query, lanes, nullptr, rows_of(work_.dq, shape_, batch, head, queries));
  }

  void wide_block(const ScoreBlock& block, const Range& queries, const Range& keys, int64_t lanes, const HeadRows& k,
                  const HeadRows& v, const GradientSums<S>& sums) const {
    S *scores = tiles_.at(places_.scores), *gradients = tiles_.at(places_.score_gradients);
    const BlockLeft<S> left = tiles_.left(k, places_.keys);
    const int64_t width = shape_.width, n = keys.count;
    block_product(scores, lanes, left, tiles_.at(places_.queries), lanes, n, width, lanes, /*add=*/false);
    block_product(gradients, lanes, tiles_.left(v, places_.values), tiles_.at(places_.gradients), lanes, n, width,
                  lanes, /*add=*/false);
    softmax_gradient_block(block, tiles_.at(places_.numbers), gradients, nullptr);
    if (sums.key) {
      const int64_t at = (keys.begin - sums.first_key) * columns_;
      block_product(sums.value + at, columns_, {scores, lanes, 1}, tiles_.at(places_.gradient_rows), columns_, n,
                    queries.count, columns_, /*add=*/true);
      block_product(sums.key + at, columns_, {gradients, lanes, 1}, tiles_.at(places_.query_rows), columns_, n,
                    queries.count, columns_, /*add=*/true);
    }
    if (sums.query)
      block_product(sums.query, lanes, tiles_.transposed(left), gradients, lanes, width, n, lanes, /*add=*/true);
  }

  void pairs_block(const ScoreBlock& block, const Range& queries, const Range& keys, int64_t lanes, const HeadRows& k,
                   const HeadRows& v, const GradientSums<float>& sums) const {
    float *scores = tiles_.at(places_.scores), *gradients = tiles_.at(places_.score_gradients);
    const int64_t width = shape_.width, n = keys.count;
    block_product(scores, lanes, tiles_.left_pairs(k), tiles_.pairs_at(places_.queries), lanes, n, width / 2, lanes,
                  /*add=*/false);
    block_product(gradients, lanes, tiles_.left_pairs(v), tiles_.pairs_at(places_.gradients), lanes, n, width / 2,
                  lanes, /*add=*/false);
    Pair* gradient_pairs = tiles_.pairs_at(places_.pairs);
    softmax_gradient_block(block, tiles_.at(places_.numbers), gradients, gradient_pairs);
    if (sums.key) {
      const int64_t at = (keys.begin - sums.first_key) * columns_, depth = div_up(queries.count, 2);
      // Rows of bfloat16 are stored over rows of float32.
      const auto left = [&](const float* rows) {
        return BlockLeft<uint16_t>{reinterpret_cast<const uint16_t*>(rows), 2 * lanes, 2};
      };
      block_product(sums.value + at, columns_, left(scores), tiles_.pairs_at(places_.gradient_rows), columns_, n, depth,
                    columns_, /*add=*/true);
      block_product(sums.key + at, columns_, left(gradients), tiles_.pairs_at(places_.query_rows), columns_, n, depth,
                    columns_, /*add=*/true);
    }
    if (sums.query) {
      Pair* key_pairs = tiles_.pairs_at(places_.keys);
      pair_rows(k, columns_, key_pairs);
      block_product(sums.query, lanes, tiles_.transposed_pairs(key_pairs, columns_), gradient_pairs, lanes, width,
                    div_up(n, 2), lanes, /*add=*/true);
    }
  }

  const AttentionWork& work_;
  const AttentionShape& shape_;
  const BackwardTiles& places_;
  Tiles<S> tiles_;
  int64_t columns_ = attention_lanes(shape_.width);
};

}  // namespace

void attention_forward_task(const AttentionWork& work, const ForwardTiles& tiles, int64_t index, char* scratch) {
  (work.dtype == DType::float64 ? forward_task<double> : forward_task<float>)(work, tiles, index, scratch);
}

void attention_keys_task(const AttentionWork& work, const BackwardCut& cut, const BackwardTiles& tiles, int64_t index,
                         char* scratch) {
  if (work.dtype == DType::float64) return BackwardTasks<double>(work, tiles, scratch).keys_task(cut, index);
  BackwardTasks<float>(work, tiles, scratch).keys_task(cut, index);
}

void attention_queries_task(const AttentionWork& work, const BackwardTiles& tiles, int64_t index, char* scratch) {
  if (work.dtype == DType::float64) return BackwardTasks<double>(work, tiles, scratch).queries_task(index);
  BackwardTasks<float>(work, tiles, scratch).queries_task(index);
}

}  // namespace plimsoll::ops
