// A picture and a mask made ready: at about the size that a model sees them in, and looked at from where a sample does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/slices/labelled_volume.h"

namespace plimsoll {

/// Numbers of a picture, reduced by averaging squares of `reduced` x `reduced` pixels.
struct PicturePlane {
  int64_t width = 0, height = 0;  ///< of `values`
  int64_t full_width = 0, full_height = 0, reduced = 1;
  int64_t channels = 1;
  std::vector<float> values;  ///< [height, width, channels]
};

/// Numbers of a mask, of the middle pixel of each such square.
struct MaskPlane {
  int64_t width = 0, height = 0;
  int64_t full_width = 0, full_height = 0, reduced = 1;
  bool exact = true;              ///< the numbers may tell structures apart
  uint16_t threshold = 0;         ///< above it a pixel is of "the" structure
  std::vector<uint16_t> numbers;  ///< [height, width]
};

/// Reads a picture for squares of `size` x `size` pixels: not smaller than they show it. Colours become grey (0.299
/// red, 0.587 green, 0.114 blue) for one channel, grey is given to all three. `normalise`: "picture" gives all numbers
/// together mean 0 and deviation 1, "imagenet" each channel by the mean and deviation that it has there. Throws
/// UserError that names the file.
PicturePlane read_plane(const std::filesystem::path& file, int64_t size, int64_t channels,
                        const std::string& normalise);

/// The same of a mask: one number a pixel, of a palette, grey, or colours that are all grey. Throws UserError that
/// names the file.
MaskPlane read_mask(const std::filesystem::path& file, int64_t size);

// The longer side fills the square, the picture lies in its middle; `view` as LabelledVolume has it.

/// Bilinear values as [size, size, channels]; 0, the mean, outside of the picture.
void show(const PicturePlane& plane, int64_t size, const SliceView& view, std::span<float> to);

/// Calls visit(pixel, number) for the nearest number of each pixel of the square that the picture covers.
template <typename Visit>
void each_number(const MaskPlane& plane, int64_t size, const SliceView& view, const Visit& visit);

}  // namespace plimsoll

#include "data/pictures/picture_view.h"  // each_number
