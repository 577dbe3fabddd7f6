// Declares a reader of safetensors files over a memory map, and a writer that streams. safetensors/safetensors_header.h
// defines the rules of the header.
//
// Files that we write carry checksums as metadata, which other programs ignore. The keys are "hash:NAME" for a tensor,
// and "hash:__metadata__" for the header itself (no tensor may have that name). A checksum is 16 hexadecimal digits of
// XXH3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "plimsoll/trace.h"
#include "safetensors/safetensors_header.h"

namespace plimsoll {

/// A tensor of an open file: contiguous, row major, little endian.
struct StoredTensor {
  DType dtype = DType::float32;
  std::vector<int64_t> sizes;
  std::span<const std::byte> bytes;  ///< part of the map; not aligned: copy with memcpy, then call require_whole()
};

/// An open file, backed by a MappedFile. Opening it reads only the header.
class SafetensorsFile {
 public:
  /// Throws UserError if the file is missing, unreadable, truncated or corrupt.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// Returns the tensors by name. The spans live as long as this object (a move keeps them).
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Recomputes the checksums that the file carries; call it before a byte is used. Returns the number of tensors with
  /// a checksum: 0 for files of other programs. Throws UserError (failure) that names the tensor whose bits differ from
  /// those that were written, or the header if its bits differ.
  size_t verify() const;

  /// Throws UserError (failure) if the file has lost bytes. Call it after the bytes of tensors were used (MappedFile).
  void require_whole() const { map_.require_whole(); }

 private:
  SafetensorsFile() = default;

  std::string path_;
  MappedFile map_;
  SafetensorsHeader header_;
  std::map<std::string, StoredTensor> tensors_;
};

/// The declaration of a tensor to write. All tensors are declared before the first byte, because the header is at the
/// front of the file.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> sizes;
  std::optional<uint64_t> hash;  ///< content_hash of its bytes, from a first pass of the caller; stored in the file
};

/// A writer of a file through AtomicFile: the whole file or nothing. The data start at a multiple of 64 bytes from the
/// file's start. Tensors follow one another without holes; declare those with large elements first if their alignment
/// matters.
class SafetensorsWriter {
 public:
  /// Throws UserError if the file cannot be created, the format does not know a dtype, or text is not UTF-8.
  /// Throws InternalError for a name twice, "__metadata__" as a name, or metadata under a "hash:" key.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorDeclaration>& tensors,
                    std::map<std::string, std::string> metadata = {});

  /// Writes the next bytes of tensor `name`. Tensors are written in declared order, each in any number of pieces.
  /// Throws UserError (failure) if the disk refuses the write. Throws InternalError if it is another tensor's turn or
  /// if there are too many bytes. At a tensor's last byte it also throws InternalError if the content does not have the
  /// declared hash.
  void write(std::string_view name, std::span<const std::byte> bytes);

  /// Moves the file to its place. Throws InternalError if bytes are missing; UserError (failure) if the disk refuses.
  void commit();

 private:
  void skip_finished();

  AtomicFile file_;
  SafetensorsHeader header_;
  std::vector<std::optional<uint64_t>> hashes_;
  size_t current_ = 0;    ///< the tensor being written
  int64_t written_ = 0;   ///< bytes of the current tensor so far
  ContentHasher hasher_;  ///< hash of these bytes
};

}  // namespace plimsoll
