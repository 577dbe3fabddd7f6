// Declares NIfTI files for tests, and ways to damage them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "files/nifti.h"

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

}  // namespace plimsoll
