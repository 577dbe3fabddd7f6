#include "files/nifti_bytes.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <vector>

#include "base/file_error.h"
#include "files/file_kind.h"
#include "files/unpack_limit.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
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
