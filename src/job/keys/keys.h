// The table of all keys: for each its help and how it is read. Reading, `--help`, the reference page and "did you mean"
// all come from it.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "job/values/values.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

struct Key {
  KeyHelp help;
  /// Puts the value into the job; throws UserError where it is not what the key asks for. Checks that need more than
  /// one key are in checks.h.
  std::function<void(const Value&, Job&)> read;
  /// "model.type" and {"decoder"}: the key is of such jobs alone. Empty: of all.
  std::string type_key = {};
  std::vector<std::string> types = {};
  /// The same name as it is read for each of several types, where they differ; help is of all of them then.
  std::vector<Key> variants = {};
};

/// The job's model.type or data.type.
const std::string& type_of(const Job& job, const std::string& type_key);

/// Whether such a job has the key.
bool belongs_to(const Key& key, const Job& job);

/// Reads a value as jobs of this type have it.
void read_as(const Key& key, const Value& value, Job& job);

/// In the order of the reference page.
const std::vector<Key>& keys();

/// The key of that name, or nullptr.
const Key* find_key(std::string_view name);

/// "model", "model.video", "data", ...: the mappings that keys stand in.
const std::vector<std::string>& sections();

// Upper bounds of a job's numbers; those of its model's sizes are in model/size_limits.h.
constexpr int64_t kLargestBatch = int64_t{1} << 20;  ///< sequences a step
constexpr int64_t kMostDevices = int64_t{1} << 16;
constexpr int64_t kMostSteps = 1'000'000'000;

}  // namespace plimsoll::job
