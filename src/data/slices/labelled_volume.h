// A volume and what each of its voxels belongs to, cut into square slices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/nifti.h"

namespace plimsoll {

/// A slice looked at from elsewhere: its middle moved by parts of the square's side, then turned by radians about the
/// middle and made `scale` times as large.
struct SliceView {
  double across = 0, down = 0;
  double turn = 0;
  double scale = 1;
};

/// May be read from any number of threads. Holds the image as its file has it and 2 bytes a voxel for the labels.
class LabelledVolume {
 public:
  /// `structures`: a label's number and which structure it is, from 0 on. Slices lie across `axis` (0 to 2). Throws
  /// UserError that names the files: one that cannot be read, labels that are no whole numbers or lie on another grid.
  LabelledVolume(const std::filesystem::path& image, const std::filesystem::path& labels,
                 const std::unordered_map<int64_t, int64_t>& structures, int axis);

  /// Memory of its voxels.
  size_t bytes() const { return image_.bytes.size() + structure_.size() * sizeof structure_[0]; }
  int64_t slices() const { return image_.sizes[static_cast<size_t>(axis_)]; }

  // A slice is enlarged or reduced to size x size pixels, its longer side (in millimetres) filling it, centred.

  /// Bilinear values of slices [slice - channels / 2, slice + channels / 2], at the ends the last one again, as size x
  /// size x channels; voxels above the volume's least value have mean 0 and deviation 1.
  void image(int64_t slice, int64_t channels, int64_t size, std::span<float> to) const;
  /// 1 where the nearest voxel belongs to the structure.
  void mask(int64_t slice, int64_t structure, int64_t size, std::span<uint8_t> to) const;
  /// The same two of a slice as `view` shows it; outside of the volume is what is least, and no structure.
  void image(int64_t slice, int64_t channels, int64_t size, const SliceView& view, std::span<float> to) const;
  void mask(int64_t slice, int64_t structure, int64_t size, const SliceView& view, std::span<uint8_t> to) const;
  /// Pixels of such masks of all `structures`.
  std::vector<int64_t> pixels_of_each(int64_t slice, int64_t structures, int64_t size) const;

 private:
  struct Line;  // pixels of an output row or column, and where they lie
  Line line(size_t axis, double scale, int64_t size) const;
  double scale(int64_t size) const;  // millimetres of a pixel
  /// visit(pixel, column, row) in voxels from the middle of the first, which may lie outside.
  template <typename Visit>
  void each_place(int64_t size, const SliceView& view, const Visit& visit) const;
  template <typename Visit>
  void each_pixel(int64_t slice, int64_t size, const Visit& visit) const;

  NiftiVolume image_;
  std::vector<uint16_t> structure_;  // of each voxel, from 1 on; 0: none that is asked for
  int axis_;
  size_t columns_, rows_;  // the axes of a slice
  double least_ = 0, mean_ = 0, deviation_ = 1;
};

}  // namespace plimsoll
