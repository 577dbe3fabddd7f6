// Compares the voxel grids of two volumes.
#pragma once

#include <string>

#include "files/nifti.h"

namespace plimsoll {

/// Returns the difference between the grids of `one` and `other`: "" if they are the same, else "voxels of 1, 1, 1 mm
/// against 1, 2, 1 mm". Grids are the same if their sizes are, and no voxel of one is farther from that of the other
/// than a tenth of the smallest spacing: headers are in single precision, and programs round what they write. Lengths
/// of two known units are converted; an unknown unit is taken as the other's.
///
/// The map to the world is the one that nibabel takes: sform, else qform. Two volumes without a map are compared by
/// sizes and spacings. A volume without a map is on another grid than one with a map, because its position is unknown.
std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other);

/// Returns the remedy for a difference: resample `other` to the grid of `one`, or write the position of one into the
/// other's file. `names` are what a message calls the two.
std::string grid_remedy(const NiftiVolume& one, const NiftiVolume& other, const std::string& name_of_one,
                        const std::string& name_of_other);

/// Returns the directions of the world that the voxel axes x, y and z run in, by the nearest axis: "RAS", "LPI"; "" if
/// the volume has no map.
std::string orientation_of(const NiftiVolume& volume);

}  // namespace plimsoll
