// Whether two volumes' voxels lie at the same places.
#pragma once

#include <string>

#include "files/nifti.h"

namespace plimsoll {

/// How the grid of `other` differs from that of `one`: "" where it does not, else "voxels of 1, 1, 1 mm against 1, 2,
/// 1 mm". They are the same where they have the same sizes and no voxel of one lies farther from that of the other than
/// a tenth of the smallest spacing: headers are in single precision, and programs round what they write. Where one has
/// no map to the world only sizes and spacings are compared.
std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other);

}  // namespace plimsoll
