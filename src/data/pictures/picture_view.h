// Computes the positions of a square's pixels in a picture. Included by picture_plane.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "data/pictures/picture_plane.h"

namespace plimsoll {

/// Calls visit(pixel, column, row) with positions in pixels of the plane, relative to the middle of the first pixel.
/// Positions may be outside of the plane.
template <typename Plane, typename Visit>
void each_place(const Plane& plane, int64_t size, const SliceView& view, const Visit& visit) {
  const double side = static_cast<double>(size);
  const double scale = static_cast<double>(std::max(plane.full_width, plane.full_height)) / side;
  const double cosine = std::cos(view.turn) / view.scale, sine = std::sin(view.turn) / view.scale;
  const auto in_plane = [&](double pixels, int64_t whole) {
    return (pixels * scale + static_cast<double>(whole) / 2) / static_cast<double>(plane.reduced) - 0.5;
  };
  for (int64_t r = 0; r < size; ++r)
    for (int64_t c = 0; c < size; ++c) {
      const double x = static_cast<double>(c) + 0.5 - side / 2 - view.across * side;
      const double y = static_cast<double>(r) + 0.5 - side / 2 - view.down * side;
      visit(r * size + c, in_plane(cosine * x + sine * y, plane.full_width),
            in_plane(cosine * y - sine * x, plane.full_height));
    }
}

/// Returns true if the pixel nearest to position `at` is one of 0 to pixels - 1.
inline bool pixel_inside(double at, int64_t pixels) {
  return at > -0.5 && at < static_cast<double>(pixels) - 0.5;
}

template <typename Visit>
void each_number(const MaskPlane& plane, int64_t size, const SliceView& view, const Visit& visit) {
  each_place(plane, size, view, [&](int64_t pixel, double column, double row) {
    if (pixel_inside(column, plane.width) && pixel_inside(row, plane.height))
      visit(pixel, plane.numbers[static_cast<size_t>(std::llround(row) * plane.width + std::llround(column))]);
  });
}

}  // namespace plimsoll
