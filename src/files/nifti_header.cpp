#include "files/nifti_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "base/file_error.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/nifti.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Offsets of the header, as in nifti1.h.
constexpr size_t kPixdimAt = 76, kSlopeAt = 112, kInterceptAt = 116, kUnitsAt = 123, kQformCodeAt = 252,
                 kSformCodeAt = 254, kQuaternionAt = 256, kQuaternionOffsetAt = 268, kSformAt = 280;

// Codes of qform_code and sform_code: 0 unknown, 1 scanner, 2 aligned, 3 Talairach, 4 MNI, 5 other template.
constexpr int kMaxFormCode = 5;

// A quaternion of float32 exceeds length 1 by rounding; nibabel's threshold.
constexpr double kQuaternionRounding = 3 * 0x1p-23;

// Lengths of the map's columns and pixdim are equal if they differ by at most this share.
constexpr double kSpacingTolerance = 1e-3;

// Repetition times of scanners in seconds. A time outside is taken for another unit's.
constexpr double kMinRepetition = 0.02, kMaxRepetition = 60;

struct TimeUnit {
  int code;
  const char* name;
  double seconds;
};
constexpr TimeUnit kTimeUnits[] = {{8, "seconds", 1}, {16, "milliseconds", 1e-3}, {24, "microseconds", 1e-6}};

double pixdim(const NiftiHeader& header, size_t i) {
  return header.get<float>(kPixdimAt + sizeof(float) * i);
}

int form_code(const NiftiHeader& header, size_t offset, const char* field, const std::filesystem::path& file) {
  const int code = header.get<int16_t>(offset);
  if (code < 0 || code > kMaxFormCode)
    refuse_nifti(file, fmt::format("has {} {}; allowed: 0 to {}; set the field to the space of the volume", field, code,
                                   kMaxFormCode));
  return code;
}

std::array<double, 12> sform_of(const NiftiHeader& header) {
  std::array<double, 12> map;
  for (size_t i = 0; i < map.size(); ++i) map[i] = header.get<float>(kSformAt + sizeof(float) * i);
  return map;
}

std::array<double, 3> three_floats(const NiftiHeader& header, size_t offset) {
  std::array<double, 3> numbers;
  for (size_t i = 0; i < 3; ++i) numbers[i] = header.get<float>(offset + sizeof(float) * i);
  return numbers;
}

/// Computes method 2 of the standard: a rotation by the quaternion (a, b, c, d), spacings, and qfac for the third axis.
/// Returns nothing if b, c and d are no part of a unit quaternion.
std::optional<std::array<double, 12>> qform_of(const NiftiHeader& header, const std::array<double, 3>& spacing) {
  const std::array<double, 3> q = three_floats(header, kQuaternionAt);
  const std::array<double, 3> offset = three_floats(header, kQuaternionOffsetAt);
  const double rest = 1 - (q[0] * q[0] + q[1] * q[1] + q[2] * q[2]);
  if (!(rest >= -kQuaternionRounding)) return std::nullopt;
  const double a = std::abs(rest) < kQuaternionRounding ? 0 : std::sqrt(rest);
  const double length = a * a + 1 - rest;  // squared; 1 within the rounding
  const double s = 2 / length, b = q[0], c = q[1], d = q[2];
  const double qfac = pixdim(header, 0) == -1 ? -1 : 1;
  const std::array<double, 3> step = {spacing[0], spacing[1], qfac * spacing[2]};
  return std::array<double, 12>{(1 - s * (c * c + d * d)) * step[0], s * (b * c - a * d) * step[1],
                                s * (b * d + a * c) * step[2],       offset[0],
                                s * (b * c + a * d) * step[0],       (1 - s * (b * b + d * d)) * step[1],
                                s * (c * d - a * b) * step[2],       offset[1],
                                s * (b * d - a * c) * step[0],       s * (c * d + a * b) * step[1],
                                (1 - s * (b * b + c * c)) * step[2], offset[2]};
}

double column_length(const std::array<double, 12>& map, size_t axis) {
  return std::sqrt(map[axis] * map[axis] + map[4 + axis] * map[4 + axis] + map[8 + axis] * map[8 + axis]);
}

double determinant(const std::array<double, 12>& m) {
  return m[0] * (m[5] * m[10] - m[6] * m[9]) - m[1] * (m[4] * m[10] - m[6] * m[8]) + m[2] * (m[4] * m[9] - m[5] * m[8]);
}

}  // namespace

void read_scale(const NiftiHeader& header, const std::filesystem::path& file, NiftiVolume& volume) {
  const double slope = header.get<float>(kSlopeAt), intercept = header.get<float>(kInterceptAt);
  if (slope == 0 || !std::isfinite(slope)) return;  // no scaling
  if (!std::isfinite(intercept))
    refuse_nifti(file, fmt::format("has scl_slope {} and scl_inter {}; allowed: an intercept that is finite; set it to "
                                   "0 if numbers are only multiplied",
                                   slope, intercept));
  volume.slope = slope;
  volume.intercept = intercept;
}

void read_geometry(const NiftiHeader& header, const std::filesystem::path& file, NiftiVolume& volume) {
  for (size_t i = 0; i < 3; ++i) {
    const double spacing = std::abs(pixdim(header, i + 1));
    volume.spacing[i] = std::isfinite(spacing) && spacing > 0 ? spacing : 1;
  }
  constexpr std::array<double, 8> kUnits = {0, 1000, 1, 1e-3, 0, 0, 0, 0};  // meters, millimeters, micrometers
  volume.unit_millimeters = kUnits[header.get<uint8_t>(kUnitsAt) & 0x07];
  const int sform = form_code(header, kSformCodeAt, "sform_code", file);
  const int qform = form_code(header, kQformCodeAt, "qform_code", file);
  for (size_t i = 0; i < 3 && sform == 0; ++i)
    if (!std::isfinite(pixdim(header, i + 1)))
      refuse_nifti(file, fmt::format("has pixdim[{}] {}, and no sform that places its voxels; set the distance between "
                                     "voxels",
                                     i + 1, pixdim(header, i + 1)));
  if (sform == 0 && qform == 0) return;
  const char* const name = sform > 0 ? "sform" : "qform";
  const std::array<double, 3> pixdims = volume.spacing;
  const std::optional<std::array<double, 12>> by_qform = qform_of(header, pixdims);
  if (sform == 0 && !by_qform)
    refuse_nifti(file,
                 fmt::format("has the quaternion {} in its qform, which is longer than 1; set the qform again, or "
                             "qform_code 0 if the position is not known",
                             fmt::join(three_floats(header, kQuaternionAt), ", ")));
  volume.place = sform > 0 ? NiftiPlace::sform : NiftiPlace::qform;
  volume.to_world = sform > 0 ? sform_of(header) : *by_qform;
  for (const double number : volume.to_world)
    if (!std::isfinite(number))
      refuse_nifti(file, fmt::format("has a number in its {} that is not finite; set the {} again, or {}_code 0 if the "
                                     "position is not known",
                                     name, name, name));
  double lengths = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double length = column_length(volume.to_world, axis);
    lengths *= length;
    // The map is what nibabel returns. Programs write it with scales of a registration, and leave pixdim as it was.
    if (std::abs(length - volume.spacing[axis]) > kSpacingTolerance * volume.spacing[axis])
      volume.spacing[axis] = length;
  }
  if (!(std::abs(determinant(volume.to_world)) > 1e-6 * lengths))
    refuse_nifti(file, fmt::format("has a {} that maps the volume to a plane; set the {} again, or {}_code 0 if the "
                                   "position is not known",
                                   name, name, name));
  // Two forms of one code state one fact.
  if (sform != qform || !by_qform) return;
  NiftiVolume other = volume;
  other.place = NiftiPlace::qform;
  other.to_world = *by_qform;
  other.spacing = pixdims;
  if (const std::string difference = grid_difference(volume, other); !difference.empty())
    note_data(file, fmt::format("sform and qform have one code and differ: {}; the sform is used, as in nibabel",
                                difference));
}

NiftiTime time_of(const NiftiHeader& header) {
  const double value = pixdim(header, 4);
  const int code = header.get<uint8_t>(kUnitsAt) & 0x38;
  if (!std::isfinite(value) || value <= 0) return {};
  const auto is_plausible = [](double seconds) { return seconds >= kMinRepetition && seconds <= kMaxRepetition; };
  const auto found = std::find_if(std::begin(kTimeUnits), std::end(kTimeUnits),
                                  [&](const TimeUnit& unit) { return unit.code == code; });
  NiftiTime time;
  if (found == std::end(kTimeUnits) && code != 0) {
    time.question = fmt::format(
        "pixdim[4] is {:.6g} in the unit {} of xyzt_units, which is no time (frequency or "
        "concentration); set data.repetition_time to the seconds from volume to volume",
        value, code);
    return time;
  }
  const TimeUnit& unit = code == 0 ? kTimeUnits[0] : *found;
  time.seconds = value * unit.seconds;
  const char* const unit_name = code == 0 ? "of an unknown unit" : unit.name;
  if (is_plausible(time.seconds)) {
    if (code == 0)
      time.assumption = fmt::format("pixdim[4] is {:.6g} {} (xyzt_units 0); taken as seconds from volume to volume",
                                    value, unit_name);
    return time;
  }
  std::string likely;
  for (const TimeUnit& other : kTimeUnits)
    if (&other != &unit && is_plausible(value * other.seconds) && likely.empty())
      likely = fmt::format("; if they are {}, set data.repetition_time: {:.6g}", other.name, value * other.seconds);
  time.question = fmt::format(
      "pixdim[4] is {:.6g} {}, {:.6g} seconds from volume to volume; expected: {} to {} "
      "seconds{}; if the time is right, set data.repetition_time: {:.6g}",
      value, unit_name, time.seconds, kMinRepetition, kMaxRepetition, likely, time.seconds);
  return time;
}

namespace {

// Largest ratio that Deflate reaches (zlib.net/zlib_tech.html).
constexpr int64_t kMaxDeflated = 1032;
// Some writers fill the last block of a tape after the voxels.
constexpr int64_t kMaxBytesBehind = int64_t{1} << 16;

}  // namespace

void refuse_nifti(const std::filesystem::path& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.string(), what), UserError::Kind::failure);
}

void NiftiBytes::Close::operator()(gzFile_s* file) const {
  gzclose_r(file);
}

NiftiBytes::NiftiBytes(const std::filesystem::path& file) : path_(file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw FileError(fmt::format("{}: is a folder; a NIfTI file is wanted", file.string()));
  const auto size = std::filesystem::file_size(file, error);
  if (error) throw_file_error("read", file, error.value());
  if (const std::string_view kind = file_kind(file);
      !kind.empty() && !kind.starts_with("a NIfTI") && kind != kGzip && std::filesystem::is_regular_file(file))
    refuse_nifti(
        file,
        fmt::format("is not a NIfTI file; it is {}{}", kind,
                    kind.ends_with(" picture") ? ": data.type: pictures reads PNG and JPEG pictures with masks" : ""));
  file_.reset(gzopen(file.c_str(), "rb"));
  if (!file_) throw_file_error("read", file, errno);
  gzbuffer(file_.get(), 1 << 17);
  std::array<std::byte, 1> probe;
  read(probe, "the header");
  packed_ = gzdirect(file_.get()) == 0;
  if (gzrewind(file_.get()) != 0) refuse_nifti(file, "cannot be read twice; a plain file is wanted");
  const auto most = static_cast<uintmax_t>(std::numeric_limits<int64_t>::max() / kMaxDeflated);
  file_bytes_ = static_cast<int64_t>(std::min(size, most));
  max_bytes_ = file_bytes_ * (packed_ ? kMaxDeflated : 1);
}

void NiftiBytes::require_allowed(double bytes, const std::string& what) const {
  if (packed_ && bytes > static_cast<double>(unpacked_limit(file_bytes_)))
    refuse_nifti(path_,
                 fmt::format("{}, {:.0f} bytes; allowed: {} bytes, which is {} and {} for each byte of the packed "
                             "file; unpack the file with gunzip to read it",
                             what, bytes, unpacked_limit(file_bytes_), format_bytes(kUnpackedFloor), kUnpackedFactor));
}

void NiftiBytes::read(std::span<std::byte> to, const char* what) {
  check(to.size() <= kMaxReadBytes, "a NIfTI file is read in pieces");
  const int got = gzread(file_.get(), to.data(), static_cast<unsigned>(to.size()));
  if (got < 0) refuse_nifti(path_, fmt::format("is damaged: {}", problem()));
  if (static_cast<size_t>(got) < to.size()) refuse_nifti(path_, fmt::format("ends inside {}: it is truncated", what));
}

void NiftiBytes::skip(int64_t bytes, const char* what) {
  std::vector<std::byte> away(static_cast<size_t>(std::min<int64_t>(bytes, 1 << 16)));
  for (; bytes > 0; bytes -= static_cast<int64_t>(away.size())) {
    away.resize(static_cast<size_t>(std::min<int64_t>(bytes, std::ssize(away))));
    read(away, what);
  }
}

void NiftiBytes::finish() {
  std::array<std::byte, 4096> rest;
  int got = 0;
  int64_t behind = 0;
  while (packed_ && (got = gzread(file_.get(), rest.data(), rest.size())) > 0)
    if ((behind += got) > kMaxBytesBehind)
      refuse_nifti(path_,
                   fmt::format("has more than {} bytes behind the voxels that its header announces: it is damaged",
                               kMaxBytesBehind));
  if (got < 0) refuse_nifti(path_, fmt::format("is damaged: {}", problem()));
  if (gzclose_r(file_.release()) != Z_OK) refuse_nifti(path_, "is truncated");
}

std::string NiftiBytes::problem() const {
  int code = 0;
  const char* text = gzerror(file_.get(), &code);
  return code == Z_ERRNO ? std::generic_category().message(errno) : std::string(text);
}

}  // namespace plimsoll
