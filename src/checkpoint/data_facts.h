// Declares the facts about its data that a checkpoint holds, the identity of data files, and the comparison of a
// resumed job's data with them.
//
//     metadata "plimsoll.checkpoint", "data":
//     {"files": [{"key": "data.files", "name": "text.txt", "files": 1, "bytes": 120000, "hash": "0123456789abcdef"}],
//      "settings": {"data.validation_fraction": "0.1"}}
//
// The settings of the origin (job/shared_keys.h) whose keys begin with "data.", and the seed, are facts about the data,
// too: the seed decides the order and the division into parts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

inline constexpr int64_t kMaxWholeHashBytes = int64_t{4} << 20;  ///< a larger file is hashed by blocks
inline constexpr int64_t kHashedBlocks = 64;
inline constexpr int64_t kHashedBlockBytes = int64_t{64} << 10;

/// The identity of a file, or of several files together: their size and a hash of their bytes, without their paths. A
/// moved file keeps its identity.
///
/// A file of at most 4 MiB is hashed whole. Of a larger file, 64 blocks of 64 KiB are hashed (4 MiB in all):
///
///     |b0|........|b1|........|b2|....      ....|b62|........|b63|     block i begins at i x (size - 64 KiB) / 63
///
/// The first block is the file's beginning, and the last block is its end. A change between the blocks that keeps the
/// size is not found. The identity finds other data; it does not replace a checksum, and does not guard against an
/// adversary.
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

/// A file or folder of the data.
struct DataFileFact {
  std::string key;   ///< "data.files"
  std::string name;  ///< its name without the folder
  FileIdentity identity;
  bool is_name_data = false;  ///< true: the name is a caption, and another name is a difference

  bool operator==(const DataFileFact&) const = default;
};

/// The facts about the data of a run.
struct DataFacts {
  std::vector<DataFileFact> files = {};              ///< in the order of the job
  std::map<std::string, std::string> settings = {};  ///< by key of the job file; they overrule those of the origin

  bool operator==(const DataFacts&) const = default;
};

/// A job's data, as read_checkpoint() compares them with those of a checkpoint.
struct DataOfJob {
  DataFacts facts;
  bool may_differ = false;  ///< checkpoint.allow_other_data
  /// Called with one line if the data differ and may, and if the checkpoint has no facts to compare; empty: ignored.
  std::function<void(const std::string& line)> noted = {};
};

nlohmann::ordered_json json_of(const DataFacts& facts);
/// Throws nlohmann::json::exception if a field is missing or has another type.
DataFacts parse_data_facts(const nlohmann::json& json);

/// Returns true if a key of an origin is a fact about the data.
bool is_data_key(const std::string& key);

/// Settings of a job or of a checkpoint: its origin, and its facts about the data or nullptr.
struct DataSide {
  const std::map<std::string, std::string>& origin;
  const DataFacts* facts = nullptr;
};

/// Returns each difference in a line: "data.files: text.txt had 120000 bytes (hash ...), now has ...". If one side has
/// no facts, only the origins are compared. Of the files of a key, at most 8 differences have a line, and of all facts
/// at most 24; a last line counts the others.
std::vector<std::string> data_differences(const DataSide& stored, const DataSide& ours);

}  // namespace plimsoll
