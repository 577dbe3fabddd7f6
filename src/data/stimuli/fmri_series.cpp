#include "data/stimuli/fmri_series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/quoted.h"
#include "data/stimuli/bad_file.h"
#include "data/stimuli/fmri_table.h"
#include "files/data_memory.h"
#include "files/data_notes.h"
#include "files/nifti.h"
#include "files/nifti_grid.h"
#include "files/npy.h"
#include "files/unpack_limit.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxShown = 5;                  // values of a message
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

}  // namespace plimsoll
