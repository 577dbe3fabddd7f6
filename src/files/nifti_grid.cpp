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

/// Returns the largest distance between voxels of the same indices. Both maps are linear, so it is at a corner.
double farthest_apart(const NiftiVolume& one, const NiftiVolume& other) {
  double farthest = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double square = 0;
    for (size_t row = 0; row < 3; ++row) {
      const auto difference = [&](size_t column) {
        return one.to_world[4 * row + column] - other.to_world[4 * row + column];
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

}  // namespace

std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other) {
  if (one.sizes != other.sizes)
    return fmt::format("{} voxels against {}", one.describe_sizes(), other.describe_sizes());
  const double tolerance = kTolerance * std::ranges::min(one.spacing);
  for (size_t axis = 0; axis < 3; ++axis)
    if (std::abs(one.spacing[axis] - other.spacing[axis]) * static_cast<double>(one.sizes[axis]) > tolerance)
      return fmt::format("voxels of {} mm against {} mm", listed(one.spacing), listed(other.spacing));
  constexpr std::array<double, 12> unknown = {};
  if (one.to_world == unknown || other.to_world == unknown) return "";
  const double apart = farthest_apart(one, other);
  if (apart <= tolerance) return "";
  return fmt::format("voxels lie up to {:.3g} mm apart: they map to the world by {} against {}", apart,
                     listed(one.to_world), listed(other.to_world));
}

}  // namespace plimsoll
