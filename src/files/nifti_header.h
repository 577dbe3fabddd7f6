// Reads the bytes of a NIfTI file, plain or packed by gzip, and the fields of a NIfTI-1 header; declares what the
// reader does with each field, in the order of nifti1.h.
//
// Defaults and precedence are those of nibabel.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "files/file_kind.h"

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

namespace plimsoll::nifti {

/// The treatment of each field of the header, in the order of nifti1.h.
inline constexpr FileFact kFacts[] = {
    {"NIfTI-1", "sizeof_hdr, magic", "applied",
     "either byte order; NIfTI-2, ANALYZE and pairs of .hdr and .img are refused by name"},
    {"NIfTI-1", "data_type, db_name, extents, session_error, regular", "ignored", "unused fields of ANALYZE"},
    {"NIfTI-1", "dim_info", "ignored", "directions of the scanner's encoding; samples are made of voxels"},
    {"NIfTI-1", "dim", "applied",
     "a volume has three dimensions, a series its volumes along the fourth; sizes above 1 along further dimensions are "
     "refused"},
    {"NIfTI-1", "intent_p1, intent_p2, intent_p3, intent_code, intent_name", "ignored",
     "the job says what a volume is used as"},
    {"NIfTI-1", "datatype, bitpix", "applied",
     "whole and floating-point numbers of 8 to 64 bits; other types, and two fields that differ, are refused"},
    {"NIfTI-1", "slice_start, slice_end, slice_code, slice_duration", "ignored",
     "times of slices within a volume; a volume is one moment, and data.fmri_delay counts volumes"},
    {"NIfTI-1", "pixdim[0]", "applied", "qfac of the qform: -1, else 1, as in nibabel"},
    {"NIfTI-1", "pixdim[1], pixdim[2], pixdim[3]", "applied",
     "distances of voxels; 0 is 1, and the sform's lengths count if they differ, as in nibabel; without an sform, "
     "numbers that are not finite are refused"},
    {"NIfTI-1", "pixdim[4]", "applied",
     "repetition time in the unit of xyzt_units; a time below 0.02 s or above 60 s is refused with the likely unit "
     "unless data.repetition_time is set"},
    {"NIfTI-1", "pixdim[5], pixdim[6], pixdim[7]", "ignored", "steps along dimensions of size 1"},
    {"NIfTI-1", "vox_offset", "applied", "0 is 352; other bytes before 352 are refused"},
    {"NIfTI-1", "scl_slope", "applied",
     "0, NaN and infinity mean no scaling, as in nibabel; labels with a scale other than 1 are refused"},
    {"NIfTI-1", "scl_inter", "applied",
     "with a finite scl_slope other than 0; an intercept that is not finite is refused"},
    {"NIfTI-1", "xyzt_units", "applied",
     "two known units of length are converted for a comparison of grids; a time in hertz, ppm or radians is refused, "
     "and an unknown unit of time is taken as seconds with a note"},
    {"NIfTI-1", "cal_max, cal_min", "ignored", "range of a display"},
    {"NIfTI-1", "toffset", "ignored", "times of stimuli count from the first volume; data.fmri_delay shifts them"},
    {"NIfTI-1", "glmax, glmin", "ignored", "unused fields of ANALYZE"},
    {"NIfTI-1", "descrip, aux_file", "ignored", "free text"},
    {"NIfTI-1", "qform_code, quatern_b, quatern_c, quatern_d, qoffset_x, qoffset_y, qoffset_z", "applied",
     "the map to the world if sform_code is 0 (method 2); codes above 5 and a quaternion longer than 1 are refused; if "
     "both codes are 0, the position is unknown, and equals no known position"},
    {"NIfTI-1", "sform_code, srow_x, srow_y, srow_z", "applied",
     "the map to the world (method 3), also if the qform differs, as in nibabel, with a note if both codes are equal; "
     "codes above 5 and a map that is not "
     "finite or is flat are refused"},
    {"NIfTI-1", "extension", "ignored", "free bytes of other programs between the header and the voxels"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::nifti

struct gzFile_s;

namespace plimsoll {

/// Throws UserError (failure): the file's name and `what`.
[[noreturn]] void refuse_nifti(const std::filesystem::path& file, const std::string& what);

/// A reader of the bytes of one file, plain or packed by gzip, from begin to end, within the limit of packed files
/// (files/data_memory.h). Every function throws UserError that names the file if it is damaged or truncated.
class NiftiBytes {
 public:
  /// Opens the file. Throws UserError for a folder, for a file that cannot be read, and for a file of another kind.
  explicit NiftiBytes(const std::filesystem::path& file);

  /// Returns the size of the file on disk in bytes.
  int64_t file_bytes() const { return file_bytes_; }
  /// Throws if a packed file takes more than it may; `what` begins with a verb.
  void require_allowed(double bytes, const std::string& what) const;
  /// Returns an upper bound of the number of bytes in the unpacked file.
  int64_t max_bytes() const { return max_bytes_; }

  static constexpr size_t kMaxReadBytes = size_t{1} << 24;
  /// Fills `to`, at most kMaxReadBytes, with the next bytes; `what` names them in messages.
  void read(std::span<std::byte> to, const char* what);
  /// Skips the next `bytes` bytes.
  void skip(int64_t bytes, const char* what);
  /// Reads to the end of the packed data, and so checks its checksum. Nothing can be read afterwards.
  void finish();

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  std::string problem() const;

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  bool packed_ = false;
  int64_t file_bytes_ = 0;
  int64_t max_bytes_ = 0;
};

}  // namespace plimsoll
