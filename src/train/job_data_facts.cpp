#include "train/job_data_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/key_errors.h"
#include "base/unicode_text.h"
#include "data/pictures/picture_list.h"
#include "plimsoll/error.h"
#include "train/job_data.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A checkpoint names each file of a key up to this number of files.
constexpr size_t kMaxNamedFiles = 256;

/// Returns the last part of a path, "pictures" for "data/pictures/" as well. A checkpoint holds valid UTF-8.
std::string name_of_path(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return valid_utf8((plain.has_filename() ? plain : plain.parent_path()).filename().string());
}

/// Returns nullopt for a file without bytes to read if data.skip_bad leaves it out.
std::optional<FileIdentity> identity_of(const DataFileOfKey& file, const DataConfig& data) {
  try {
    const FileIdentity identity = of_key(file.key, [&] {
      std::error_code error;
      if (!fs::is_directory(file.path, error)) return identity_of_file(file.path);
      // Other files in a folder of pictures are not read.
      return data.type == "pictures" ? identity_of_folder(file.path, is_picture_file) : identity_of_folder(file.path);
    });
    return data.skip_bad && identity.bytes == 0 ? std::nullopt : std::optional(identity);
  } catch (const UserError&) {
    if (!data.skip_bad) throw;
    return std::nullopt;
  }
}

/// Returns the identity of files whose names are data, too.
FileIdentity identity_with(FileIdentity identity, const std::string& names) {
  if (!names.empty()) identity.hash = hash_bytes(fmt::format("{:016x} {}", identity.hash, names));
  return identity;
}

/// Replaces the facts of each key with more than kMaxNamedFiles by one fact, at the place of the first.
std::vector<DataFileFact> without_long_lists(std::vector<DataFileFact> files) {
  std::map<std::string, std::vector<FileIdentity>> by_key;
  std::map<std::string, std::string> names;  // of files whose names are data
  for (const DataFileFact& each : files) {
    by_key[each.key].push_back(each.identity);
    if (each.is_name_data) names[each.key] += each.name + '\n';
  }
  std::vector<DataFileFact> kept;
  for (DataFileFact& each : files) {
    const std::vector<FileIdentity>& all = by_key[each.key];
    if (all.size() <= kMaxNamedFiles)
      kept.push_back(std::move(each));
    else if (std::ranges::find(kept, each.key, &DataFileFact::key) == kept.end())
      kept.push_back(
          {.key = each.key, .name = "all files", .identity = identity_with(identity_of_all(all), names[each.key])});
  }
  return kept;
}

}  // namespace

DataFacts data_facts_of(const Job& job, const std::string& tokenizer,
                        const std::function<void(double fraction)>& progress) {
  DataFacts facts;
  const std::vector<DataFileOfKey> files = data_files(job);
  for (size_t i = 0; i < files.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(files.size()));
    if (const auto identity = identity_of(files[i], job.data))
      facts.files.push_back({.key = files[i].key,
                             .name = name_of_path(files[i].path),
                             .identity = *identity,
                             .is_name_data = job.data.type == "clips" && files[i].key == "data.files"});
  }
  facts.files = without_long_lists(std::move(facts.files));
  facts.settings = {{"data.type", job.data.type},
                    {"data.validation_fraction", fmt::format("{}", job.data.validation_fraction)},
                    {"data.shuffle", fmt::format("{}", job.data.shuffle)}};
  if (!tokenizer.empty()) facts.settings["data.tokenizer"] = tokenizer;
  if (job.data.type == "stimuli")
    facts.settings["data.repetition_time"] = fmt::format("{}", job.data.stimuli.repetition_time);
  return facts;
}

}  // namespace plimsoll
