// Reads files of labeled time series (.ts), in the format of aeon, sktime and the time series classification archive:
//
//     # a comment
//     @problemName BasicMotions
//     @dimensions 2
//     @classLabel true Standing Running
//     @data
//     0.07,0.08,-0.9:0.39,0.39,-3.8:Standing      two channels of three values, and the class
//
// '?' and NaN are missing values. Series with time stamps of their own, and files without classes, are refused.
//
// Bounds: a file has at most 4 GiB and 2^16 classes; memory is at most 32 x the file (series of one value, "1:a"), time
// is linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "files/file_kind.h"

namespace plimsoll {

namespace ts {

inline constexpr FileFact kFacts[] = {
    {".ts", "@classLabel", "applied", "must be true and name the classes; a series of another class is refused"},
    {".ts", "@dimensions, @dimension, @univariate", "applied",
     "number of channels, which every series must have; two lines that differ are refused"},
    {".ts", "@equalLength, @seriesLength", "applied",
     "with @equalLength true, a series of another length is refused; else each series has its own"},
    {".ts", "@missing", "applied", "false: a series that lacks values is refused"},
    {".ts", "@timeStamps", "refused", "unless false, and so are values with times: write the values alone"},
    {".ts", "@targetLabel", "refused", "unless false: numbers as targets are not learned"},
    {".ts", "@problemName", "ignored", "a title"},
    {".ts", "other lines of the header", "ignored", "a note names them"},
    {".ts", "lines that begin with # or %", "ignored", "comments"},
    {".ts", "? and NaN", "applied", "missing values"},
    {".ts", "colons and commas", "applied",
     "between channels and before the class; between values; channels of other lengths are refused"},
};
static_assert(are_complete(kFacts));

}  // namespace ts

constexpr size_t kMaxClasses = size_t{1} << 16;  ///< largest number of classes of the series of one file, in any
                                                 ///< format

struct TsSeries {
  std::vector<float> values;  ///< [length, channels]; not-a-number if missing
  int64_t length = 0;
  int64_t label = 0;  ///< index in TsFile::classes
  int64_t line = 0;   ///< line of the file, from 1; for an array: the series' index, from 0
};

struct TsFile {
  std::vector<std::string> classes;  ///< declared by the header, or else those that its series have
  bool declares_classes = true;
  std::string before_number = ":";         ///< separator of the file's name and TsSeries::line in messages
  int64_t channels = 0;                    ///< number of channels, the same for every series
  std::vector<std::string> channel_names;  ///< names of a table's columns; empty: the format has none
  std::vector<TsSeries> series;
};

/// Called for a series that cannot be read, with "FILE:LINE: what is wrong". It may throw; otherwise the series is
/// skipped.
using BadSeries = std::function<void(const std::string& what)>;

/// Reads a file. Memory: 4 bytes for each value and about 100 bytes for each series. Throws UserError for a
/// file that cannot be read or has no usable header; `bad` gets the errors of single series.
TsFile read_ts_file(const std::filesystem::path& file, const BadSeries& bad);

}  // namespace plimsoll
