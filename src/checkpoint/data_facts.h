// Declares the facts about its data that a checkpoint holds, and how a resumed job's data are compared with them.
//
//     metadata "plimsoll.checkpoint", "data":
//     {"files": [{"key": "data.files", "name": "text.txt", "files": 1, "bytes": 120000, "hash": "0123456789abcdef"}],
//      "settings": {"data.validation_fraction": "0.1"}}
//
// The settings of the origin (job/origin.h) whose keys begin with "data.", and the seed, are facts about the data, too:
// the seed decides the order and the division into parts.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/file_identity.h"

namespace plimsoll {

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
