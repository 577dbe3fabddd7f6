#include "files/nifti_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace plimsoll {
namespace {

constexpr double kTolerance = 0.1;  // relative to the smallest spacing

std::string listed(const auto& numbers) {
  return fmt::format("{:.6g}", fmt::join(numbers, ", "));
}

/// Returns the largest distance between voxels of the same indices, in the unit of `one`. Both maps are linear, so it
/// is at a corner.
double farthest_apart(const NiftiVolume& one, const NiftiVolume& other, double units) {
  double farthest = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double square = 0;
    for (size_t row = 0; row < 3; ++row) {
      const auto difference = [&](size_t column) {
        return one.to_world[4 * row + column] - units * other.to_world[4 * row + column];
      };
      double apart = difference(3);
      for (size_t axis = 0; axis < 3; ++axis)
        if (corner >> axis & 1) apart += difference(axis) * static_cast<double>(one.sizes[axis] - 1);
      square += apart * apart;
    }
    farthest = std::max(farthest, std::sqrt(square));
  }
  return farthest;
}

const char* name_of(NiftiPlace place) {
  return place == NiftiPlace::sform ? "sform" : place == NiftiPlace::qform ? "qform" : "neither sform nor qform";
}

const char* unit_of(const NiftiVolume& one, const NiftiVolume& other) {
  const double unit = one.unit_millimeters > 0 ? one.unit_millimeters : other.unit_millimeters;
  return unit == 1000 ? "m" : unit == 1e-3 ? "um" : "mm";
}

}  // namespace

std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other) {
  if (one.sizes != other.sizes)
    return fmt::format("{} voxels against {}", one.describe_sizes(), other.describe_sizes());
  const bool both_known = one.unit_millimeters > 0 && other.unit_millimeters > 0;
  const double units = both_known ? other.unit_millimeters / one.unit_millimeters : 1;  // of one in a unit of other
  const char* const unit = unit_of(one, other);
  const double tolerance = kTolerance * std::ranges::min(one.spacing);
  std::array<double, 3> spacing = other.spacing;
  for (double& length : spacing) length *= units;
  for (size_t axis = 0; axis < 3; ++axis)
    if (std::abs(one.spacing[axis] - spacing[axis]) * static_cast<double>(one.sizes[axis]) > tolerance)
      return fmt::format("voxels of {} {} against {} {}", listed(one.spacing), unit, listed(spacing), unit);
  if (one.place == NiftiPlace::none && other.place == NiftiPlace::none) return "";
  if (one.place == NiftiPlace::none || other.place == NiftiPlace::none)
    return fmt::format(
        "the position of one is known and that of the other is not (sform_code and qform_code are 0): {} "
        "against {}",
        name_of(one.place), name_of(other.place));
  const double apart = farthest_apart(one, other, units);
  if (apart <= tolerance) return "";
  return fmt::format("voxels lie up to {:.3g} {} apart: they map to the world by {} ({}) against {} ({})", apart, unit,
                     listed(one.to_world), name_of(one.place), listed(other.to_world), name_of(other.place));
}

std::string grid_remedy(const NiftiVolume& one, const NiftiVolume& other, const std::string& name_of_one,
                        const std::string& name_of_other) {
  if ((one.place == NiftiPlace::none) == (other.place == NiftiPlace::none))
    return fmt::format("resample {} to the grid of {}", name_of_other, name_of_one);
  const bool first = one.place == NiftiPlace::none;
  return fmt::format(
      "if the voxels of both lie on each other, save {} with the affine of {}, in nibabel "
      "Nifti1Image(a.dataobj, b.affine)",
      first ? name_of_one : name_of_other, first ? name_of_other : name_of_one);
}

std::string orientation_of(const NiftiVolume& volume) {
  if (volume.place == NiftiPlace::none) return "";
  constexpr std::array<std::string_view, 3> kDirections = {"LR", "PA", "IS"};  // down and up each axis of the world
  // The largest cosine decides first, so that two axes of voxels never have one direction.
  std::array<int, 3> row_of = {-1, -1, -1};
  for (int round = 0; round < 3; ++round) {
    double largest = -1;
    size_t at = 0, to = 0;
    for (size_t axis = 0; axis < 3; ++axis)
      for (size_t row = 0; row < 3; ++row) {
        const double cosine = std::abs(volume.to_world[4 * row + axis]) / volume.spacing[axis];
        if (row_of[axis] >= 0 || std::ranges::count(row_of, static_cast<int>(row)) > 0 || cosine <= largest) continue;
        largest = cosine, at = axis, to = row;
      }
    row_of[at] = static_cast<int>(to);
  }
  std::string letters;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto row = static_cast<size_t>(row_of[axis]);
    letters += kDirections[row][volume.to_world[4 * row + axis] > 0 ? 1 : 0];
  }
  return letters;
}

}  // namespace plimsoll
