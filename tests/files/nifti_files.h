// Makes NIfTI files for tests: volumes, scans in time, volumes with labels.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/nifti.h"
#include "plimsoll/sample_data.h"
#include "test_files.h"

namespace plimsoll {

/// Returns the bytes of a .nii file of `numbers`, x the fastest.
template <typename Number>
std::string nifti_bytes(NiftiType type, std::array<int16_t, 3> sizes, const std::vector<Number>& numbers) {
  std::string bytes(352, '\0');
  const auto put = [&](size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof(value)); };
  put(0, int32_t{348});
  put(40, int16_t{3});
  for (size_t i = 0; i < 7; ++i) put(42 + 2 * i, i < 3 ? sizes[i] : int16_t{1});
  put(70, static_cast<int16_t>(type));
  put(72, static_cast<int16_t>(8 * sizeof(Number)));
  for (size_t i = 0; i < 3; ++i) put(80 + 4 * i, 1.0f);
  put(108, 352.0f);
  std::memcpy(bytes.data() + 344, "n+1", 4);
  return bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

/// Returns the file with a field of the header replaced.
template <typename Number>
std::string with_field(std::string bytes, size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

/// Returns a NIfTI-1 header for this number of values of `datatype` with `bits` each, 3 mm apart, 2 seconds from volume
/// to volume.
inline std::string scan_header(const std::vector<int16_t>& sizes, int16_t datatype, int16_t bits) {
  std::string header(352, '\0');
  const auto put = [&](size_t at, auto value) { std::memcpy(header.data() + at, &value, sizeof value); };
  put(0, int32_t{348});
  put(40, static_cast<int16_t>(sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) put(42 + 2 * i, sizes[i]);
  put(70, datatype);
  put(72, bits);
  for (size_t i = 1; i <= 3; ++i) put(76 + 4 * i, 3.0f);
  put(76 + 16, 2.0f);
  put(108, 352.0f);
  header.replace(344, 4, std::string("n+1\0", 4));
  return header;
}

template <typename Number>
std::string scan_of(const std::vector<int16_t>& sizes, const std::vector<Number>& values, int16_t datatype) {
  std::string file = scan_header(sizes, datatype, static_cast<int16_t>(8 * sizeof(Number)));
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  return file;
}
inline std::string scan(const std::vector<int16_t>& sizes, const std::vector<float>& values) {
  return scan_of(sizes, values, 16);
}
inline std::string scan(const std::vector<int16_t>& sizes, const std::vector<int16_t>& values) {
  return scan_of(sizes, values, 4);
}

inline std::filesystem::path put_packed(const std::filesystem::path& file, const std::string& bytes) {
  gzFile stream = gzopen(file.c_str(), "wb");
  if (stream == nullptr || gzwrite(stream, bytes.data(), static_cast<unsigned>(bytes.size())) == 0)
    throw std::runtime_error("cannot write " + file.string());
  gzclose(stream);
  return file;
}

/// Sizes x, y, z of the boxes' volumes.
constexpr int64_t kBoxSide = 24, kBoxSlices = 30;

/// Draws box 1 (label 5) on the left and box 2 (label 9) on the right, from z = 2 on. Both move and grow with z.
inline int box_at(int64_t x, int64_t y, int64_t z) {
  if (z < 2) return 0;
  const int64_t wander = z % 7, height = 4 + z / 5;
  if (x >= 3 && x < 9 && y >= 3 + wander && y < 3 + wander + height) return 5;
  if (x >= 14 && x < 20 && y >= 9 - wander && y < 9 - wander + height) return 9;
  return 0;
}

/// Writes image.nii, labels.nii and names.txt, and returns a job's data with them.
inline DataConfig box_slices(const TempFolder& folder) {
  std::vector<float> image;
  std::vector<uint8_t> labels;
  for (int64_t z = 0; z < kBoxSlices; ++z)
    for (int64_t y = 0; y < kBoxSide; ++y)
      for (int64_t x = 0; x < kBoxSide; ++x) {
        const int label = box_at(x, y, z);
        labels.push_back(static_cast<uint8_t>(label));
        image.push_back(static_cast<float>((label == 5 ? 60 : label == 9 ? 100 : 10) + (x * 7 + y * 3 + z) % 5));
      }
  constexpr auto side = static_cast<int16_t>(kBoxSide);
  constexpr std::array<int16_t, 3> sizes = {side, side, static_cast<int16_t>(kBoxSlices)};
  DataConfig config;
  config.type = "slices";
  config.files = {put_file(folder / "image.nii", nifti_bytes(NiftiType::float32, sizes, image))};
  config.slices.labels = {put_file(folder / "labels.nii", nifti_bytes(NiftiType::uint8, sizes, labels))};
  config.slices.label_names = put_file(folder / "names.txt", "5 left box\n9 right box\n");
  config.slices.min_pixels = 4;
  config.slices.validation_block = 3;
  config.slices.validation_gap = 1;
  config.validation_fraction = 0.2;
  return config;
}

}  // namespace plimsoll
