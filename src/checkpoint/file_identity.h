// Declares the identity of data files: their size and a hash of their bytes, without their paths. A moved file keeps
// its identity.
//
// A file of at most 4 MiB is hashed whole. Of a larger file, 64 blocks of 64 KiB are hashed (4 MiB in all):
//
//     |b0|........|b1|........|b2|....      ....|b62|........|b63|     block i begins at i x (size - 64 KiB) / 63
//
// The first block is the file's beginning, and the last block is its end. A change between the blocks that keeps the
// size is not found. The identity finds other data; it does not replace a checksum, and does not guard against an
// adversary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace plimsoll {

inline constexpr int64_t kMaxWholeHashBytes = int64_t{4} << 20;  ///< a larger file is hashed by blocks
inline constexpr int64_t kHashedBlocks = 64;
inline constexpr int64_t kHashedBlockBytes = int64_t{64} << 10;

/// The identity of a file, or of several files together.
struct FileIdentity {
  int64_t files = 1;  ///< number of files
  int64_t bytes = 0;  ///< size of all files
  uint64_t hash = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Returns the identity of a file, of which at most 4 MiB are read. Throws UserError that names the file: it
/// is missing, unreadable or not a regular file, or another program cuts it meanwhile.
FileIdentity identity_of_file(const std::filesystem::path& file);

/// Returns the identity of a folder: its files by name, at most two subfolders deep. `accepts`: only files for which it
/// returns true count; hidden files and folders never do. Throws UserError that names the file or folder that
/// cannot be read.
FileIdentity identity_of_folder(const std::filesystem::path& folder,
                                const std::function<bool(const std::filesystem::path& file)>& accepts = {});

/// Returns the identity of several files in this order; another order has another hash.
FileIdentity identity_of_all(const std::vector<FileIdentity>& each);

/// Returns "120000 bytes (hash 0123456789abcdef)", or "8 files of 120000 bytes (hash 0123456789abcdef)".
std::string identity_text(const FileIdentity& identity);

}  // namespace plimsoll
