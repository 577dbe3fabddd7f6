#include "data/series/series_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "base/quoted.h"
#include "data/series/series_table.h"
#include "files/data_memory.h"
#include "files/data_notes.h"
#include "files/npz.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file, what), UserError::Kind::failure);
}

/// Reads one whole number for each series.
std::vector<int64_t> whole_numbers(const NpyArray& array, int64_t series, const std::string& name,
                                   const std::string& what) {
  if (is_floating(array.type))
    refuse(name, fmt::format("is {}; {} are whole numbers: save array.astype('int64')", array.describe_sizes(), what));
  if (array.sizes != std::vector<int64_t>{series} && array.sizes != std::vector<int64_t>{series, 1})
    refuse(name, fmt::format("is {}; there are {} series, and {} are one number for each", array.describe_sizes(),
                             series, what));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < series; ++i) {
    const double number = array.at(i);
    if (std::abs(number) > 0x1p53)
      refuse(name, fmt::format("has {}, which is too large for any of the {}", number, what));
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

TsFile from_arrays(const NpyArray& vectors, const std::string& name, const NpyArray& labels,
                   const std::string& labels_name, const std::optional<NpyArray>& lengths, const BadSeries& bad) {
  if (vectors.sizes.size() < 2 || vectors.sizes.size() > 3 || vectors.count() == 0)
    refuse(name, fmt::format("is {}; [series, vectors, channels] is wanted, or [series, vectors] of one channel",
                             vectors.describe_sizes()));
  TsFile file;
  file.declares_classes = false;
  file.before_number = ": series ";
  const int64_t count = vectors.sizes[0], most = vectors.sizes[1];
  file.channels = vectors.sizes.size() == 3 ? vectors.sizes[2] : 1;
  const std::vector<int64_t> classes = whole_numbers(labels, count, labels_name, "labels");
  std::vector<int64_t> length(static_cast<size_t>(count), most);
  if (lengths) length = whole_numbers(*lengths, count, name + ": lengths", "lengths");
  std::map<int64_t, int64_t> index;
  for (const int64_t number : classes) index.emplace(number, 0);
  if (index.size() > kMaxClasses) refuse(labels_name, fmt::format("has more than {} classes", kMaxClasses));
  for (auto& [number, at] : index) {
    at = std::ssize(file.classes);
    file.classes.push_back(std::to_string(number));
  }
  if (index.begin()->first < 0)
    note_data(labels_name,
              fmt::format("labels are {} and more; a negative number is a class, too", index.begin()->first));
  const int64_t each = most * file.channels;
  require_data_memory(name, fmt::format("has {} series of {} vectors", count, most),
                      static_cast<double>(vectors.bytes.size()) + 4.0 * static_cast<double>(vectors.count()));
  for (int64_t i = 0; i < count; ++i) {
    TsSeries series;
    series.line = i;
    series.length = length[static_cast<size_t>(i)];
    series.label = index.at(classes[static_cast<size_t>(i)]);
    const std::string place = fmt::format("{}: series {}", name, i);
    if (series.length < 1 || series.length > most) {
      bad(fmt::format("{}: its length is {}; the array has room for 1 to {}", place, series.length, most));
      continue;
    }
    series.values.resize(static_cast<size_t>(series.length * file.channels));
    bool infinite = false;
    for (size_t k = 0; k < series.values.size(); ++k) {
      series.values[k] = static_cast<float>(vectors.at(i * each + static_cast<int64_t>(k)));
      infinite |= std::isinf(series.values[k]);
    }
    if (infinite)
      bad(place + ": the series has a number that a float32 cannot hold");
    else
      file.series.push_back(std::move(series));
  }
  return file;
}

/// Returns the one of the names that the archive has.
const char* named(const NpzFile& archive, std::initializer_list<const char*> names, const std::filesystem::path& file,
                  const char* what) {
  const char* found = nullptr;
  for (const char* name : names) {
    if (!archive.has(name)) continue;
    if (found)
      refuse(file.string(),
             fmt::format("has the arrays '{}' and '{}', and each may be {}; save one", found, name, what));
    found = name;
  }
  if (found) return found;
  refuse(file.string(),
         fmt::format("has no array '{}'; it has: {}. numpy.savez('{}', vectors=..., labels=...) saves {}",
                     *names.begin(), few_names(archive.names()), file.filename().string(), what));
}

TsFile from_archive(const std::filesystem::path& file, const BadSeries& bad) {
  const NpzFile archive(file);
  const std::string name = file.string();
  const char* vectors = named(archive, {"vectors", "x", "X"}, file, "numbers [series, vectors, channels]");
  const char* labels = named(archive, {"labels", "y"}, file, "a whole number for each series");
  std::optional<NpyArray> lengths;
  if (archive.has("lengths")) lengths = archive.read("lengths");
  std::vector<std::string> others = archive.names();
  std::erase_if(others,
                [&](const std::string& each) { return each == vectors || each == labels || each == "lengths"; });
  if (!others.empty()) note_data(file, fmt::format("arrays that are not read: {}", few_names(others)));
  return from_arrays(archive.read(vectors), fmt::format("{}: {}", name, vectors), archive.read(labels),
                     fmt::format("{}: {}", name, labels), lengths, bad);
}

}  // namespace

TsFile read_series_file(const std::filesystem::path& file, const std::filesystem::path& labels, const BadSeries& bad) {
  const std::string extension = file.extension().string();
  if (extension == ".npy") {
    if (labels.empty())
      refuse(file.string(),
             "holds vectors and no classes; name a .npy file of whole numbers, one for each series, in "
             "data.labels (data.validation_labels for data.validation_files), or save both in an .npz");
    return from_arrays(read_npy(file), file.string(), read_npy(labels), labels.string(), std::nullopt, bad);
  }
  if (!labels.empty())
    refuse(labels.string(),
           fmt::format("is given as labels of {}, which has its own; labels are for .npy files", file.string()));
  if (extension == ".npz") return from_archive(file, bad);
  if (extension == ".csv" || extension == ".tsv") return read_series_table(file, bad);
  return read_ts_file(file, bad);
}

}  // namespace plimsoll
