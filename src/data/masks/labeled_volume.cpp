#include "data/masks/labeled_volume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "files/data_memory.h"
#include "files/nifti.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Structures take 16 bits a voxel; one value means "none".
constexpr size_t kMaxStructures = std::numeric_limits<uint16_t>::max() - 1;
constexpr size_t kCacheLineBytes = 64;

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(what, UserError::Kind::failure);
}

/// Returns true if the voxel nearest to position `at` is one of 0 to `last`.
bool nearest_inside(double at, int64_t last) {
  return at > -0.5 && at < static_cast<double>(last) + 0.5;
}

/// Returns std::llround(at) for a position above -0.5. It is inlined, because it runs for each pixel.
int64_t nearest_voxel(double at) {
  const auto whole = static_cast<int64_t>(at);
  return whole + (at - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}

void check_same_grid(const NiftiVolume& image, const std::filesystem::path& image_file, const NiftiVolume& labels,
                     const std::filesystem::path& label_file) {
  if (const std::string difference = grid_difference(image, labels); !difference.empty())
    refuse(fmt::format("{} and its labels {} do not lie on the same grid: {}; {}", image_file.string(),
                       label_file.string(), difference, grid_remedy(image, labels, "the image", "the labels")));
}

void check_labels(const NiftiVolume& labels, const std::filesystem::path& file) {
  if (is_floating(labels.type))
    refuse(fmt::format("{}: has {} voxels; labels are whole numbers: convert it, for example to int16", file.string(),
                       name_of(labels.type)));
  if (labels.slope != 1 || labels.intercept != 0)
    refuse(fmt::format("{}: scales its numbers (by {}, plus {}); labels are whole numbers as they stand", file.string(),
                       labels.slope, labels.intercept));
}

}  // namespace

struct LabeledVolume::Line {
  std::vector<int64_t> lower, upper;  // the two neighboring voxels
  std::vector<float> part;            // weight of the upper neighbor
  std::vector<int64_t> nearest;       // -1: outside
};

LabeledVolume::LabeledVolume(const std::filesystem::path& image, const std::filesystem::path& labels,
                             const std::unordered_map<int64_t, int64_t>& structures, int axis)
    : axis_(axis), columns_(axis == 0 ? 1 : 0), rows_(axis == 2 ? 1 : 2) {
  check(axis >= 0 && axis < 3, "an axis is 0, 1 or 2");
  if (structures.size() > kMaxStructures)
    throw UserError(
        fmt::format("data.structures takes {} names of data.label_names; at most {} can be told apart: ask "
                    "for fewer",
                    structures.size(), kMaxStructures));
  image_ = read_nifti(image);
  const int64_t voxels = image_.voxels();
  const double image_bytes = static_cast<double>(image_.bytes.size());
  stream_nifti(
      labels, sizeof structure_[0],
      [&](const NiftiVolume& layout) {
        check_labels(layout, labels);
        check_same_grid(image_, image, layout, labels);
        require_data_memory(labels.string(), fmt::format("its image {} has {} voxels", image.string(), voxels),
                            image_bytes + static_cast<double>(voxels) * sizeof structure_[0]);
        structure_.reserve(static_cast<size_t>(voxels));
      },
      [&](int64_t, const NiftiVolume& numbers, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          // Labels beyond int64 have no name: label_names are int64. Beyond 2^53, labels that round to the same double
          // are the same label.
          const double number = numbers.number(i);
          const auto found = number < 0x1p63 ? structures.find(static_cast<int64_t>(number)) : structures.end();
          structure_.push_back(found == structures.end() ? uint16_t{0} : static_cast<uint16_t>(found->second + 1));
        }
      });
  // The foreground: voxels above the least value.
  least_ = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < voxels; ++i) least_ = std::min(least_, image_.at(i));
  double count = 0, sum = 0, squares = 0;
  double lowest = std::numeric_limits<double>::infinity(), highest = 0;  // of the foreground, above the least value
  for (int64_t i = 0; i < voxels; ++i) {
    const double value = image_.at(i) - least_;
    if (value <= 0) continue;
    ++count;
    sum += value;
    squares += value * value;
    lowest = std::min(lowest, value), highest = std::max(highest, value);
  }
  if (count == 0) refuse(fmt::format("{}: all voxels have the same value", image.string()));
  mean_ = least_ + sum / count;
  const double variance = squares / count - (sum / count) * (sum / count);
  deviation_ = variance > 0 ? std::sqrt(variance) : highest;
  // A foreground of one value becomes 0 and the background -1: rounding errors are no deviation.
  if (lowest == highest) mean_ = least_ + highest, deviation_ = highest;
  if (!std::isfinite(mean_) || !std::isfinite(deviation_))
    refuse(fmt::format("{}: its values are too large to be normalized", image.string()));
}

std::string LabeledVolume::orientation() const {
  return orientation_of(image_);
}

double LabeledVolume::scale(int64_t size) const {
  const auto millimeters = [&](size_t axis) { return static_cast<double>(image_.sizes[axis]) * image_.spacing[axis]; };
  return std::max(millimeters(columns_), millimeters(rows_)) / static_cast<double>(size);
}

LabeledVolume::Line LabeledVolume::line(size_t axis, double scale, int64_t size) const {
  const auto voxels = static_cast<double>(image_.sizes[axis]);
  const double step = scale / image_.spacing[axis];
  Line line;
  for (int64_t i = 0; i < size; ++i) {
    // Position of the pixel's middle, in voxels relative to the middle of the first voxel.
    const double at = (static_cast<double>(i) + 0.5 - static_cast<double>(size) / 2) * step + voxels / 2 - 0.5;
    const double inside = std::clamp(at, 0.0, voxels - 1);
    const auto lower = static_cast<int64_t>(std::floor(inside));
    line.lower.push_back(lower);
    line.upper.push_back(std::min(lower + 1, image_.sizes[axis] - 1));
    line.part.push_back(static_cast<float>(inside - static_cast<double>(lower)));
    line.nearest.push_back(at < -0.5 || at >= voxels - 0.5 ? -1 : nearest_voxel(inside));
  }
  return line;
}

void LabeledVolume::image(int64_t slice, int64_t channels, int64_t size, std::span<float> to) const {
  check(std::ssize(to) == size * size * channels, "an image of another size");
  const double scale = this->scale(size);
  const Line columns = line(columns_, scale, size), rows = line(rows_, scale, size);
  const std::array<int64_t, 3> steps = {1, image_.sizes[0], image_.sizes[0] * image_.sizes[1]};
  const auto outside = static_cast<float>((least_ - mean_) / deviation_);
  for (int64_t channel = 0; channel < channels; ++channel) {
    const int64_t at = std::clamp<int64_t>(slice + channel - channels / 2, 0, slices() - 1);
    const int64_t base = at * steps[static_cast<size_t>(axis_)];
    const auto value = [&](int64_t column, int64_t row) {
      return static_cast<float>((image_.at(base + column * steps[columns_] + row * steps[rows_]) - mean_) / deviation_);
    };
    for (int64_t r = 0; r < size; ++r)
      for (int64_t c = 0; c < size; ++c) {
        const auto i = static_cast<size_t>(r), j = static_cast<size_t>(c);
        float& pixel = to[static_cast<size_t>((r * size + c) * channels + channel)];
        if (rows.nearest[i] < 0 || columns.nearest[j] < 0) {
          pixel = outside;
          continue;
        }
        const auto across = [&](int64_t row) {
          const float left = value(columns.lower[j], row);
          return columns.part[j] > 0 ? left + columns.part[j] * (value(columns.upper[j], row) - left) : left;
        };
        const float above = across(rows.lower[i]);
        pixel = rows.part[i] > 0 ? above + rows.part[i] * (across(rows.upper[i]) - above) : above;
      }
  }
}

void LabeledVolume::prefetch(int64_t slice, const void* voxels, size_t voxel_bytes) const {
  if (axis_ == 0) return;  // its voxels are whole rows apart: usually each in another cache line
  const size_t row_bytes = static_cast<size_t>(image_.sizes[0]) * voxel_bytes;
  const size_t plane_bytes = row_bytes * static_cast<size_t>(image_.sizes[1]);
  const auto* const first =
      static_cast<const std::byte*>(voxels) + static_cast<size_t>(slice) * (axis_ == 1 ? row_bytes : plane_bytes);
  for (int64_t row = 0; row < image_.sizes[rows_]; ++row) {
    const std::byte* const begin = first + static_cast<size_t>(row) * (axis_ == 1 ? plane_bytes : row_bytes);
    for (size_t at = 0; at < row_bytes; at += kCacheLineBytes) __builtin_prefetch(begin + at);
    __builtin_prefetch(begin + row_bytes - 1);
  }
}

template <typename Visit>
void LabeledVolume::each_row(int64_t size, const SliceView& view, const Visit& visit) const {
  const double scale = this->scale(size), side = static_cast<double>(size);
  const double cosine = std::cos(view.turn) / view.scale, sine = std::sin(view.turn) / view.scale;
  const auto in_voxels = [&](double pixels, size_t axis) {
    return pixels * scale / image_.spacing[axis] + static_cast<double>(image_.sizes[axis]) / 2 - 0.5;
  };
  std::vector<double> columns(static_cast<size_t>(size)), rows(columns.size());
  for (int64_t r = 0; r < size; ++r) {
    const double y = static_cast<double>(r) + 0.5 - side / 2 - view.down * side;
    for (size_t c = 0; c < columns.size(); ++c) {
      const double x = static_cast<double>(c) + 0.5 - side / 2 - view.across * side;
      columns[c] = in_voxels(cosine * x + sine * y, columns_);
      rows[c] = in_voxels(cosine * y - sine * x, rows_);
    }
    visit(r, columns, rows);
  }
}

void LabeledVolume::image(int64_t slice, int64_t channels, int64_t size, const SliceView& view,
                          std::span<float> to) const {
  check(std::ssize(to) == size * size * channels, "an image of another size");
  const std::array<int64_t, 3> steps = {1, image_.sizes[0], image_.sizes[0] * image_.sizes[1]};
  const int64_t column_step = steps[columns_], row_step = steps[rows_];
  const int64_t last_column = image_.sizes[columns_] - 1, last_row = image_.sizes[rows_] - 1;
  const auto last_left = static_cast<double>(last_column), last_above = static_cast<double>(last_row);
  std::vector<double> values(static_cast<size_t>(size));
  visit_type(image_.type, [&](auto number) {
    each_row(size, view, [&](int64_t row, std::span<const double> columns, std::span<const double> rows) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const int64_t at = std::clamp<int64_t>(slice + channel - channels / 2, 0, slices() - 1);
        const int64_t base = at * steps[static_cast<size_t>(axis_)];
        if (row == 0) prefetch(at, image_.bytes.data(), sizeof number);
        const auto voxel = [&](int64_t index) { return image_.at<decltype(number)>(index); };
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = least_;
          if (!nearest_inside(columns[i], last_column) || !nearest_inside(rows[i], last_row)) continue;
          const double left = std::clamp(columns[i], 0.0, last_left), above = std::clamp(rows[i], 0.0, last_above);
          const auto c = static_cast<int64_t>(left), r = static_cast<int64_t>(above);
          const double right_part = left - static_cast<double>(c), below_part = above - static_cast<double>(r);
          const int64_t first = base + c * column_step + r * row_step;
          const int64_t right = c < last_column ? column_step : 0, below = r < last_row ? row_step : 0;
          const double upper = voxel(first) + right_part * (voxel(first + right) - voxel(first));
          const double lower =
              voxel(first + below) + right_part * (voxel(first + below + right) - voxel(first + below));
          values[i] = upper + below_part * (lower - upper);
        }
        float* const pixels = to.data() + row * size * channels + channel;
        for (size_t i = 0; i < values.size(); ++i)
          pixels[static_cast<int64_t>(i) * channels] = static_cast<float>((values[i] - mean_) / deviation_);
      }
    });
  });
}

void LabeledVolume::mask(int64_t slice, int64_t structure, int64_t size, const SliceView& view,
                         std::span<uint8_t> to) const {
  check(std::ssize(to) == size * size, "a mask of another size");
  const std::array<int64_t, 3> steps = {1, image_.sizes[0], image_.sizes[0] * image_.sizes[1]};
  const int64_t column_step = steps[columns_], row_step = steps[rows_];
  const int64_t last_column = image_.sizes[columns_] - 1, last_row = image_.sizes[rows_] - 1;
  prefetch(slice, structure_.data(), sizeof structure_[0]);
  const uint16_t* const structures = structure_.data() + slice * steps[static_cast<size_t>(axis_)];
  each_row(size, view, [&](int64_t row, std::span<const double> columns, std::span<const double> rows) {
    uint8_t* const pixels = to.data() + row * size;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool inside = nearest_inside(columns[i], last_column) && nearest_inside(rows[i], last_row);
      pixels[i] = inside && structures[nearest_voxel(columns[i]) * column_step + nearest_voxel(rows[i]) * row_step] ==
                                structure + 1;
    }
  });
}

// Calls visit(pixel, structure), row by row; structures count from 1, and 0 is none.
template <typename Visit>
void LabeledVolume::each_pixel(int64_t slice, int64_t size, const Visit& visit) const {
  const double scale = this->scale(size);
  const Line columns = line(columns_, scale, size), rows = line(rows_, scale, size);
  const std::array<int64_t, 3> steps = {1, image_.sizes[0], image_.sizes[0] * image_.sizes[1]};
  const int64_t base = slice * steps[static_cast<size_t>(axis_)];
  for (int64_t r = 0; r < size; ++r)
    for (int64_t c = 0; c < size; ++c) {
      const int64_t row = rows.nearest[static_cast<size_t>(r)], column = columns.nearest[static_cast<size_t>(c)];
      const bool outside = row < 0 || column < 0;
      visit(r * size + c, outside
                              ? uint16_t{0}
                              : structure_[static_cast<size_t>(base + column * steps[columns_] + row * steps[rows_])]);
    }
}

void LabeledVolume::mask(int64_t slice, int64_t structure, int64_t size, std::span<uint8_t> to) const {
  check(std::ssize(to) == size * size, "a mask of another size");
  each_pixel(slice, size,
             [&](int64_t pixel, uint16_t found) { to[static_cast<size_t>(pixel)] = found == structure + 1 ? 1 : 0; });
}

std::vector<int64_t> LabeledVolume::pixels_of_each(int64_t slice, int64_t structures, int64_t size) const {
  std::vector<int64_t> pixels(static_cast<size_t>(structures) + 1, 0);
  each_pixel(slice, size, [&](int64_t, uint16_t found) { ++pixels[found]; });
  pixels.erase(pixels.begin());
  return pixels;
}

}  // namespace plimsoll
