// Declares the description of a type of data for the job file. Each type has a file with one function; job_data.cpp
// opens the samples.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/keys/key_locations.h"
#include "job/keys/keys.h"

namespace plimsoll::job {

/// A file or folder that a key names.
struct DataPath {
  const char* key;  ///< "data.labels"
  std::filesystem::path* path;
};

struct DataKind {
  std::string type;                                          ///< value of `data.type`
  std::string meaning;                                       ///< help text for `--help`
  std::vector<Key> keys;                                     ///< data.*; another kind may have a key of the same name
  void (*check)(const Job&, const KeyLocations&) = nullptr;  ///< nullptr: nothing to check
  /// Returns the files and folders of the job that are relative to data.root; nullptr: none except data.files.
  std::vector<DataPath> (*paths)(Job&) = nullptr;
  /// Returns the settings that a checkpoint stores: all that change the set of samples or their contents.
  std::vector<Setting> (*origin)(const Job&) = nullptr;
  /// Returns further settings that must be the same on all ranks, files by their names; nullptr: none.
  std::vector<Setting> (*shared_keys)(const Job&) = nullptr;
  bool from_files = true;          ///< false: samples are random, in the shapes of any model
  bool uses_cache_folder = false;  ///< true: opening the samples writes to data.cache_dir
};

/// Returns all kinds in the order of the reference page; the first is the default.
const std::vector<DataKind>& data_kinds();
const DataKind& data_kind(const std::string& type);

/// Returns the names of files, without their folders: "a.txt, b.txt".
std::string names_of_files(const std::vector<std::filesystem::path>& files);

}  // namespace plimsoll::job
