#include "files/nifti.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <system_error>

#include "files/data_memory.h"
#include "files/nifti_header.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Sizes and offsets of the header, as in nifti1.h.
constexpr size_t kDim = 40, kDatatype = 70, kBitpix = 72, kVoxOffset = 108;
constexpr uint32_t kNifti2HeaderBytes = 540;
constexpr size_t kStreamed = size_t{1} << 20;
constexpr int64_t kFirstVoxel = 352;  // after the header and a flag of four bytes

constexpr NiftiType kTypes[] = {NiftiType::uint8,   NiftiType::int16, NiftiType::int32,  NiftiType::float32,
                                NiftiType::float64, NiftiType::int8,  NiftiType::uint16, NiftiType::uint32,
                                NiftiType::int64,   NiftiType::uint64};

static_assert(std::endian::native == std::endian::little, "files are turned to this machine's order");

void reverse_each(std::span<std::byte> bytes, size_t element) {
  for (size_t i = 0; i + element <= bytes.size(); i += element)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element));
}

void check_magic(const NiftiHeader& header, const std::filesystem::path& file) {
  if (header.size() == kNifti2HeaderBytes || header.size() == __builtin_bswap32(kNifti2HeaderBytes))
    refuse_nifti(file, "is a NIfTI-2 file; NIfTI-1 is wanted, as nifti_tool or nibabel write it");
  if (header.size() != NiftiHeader::kBytes)
    refuse_nifti(file, "is not a NIfTI file: its header does not begin with 348");
  if (header.magic() == std::string_view("ni1\0", 4))
    refuse_nifti(file, "is the header of a pair of files (.hdr, .img); a single file (.nii, .nii.gz) is wanted");
  if (header.magic() != std::string_view("n+1\0", 4))
    refuse_nifti(file, "is not a NIfTI-1 file: it has no 'n+1' at byte 344 (an older ANALYZE file?)");
}

/// Returns the sizes. `volumes` is set to the number of volumes; nullptr: there must be one.
std::array<int64_t, 3> sizes_of(const NiftiHeader& header, const std::filesystem::path& file, int64_t* volumes) {
  const auto dimensions = header.get<int16_t>(kDim);
  if (dimensions < 1 || dimensions > 7)
    refuse_nifti(file, fmt::format("has {} dimensions; a volume has 3, and the format at most 7", dimensions));
  std::array<int64_t, 3> sizes = {1, 1, 1};
  for (int i = 1; i <= dimensions; ++i) {
    const auto size = header.get<int16_t>(kDim + sizeof(int16_t) * static_cast<size_t>(i));
    if (size < 1) refuse_nifti(file, fmt::format("says that its dimension {} has {} voxels", i, size));
    if (i > 3 && volumes != nullptr) *volumes *= size;  // at most four factors of 15 bits
    if (i > 3 && size > 1 && volumes == nullptr)
      refuse_nifti(file, fmt::format("has {} volumes along dimension {}; a single volume is wanted", size, i));
    if (i <= 3) sizes[static_cast<size_t>(i) - 1] = size;
  }
  return sizes;
}

NiftiType type_of(const NiftiHeader& header, const std::filesystem::path& file) {
  const auto code = header.get<int16_t>(kDatatype);
  for (NiftiType type : kTypes)
    if (static_cast<int16_t>(type) == code) {
      if (header.get<int16_t>(kBitpix) != 8 * static_cast<int64_t>(bytes_of(type)))
        refuse_nifti(file, fmt::format("says {} voxels of {} bits, which does not go together", name_of(type),
                                       header.get<int16_t>(kBitpix)));
      return type;
    }
  refuse_nifti(file,
               fmt::format("has voxels of type {}; whole and floating-point numbers of up to 64 bits can be read, not "
                           "colors or complex numbers",
                           code));
}

int64_t offset_of_voxels(const NiftiHeader& header, const std::filesystem::path& file) {
  const double offset = header.get<float>(kVoxOffset);
  // Some writers set it to 0.
  if (offset == 0) return kFirstVoxel;
  if (!(offset >= kFirstVoxel && offset <= 1e9) || offset != std::floor(offset))
    refuse_nifti(file, fmt::format("says that its voxels begin at byte {}; they cannot begin before byte {}", offset,
                                   kFirstVoxel));
  return static_cast<int64_t>(offset);
}

/// Throws if a value is not finite; `volume.bytes` are `count` voxels from voxel `first` on.
void check_finite(const NiftiVolume& volume, int64_t first, int64_t count, const std::filesystem::path& file) {
  if (!is_floating(volume.type)) return;
  for (int64_t k = 0; k < count; ++k)
    if (const int64_t i = first + k; !std::isfinite(volume.at(k)))
      refuse_nifti(file, fmt::format("has a voxel that is not a finite number, at ({}, {}, {})", i % volume.sizes[0],
                                     i / volume.sizes[0] % volume.sizes[1], i / (volume.sizes[0] * volume.sizes[1])));
}

NiftiHeader header_of(NiftiBytes& reader, const std::filesystem::path& file) {
  std::array<std::byte, NiftiHeader::kBytes> raw;
  reader.read(raw, "the header");
  const NiftiHeader header(raw);
  check_magic(header, file);
  return header;
}

/// Returns the layout of a volume from the header, checked against the file, which is read up to its first voxel.
NiftiVolume layout_of(const NiftiHeader& header, NiftiBytes& reader, const std::filesystem::path& file,
                      int64_t* volumes) {
  NiftiVolume volume;
  volume.sizes = sizes_of(header, file, volumes);
  volume.type = type_of(header, file);
  read_scale(header, file, volume);
  read_geometry(header, file, volume);
  const int64_t offset = offset_of_voxels(header, file);
  // Three sizes of 15 bits and 8 bytes for each voxel: at most 2^48. Four more sizes are multiplied in floating point.
  const double bytes = static_cast<double>(volume.voxels()) * static_cast<double>(bytes_of(volume.type)) *
                       static_cast<double>(volumes != nullptr ? *volumes : 1);
  if (static_cast<double>(offset) + bytes > static_cast<double>(reader.max_bytes()))
    refuse_nifti(
        file,
        fmt::format("says {} voxels of {}{}, {:.0f} bytes; the file cannot hold more than {}: it is truncated or "
                    "damaged",
                    volume.describe_sizes(), name_of(volume.type),
                    volumes != nullptr ? fmt::format(" in {} volumes", *volumes) : "", bytes, reader.max_bytes()));
  reader.require_allowed(
      static_cast<double>(offset) + bytes,
      fmt::format("announces {} voxels of {}{} from byte {} on", volume.describe_sizes(), name_of(volume.type),
                  volumes != nullptr ? fmt::format(" in {} volumes", *volumes) : "", offset));
  reader.skip(offset - static_cast<int64_t>(NiftiHeader::kBytes), "the header");
  return volume;
}

}  // namespace

std::string_view name_of(NiftiType type) {
  switch (type) {
    case NiftiType::uint8:
      return "uint8";
    case NiftiType::int16:
      return "int16";
    case NiftiType::int32:
      return "int32";
    case NiftiType::float32:
      return "float32";
    case NiftiType::float64:
      return "float64";
    case NiftiType::int8:
      return "int8";
    case NiftiType::uint16:
      return "uint16";
    case NiftiType::uint32:
      return "uint32";
    case NiftiType::int64:
      return "int64";
    case NiftiType::uint64:
      return "uint64";
  }
  return "?";
}

bool is_floating(NiftiType type) {
  return type == NiftiType::float32 || type == NiftiType::float64;
}

std::string NiftiVolume::describe_sizes() const {
  return fmt::format("{} x {} x {}", sizes[0], sizes[1], sizes[2]);
}

struct NiftiSeries::File {
  explicit File(const std::filesystem::path& file) : reader(file) {}
  NiftiBytes reader;
  std::filesystem::path path;
  bool swapped = false;
};

NiftiSeries::~NiftiSeries() = default;

NiftiSeries::NiftiSeries(const std::filesystem::path& file) : file_(std::make_unique<File>(file)) {
  const NiftiHeader header = header_of(file_->reader, file);
  file_->path = file;
  file_->swapped = header.swapped();
  file_bytes_ = file_->reader.file_bytes();
  layout_ = layout_of(header, file_->reader, file, &volumes_);
  for (size_t i = 5; i <= 7; ++i)
    if (const auto size = header.get<int16_t>(kDim + sizeof(int16_t) * i);
        header.get<int16_t>(kDim) >= int(i) && size > 1)
      refuse_nifti(file,
                   fmt::format("has {} values along dimension {}; a series has its volumes along dimension 4, and "
                               "further dimensions are no time: save the volumes of one value",
                               size, i));
  time_ = time_of(header);
}

void NiftiSeries::read(std::span<float> values) {
  check(std::ssize(values) == layout_.voxels(), "a volume has as many values as voxels");
  const size_t element = bytes_of(layout_.type), most = kStreamed / element;
  for (size_t first = 0; first < values.size(); first += most) {
    const size_t count = std::min(most, values.size() - first);
    layout_.bytes.resize(count * element);
    file_->reader.read(layout_.bytes, "the voxels");
    if (file_->swapped) reverse_each(layout_.bytes, element);
    for (size_t i = 0; i < count; ++i) values[first + i] = static_cast<float>(layout_.at(static_cast<int64_t>(i)));
  }
}

NiftiVolume read_nifti(const std::filesystem::path& file) {
  NiftiBytes reader(file);
  const NiftiHeader header = header_of(reader, file);
  NiftiVolume volume = layout_of(header, reader, file, nullptr);
  const int64_t bytes = volume.voxels() * static_cast<int64_t>(bytes_of(volume.type));
  require_data_memory(file.string(),
                      fmt::format("announces {} voxels of {}", volume.describe_sizes(), name_of(volume.type)),
                      static_cast<double>(bytes));
  // Reserves addresses for the whole volume, which layout_of() has bounded. Memory grows with the bytes that the file
  // really has.
  volume.bytes.reserve(static_cast<size_t>(bytes));
  for (int64_t done = 0; done < bytes;) {
    const int64_t piece = std::min<int64_t>(bytes - done, NiftiBytes::kMaxReadBytes);
    volume.bytes.resize(static_cast<size_t>(done + piece));
    reader.read(std::span(volume.bytes).subspan(static_cast<size_t>(done)), "the voxels");
    done += piece;
  }
  reader.finish();
  if (header.swapped()) reverse_each(volume.bytes, bytes_of(volume.type));
  check_finite(volume, 0, volume.voxels(), file);
  return volume;
}

void stream_nifti(const std::filesystem::path& file, int64_t kept_bytes,
                  const std::function<void(const NiftiVolume& layout)>& layout,
                  const std::function<void(int64_t first, const NiftiVolume& numbers, int64_t count)>& piece) {
  NiftiBytes reader(file);
  const NiftiHeader header = header_of(reader, file);
  NiftiVolume volume = layout_of(header, reader, file, nullptr);
  reader.require_allowed(
      static_cast<double>(volume.voxels()) * static_cast<double>(kept_bytes),
      fmt::format("announces {} voxels, which take {} bytes each in memory", volume.describe_sizes(), kept_bytes));
  require_data_memory(
      file.string(),
      fmt::format("announces {} voxels, which take {} bytes each in memory", volume.describe_sizes(), kept_bytes),
      static_cast<double>(volume.voxels()) * static_cast<double>(kept_bytes));
  layout(volume);
  const size_t element = bytes_of(volume.type);
  const auto most = static_cast<int64_t>(kStreamed / element);
  for (int64_t first = 0; first < volume.voxels(); first += most) {
    const int64_t count = std::min(most, volume.voxels() - first);
    volume.bytes.resize(static_cast<size_t>(count) * element);
    reader.read(volume.bytes, "the voxels");
    if (header.swapped()) reverse_each(volume.bytes, element);
    check_finite(volume, first, count, file);
    piece(first, volume, count);
  }
  reader.finish();
}

namespace {

constexpr double kTolerance = 0.1;  // relative to the smallest spacing

std::string listed(const auto& numbers) {
  return fmt::format("{:.6g}", fmt::join(numbers, ", "));
}

/// Returns the largest distance between voxels of the same indices, in the unit of `one`. Both maps are linear, so it
/// is at a corner.
double farthest_apart(const NiftiVolume& one, const NiftiVolume& other, double units) {
  double farthest = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double square = 0;
    for (size_t row = 0; row < 3; ++row) {
      const auto difference = [&](size_t column) {
        return one.to_world[4 * row + column] - units * other.to_world[4 * row + column];
      };
      double apart = difference(3);
      for (size_t axis = 0; axis < 3; ++axis)
        if (corner >> axis & 1) apart += difference(axis) * static_cast<double>(one.sizes[axis] - 1);
      square += apart * apart;
    }
    farthest = std::max(farthest, std::sqrt(square));
  }
  return farthest;
}

const char* name_of(NiftiPlace place) {
  return place == NiftiPlace::sform ? "sform" : place == NiftiPlace::qform ? "qform" : "neither sform nor qform";
}

const char* unit_of(const NiftiVolume& one, const NiftiVolume& other) {
  const double unit = one.unit_millimeters > 0 ? one.unit_millimeters : other.unit_millimeters;
  return unit == 1000 ? "m" : unit == 1e-3 ? "um" : "mm";
}

}  // namespace

std::string grid_difference(const NiftiVolume& one, const NiftiVolume& other) {
  if (one.sizes != other.sizes)
    return fmt::format("{} voxels against {}", one.describe_sizes(), other.describe_sizes());
  const bool both_known = one.unit_millimeters > 0 && other.unit_millimeters > 0;
  const double units = both_known ? other.unit_millimeters / one.unit_millimeters : 1;  // of one in a unit of other
  const char* const unit = unit_of(one, other);
  const double tolerance = kTolerance * std::ranges::min(one.spacing);
  std::array<double, 3> spacing = other.spacing;
  for (double& length : spacing) length *= units;
  for (size_t axis = 0; axis < 3; ++axis)
    if (std::abs(one.spacing[axis] - spacing[axis]) * static_cast<double>(one.sizes[axis]) > tolerance)
      return fmt::format("voxels of {} {} against {} {}", listed(one.spacing), unit, listed(spacing), unit);
  if (one.place == NiftiPlace::none && other.place == NiftiPlace::none) return "";
  if (one.place == NiftiPlace::none || other.place == NiftiPlace::none)
    return fmt::format(
        "the position of one is known and that of the other is not (sform_code and qform_code are 0): {} "
        "against {}",
        name_of(one.place), name_of(other.place));
  const double apart = farthest_apart(one, other, units);
  if (apart <= tolerance) return "";
  return fmt::format("voxels lie up to {:.3g} {} apart: they map to the world by {} ({}) against {} ({})", apart, unit,
                     listed(one.to_world), name_of(one.place), listed(other.to_world), name_of(other.place));
}

std::string grid_remedy(const NiftiVolume& one, const NiftiVolume& other, const std::string& name_of_one,
                        const std::string& name_of_other) {
  if ((one.place == NiftiPlace::none) == (other.place == NiftiPlace::none))
    return fmt::format("resample {} to the grid of {}", name_of_other, name_of_one);
  const bool first = one.place == NiftiPlace::none;
  return fmt::format(
      "if the voxels of both lie on each other, save {} with the affine of {}, in nibabel "
      "Nifti1Image(a.dataobj, b.affine)",
      first ? name_of_one : name_of_other, first ? name_of_other : name_of_one);
}

std::string orientation_of(const NiftiVolume& volume) {
  if (volume.place == NiftiPlace::none) return "";
  constexpr std::array<std::string_view, 3> kDirections = {"LR", "PA", "IS"};  // down and up each axis of the world
  // The largest cosine decides first, so that two axes of voxels never have one direction.
  std::array<int, 3> row_of = {-1, -1, -1};
  for (int round = 0; round < 3; ++round) {
    double largest = -1;
    size_t at = 0, to = 0;
    for (size_t axis = 0; axis < 3; ++axis)
      for (size_t row = 0; row < 3; ++row) {
        const double cosine = std::abs(volume.to_world[4 * row + axis]) / volume.spacing[axis];
        if (row_of[axis] >= 0 || std::ranges::count(row_of, static_cast<int>(row)) > 0 || cosine <= largest) continue;
        largest = cosine, at = axis, to = row;
      }
    row_of[at] = static_cast<int>(to);
  }
  std::string letters;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto row = static_cast<size_t>(row_of[axis]);
    letters += kDirections[row][volume.to_world[4 * row + axis] > 0 ? 1 : 0];
  }
  return letters;
}

}  // namespace plimsoll
