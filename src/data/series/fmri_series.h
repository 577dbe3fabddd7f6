// Declares an fMRI series (volumes by voxels, from a NIfTI file, an array or a table), and its BIDS file.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/nifti_header.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// An fMRI series as a table: volumes by voxels.
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

/// Returns the error "PATH: WHAT", to be thrown.
inline UserError bad_file(const std::filesystem::path& path, const std::string& what) {
  return UserError(fmt::format("{}: {}", path.string(), what), UserError::Kind::failure);
}

/// Returns a question, for the end of a message, about the file of BIDS next to the series (NAME.json of NAME.nii or
/// NAME.nii.gz). It says another time from volume to volume than `seconds`, or times of single volumes; else the
/// question is "". Throws UserError (failure) if the file is no JSON object.
std::string sidecar_question(const std::filesystem::path& series, double seconds);

/// Reads an fMRI series from a table (files/csv_file.h), a line for each volume, a column for each region:
///
///     left,right            names: if no cell of the first line is a number
///     100.2,98.7
///     100.4,98.1
///
/// Numbers may lie between blanks. Names in the first line, and an index that is left out because its column has no
/// name and counts, are noted (files/file_kind.h). Throws UserError (failure) that names the file, line and cell:
/// unreadable, ragged, no number, a first line that counts as names do, a first column that counts as an index does,
/// and a column without a name that does not count.
FmriSeries read_fmri_table(const std::filesystem::path& path);

}  // namespace plimsoll
