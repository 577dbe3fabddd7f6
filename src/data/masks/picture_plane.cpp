#include "data/masks/picture_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "files/picture.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Mean and standard deviation of ImageNet's pictures, as parts of full brightness (red, green, blue), by which models
// trained on ImageNet normalize.
constexpr std::array<double, 3> kImageNetMean = {0.485, 0.456, 0.406}, kImageNetDeviation = {0.229, 0.224, 0.225};
constexpr std::array<double, 3> kLuma = {0.299, 0.587, 0.114};  // ITU-R BT.601

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.string(), what), UserError::Kind::failure);
}

/// Returns a plane with the sizes of the reduced picture: a pixel of the square covers at most two of its pixels along
/// each axis.
template <typename Plane>
Plane plane_of(const Picture& picture, int64_t size) {
  Plane plane;
  plane.full_width = picture.width;
  plane.full_height = picture.height;
  const int64_t longer = std::max(picture.width, picture.height), shorter = std::min(picture.width, picture.height);
  plane.reduced = std::clamp<int64_t>(longer / size, 1, shorter);
  plane.width = (picture.width + plane.reduced - 1) / plane.reduced;
  plane.height = (picture.height + plane.reduced - 1) / plane.reduced;
  return plane;
}

/// Refuses a mask whose transparency says more than its numbers do: transparent pixels are those of number 0, if any.
void check_transparency(const Picture& mask, const std::filesystem::path& file) {
  const auto channels = static_cast<size_t>(mask.channels);
  for (size_t i = 0; i < mask.alpha.size(); ++i) {
    const uint16_t* pixel = mask.numbers.data() + i * channels;
    const bool none = std::all_of(pixel, pixel + channels, [](uint16_t number) { return number == 0; });
    if (mask.alpha[i] == (none ? 0 : mask.max_value)) continue;
    const auto width = static_cast<size_t>(mask.width);
    refuse(file,
           fmt::format("is a mask with transparent pixels that are not those of number 0 (column {}, row {}: number "
                       "{}, alpha {} of {}); save it without transparency, with a number for each structure",
                       i % width, i / width, *pixel, mask.alpha[i], mask.max_value));
  }
}

}  // namespace

PicturePlane read_plane(const std::filesystem::path& file, int64_t size, int64_t channels,
                        const std::string& normalize) {
  check(channels == 1 || channels == 3, "pictures have 1 or 3 channels");
  const Picture picture = on_white(read_picture(file));
  auto plane = plane_of<PicturePlane>(picture, size);
  plane.channels = channels;
  plane.values.resize(static_cast<size_t>(plane.width * plane.height * channels));
  const auto has = static_cast<size_t>(picture.channels);
  const auto whole = static_cast<double>(picture.max_value);
  const auto part = [&](int64_t column, int64_t row, size_t channel) {
    const uint16_t* pixel = picture.numbers.data() + static_cast<size_t>(row * picture.width + column) * has;
    if (has == 1) return pixel[0] / whole;
    if (channels == 3) return pixel[channel] / whole;
    return (kLuma[0] * pixel[0] + kLuma[1] * pixel[1] + kLuma[2] * pixel[2]) / whole;
  };
  float* to = plane.values.data();
  for (int64_t r = 0; r < plane.height; ++r)
    for (int64_t c = 0; c < plane.width; ++c)
      for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel) {
        const int64_t right = std::min(picture.width, (c + 1) * plane.reduced);
        const int64_t below = std::min(picture.height, (r + 1) * plane.reduced);
        double sum = 0, count = 0;
        for (int64_t row = r * plane.reduced; row < below; ++row)
          for (int64_t column = c * plane.reduced; column < right; ++column) sum += part(column, row, channel), ++count;
        *to++ = static_cast<float>(sum / count);
      }
  std::array<double, 3> mean = {}, deviation = {1, 1, 1};
  if (normalize == "imagenet") {
    mean = kImageNetMean, deviation = kImageNetDeviation;
    if (channels == 1) mean[0] = (mean[0] + mean[1] + mean[2]) / 3, deviation[0] = kImageNetDeviation[1];
  } else {
    const auto numbers = static_cast<double>(plane.values.size());
    double sum = 0, squares = 0;
    for (const float value : plane.values) sum += value;
    for (const float value : plane.values) squares += (value - sum / numbers) * (value - sum / numbers);
    mean.fill(sum / numbers);
    // A picture of one color becomes 0: sums of up to 2^29 equal float32 values are exact in float64.
    deviation.fill(squares > 0 ? std::sqrt(squares / numbers) : 1);
  }
  for (size_t i = 0; i < plane.values.size(); ++i) {
    const size_t channel = i % static_cast<size_t>(channels);
    plane.values[i] = static_cast<float>((plane.values[i] - mean[channel]) / deviation[channel]);
  }
  return plane;
}

MaskPlane read_mask(const std::filesystem::path& file, int64_t size) {
  const Picture picture = read_picture(file);
  check_transparency(picture, file);
  auto plane = plane_of<MaskPlane>(picture, size);
  plane.orientation = picture.orientation;
  plane.exact = picture.exact;
  plane.threshold = static_cast<uint16_t>(picture.exact ? 0 : picture.max_value / 2);
  const auto has = static_cast<size_t>(picture.channels);
  plane.numbers.resize(static_cast<size_t>(plane.width * plane.height));
  uint16_t* to = plane.numbers.data();
  for (int64_t r = 0; r < plane.height; ++r)
    for (int64_t c = 0; c < plane.width; ++c) {
      const int64_t column = std::min(c * plane.reduced + plane.reduced / 2, picture.width - 1);
      const int64_t row = std::min(r * plane.reduced + plane.reduced / 2, picture.height - 1);
      *to++ = picture.numbers[static_cast<size_t>(row * picture.width + column) * has];
    }
  if (has == 3 && picture.exact)
    for (size_t i = 0; i < picture.numbers.size(); i += 3)
      if (picture.numbers[i] != picture.numbers[i + 1] || picture.numbers[i] != picture.numbers[i + 2])
        refuse(file,
               "is a mask in colors; a mask has one number a pixel: save it as gray or with a palette, or one "
               "mask for each structure");
  return plane;
}

void show(const PicturePlane& plane, int64_t size, const SliceView& view, std::span<float> to) {
  check(std::ssize(to) == size * size * plane.channels, "an image of another size");
  const auto last_column = static_cast<double>(plane.width - 1), last_row = static_cast<double>(plane.height - 1);
  each_place(plane, size, view, [&](int64_t pixel, double column, double row) {
    float* values = to.data() + pixel * plane.channels;
    if (!pixel_inside(column, plane.width) || !pixel_inside(row, plane.height)) {
      std::fill_n(values, plane.channels, 0.0F);
      return;
    }
    const double left = std::clamp(column, 0.0, last_column), above = std::clamp(row, 0.0, last_row);
    const auto c = static_cast<int64_t>(left), r = static_cast<int64_t>(above);
    const double right_part = left - static_cast<double>(c), below_part = above - static_cast<double>(r);
    const int64_t right = std::min(c + 1, plane.width - 1), below = std::min(r + 1, plane.height - 1);
    for (int64_t channel = 0; channel < plane.channels; ++channel) {
      const auto value = [&](int64_t at_column, int64_t at_row) {
        return double{plane.values[static_cast<size_t>((at_row * plane.width + at_column) * plane.channels + channel)]};
      };
      const double upper = value(c, r) + right_part * (value(right, r) - value(c, r));
      const double lower = value(c, below) + right_part * (value(right, below) - value(c, below));
      values[channel] = static_cast<float>(upper + below_part * (lower - upper));
    }
  });
}

}  // namespace plimsoll
