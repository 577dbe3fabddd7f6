// Reads the bytes of a NIfTI file, plain or packed by gzip, within the limit of packed files (files/unpack_limit.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct gzFile_s;

namespace plimsoll {

/// Throws UserError (failure): the file's name and `what`.
[[noreturn]] void refuse_nifti(const std::filesystem::path& file, const std::string& what);

/// A reader of the bytes of one file, from begin to end. Every function throws UserError that names the file
/// if it is damaged or truncated.
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
