#include "ops/scan/ssd_kernels_cpu.h"

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"
#include "ops/tile_product.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using namespace lanes;

namespace {

/// An allocator of tiles in a thread's scratch.
template <typename S>
struct Tiles {
  S* next;
  PLIMSOLL_INLINE S* take(int64_t elements) {
    S* tile = next;
    next += ssd_tile(elements);
    return tile;
  }
};

/// The positions [first, first + length) of a scan, in its order.
struct Chunk {
  int64_t batch, first, length;
  /// Returns the time of position `i` of the chunk.
  PLIMSOLL_INLINE int64_t time(const SsdShape& s, int64_t i) const {
    return s.reverse ? s.time - 1 - first - i : first + i;
  }
};

PLIMSOLL_INLINE Chunk chunk_of(const SsdShape& s, int64_t batch, int64_t index) {
  const int64_t first = index * s.chunk;
  return {batch, first, s.chunk < s.time - first ? s.chunk : s.time - first};
}

template <typename T>
PLIMSOLL_INLINE const T* row_at(const SsdTensor& tensor, const SsdShape& s, const Chunk& chunk, int64_t i,
                                int64_t head) {
  return static_cast<const T*>(tensor.data) + chunk.batch * tensor.batch_stride +
         chunk.time(s, i) * tensor.time_stride + head * tensor.head_stride;
}

// Arithmetic is in S, the accumulator; only rows that are loaded and stored have another dtype. The kernels are
// therefore compiled for two types, not for four.
template <typename T, typename S>
PLIMSOLL_INLINE void load_rows_of(const SsdTensor& tensor, const SsdShape& s, const Chunk& chunk, int64_t head,
                                  int64_t width, S* to) {
  for (int64_t i = 0; i < chunk.length; ++i) {
    const T* from = row_at<T>(tensor, s, chunk, i, head);
    PLIMSOLL_FOR_LANES(j, partial, width) {
      store_some(to + i * width + j, load_some(from + j, partial), partial);
    }
  }
}

template <typename T, typename S>
PLIMSOLL_INLINE void store_rows_of(const S* from, const SsdShape& s, const Chunk& chunk, int64_t head, int64_t heads,
                                   int64_t width, void* out) {
  for (int64_t i = 0; i < chunk.length; ++i) {
    T* to = static_cast<T*>(out) + ((chunk.batch * s.time + chunk.time(s, i)) * heads + head) * width;
    PLIMSOLL_FOR_LANES(j, partial, width) {
      store_some(to + j, load_some(from + i * width + j, partial), partial);
    }
  }
}

/// Loads a head's rows of the chunk, [length, width].
PLIMSOLL_INLINE void load_rows(DType dtype, const SsdTensor& tensor, const SsdShape& s, const Chunk& chunk,
                               int64_t head, int64_t width, float* to) {
  if (dtype == DType::bfloat16)
    load_rows_of<c10::BFloat16>(tensor, s, chunk, head, width, to);
  else if (dtype == DType::float16)
    load_rows_of<c10::Half>(tensor, s, chunk, head, width, to);
  else
    load_rows_of<float>(tensor, s, chunk, head, width, to);
}
PLIMSOLL_INLINE void load_rows(DType, const SsdTensor& tensor, const SsdShape& s, const Chunk& chunk, int64_t head,
                               int64_t width, double* to) {
  load_rows_of<double>(tensor, s, chunk, head, width, to);
}

/// Stores the rows of one of `heads` heads to `out` [batch, time, heads, width].
PLIMSOLL_INLINE void store_rows(DType dtype, const float* from, const SsdShape& s, const Chunk& chunk, int64_t head,
                                int64_t heads, int64_t width, void* out) {
  if (dtype == DType::bfloat16)
    store_rows_of<c10::BFloat16>(from, s, chunk, head, heads, width, out);
  else if (dtype == DType::float16)
    store_rows_of<c10::Half>(from, s, chunk, head, heads, width, out);
  else
    store_rows_of<float>(from, s, chunk, head, heads, width, out);
}
PLIMSOLL_INLINE void store_rows(DType, const double* from, const SsdShape& s, const Chunk& chunk, int64_t head,
                                int64_t heads, int64_t width, void* out) {
  store_rows_of<double>(from, s, chunk, head, heads, width, out);
}

/// Transposes [rows, columns] to [columns, rows].
template <typename S>
PLIMSOLL_INLINE void transpose(const S* from, int64_t rows, int64_t columns, S* to) {
  constexpr int64_t kBlock = 16;  // columns per block: the written rows stay in cache
  for (int64_t begin = 0; begin < columns; begin += kBlock) {
    const int64_t end = begin + kBlock < columns ? begin + kBlock : columns;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = begin; j < end; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

/// Computes dt of each position, and the sum of dt A up to and including it.
template <typename S>
PLIMSOLL_INLINE void load_decays(const SsdOperands& in, const Chunk& chunk, int64_t head, S* dt, S* sums) {
  const S a = static_cast<const S*>(in.a)[head];
  S sum = 0;
  for (int64_t i = 0; i < chunk.length; ++i) {
    dt[i] = *row_at<S>(in.dt, in.shape, chunk, i, head);
    sum += dt[i] * a;
    sums[i] = sum;
  }
}

template <typename S>
PLIMSOLL_INLINE void scale_rows(S* rows, int64_t count, int64_t width, const S* factors) {
  for (int64_t i = 0; i < count; ++i) PLIMSOLL_FOR_LANES(j, partial, width) {
      store_some(rows + i * width + j, load_some(static_cast<const S*>(rows) + i * width + j, partial) * factors[i],
                 partial);
    }
}

template <typename S>
PLIMSOLL_INLINE void scaled_copy(S* to, const S* from, int64_t count, S factor) {
  PLIMSOLL_FOR_LANES(j, partial, count) {
    store_some(to + j, load_some(from + j, partial) * factor, partial);
  }
}

template <typename S>
PLIMSOLL_INLINE void set_zero(S* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0;
}

template <typename S>
PLIMSOLL_INLINE S dot(const S* a, const S* b, int64_t count) {
  VectorOf<S> sums{};
  PLIMSOLL_FOR_LANES(j, partial, count) {
    sums += load_some(a + j, partial) * load_some(b + j, partial);
  }
  return sum(sums);
}

template <typename S>
PLIMSOLL_INLINE S exponential(S x) {
  return lanes::exp(splat<VectorOf<S>>(x))[0];
}

/// Computes to[i] = exp(last - sums[i]) dt[i]: the weight of position i in the state that leaves the chunk.
template <typename S>
PLIMSOLL_INLINE void state_weights(const S* dt, const S* sums, int64_t length, S* to) {
  const S last = sums[length - 1];
  PLIMSOLL_FOR_LANES(i, partial, length) {
    store_some(to + i, lanes::exp(last - load_some(sums + i, partial)) * load_some(dt + i, partial), partial);
  }
}

template <typename S>
PLIMSOLL_INLINE void exponentials(const S* sums, int64_t length, S* to) {
  PLIMSOLL_FOR_LANES(i, partial, length) {
    store_some(to + i, lanes::exp(load_some(sums + i, partial)), partial);
  }
}

template <typename S>
PLIMSOLL_INLINE void states_of(const SsdOperands& in, void* out, void* scratch, int64_t begin, int64_t end) {
  const SsdShape& s = in.shape;
  const int64_t n = s.state, p = s.width, l = s.longest(), size = s.state_elements();
  Tiles<S> tiles{static_cast<S*>(scratch)};
  S *b = tiles.take(l * n), *x = tiles.take(l * p), *dt = tiles.take(l), *sums = tiles.take(l);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / s.heads, head = task % s.heads;
    S* state = static_cast<S*>(out) + task * s.chunks() * size;
    set_zero(state, size);
    for (int64_t k = 0; k + 1 < s.chunks(); ++k, state += size) {
      const Chunk chunk = chunk_of(s, batch, k);
      load_rows(in.dtype, in.b, s, chunk, head / s.heads_of_group(), n, b);
      load_rows(in.dtype, in.x, s, chunk, head, p, x);
      load_decays<S>(in, chunk, head, dt, sums);
      const S kept = exponential(sums[chunk.length - 1]);
      state_weights<S>(dt, sums, chunk.length, dt);
      scale_rows<S>(b, chunk.length, n, dt);
      scaled_copy<S>(state + size, state, size, kept);
      tile_product(state + size, p, {b, 1, n}, x, p, n, chunk.length, p, /*add=*/true);
    }
  }
}

/// Computes C_i . B_j for all positions of a chunk, [length, length]; B and C stay in their tiles.
template <typename S>
PLIMSOLL_INLINE void load_scores(const SsdOperands& in, const Chunk& chunk, int64_t group, S* b, S* c, S* b_transposed,
                                 S* scores) {
  const int64_t n = in.shape.state, l = chunk.length;
  load_rows(in.dtype, in.b, in.shape, chunk, group, n, b);
  load_rows(in.dtype, in.c, in.shape, chunk, group, n, c);
  transpose(b, l, n, b_transposed);
  tile_product(scores, l, {c, n, 1}, b_transposed, l, l, n, l, /*add=*/false);
}

/// Computes weights_ij = scores_ij exp(s_i - s_j) dt_j up to the diagonal, 0 above it.
template <typename S>
PLIMSOLL_INLINE void weigh(const S* scores, const S* dt, const S* sums, int64_t length, S* weights) {
  for (int64_t i = 0; i < length; ++i) {
    const S* from = scores + i * length;
    S* to = weights + i * length;
    PLIMSOLL_FOR_LANES(j, partial, i + 1) {
      const VectorOf<S> decay = lanes::exp(sums[i] - load_some(sums + j, partial));
      store_some(to + j, load_some(from + j, partial) * decay * load_some(dt + j, partial), partial);
    }
    set_zero(to + i + 1, length - i - 1);
  }
}

template <typename S>
PLIMSOLL_INLINE void outputs_of(const SsdOperands& in, const void* states, void* out, void* scratch, int64_t begin,
                                int64_t end) {
  const SsdShape& s = in.shape;
  const int64_t n = s.state, p = s.width, longest = s.longest(), size = s.state_elements();
  Tiles<S> tiles{static_cast<S*>(scratch)};
  S *b = tiles.take(longest * n), *c = tiles.take(longest * n), *transposed_b = tiles.take(longest * n);
  S *scores = tiles.take(longest * longest), *weights = tiles.take(longest * longest);
  S *x = tiles.take(longest * p), *y = tiles.take(longest * p);
  S *dt = tiles.take(longest), *sums = tiles.take(longest);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t group = task % s.groups, k = task / s.groups % s.chunks(), batch = task / s.groups / s.chunks();
    const Chunk chunk = chunk_of(s, batch, k);
    const int64_t l = chunk.length;
    load_scores<S>(in, chunk, group, b, c, transposed_b, scores);
    for (int64_t head = group * s.heads_of_group(); head < (group + 1) * s.heads_of_group(); ++head) {
      load_rows(in.dtype, in.x, s, chunk, head, p, x);
      load_decays<S>(in, chunk, head, dt, sums);
      weigh<S>(scores, dt, sums, l, weights);
      if (k > 0) {
        const S* state = static_cast<const S*>(states) + ((batch * s.heads + head) * s.chunks() + k) * size;
        tile_product(y, p, {c, n, 1}, state, p, l, n, p, /*add=*/false);
        exponentials<S>(sums, l, dt);
        scale_rows<S>(y, l, p, dt);
      }
      tile_product(y, p, {weights, l, 1, Filled::lower}, x, p, l, l, p, /*add=*/k > 0);
      const S through = static_cast<const S*>(in.d)[head];
      PLIMSOLL_FOR_LANES(i, partial, l * p) {
        store_some(y + i,
                   load_some(static_cast<const S*>(y) + i, partial) +
                       through * load_some(static_cast<const S*>(x) + i, partial),
                   partial);
      }
      store_rows(in.dtype, y, s, chunk, head, s.heads, p, out);
    }
  }
}

template <typename S>
PLIMSOLL_INLINE void state_gradients_of(const SsdOperands& in, const SsdTensor& grad_y, void* out, void* scratch,
                                        int64_t begin, int64_t end) {
  const SsdShape& s = in.shape;
  const int64_t n = s.state, p = s.width, l = s.longest(), size = s.state_elements();
  Tiles<S> tiles{static_cast<S*>(scratch)};
  S *c = tiles.take(l * n), *dy = tiles.take(l * p), *dt = tiles.take(l), *sums = tiles.take(l);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / s.heads, head = task % s.heads;
    S* gradient = static_cast<S*>(out) + ((task + 1) * s.chunks() - 1) * size;  // at the end of the last chunk
    set_zero(gradient, size);
    for (int64_t k = s.chunks() - 1; k > 0; --k, gradient -= size) {
      const Chunk chunk = chunk_of(s, batch, k);
      load_rows(in.dtype, in.c, s, chunk, head / s.heads_of_group(), n, c);
      load_rows(in.dtype, grad_y, s, chunk, head, p, dy);
      load_decays<S>(in, chunk, head, dt, sums);
      exponentials<S>(sums, chunk.length, dt);
      scale_rows<S>(c, chunk.length, n, dt);
      scaled_copy<S>(gradient - size, gradient, size, dt[chunk.length - 1]);
      tile_product(gradient - size, p, {c, 1, n}, dy, p, n, chunk.length, p, /*add=*/true);
    }
  }
}

/// Computes the backward of the weights within a chunk. `products` is dy_i . x_j; weights and scores are as in weigh().
/// Adds to the gradients of scores, of dt and of the sums s.
template <typename S>
PLIMSOLL_INLINE void weigh_backward(const S* scores, const S* products, const S* dt, const S* sums, int64_t length,
                                    S* weights, S* score_gradients, S* dt_gradient, S* sum_gradient) {
  using V = VectorOf<S>;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t row = i * length;
    V total{};
    PLIMSOLL_FOR_LANES(j, partial, i + 1) {
      const V decay = lanes::exp(sums[i] - load_some(sums + j, partial));
      const V step = load_some(dt + j, partial), m = load_some(products + row + j, partial);
      const V undone = load_some(scores + row + j, partial) * decay, weight = undone * step, z = m * weight;
      store_some(weights + row + j, weight, partial);
      store_some(score_gradients + row + j,
                 load_some(static_cast<const S*>(score_gradients) + row + j, partial) + m * decay * step, partial);
      store_some(dt_gradient + j, load_some(static_cast<const S*>(dt_gradient) + j, partial) + m * undone, partial);
      store_some(sum_gradient + j, load_some(static_cast<const S*>(sum_gradient) + j, partial) - z, partial);
      // Lanes past the diagonal hold exp(s_i) x 0.
      total += z;
    }
    sum_gradient[i] += sum(total);
    set_zero(weights + row + i + 1, length - i - 1);
  }
}

template <typename S>
PLIMSOLL_INLINE void gradients_of(const SsdOperands& in, const SsdTensor& grad_y, const void* states,
                                  const void* state_gradients, const SsdGradients& out, void* scratch, int64_t begin,
                                  int64_t end) {
  const SsdShape& s = in.shape;
  const int64_t n = s.state, p = s.width, longest = s.longest(), size = s.state_elements();
  Tiles<S> tiles{static_cast<S*>(scratch)};
  S *b = tiles.take(longest * n), *c = tiles.take(longest * n), *transposed_b = tiles.take(longest * n);
  S *b_gradient = tiles.take(longest * n), *c_gradient = tiles.take(longest * n), *part = tiles.take(longest * n);
  S *scores = tiles.take(longest * longest), *score_gradients = tiles.take(longest * longest);
  S *products = tiles.take(longest * longest), *weights = tiles.take(longest * longest);
  S *x = tiles.take(longest * p), *transposed_x = tiles.take(longest * p), *dy = tiles.take(longest * p);
  S *x_gradient = tiles.take(longest * p), *transposed_state = tiles.take(size);
  S *dt = tiles.take(longest), *sums = tiles.take(longest);
  S *dt_gradient = tiles.take(longest), *sum_gradient = tiles.take(longest);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t group = task % s.groups, k = task / s.groups % s.chunks(), batch = task / s.groups / s.chunks();
    const Chunk chunk = chunk_of(s, batch, k);
    const int64_t l = chunk.length;
    load_scores<S>(in, chunk, group, b, c, transposed_b, scores);
    set_zero(score_gradients, l * l);
    set_zero(b_gradient, l * n);
    set_zero(c_gradient, l * n);
    for (int64_t head = group * s.heads_of_group(); head < (group + 1) * s.heads_of_group(); ++head) {
      const int64_t at = ((batch * s.heads + head) * s.chunks() + k) * size;
      const S *state = static_cast<const S*>(states) + at, *leaving = static_cast<const S*>(state_gradients) + at;
      load_rows(in.dtype, in.x, s, chunk, head, p, x);
      load_rows(in.dtype, grad_y, s, chunk, head, p, dy);
      load_decays<S>(in, chunk, head, dt, sums);
      set_zero(dt_gradient, l);
      set_zero(sum_gradient, l);

      // The terms within the chunk.
      transpose(x, l, p, transposed_x);
      tile_product(products, l, {dy, p, 1}, transposed_x, l, l, p, l, /*add=*/false);
      weigh_backward<S>(scores, products, dt, sums, l, weights, score_gradients, dt_gradient, sum_gradient);
      tile_product(x_gradient, p, {weights, 1, l, Filled::upper}, dy, p, l, l, p, /*add=*/false);

      // The term of the state that enters: y_i has exp(s_i) C_i H.
      if (k > 0) {
        transpose(state, n, p, transposed_state);
        tile_product(part, n, {dy, p, 1}, transposed_state, n, l, p, n, /*add=*/false);
        for (int64_t i = 0; i < l; ++i) {
          const S kept = exponential(sums[i]);
          sum_gradient[i] += kept * dot<S>(c + i * n, part + i * n, n);
          PLIMSOLL_FOR_LANES(j, partial, n) {
            S* to = c_gradient + i * n + j;
            store_some(to,
                       load_some(static_cast<const S*>(to), partial) +
                           kept * load_some(static_cast<const S*>(part) + i * n + j, partial),
                       partial);
          }
        }
      }

      // The terms of the state that leaves: H' has exp(s_last - s_j) dt_j B_j^T x_j and exp(s_last) H.
      const S through = static_cast<const S*>(in.d)[head];
      if (k + 1 < s.chunks()) {
        transpose(leaving, n, p, transposed_state);
        tile_product(part, n, {x, p, 1}, transposed_state, n, l, p, n, /*add=*/false);
        tile_product(transposed_x, p, {b, n, 1}, leaving, p, l, n, p, /*add=*/false);
        S& last = sum_gradient[l - 1];
        for (int64_t j = 0; j < l; ++j) {
          const S decay = exponential(sums[l - 1] - sums[j]), weight = decay * dt[j];
          const S given = dot<S>(b + j * n, part + j * n, n);
          dt_gradient[j] += decay * given;
          sum_gradient[j] -= weight * given;
          last += weight * given;
          PLIMSOLL_FOR_LANES(i, partial, n) {
            S* to = b_gradient + j * n + i;
            store_some(to,
                       load_some(static_cast<const S*>(to), partial) +
                           weight * load_some(static_cast<const S*>(part) + j * n + i, partial),
                       partial);
          }
          PLIMSOLL_FOR_LANES(i, partial, p) {
            S* to = x_gradient + j * p + i;
            store_some(to,
                       load_some(static_cast<const S*>(to), partial) +
                           weight * load_some(static_cast<const S*>(transposed_x) + j * p + i, partial),
                       partial);
          }
        }
        if (k > 0) last += exponential(sums[l - 1]) * dot<S>(leaving, state, size);
      }

      S through_gradient = 0;
      for (int64_t i = 0; i < l; ++i) {
        through_gradient += dot<S>(dy + i * p, x + i * p, p);
        PLIMSOLL_FOR_LANES(j, partial, p) {
          S* to = x_gradient + i * p + j;
          store_some(to,
                     load_some(static_cast<const S*>(to), partial) +
                         through * load_some(static_cast<const S*>(dy) + i * p + j, partial),
                     partial);
        }
      }
      store_rows(in.dtype, x_gradient, s, chunk, head, s.heads, p, out.x);

      // The gradients of the sums become the gradients of each position's dt A.
      const S a = static_cast<const S*>(in.a)[head];
      S running = 0, a_gradient = 0;
      for (int64_t i = l; i-- > 0;) {
        running += sum_gradient[i];
        a_gradient += dt[i] * running;
        static_cast<S*>(out.dt)[(batch * s.time + chunk.time(s, i)) * s.heads + head] = dt_gradient[i] + a * running;
      }
      const int64_t share = (batch * s.chunks() + k) * s.heads + head;
      static_cast<S*>(out.a_parts)[share] = a_gradient;
      static_cast<S*>(out.d_parts)[share] = through_gradient;
    }
    tile_product(c_gradient, n, {score_gradients, l, 1, Filled::lower}, b, n, l, l, n, /*add=*/true);
    tile_product(b_gradient, n, {score_gradients, 1, l, Filled::upper}, c, n, l, l, n, /*add=*/true);
    store_rows(in.dtype, b_gradient, s, chunk, group, s.groups, n, out.b);
    store_rows(in.dtype, c_gradient, s, chunk, group, s.groups, n, out.c);
  }
}

}  // namespace

PLIMSOLL_ACCUMULATOR_KERNELS(states_of, (const SsdOperands& in, void* out, void* scratch, int64_t begin, int64_t end),
                             (in, out, scratch, begin, end))
PLIMSOLL_ACCUMULATOR_KERNELS(outputs_of,
                             (const SsdOperands& in, const void* states, void* out, void* scratch, int64_t begin,
                              int64_t end),
                             (in, states, out, scratch, begin, end))
PLIMSOLL_ACCUMULATOR_KERNELS(state_gradients_of,
                             (const SsdOperands& in, const SsdTensor& grad_y, void* out, void* scratch, int64_t begin,
                              int64_t end),
                             (in, grad_y, out, scratch, begin, end))
PLIMSOLL_ACCUMULATOR_KERNELS(gradients_of,
                             (const SsdOperands& in, const SsdTensor& grad_y, const void* states,
                              const void* state_gradients, const SsdGradients& out, void* scratch, int64_t begin,
                              int64_t end),
                             (in, grad_y, states, state_gradients, out, scratch, begin, end))

void ssd_states(const SsdOperands& in, void* states, void* scratch, int64_t begin, int64_t end) {
  pick_states_of(in.dtype, in, states, scratch, begin, end);
}
void ssd_outputs(const SsdOperands& in, const void* states, void* y, void* scratch, int64_t begin, int64_t end) {
  pick_outputs_of(in.dtype, in, states, y, scratch, begin, end);
}
void ssd_state_gradients(const SsdOperands& in, const SsdTensor& grad_y, void* state_gradients, void* scratch,
                         int64_t begin, int64_t end) {
  pick_state_gradients_of(in.dtype, in, grad_y, state_gradients, scratch, begin, end);
}
void ssd_gradients(const SsdOperands& in, const SsdTensor& grad_y, const void* states, const void* state_gradients,
                   const SsdGradients& out, void* scratch, int64_t begin, int64_t end) {
  pick_gradients_of(in.dtype, in, grad_y, states, state_gradients, out, scratch, begin, end);
}

}  // namespace plimsoll::ops
