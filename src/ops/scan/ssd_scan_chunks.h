// Declares how the state-space scan is cut into chunks and heads, and its scratch: of one thread of the CPU, and of
// the CUDA kernels. No libtorch, no CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

/// The sizes of a scan. The kernels and the estimates of their workspace share them.
struct SsdShape {
  int64_t batch, time, heads, width;  ///< sizes of x [batch, time, heads, width]
  int64_t groups, state;              ///< sizes of B and C [batch, time, groups, state]
  int64_t chunk;                      ///< positions per chunk
  bool reverse;                       ///< true: run from the end to the beginning

  PLIMSOLL_HOST_DEVICE int64_t chunks() const { return div_up(time, chunk); }
  PLIMSOLL_HOST_DEVICE int64_t longest() const {
    return time < chunk ? time : chunk;
  }  ///< positions of the longest chunk
  PLIMSOLL_HOST_DEVICE int64_t heads_of_group() const { return heads / groups; }
  PLIMSOLL_HOST_DEVICE int64_t state_elements() const { return state * width; }  ///< elements of one head's state
};

/// Returns the elements of a tile in a thread's block of scratch, rounded up to a whole cache line.
inline int64_t ssd_tile(int64_t elements) {
  return div_up(elements, 16) * 16;
}

/// Returns the elements of scratch of a thread in the forward pass: the maximum of its two phases, which run one after
/// the other.
inline int64_t ssd_forward_scratch(const SsdShape& s) {
  const int64_t l = s.longest(), n = s.state, p = s.width;
  const int64_t states = ssd_tile(l * n) + ssd_tile(l * p);
  const int64_t outputs = 3 * ssd_tile(l * n) + 2 * ssd_tile(l * l) + 2 * ssd_tile(l * p);
  return std::max(states, outputs) + 2 * ssd_tile(l);
}

/// Returns the elements of scratch of a thread in the backward pass.
inline int64_t ssd_backward_scratch(const SsdShape& s) {
  const int64_t l = s.longest(), n = s.state, p = s.width;
  const int64_t states = ssd_tile(l * n) + ssd_tile(l * p);
  const int64_t gradients =
      6 * ssd_tile(l * n) + 4 * ssd_tile(l * l) + 4 * ssd_tile(l * p) + ssd_tile(n * p) + 2 * ssd_tile(l);
  return std::max(states, gradients) + 2 * ssd_tile(l);
}

/// Returns the elements of the partial sums of the gradients of A and D: one share for every chunk of every sequence.
inline int64_t ssd_partial_sums(const SsdShape& s) {
  return 2 * s.batch * s.chunks() * s.heads;
}

}  // namespace plimsoll::ops

namespace plimsoll::cuda {

/// Maximum bytes of a panel. Only tests change it, to get several panels of small tensors.
inline int64_t ssd_panel_bytes = int64_t{64} << 20;

/// The tiles of a panel for each of its chunks; L positions, H heads, G groups, N state, P width.
enum class SsdTile : uint8_t {
  // Tiles of float32, or float64.
  steps,           ///< dt [H, L]
  sums,            ///< sums of dt A, up to and including each position [H, L]
  local,           ///< the amount that the chunk adds to the states, or to their gradients [G, N, H / G, P]
  scores,          ///< C_i . B_j [G, L, L]
  product,         ///< terms of y, or of the gradient of x [H, L, P]
  products,        ///< dy_i . x_j, then times its weight without dt_j [H, L, L]
  part,            ///< dy H^T, then x G^T [H, L, N]
  c_sums,          ///< the gradient of C from the states, over all heads of a group [G, L, N]
  b_sums,          ///< the gradient of B from the states, over all heads of a group [G, L, N]
  group_product,   ///< the gradients of C and B from within the chunk [G, L, N]
  step_gradients,  ///< [H, L]
  sum_gradients,   ///< gradients of `sums` [H, L]
  given,           ///< the term that position j adds to the state, times its gradient [H, L]
  // Tiles of the operands' type.
  b,                ///< [G, L, N]
  c,                ///< [G, L, N]
  grouped,          ///< x or dy, weighted [G, L, H / G, P]
  x,                ///< [H, L, P]
  left,             ///< [H, L, L + N], in the backward [H, L + N, L]
  right,            ///< x and the state that enters, or dy and the gradient of the state that leaves [H, L + N, P]
  state,            ///< the state that enters [H, N, P]
  score_gradients,  ///< [G, L, L]
  end,
};

/// The scratch of the CUDA kernels; the operator and the estimates of its workspace (ops/workspace) must agree. Chunks
/// are processed in panels of as many as fit into ssd_panel_bytes (at least one). A panel holds tiles of the operands,
/// all padded with zeros to the length of the longest chunk, and the results of their matmuls.
struct SsdPanels {
  static constexpr size_t kTiles = static_cast<size_t>(SsdTile::end);

  ops::SsdShape shape;
  int64_t tasks = 1;  ///< chunks of a panel
  int64_t bytes = 0;  ///< bytes of one panel
  std::array<int64_t, kTiles> offsets{};

  /// Computes the layout. `element` is the bytes of an operand's element; other tiles have 4 bytes an element, or 8 if
  /// it is 8.
  SsdPanels(const ops::SsdShape& of, int64_t element, bool backward) : shape(of) {
    const int64_t l = of.longest(), h = of.heads, g = of.groups, n = of.state, p = of.width;
    const int64_t wide = element == 8 ? 8 : 4;
    std::array<int64_t, kTiles> each{};
    const auto set = [&](SsdTile tile, int64_t elements, int64_t size) {
      each[static_cast<size_t>(tile)] = elements * size;
    };
    set(SsdTile::steps, h * l, wide);
    set(SsdTile::sums, h * l, wide);
    set(SsdTile::local, h * n * p, wide);
    set(SsdTile::scores, g * l * l, wide);
    set(SsdTile::product, h * l * p, wide);
    set(SsdTile::b, g * l * n, element);
    set(SsdTile::c, g * l * n, element);
    set(SsdTile::grouped, h * l * p, element);
    set(SsdTile::left, h * l * (l + n), element);
    set(SsdTile::right, h * (l + n) * p, element);
    if (backward) {
      set(SsdTile::products, h * l * l, wide);
      set(SsdTile::part, h * l * n, wide);
      for (SsdTile tile : {SsdTile::c_sums, SsdTile::b_sums, SsdTile::group_product}) set(tile, g * l * n, wide);
      for (SsdTile tile : {SsdTile::step_gradients, SsdTile::sum_gradients, SsdTile::given}) set(tile, h * l, wide);
      set(SsdTile::x, h * l * p, element);
      set(SsdTile::state, h * n * p, element);
      set(SsdTile::score_gradients, g * l * l, element);
    }
    int64_t of_task = 0;
    for (int64_t size : each) of_task += size;
    const int64_t all = of.batch * of.chunks();
    tasks = std::clamp<int64_t>(ssd_panel_bytes / of_task, 1, std::min<int64_t>(all, 65535));
    for (size_t tile = 0; tile < kTiles; ++tile) {
      offsets[tile] = bytes;
      bytes += ops::div_up(tasks * each[tile], 256) * 256;
    }
  }
  int64_t offset(SsdTile tile) const { return offsets[static_cast<size_t>(tile)]; }
};

}  // namespace plimsoll::cuda
