// Tensors in safetensors files: a reader over a memory map and a writer that streams. The header's rules stand in
// safetensors/safetensors_header.h.
//
// Files that we write carry checksums as metadata, which other programs ignore: "hash:NAME" for a tensor, and
// "hash:__metadata__" for the header itself (no tensor may have that name); 16 hexadecimal digits of XXH3.
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
#include "base/content_hash.h"
#include "base/mapped_file.h"
#include "plimsoll/trace.h"
#include "safetensors/safetensors_header.h"

namespace plimsoll {

/// A tensor of an open file: contiguous, row major, little endian.
struct StoredTensor {
  DType dtype = DType::float32;
  std::vector<int64_t> sizes;
  std::span<const std::byte> bytes;  ///< in the map; aligned to nothing: copy with memcpy
};

/// An open file, as a MappedFile is one. Opening reads the header only.
class SafetensorsFile {
 public:
  /// Throws UserError (failure): the file is missing, unreadable, truncated or corrupt.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// By name. The spans live as long as this object (a move keeps them).
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Recomputes the checksums that the file carries; call it before a byte is used. Returns how many tensors had
  /// one: 0 for files of other programs. Throws UserError (failure) that names the tensor whose bits are not the ones
  /// that were written, or says that the header's are not.
  size_t verify() const;

  /// Throws UserError (failure) if bytes of the file that were read so far were gone (MappedFile).
  void require_whole() const { map_.require_whole(); }

 private:
  SafetensorsFile() = default;

  std::string path_;
  MappedFile map_;
  SafetensorsHeader header_;
  std::map<std::string, StoredTensor> tensors_;
};

/// What is going to be written, said before the first byte: the header stands at the front of the file.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> sizes;
  std::optional<uint64_t> hash;  ///< content_hash of its bytes, from a first pass of the caller's; kept in the file
};

/// Writes a file through AtomicFile: whole or not at all. The data start at a multiple of 64 bytes from the file's
/// start; tensors follow one another without holes, so declare those with large elements first if their alignment
/// matters.
class SafetensorsWriter {
 public:
  /// Throws UserError (failure): the file cannot be made, a dtype that the format does not know, text that is not
  /// UTF-8. InternalError: a name twice, "__metadata__" as a name, metadata under a "hash:" key.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorDeclaration>& tensors,
                    std::map<std::string, std::string> metadata = {});

  /// The next bytes of tensor `name`: tensors in declared order, each in as many pieces as the caller likes. Throws
  /// UserError (failure) where the disk refuses, InternalError for another tensor's turn, for bytes that are too many
  /// and, at a tensor's last byte, for a content that does not have the declared hash.
  void write(std::string_view name, std::span<const std::byte> bytes);

  /// Puts the file in place. InternalError while bytes are missing; UserError (failure) where the disk refuses.
  void commit();

 private:
  void skip_finished();

  AtomicFile file_;
  SafetensorsHeader header_;
  std::vector<std::optional<uint64_t>> hashes_;
  size_t current_ = 0;    ///< the tensor being written
  int64_t written_ = 0;   ///< bytes of it so far
  ContentHasher hasher_;  ///< of those bytes
};

}  // namespace plimsoll
