// Declares an fMRI series as a table: volumes by voxels.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/nifti_header.h"

namespace plimsoll {

struct FmriSeries {
  int64_t volumes = 0, voxels = 0;
  NiftiTime time;                  ///< from volume to volume, as the file states it
  std::vector<float> values;       ///< [volumes, voxels]
  std::string counted;             ///< name of the things that `voxels` counts: "voxels", "voxels that vary", "columns"
  std::vector<std::string> names;  ///< names of the columns; empty: the file has none
  std::array<int64_t, 3> grid = {};  ///< sizes of the scan
  std::vector<uint32_t> grid_index;  ///< each voxel's index in the scan, x the fastest; empty: no scan

  std::string name_of_voxel(int64_t voxel) const;  ///< "(1, 2, 0)" in a scan, else "column 3 'left'"
  std::string first_values() const;                ///< the first values of volume 0, with names: "left 1.5, right 2"
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

/// Returns the voxels whose values are not finite in at least half of the volumes: the voxels are at fault, not the
/// volumes.
std::vector<int64_t> bad_voxels(const FmriSeries& series);

/// Removes voxels, by their numbers in the series.
void remove_voxels(FmriSeries& series, const std::vector<int64_t>& voxels);

}  // namespace plimsoll
