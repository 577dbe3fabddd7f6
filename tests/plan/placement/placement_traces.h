// Declares fake placement problems, the same on every machine, for the tests of placement and for its bench.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plimsoll/placement.h"

namespace plimsoll {

/// Returns a whole number in [low, high]. (std::uniform_int_distribution differs between standard libraries.)
inline int64_t draw(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

/// Returns the buffers of a training step of a decoder, in the order of their births. There are saved values, which the
/// backward pass frees in reverse order; short-lived temporaries of both passes; and a gradient for each parameter,
/// which lives until the update at the end. A block has about 180 buffers.
inline std::vector<PlacementItem> training_trace(int64_t blocks, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr int64_t tokens = 2048;
  constexpr int64_t width = 1024;
  constexpr int64_t element = 4;
  const int64_t row = tokens * width * element;
  std::vector<PlacementItem> items;
  int64_t now = 0;

  struct Kept {
    size_t item;
    int64_t parameter;  // bytes of the gradient that the backward of this op makes, or 0
  };
  std::vector<Kept> kept;
  const auto temporaries = [&](int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t scale = draw(random, 1, 8);
      items.push_back({now, now + draw(random, 1, 4), row * scale / draw(random, 1, 4)});
      ++now;
    }
  };
  const auto keep = [&](int64_t bytes, int64_t parameter) {
    kept.push_back({items.size(), parameter});
    items.push_back({now, now + 1, bytes});
    ++now;
  };
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t matrix = width * width * element;
    const int64_t sizes[] = {row, 4 * tokens, 3 * row, row, 16 * tokens, row, row, 4 * tokens, 4 * row, 4 * row, row};
    const int64_t parameters[] = {4 * width, 0, 3 * matrix, matrix, 0, 0, 4 * width, 0, 4 * matrix, 0, 4 * matrix};
    for (size_t k = 0; k < std::size(sizes); ++k) {
      keep(sizes[k], parameters[k]);
      temporaries(draw(random, 3, 6));
      keep(tokens * element * draw(random, 1, 64), 4 * width);
    }
  }
  const int64_t logits = tokens * 32000 * element;
  keep(logits, width * 32000 * element);
  items.push_back({now, now + 3, logits});
  ++now;
  std::vector<size_t> gradients;
  for (; !kept.empty(); kept.pop_back()) {
    temporaries(draw(random, 2, 6));
    if (kept.back().parameter > 0) {
      gradients.push_back(items.size());
      items.push_back({now, now + 1, kept.back().parameter});
    }
    items[kept.back().item].upper = ++now;
  }
  temporaries(2);
  for (const size_t gradient : gradients) {
    items.push_back({now, now + 2, items[gradient].size});
    items[gradient].upper = now += 2;
  }
  return items;
}

/// Returns arbitrary lifetimes in [0, times), and arbitrary sizes up to `largest`.
inline std::vector<PlacementItem> random_items(std::mt19937_64& random, int64_t count, int64_t times, int64_t largest) {
  std::vector<PlacementItem> items;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t lower = draw(random, 0, times - 1);
    items.push_back({lower, draw(random, lower + 1, times), draw(random, 1, largest)});
  }
  return items;
}

}  // namespace plimsoll
