// Reads the fields of a NIfTI-1 header that say what the numbers of voxels mean: scale, place in the world, time.
//
// The table files/nifti_facts.h says what happens with each field. Defaults and precedence are those of nibabel.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll {

struct NiftiVolume;

/// A header whose fields are returned in this machine's byte order.
class NiftiHeader {
 public:
  static constexpr size_t kBytes = 348;

  explicit NiftiHeader(const std::array<std::byte, kBytes>& bytes) : bytes_(bytes) {
    if (size() == __builtin_bswap32(kBytes)) swapped_ = true;
  }
  /// Returns the number at byte `offset`, an offset of nifti1.h.
  template <typename Number>
  Number get(size_t offset) const {
    std::array<std::byte, sizeof(Number)> raw;
    std::memcpy(raw.data(), bytes_.data() + offset, sizeof(Number));
    if (swapped_) std::reverse(raw.begin(), raw.end());
    return std::bit_cast<Number>(raw);
  }
  uint32_t size() const { return get<uint32_t>(0); }
  bool swapped() const { return swapped_; }
  std::string_view magic() const { return {reinterpret_cast<const char*>(bytes_.data()) + 344, 4}; }

 private:
  std::array<std::byte, kBytes> bytes_;
  bool swapped_ = false;
};

/// Sets slope and intercept: scl_slope 0 or not finite means no scaling, as in nibabel. Throws UserError for a finite
/// slope with an intercept that is not finite.
void read_scale(const NiftiHeader& header, const std::filesystem::path& file, NiftiVolume& volume);

/// Sets the place, the map to the world and the spacing: by the sform if sform_code is above 0, else by the qform if
/// qform_code is above 0, else none. Throws UserError for a code that the standard does not have, and for a form that
/// is used and is no map of a volume: not finite, flat, no unit quaternion.
void read_geometry(const NiftiHeader& header, const std::filesystem::path& file, NiftiVolume& volume);

/// The time from volume to volume, as a header states it.
struct NiftiTime {
  double seconds = 0;  ///< 0: the header does not say
  /// A question about the statement that ends in a remedy, or "": the value or its unit is no repetition time of a
  /// scanner.
  std::string question;
  /// The assumption that `seconds` rests on, or "": the header has a value without a unit.
  std::string assumption;
};
NiftiTime time_of(const NiftiHeader& header);

}  // namespace plimsoll
