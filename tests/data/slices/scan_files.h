// Declares NIfTI files for tests, written byte by byte.
#pragma once

#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "test_files.h"

namespace plimsoll {

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

}  // namespace plimsoll
