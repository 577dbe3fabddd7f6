// Declares a volume with a structure for each voxel, cut into square slices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/nifti.h"

namespace plimsoll {

/// A transformation of a slice. The middle is moved by fractions of the square's side; the slice is then turned by
/// radians about its middle and enlarged by `scale`.
struct SliceView {
  double across = 0, down = 0;
  double turn = 0;
  double scale = 1;
};

/// A volume and its labels. Any number of threads may read it. Holds the image in its file's format, and 2 bytes a
/// voxel for the labels.
class LabeledVolume {
 public:
  /// Reads both files. `structures`: each label's value and its structure, counted from 0. Slices are perpendicular to
  /// `axis` (0 to 2). Throws UserError that names the files: one that cannot be read, or labels that are no whole
  /// numbers or are on another grid.
  LabeledVolume(const std::filesystem::path& image, const std::filesystem::path& labels,
                const std::unordered_map<int64_t, int64_t>& structures, int axis);

  /// Returns the bytes of its voxels in memory.
  size_t bytes() const { return image_.bytes.size() + structure_.size() * sizeof structure_[0]; }
  /// Returns the directions that the voxel axes run in (files/nifti.h); "" if the image has no position.
  std::string orientation() const;
  int64_t slices() const { return image_.sizes[static_cast<size_t>(axis_)]; }

  // A slice is enlarged or reduced to size x size pixels. Its longer side (in millimeters) fills the square, and it is
  // centered.

  /// Samples bilinear values of slices [slice - channels / 2, slice + channels / 2] as size x size x channels; beyond
  /// the ends the last slice is repeated. Voxels above the volume's least value have mean 0 and deviation 1.
  void image(int64_t slice, int64_t channels, int64_t size, std::span<float> to) const;
  /// Sets 1 for pixels whose nearest voxel belongs to the structure, else 0.
  void mask(int64_t slice, int64_t structure, int64_t size, std::span<uint8_t> to) const;
  /// Does the same for a slice seen through `view`. Outside of the volume are the least value and no structure.
  void image(int64_t slice, int64_t channels, int64_t size, const SliceView& view, std::span<float> to) const;
  void mask(int64_t slice, int64_t structure, int64_t size, const SliceView& view, std::span<uint8_t> to) const;
  /// Returns the number of pixels of such masks for all `structures`.
  std::vector<int64_t> pixels_of_each(int64_t slice, int64_t structures, int64_t size) const;

 private:
  struct Line;  // pixels of an output row or column, and their positions
  Line line(size_t axis, double scale, int64_t size) const;
  double scale(int64_t size) const;  // millimeters of a pixel
  /// Prefetches the voxels of a slice. Its rows can be pages apart, and the processor prefetches only within a page.
  void prefetch(int64_t slice, const void* voxels, size_t voxel_bytes) const;
  /// Calls visit(row, columns, rows) for each row of pixels with their positions in voxels relative to the middle of
  /// the first voxel. Positions may be outside.
  template <typename Visit>
  void each_row(int64_t size, const SliceView& view, const Visit& visit) const;
  template <typename Visit>
  void each_pixel(int64_t slice, int64_t size, const Visit& visit) const;

  NiftiVolume image_;
  std::vector<uint16_t> structure_;  // structure of each voxel, counted from 1; 0: no requested structure
  int axis_;
  size_t columns_, rows_;  // the axes of a slice
  double least_ = 0, mean_ = 0, deviation_ = 1;
};

}  // namespace plimsoll
