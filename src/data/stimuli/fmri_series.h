// An fMRI series as a table: volumes by voxels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace plimsoll {

struct FmriSeries {
  int64_t volumes = 0, voxels = 0;
  double repetition_time = 0;  ///< seconds from volume to volume; 0: the file does not say
  std::vector<float> values;   ///< [volumes, voxels]
};

/// `path`: a NIfTI file, or a table whose name ends in .csv, .tsv or .txt: a line a time point, a number a region,
/// between commas, semicolons or blanks; a first line without any number is of names and left out; or a NumPy array
/// (.npy), [volumes, voxels] or a scan as nibabel has it, [x, y, z, volumes]. `mask`: a NIfTI volume of the same grid
/// (of a scan in .npy: a .npy of [x, y, z]), whose voxels that are not 0 are taken, x the fastest; empty: those of a
/// scan that vary. Throws UserError (failure) that names the file, line and cell: unreadable, ragged, no number, a mask
/// of another grid or with nothing in it.
FmriSeries read_fmri(const std::filesystem::path& path, const std::filesystem::path& mask);

}  // namespace plimsoll
