// Declares the reader of NIfTI volumes, and their grid in space.
//
// The reader is our own, over zlib: the header is 348 bytes, and every size in it is compared with the file before
// anything is allocated. libniftiio allocates the sizes in a header unchecked and prints its own messages.
//
// Bounds: a file that is not packed takes at most its own size. A packed file takes at most 512 MiB + 16 x its size,
// unpacked (files/data_memory.h); a larger one is an error that tells the user to unpack the file. A volume is in
// memory once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/nifti_header.h"

namespace plimsoll {

/// Supported element types, with their codes in the file.
enum class NiftiType : int16_t {
  uint8 = 2,
  int16 = 4,
  int32 = 8,
  float32 = 16,
  float64 = 64,
  int8 = 256,
  uint16 = 512,
  uint32 = 768,
  int64 = 1024,
  uint64 = 1280,
};
std::string_view name_of(NiftiType type);
bool is_floating(NiftiType type);

/// Returns visit(Number{}) with the C++ type of the voxels.
template <typename Visit>
constexpr decltype(auto) visit_type(NiftiType type, const Visit& visit) {
  switch (type) {
    case NiftiType::int8:
      return visit(int8_t{});
    case NiftiType::uint16:
      return visit(uint16_t{});
    case NiftiType::int16:
      return visit(int16_t{});
    case NiftiType::uint32:
      return visit(uint32_t{});
    case NiftiType::int32:
      return visit(int32_t{});
    case NiftiType::uint64:
      return visit(uint64_t{});
    case NiftiType::int64:
      return visit(int64_t{});
    case NiftiType::float32:
      return visit(float{});
    case NiftiType::float64:
      return visit(double{});
    case NiftiType::uint8:
      break;
  }
  return visit(uint8_t{});
}

constexpr size_t bytes_of(NiftiType type) {
  return visit_type(type, [](auto number) { return sizeof number; });
}

/// The field that places a volume in the world.
enum class NiftiPlace : uint8_t { none, qform, sform };

/// A volume as stored in the file, 1 to 8 bytes a voxel, with the meaning of its numbers.
struct NiftiVolume {
  std::array<int64_t, 3> sizes = {};  ///< voxels along x, y, z; x is the fastest
  /// Distance between voxels, in the file's unit: lengths of the map's columns, else pixdim; 1 if the file does not
  /// say.
  std::array<double, 3> spacing = {};
  std::array<double, 12> to_world = {};  ///< rows of the map to the world, in the file's unit; all 0 if place is none
  NiftiPlace place = NiftiPlace::none;   ///< none: sform_code and qform_code are 0, and the position is unknown
  double unit_millimeters = 0;           ///< millimeters of the file's unit; 0: the file does not say
  NiftiType type = NiftiType::uint8;
  double slope = 1, intercept = 0;  ///< value = slope x number + intercept
  std::vector<std::byte> bytes;     ///< in this machine's byte order

  int64_t voxels() const { return sizes[0] * sizes[1] * sizes[2]; }
  int64_t index(int64_t x, int64_t y, int64_t z) const { return x + sizes[0] * (y + sizes[1] * z); }
  /// Returns the value of voxel `index`.
  double at(int64_t index) const { return slope * number(index) + intercept; }
  /// Returns the stored number of voxel `index`, without slope and intercept.
  double number(int64_t index) const {
    return visit_type(type, [&](auto number) { return static_cast<double>(stored<decltype(number)>(index)); });
  }
  /// Returns the value of voxel `index` of a volume of `Number`. For loops: at() looks up the type for each voxel.
  template <typename Number>
  double at(int64_t index) const {
    return slope * static_cast<double>(stored<Number>(index)) + intercept;
  }
  std::string describe_sizes() const;  ///< returns "181 x 217 x 181"

 private:
  template <typename Number>
  Number stored(int64_t index) const {
    Number number;
    std::memcpy(&number, bytes.data() + static_cast<size_t>(index) * sizeof(Number), sizeof(Number));
    return number;
  }
};

/// Reads one volume; a fourth dimension must be 1. Allocates the volume's bytes and a buffer of 16 MiB. Throws
/// UserError that names the file: missing, not NIfTI-1, truncated, sizes that the file cannot hold or may not unpack
/// to, a type that is not in NiftiType, a value that is not finite, more bytes after the voxels than a header has.
NiftiVolume read_nifti(const std::filesystem::path& file);

/// Reads one volume as read_nifti() does and keeps at most 1 MiB of it at a time. `layout` is called first, with the
/// volume without bytes; then `piece(first, numbers, count)` for consecutive voxels: voxel first + i has
/// numbers.number(i). `kept_bytes` is the caller's memory for each voxel, which unpacked_limit() bounds.
void stream_nifti(const std::filesystem::path& file, int64_t kept_bytes,
                  const std::function<void(const NiftiVolume& layout)>& layout,
                  const std::function<void(int64_t first, const NiftiVolume& numbers, int64_t count)>& piece);

/// Volumes over time, read one after the other with a buffer of 1 MiB: the file need not fit in memory. Throws
/// UserError as read_nifti() does, except for values that are not finite.
class NiftiSeries {
 public:
  explicit NiftiSeries(const std::filesystem::path& file);
  ~NiftiSeries();

  const NiftiVolume& layout() const { return layout_; }  ///< layout of each volume, without bytes
  int64_t volumes() const { return volumes_; }           ///< number of volumes, along dimension 4
  int64_t file_bytes() const { return file_bytes_; }
  /// Returns the time from volume to volume.
  const NiftiTime& time() const { return time_; }

  /// Reads the values of the next volume, layout().voxels() of them; at most volumes() times.
  void read(std::span<float> values);

 private:
  struct File;
  std::unique_ptr<File> file_;
  NiftiVolume layout_;
  int64_t volumes_ = 1;
  int64_t file_bytes_ = 0;
  NiftiTime time_;
};

/// Returns the difference between the grids of `one` and `other`: "" if they are the same, else "voxels of 1, 1, 1 mm
/// against 1, 2, 1 mm". Grids are the same if their sizes are, and no voxel of one is farther from that of the other
/// than a tenth of the smallest spacing: headers are in single precision, and programs round what they write. Lengths
/// of two known units are converted; an unknown unit is taken as the other's.
///
/// The map to the world is the one that nibabel takes: sform, else qform. Two volumes without a map are compared by
/// sizes and spacings. A volume without a map is on another grid than one with a map, because its position is unknown.
std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other);

/// Returns the remedy for a difference: resample `other` to the grid of `one`, or write the position of one into the
/// other's file. `names` are what a message calls the two.
std::string grid_remedy(const NiftiVolume& one, const NiftiVolume& other, const std::string& name_of_one,
                        const std::string& name_of_other);

/// Returns the directions of the world that the voxel axes x, y and z run in, by the nearest axis: "RAS", "LPI"; "" if
/// the volume has no map.
std::string orientation_of(const NiftiVolume& volume);

}  // namespace plimsoll
