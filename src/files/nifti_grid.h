// Compares the voxel grids of two volumes.
#pragma once

#include <string>

#include "files/nifti.h"

namespace plimsoll {

/// Returns the difference between the grids of `one` and `other`: "" if they are the same, else "voxels of 1, 1, 1 mm
/// against 1, 2, 1 mm". Grids are the same if their sizes are, and no voxel of one is farther from that of the other
/// than a tenth of the smallest spacing: headers are in single precision, and programs round what they write. If one
/// has no map to the world, only sizes and spacings are compared.
std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other);

}  // namespace plimsoll
