#include "data/series/fmri_series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "data/series/series_file.h"
#include "files/csv_file.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/nifti.h"
#include "files/npy.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxVoxels = int64_t{1} << 26;  // voxels of a volume: 406 x 406 x 406

/// The smallest and the largest of the numbers other than 0 of a mask.
struct MaskRange {
  double min = HUGE_VAL, max = -HUGE_VAL;
  void add(double number) {
    min = std::min(min, number);
    max = std::max(max, number);
  }
  /// A mask of probabilities or of several regions is taken as its voxels other than 0.
  void note_several(const std::filesystem::path& path) const {
    if (min < max)
      note_data(path, fmt::format("the mask has numbers from {:.6g} to {:.6g} besides 0; all voxels other than 0 are "
                                  "taken; save a mask of 0 and 1 for others",
                                  min, max));
  }
};

/// Returns the voxels of the mask in `path` that are not 0. The mask has the series' grid.
std::vector<uint32_t> chosen_by(const std::filesystem::path& path, const std::filesystem::path& of,
                                const NiftiVolume& layout) {
  std::vector<uint32_t> chosen;
  MaskRange range;
  stream_nifti(
      path, sizeof chosen[0],
      [&](const NiftiVolume& mask) {
        if (const std::string difference = grid_difference(layout, mask); !difference.empty())
          throw bad_file(path, fmt::format("this mask does not lie on the grid of {}: {}; {}", of.string(), difference,
                                           grid_remedy(layout, mask, "the series", "the mask")));
      },
      [&](int64_t first, const NiftiVolume& mask, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const double number = mask.at(i);
          if (number == 0) continue;
          range.add(number);
          chosen.push_back(static_cast<uint32_t>(first + i));
        }
      });
  if (chosen.empty()) throw bad_file(path, "this mask is 0 everywhere");
  range.note_several(path);
  return chosen;
}

/// Keeps the voxels with kept[i] != 0.
void keep_voxels(FmriSeries& series, const std::vector<char>& kept) {
  const auto keep = [&](auto& list) {
    size_t to = 0;
    for (size_t i = 0; i < list.size(); ++i)
      if (kept[i % kept.size()]) list[to++] = std::move(list[i]);
    list.resize(to);
  };
  keep(series.values);
  keep(series.grid_index);
  if (series.names.size() == kept.size()) keep(series.names);
  series.voxels = std::ranges::count_if(kept, [](char each) { return each != 0; });
}

/// Removes the voxels that are the same in every volume.
void keep_what_varies(FmriSeries& series, const std::filesystem::path& path) {
  // Outside of the head nothing varies. Some programs write "not a number" there, which is unequal to itself.
  const auto differ = [](float a, float b) { return a != b && !(std::isnan(a) && std::isnan(b)); };
  const auto voxels = static_cast<size_t>(series.voxels);
  std::vector<char> varies(voxels, 0);
  for (size_t i = voxels; i < series.values.size(); ++i)
    varies[i % voxels] |= differ(series.values[i], series.values[i - voxels]);
  if (std::ranges::count(varies, 1) == 0) throw bad_file(path, "no voxel of it varies over time");
  series.grid_index.resize(voxels);
  std::iota(series.grid_index.begin(), series.grid_index.end(), 0u);
  keep_voxels(series, varies);
  series.counted = "voxels that vary";
}

/// Returns the position of each voxel's values in a scan [X, Y, Z, volumes] in nibabel's C order, in units of volumes.
/// Voxels are in NIfTI's order (x the fastest).
std::vector<int64_t> places_of(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> places;
  for (int64_t z = 0; z < sizes[2]; ++z)
    for (int64_t y = 0; y < sizes[1]; ++y)
      for (int64_t x = 0; x < sizes[0]; ++x) places.push_back((x * sizes[1] + y) * sizes[2] + z);
  return places;
}

std::vector<size_t> chosen_by(const std::filesystem::path& path, const NpyArray& mask, const std::filesystem::path& of,
                              const NpyArray& scan) {
  const std::vector<int64_t> wanted(scan.sizes.begin(), scan.sizes.begin() + 3);
  if (mask.sizes != wanted)
    throw bad_file(path, fmt::format("this mask is {}, and {} is {}: a mask has its first three sizes",
                                     mask.describe_sizes(), of.string(), scan.describe_sizes()));
  const std::vector<int64_t> places = places_of(wanted);
  std::vector<size_t> chosen;
  MaskRange range;
  for (size_t i = 0; i < places.size(); ++i) {
    const double number = mask.at(places[i]);
    if (number == 0) continue;
    range.add(number);
    chosen.push_back(i);
  }
  if (chosen.empty()) throw bad_file(path, "this mask is 0 everywhere");
  range.note_several(path);
  return chosen;
}

FmriSeries read_array(const std::filesystem::path& path, const std::filesystem::path& mask) {
  const NpyArray array = read_npy(path);
  const size_t dimensions = array.sizes.size();
  if ((dimensions != 2 && dimensions != 4) || array.count() == 0)
    throw bad_file(path,
                   fmt::format("it is {}; [volumes, voxels], or [x, y, z, volumes] as nibabel has a scan, is wanted",
                               array.describe_sizes()));
  FmriSeries series;
  if (dimensions == 2) {
    if (!mask.empty())
      throw bad_file(mask,
                     fmt::format("{} is [volumes, voxels], which has no grid for a mask; save the voxels within it",
                                 path.string()));
    series.volumes = array.sizes[0];
    series.voxels = array.sizes[1];
    series.values = array.floats();
    series.counted = "columns";
    return series;
  }
  series.volumes = array.sizes[3];
  const std::vector<int64_t> places = places_of(array.sizes);
  std::vector<size_t> chosen(places.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  if (!mask.empty()) {
    if (mask.extension() != ".npy")
      throw bad_file(mask, fmt::format("the mask of {} is a .npy file too: numbers [x, y, z]", path.string()));
    chosen = chosen_by(mask, read_npy(mask), path, array);
  }
  series.voxels = std::ssize(chosen);
  series.grid = {array.sizes[0], array.sizes[1], array.sizes[2]};
  series.grid_index.assign(chosen.begin(), chosen.end());
  series.counted = "voxels";
  require_data_memory(path.string(), fmt::format("has {} volumes of {} voxels", series.volumes, chosen.size()),
                      static_cast<double>(array.bytes.size()) +
                          sizeof(float) * static_cast<double>(chosen.size()) * static_cast<double>(series.volumes));
  series.values.reserve(chosen.size() * static_cast<size_t>(series.volumes));
  for (int64_t v = 0; v < series.volumes; ++v)
    for (const size_t i : chosen) series.values.push_back(static_cast<float>(array.at(places[i] * series.volumes + v)));
  if (mask.empty()) keep_what_varies(series, path);
  return series;
}

FmriSeries read_scan(const std::filesystem::path& path, const std::filesystem::path& mask) {
  NiftiSeries scan(path);
  if (scan.layout().voxels() > kMaxVoxels)
    throw bad_file(path, fmt::format("a volume of it has {} voxels; at most {} are read",
                                     scan.layout().describe_sizes(), kMaxVoxels));
  const bool masked = !mask.empty();
  std::vector<uint32_t> chosen;  // has room for kMaxVoxels
  if (masked) chosen = chosen_by(mask, path, scan.layout());
  FmriSeries series;
  series.time = scan.time();
  series.voxels = masked ? std::ssize(chosen) : scan.layout().voxels();
  // Fewer than 2^26 voxels in fewer than 2^60 volumes: counted in floating point.
  const double bytes = 4.0 * static_cast<double>(series.voxels) * static_cast<double>(scan.volumes());
  if (bytes > static_cast<double>(unpacked_limit(scan.file_bytes())))
    throw bad_file(path, fmt::format("it announces {} volumes of {} voxels{}, which take {:.0f} bytes as float32; "
                                     "allowed: {} bytes, which is {} and {} for each byte of the file; {}",
                                     scan.volumes(), series.voxels, masked ? " within the mask" : "", bytes,
                                     unpacked_limit(scan.file_bytes()), format_bytes(kUnpackedFloor), kUnpackedFactor,
                                     masked ? "set a smaller data.fmri_mask" : "set data.fmri_mask"));
  require_data_memory(path.string(), fmt::format("announces {} volumes of {} voxels", scan.volumes(), series.voxels),
                      bytes);
  // Reserves addresses for all values; memory grows with the volumes that are really there.
  series.values.reserve(static_cast<size_t>(bytes) / sizeof(float));
  std::vector<float> volume(masked ? static_cast<size_t>(scan.layout().voxels()) : 0);
  for (int64_t v = 0; v < scan.volumes(); ++v) {
    if (masked) {
      scan.read(volume);
      for (const uint32_t i : chosen) series.values.push_back(volume[i]);
    } else {
      const size_t before = series.values.size();
      series.values.resize(before + static_cast<size_t>(series.voxels));
      scan.read(std::span(series.values).subspan(before));
    }
  }
  series.volumes = scan.volumes();
  series.grid = scan.layout().sizes;
  series.grid_index = std::move(chosen);
  series.counted = "voxels";
  if (!masked) keep_what_varies(series, path);
  return series;
}

}  // namespace

std::string FmriSeries::name_of_voxel(int64_t voxel) const {
  if (grid_index.empty())
    return fmt::format("column {}{}", voxel + 1,
                       voxel < std::ssize(names) ? " " + in_quotes(names[static_cast<size_t>(voxel)]) : "");
  const auto at = static_cast<int64_t>(grid_index[static_cast<size_t>(voxel)]);
  return fmt::format("({}, {}, {})", at % grid[0], at / grid[0] % grid[1], at / (grid[0] * grid[1]));
}

std::string FmriSeries::first_values() const {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < std::min(voxels, kMaxShown) && volumes > 0; ++i) {
    const std::string number = fmt::format("{:.6g}", values[static_cast<size_t>(i)]);
    texts.push_back(i < std::ssize(names) ? one_line(names[static_cast<size_t>(i)]) + " " + number : number);
  }
  return fmt::format("{}{}", fmt::join(texts, ", "), voxels > kMaxShown ? ", ..." : "");
}

std::vector<int64_t> bad_voxels(const FmriSeries& series) {
  std::vector<int64_t> bad_volumes(static_cast<size_t>(series.voxels), 0);
  for (size_t i = 0; i < series.values.size(); ++i)
    if (!std::isfinite(series.values[i])) ++bad_volumes[i % bad_volumes.size()];
  std::vector<int64_t> bad;
  for (int64_t i = 0; i < series.voxels; ++i)
    if (2 * bad_volumes[static_cast<size_t>(i)] >= series.volumes) bad.push_back(i);
  return bad;
}

void remove_voxels(FmriSeries& series, const std::vector<int64_t>& voxels) {
  std::vector<char> kept(static_cast<size_t>(series.voxels), 1);
  for (const int64_t voxel : voxels) kept[static_cast<size_t>(voxel)] = 0;
  keep_voxels(series, kept);
}

FmriSeries read_fmri(const std::filesystem::path& path, const std::filesystem::path& mask) {
  const std::string extension = path.extension().string();
  const bool table = extension == ".csv" || extension == ".tsv" || extension == ".txt";
  if (table && !mask.empty())
    throw bad_file(mask, fmt::format("{} is a table, which has no grid for a mask", path.string()));
  if (extension == ".npy") return read_array(path, mask);
  return table ? read_fmri_table(path) : read_scan(path, mask);
}

namespace {

constexpr int64_t kMaxSidecarBytes = 16 * MiB;
constexpr double kSidecarTolerance = 1e-3;  // headers have times in float32, rounded to milliseconds

}  // namespace

std::string sidecar_question(const std::filesystem::path& series, double seconds) {
  std::filesystem::path sidecar = series;
  if (sidecar.extension() == ".gz") sidecar.replace_extension();
  if (sidecar.extension() != ".nii") return "";
  sidecar.replace_extension(".json");
  std::error_code error;
  if (!std::filesystem::is_regular_file(sidecar, error)) return "";
  const nlohmann::json json = read_python_json_file(sidecar, kMaxSidecarBytes);
  if (json.contains("VolumeTiming"))
    return fmt::format(
        "{} has VolumeTiming, times of single volumes; volumes are equally far apart here: set "
        "data.repetition_time if they are",
        sidecar.string());
  const auto time = json.find("RepetitionTime");
  if (time == json.end() || !time->is_number()) return "";
  const double stated = time->get<double>();
  if (std::abs(stated - seconds) <= kSidecarTolerance * seconds) return "";
  return fmt::format(
      "{:.6g} seconds from volume to volume, and RepetitionTime in {} is {:.6g}; set "
      "data.repetition_time to the right one",
      seconds, sidecar.string(), stated);
}

namespace {

using Cells = std::vector<std::string>;

class FmriTable {
 public:
  explicit FmriTable(const std::filesystem::path& path) : path_(path), table_(path, true) {}

  FmriSeries read() {
    series_.counted = "columns";
    Cells cells;
    for (bool first = true; table_.next(cells); first = false) {
      if (first && has_names(cells))
        take_names(cells);
      else
        add_volume(cells, first);
    }
    if (series_.volumes == 0) throw bad_file(path_, "it holds no time points");
    judge_first_line();
    judge_first_column();
    note_rising_columns();
    return std::move(series_);
  }

 private:
  [[noreturn]] void refuse_line(int64_t line, const std::string& what) const {
    throw bad_file(path_, fmt::format("line {}{}", line, what));
  }

  std::optional<float> number_of(const std::string& cell) {
    const std::optional<double> number = table_.number(cell);
    if (!number) return std::nullopt;
    const auto value = static_cast<float>(*number);
    if (std::isfinite(*number) && !std::isfinite(value)) return std::nullopt;  // beyond float32
    return value;
  }

  static bool lacks_first_name(const Cells& cells) { return cells.size() > 1 && cells[0].empty(); }

  bool has_names(const Cells& cells) {
    if (lacks_first_name(cells) && are_counting_names(cells, 1)) return true;  // an index and names that count
    return std::ranges::any_of(cells, [](const std::string& cell) { return !cell.empty(); }) &&
           std::ranges::none_of(cells, [this](const std::string& cell) { return number_of(cell).has_value(); });
  }

  void take_names(const Cells& cells) {
    index_cells_ = lacks_first_name(cells) ? 1 : 0;
    series_.names.assign(cells.begin() + index_cells_, cells.end());
    series_.voxels = std::ssize(series_.names);
    note_data(path_,
              fmt::format("line {} is taken as names and left out: {}", table_.line(), few_names(series_.names)));
  }

  void add_volume(const Cells& cells, bool first) {
    const int64_t line = table_.line(), values = std::ssize(cells) - index_cells_;
    if (first) {
      series_.voxels = values;
      first_cells_ = cells;
    }
    if (values != series_.voxels) {
      const bool row_names = series_.volumes == 0 && index_cells_ == 0 && values == series_.voxels + 1;
      refuse_line(line, fmt::format(" has {} values, those before it {}{}", values, series_.voxels,
                                    row_names ? "; if the first is a name of the line, write the table without such "
                                                "names (R: row.names = FALSE)"
                                              : ""));
    }
    if (!first_column_.add(cells[0]) && index_cells_ > 0)
      refuse_line(line, fmt::format(", cell 1: {} is in a column without a name, and does not count as an index does; "
                                    "name the column if it has values, or remove it",
                                    in_quotes(cells[0])));
    if (const size_t count = series_.values.size() + cells.size();
        sizeof(float) * static_cast<double>(count) > data_memory_left())
      require_data_memory(path_.string(), fmt::format("has {} values up to line {}", count, line),
                          sizeof(float) * static_cast<double>(count));
    for (size_t i = static_cast<size_t>(index_cells_); i < cells.size(); ++i) {
      const std::optional<float> value = number_of(cells[i]);
      if (!value)
        refuse_line(line, fmt::format(", cell {}: {} is not a number{}", i + 1, in_quotes(cells[i]),
                                      first ? "; a line of names would have no number" : ""));
      if (!first && cells[i].find_first_not_of("+-0123456789") != std::string::npos) later_lines_are_whole_ = false;
      series_.values.push_back(*value);
    }
    ++series_.volumes;
  }

  /// Refuses a first line 0,1,2,... or 1,2,3,... Such a line of one or two cells may have values if all others are
  /// whole numbers, too.
  void judge_first_line() const {
    if (series_.volumes < 2 || !are_counting_names(first_cells_)) return;
    const bool from_zero = first_cells_[0] == "0", single = first_cells_.size() == 1;
    if (single && (!from_zero || later_lines_are_whole_)) return;
    if (!from_zero && first_cells_.size() == 2 && later_lines_are_whole_) return;
    throw bad_file(path_, fmt::format("the first line counts: {}; programs write such a line if columns have no names; "
                                      "remove it (pandas: header=False), or write it as 0.0, 1.0, ... if it has values",
                                      few_names(first_cells_)));
  }

  void judge_first_column() const {
    if (index_cells_ > 0)
      note_data(path_, fmt::format("the first column has no name and {}; it is left out as an index",
                                   first_column_.describe()));
    else if (series_.voxels > 1 && first_column_.is_certain())
      throw bad_file(path_,
                     fmt::format("{} {}, as an index does; remove it (pandas: index=False), or write its numbers "
                                 "as 0.0, 1.0, ... if they are values",
                                 series_.name_of_voxel(0), first_column_.describe()));
  }

  /// Notes voxels that rise by one step from line to line, as the time does.
  void note_rising_columns() const {
    if (series_.volumes < kMinRisingLines) return;
    std::vector<std::string> rising;
    for (int64_t voxel = 0; voxel < series_.voxels; ++voxel) {
      const auto value = [&](int64_t line) {
        return double{series_.values[static_cast<size_t>(line * series_.voxels + voxel)]};
      };
      const double step = value(1) - value(0);
      bool rises = step > 0;
      for (int64_t line = 2; line < series_.volumes && rises; ++line)
        rises = std::abs(value(line) - value(line - 1) - step) <= kStepTolerance * step;
      if (rises) rising.push_back(series_.name_of_voxel(voxel));
    }
    if (!rising.empty())
      note_data(path_, fmt::format("columns that rise by one step from line to line, as the time does, are taken as "
                                   "values: {}; remove them if they are none",
                                   few_names(rising)));
  }

  const std::filesystem::path& path_;
  CsvFile table_;
  FmriSeries series_;
  Cells first_cells_;  // the first line; empty if it has names
  IndexColumn first_column_;
  int64_t index_cells_ = 0;  // 1: the first column has no name, and is an index
  bool later_lines_are_whole_ = true;
};

}  // namespace

FmriSeries read_fmri_table(const std::filesystem::path& path) {
  return FmriTable(path).read();
}

}  // namespace plimsoll
