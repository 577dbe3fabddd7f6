// Declares the eight ways in which stored pixels become the picture that people see.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

/// An orientation by its EXIF number, 1 to 8: 1 upright, 2 mirrored, 3 turned by 180 degrees, 4 upside down, 5 rows and
/// columns swapped, 6 turned by 90 degrees clockwise, 7 swapped along the other diagonal, 8 turned by 90 degrees
/// counterclockwise.
using Orientation = int;

constexpr Orientation kUpright = 1;

/// Returns true if the seen width is the stored height.
constexpr bool swaps_sides(Orientation orientation) {
  return orientation >= 5;
}

/// Returns the index of the stored pixel that is seen at (`column`, `row`); `width` and `height` are the stored sides.
constexpr int64_t stored_pixel(Orientation orientation, int64_t column, int64_t row, int64_t width, int64_t height) {
  const bool swaps = swaps_sides(orientation);
  int64_t x = swaps ? row : column, y = swaps ? column : row;
  if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) x = width - 1 - x;
  if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) y = height - 1 - y;
  return y * width + x;
}

/// Returns [height, width, channels] `values` of a stored picture as they are seen: [width, height, channels] if the
/// orientation swaps the sides.
template <typename Value>
std::vector<Value> as_seen(Orientation orientation, const std::vector<Value>& values, int64_t width, int64_t height,
                           int64_t channels) {
  if (orientation == kUpright) return values;
  const int64_t across = swaps_sides(orientation) ? height : width, down = swaps_sides(orientation) ? width : height;
  std::vector<Value> seen;
  seen.reserve(values.size());
  for (int64_t row = 0; row < down; ++row)
    for (int64_t column = 0; column < across; ++column) {
      const int64_t from = stored_pixel(orientation, column, row, width, height) * channels;
      for (int64_t c = 0; c < channels; ++c) seen.push_back(values[static_cast<size_t>(from + c)]);
    }
  return seen;
}

}  // namespace plimsoll
