#include "data/fmri_series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_error.h"
#include "base/quoted.h"
#include "data/nifti.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr double kSameGrid = 1e-3;                 // millimetres
constexpr int64_t kMostVoxels = int64_t{1} << 26;  // of a volume: 406 x 406 x 406

UserError bad(const std::filesystem::path& path, const std::string& what) {
  return UserError(fmt::format("{}: {}", path.string(), what), UserError::Kind::failure);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  const bool commas = line.find(',') != line.npos, semicolons = line.find(';') != line.npos;
  const std::string_view separators = commas ? "," : semicolons ? ";" : blanks;
  std::vector<std::string_view> cells;
  while (true) {
    const size_t end = line.find_first_of(separators);
    std::string_view cell = line.substr(0, end);
    const size_t first = cell.find_first_not_of(blanks);
    cell = first == cell.npos ? std::string_view() : cell.substr(first, cell.find_last_not_of(blanks) - first + 1);
    if (!cell.empty() || commas || semicolons) cells.push_back(cell);  // blanks may be several
    if (end == line.npos) return cells;
    line.remove_prefix(end + 1);
  }
}

std::optional<float> number_of(std::string_view cell) {
  double number = 0;
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, number);
  if (cell.empty() || stop != end || error != std::errc{}) return std::nullopt;
  return static_cast<float>(number);
}

FmriSeries read_table(const std::filesystem::path& path) {
  if (std::error_code error; !std::filesystem::is_regular_file(path, error))
    throw_file_error("read", path, error ? error.value() : EINVAL);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw_file_error("read", path, errno != 0 ? errno : EIO);
  FmriSeries series;
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    const std::vector<std::string_view> cells = cells_of(line);
    if (cells.empty()) continue;
    const auto wrong = std::ranges::find_if(cells, [](std::string_view cell) { return !number_of(cell); });
    if (number == 1 && wrong != cells.end()) {  // names
      series.voxels = std::ssize(cells);
      continue;
    }
    if (wrong != cells.end()) throw bad(path, fmt::format("line {}: {} is not a number", number, in_quotes(*wrong)));
    if (series.voxels == 0) series.voxels = std::ssize(cells);
    if (std::ssize(cells) != series.voxels)
      throw bad(path, fmt::format("line {} has {} values, those before it {}", number, cells.size(), series.voxels));
    for (std::string_view cell : cells) series.values.push_back(*number_of(cell));
    ++series.volumes;
  }
  if (stream.bad()) throw_file_error("read", path, errno != 0 ? errno : EIO);
  if (series.volumes == 0) throw bad(path, "it holds no time points");
  return series;
}

/// The voxels of `mask` that are not 0; it lies where the series does.
std::vector<size_t> chosen_by(const std::filesystem::path& path, const NiftiVolume& mask,
                              const std::filesystem::path& of, const NiftiVolume& layout) {
  if (mask.sizes != layout.sizes)
    throw bad(path, fmt::format("this mask has {} voxels, {} has {}; a mask has the same grid", mask.sizes_in_words(),
                                of.string(), layout.sizes_in_words()));
  bool same = true;
  for (size_t i = 0; i < 3; ++i) same &= std::abs(mask.spacing[i] - layout.spacing[i]) <= kSameGrid;
  constexpr std::array<double, 12> nowhere{};
  if (mask.to_world != nowhere && layout.to_world != nowhere)
    for (size_t i = 0; i < nowhere.size(); ++i) same &= std::abs(mask.to_world[i] - layout.to_world[i]) <= kSameGrid;
  if (!same)
    throw bad(path,
              fmt::format("this mask has as many voxels as {}, and they lie elsewhere: {} mm apart against {} mm, "
                          "or with another origin; resample it",
                          of.string(), fmt::join(mask.spacing, " x "), fmt::join(layout.spacing, " x ")));
  std::vector<size_t> chosen;
  for (int64_t i = 0; i < mask.voxels(); ++i)
    if (mask.at(i) != 0) chosen.push_back(static_cast<size_t>(i));
  if (chosen.empty()) throw bad(path, "this mask is 0 everywhere");
  return chosen;
}

FmriSeries read_scan(const std::filesystem::path& path, const std::filesystem::path& mask) {
  NiftiSeries scan(path);
  if (scan.layout().voxels() > kMostVoxels)
    throw bad(path, fmt::format("a volume of it has {} voxels; at most {} are read", scan.layout().sizes_in_words(),
                                kMostVoxels));
  std::vector<size_t> chosen(static_cast<size_t>(scan.layout().voxels()));
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  std::vector<float> volume(chosen.size());
  if (!mask.empty()) chosen = chosen_by(mask, read_nifti(mask), path, scan.layout());
  FmriSeries series;
  series.repetition_time = scan.repetition_time();
  for (int64_t v = 0; v < scan.volumes(); ++v) {
    scan.read(volume);
    for (size_t i : chosen) series.values.push_back(volume[i]);
  }
  series.volumes = scan.volumes();
  series.voxels = std::ssize(chosen);
  if (!mask.empty()) return series;

  // Outside of the head nothing varies.
  std::vector<char> varies(chosen.size(), 0);
  const auto voxels = static_cast<size_t>(series.voxels);
  for (size_t i = voxels; i < series.values.size(); ++i)
    varies[i % voxels] |= series.values[i] != series.values[i - voxels];
  const auto kept = std::ranges::count(varies, 1);
  if (kept == 0) throw bad(path, "no voxel of it varies over time");
  size_t to = 0;
  for (size_t i = 0; i < series.values.size(); ++i)
    if (varies[i % voxels]) series.values[to++] = series.values[i];
  series.values.resize(to);
  series.voxels = kept;
  return series;
}

}  // namespace

FmriSeries read_fmri(const std::filesystem::path& path, const std::filesystem::path& mask) {
  const std::string extension = path.extension().string();
  const bool table = extension == ".csv" || extension == ".tsv" || extension == ".txt";
  if (table && !mask.empty())
    throw bad(mask, fmt::format("{} is a table, which has no grid for a mask", path.string()));
  return table ? read_table(path) : read_scan(path, mask);
}

}  // namespace plimsoll
