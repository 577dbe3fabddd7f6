// Declares the description of a type of data for the job file. Each type has a file with one function; job_data.cpp
// opens the samples.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/key_locations.h"

namespace plimsoll::job {

struct DataKind {
  std::string type;                                          ///< value of `data.type`
  std::string meaning;                                       ///< help text for `--help`
  std::vector<Key> keys;                                     ///< data.*; another kind may have a key of the same name
  void (*check)(const Job&, const KeyLocations&) = nullptr;  ///< nullptr: nothing to check
  /// Returns the paths of the job that are relative to its file; nullptr: none except data.files.
  std::vector<std::filesystem::path*> (*paths)(Job&) = nullptr;
  /// Returns the settings that a checkpoint stores: all that change the set of samples or their contents.
  std::map<std::string, std::string> (*origin)(const Job&) = nullptr;
};

DataKind text_kind();
DataKind synthetic_kind();
DataKind series_kind();
DataKind slices_kind();
DataKind pictures_kind();
DataKind clips_kind();
DataKind stimuli_kind();

/// Returns all kinds in the order of the reference page; the first is the default.
const std::vector<DataKind>& data_kinds();
const DataKind& data_kind(const std::string& type);

}  // namespace plimsoll::job
