// Declares the reader of files of labeled time series in any format: .ts (files/ts_file.h), tables
// (data/series/series_table.h), NumPy's.
#pragma once

#include <filesystem>

#include "files/ts_file.h"

namespace plimsoll {

/// Reads a file by the end of its name:
/// - .ts, or anything else: as read_ts_file();
/// - .csv, .tsv: as read_series_table();
/// - .npy: numbers [series, vectors, channels], or [series, vectors] of one channel; `labels` names a .npy file of
///   whole numbers [series];
/// - .npz: arrays `vectors` (or x, X) and `labels` (or y) of these shapes, and, if series differ in length,
///   `lengths`: whole numbers [series], the number of vectors of each that count.
///
/// Throws UserError (failure) that names the file, as these readers do. It also does so for arrays of other shapes,
/// classes that are no whole numbers, and labels that are missing, or given if a file has its own. Errors of a single
/// series go to `bad`.
TsFile read_series_file(const std::filesystem::path& file, const std::filesystem::path& labels, const BadSeries& bad);

}  // namespace plimsoll
