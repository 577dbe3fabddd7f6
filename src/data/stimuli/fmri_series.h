// Declares an fMRI series as a table: volumes by voxels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace plimsoll {

struct FmriSeries {
  int64_t volumes = 0, voxels = 0;
  double repetition_time = 0;  ///< seconds from volume to volume; 0: not in the file
  std::vector<float> values;   ///< [volumes, voxels]
};

/// Reads the series of `path`. It is one of:
/// - a NIfTI file;
/// - a table whose name ends in .csv, .tsv or .txt: one line for each time point, one number for each region, separated
///   by commas, semicolons or blanks. A first line without any number has names and is left out;
/// - a NumPy array (.npy), [volumes, voxels] or a scan in nibabel's layout, [x, y, z, volumes].
///
/// `mask` is a NIfTI volume of the same grid (for a scan in .npy: a .npy of [x, y, z]), whose voxels that are not 0 are
/// chosen, x the fastest. Empty: the voxels of a scan that vary. Throws UserError (failure) that names the file, line
/// and cell: unreadable, ragged, no number, a mask of another grid or without voxels.
FmriSeries read_fmri(const std::filesystem::path& path, const std::filesystem::path& mask);

}  // namespace plimsoll
