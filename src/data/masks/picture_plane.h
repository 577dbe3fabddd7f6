// Declares a picture and a mask in memory, at about the size that the model reads, and their sampling through a view.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/masks/labeled_volume.h"
#include "files/picture_header.h"

namespace plimsoll {

/// A picture's values, reduced by averaging squares of `reduced` x `reduced` pixels.
struct PicturePlane {
  int64_t width = 0, height = 0;  ///< size of `values`
  int64_t full_width = 0, full_height = 0, reduced = 1;
  int64_t channels = 1;
  std::vector<float> values;  ///< [height, width, channels]
};

/// A mask's values: of each such square, the middle pixel.
struct MaskPlane {
  int64_t width = 0, height = 0;
  int64_t full_width = 0, full_height = 0, reduced = 1;
  bool exact = true;                   ///< the values may tell structures apart
  Orientation orientation = kUpright;  ///< applied
  uint16_t threshold = 0;              ///< pixels with a larger value are of "the" structure
  std::vector<uint16_t> numbers;       ///< [height, width]
};

/// Reads a picture, as people see it on white, for squares of `size` x `size` pixels; the result is not smaller than
/// the square shows it. For one channel, colors become gray (0.299 red, 0.587 green, 0.114 blue). For three channels,
/// gray is copied to all three. `normalize`: "picture" gives all values together mean 0 and deviation 1, and a picture
/// of one value becomes 0; "imagenet" normalizes each channel by ImageNet's mean and deviation. Throws UserError that
/// names the file.
PicturePlane read_plane(const std::filesystem::path& file, int64_t size, int64_t channels,
                        const std::string& normalize);

/// Reads a mask in the same way: one value a pixel, from a palette, gray, or colors that are all gray. A mask may have
/// transparent pixels if these are the pixels of number 0. Throws UserError that names the file.
MaskPlane read_mask(const std::filesystem::path& file, int64_t size);

// The longer side fills the square and the picture is centered; `view` is as in LabeledVolume.

/// Samples bilinear values as [size, size, channels]; 0, the mean, outside of the picture.
void show(const PicturePlane& plane, int64_t size, const SliceView& view, std::span<float> to);

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

/// Calls visit(pixel, number) with the nearest pixel's value for each pixel of the square that the picture covers.
template <typename Visit>
void each_number(const MaskPlane& plane, int64_t size, const SliceView& view, const Visit& visit) {
  each_place(plane, size, view, [&](int64_t pixel, double column, double row) {
    if (pixel_inside(column, plane.width) && pixel_inside(row, plane.height))
      visit(pixel, plane.numbers[static_cast<size_t>(std::llround(row) * plane.width + std::llround(column))]);
  });
}

}  // namespace plimsoll
