// Declares the table of all keys: the help of each, and its reader. Reading, `--help`, the reference page and "did you
// mean" all use this table.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "job/keys/values.h"
#include "plimsoll/job.h"
#include "plimsoll/trace.h"

namespace plimsoll::job {

struct Key {
  KeyHelp help;
  /// Stores the value in the job; throws UserError if it is not valid for the key. Checks that need more than one key
  /// are in checks.h.
  std::function<void(const Value&, Job&)> read;
  /// Type key and values of the jobs that have this key: "model.type" and {"decoder"}. Empty: all jobs.
  std::string type_key = {};
  std::vector<std::string> types = {};
  /// Readers of this name for several types, if they differ; the help then covers all of them.
  std::vector<Key> variants = {};
};

/// A setting as text: one that a checkpoint stores, or one that must be the same on all ranks.
struct Setting {
  /// `value`: a text, a number, a list (joined by blanks), or a path, of which the name counts.
  template <typename Value>
  Setting(std::string name, const Value& value) : key(std::move(name)) {
    if constexpr (std::is_same_v<Value, std::filesystem::path>)
      text = value.filename().string();
    else if constexpr (std::is_convertible_v<Value, std::string_view>)
      text = std::string_view(value);
    else if constexpr (std::ranges::range<Value>)
      text = fmt::format("{}", fmt::join(value, " "));
    else
      text = fmt::format("{}", value);
  }
  /// The default is left out, so that checkpoints from before this key can still be resumed.
  template <typename Value>
  Setting(std::string name, const Value& value, const Value& default_value) : Setting(std::move(name), value) {
    left_out = value == default_value;
  }

  std::string key;
  std::string text = {};
  bool left_out = false;
};

/// Returns the job's model.type or data.type.
const std::string& type_of(const Job& job, const std::string& type_key);

/// Returns true if this job has the key.
bool belongs_to(const Key& key, const Job& job);

/// Reads a value with the reader for the job's type.
void read_as(const Key& key, const Value& value, Job& job);

/// Returns all keys in the order of the reference page.
const std::vector<Key>& keys();

/// Returns the key of that name, or nullptr.
const Key* find_key(std::string_view name);

/// Returns the mappings that contain keys: "model", "model.video", "data", ...
const std::vector<std::string>& sections();

// Upper bounds of a job's numbers; those of its model's sizes are in models/config_checks.h.
constexpr int64_t kMaxBatch = int64_t{1} << 20;  ///< sequences for each step
constexpr int64_t kMaxDevices = int64_t{1} << 16;
constexpr int64_t kMaxSteps = 1'000'000'000;

/// Returns the keys optimizer.*
std::vector<Key> optimizer_keys();

/// Returns the keys freeze, train, lora.*, quantize.*
std::vector<Key> fine_tuning_keys();

/// Returns the key `key`: the dtype in which the weights of a model, or of a part, are stored. `place` returns the
/// job's field for it.
Key weight_dtype(std::string key, std::function<std::optional<DType>&(Job&)> place);

/// The location of each key of a job, for messages about several keys.
class KeyLocations {
 public:
  /// `whole` is the location of keys that were not given: the name of the file.
  explicit KeyLocations(std::string whole) : whole_(std::move(whole)) {}

  void set(const std::string& key, std::string place, bool command_line = false) {
    locations_[key] = std::move(place);
    if (command_line) overridden_.insert(key);
  }
  /// Records that the file gives the key, even if the command line gives it too.
  void set_in_file(const std::string& key) { in_file_.insert(key); }
  /// Records that the key was given by another program's name.
  void set_word(const std::string& key, std::string word) { words_[key] = std::move(word); }

  bool given(const std::string& key) const { return locations_.contains(key); }
  bool overridden(const std::string& key) const { return overridden_.contains(key); }  ///< on the command line
  bool in_file(const std::string& key) const { return in_file_.contains(key); }
  /// Returns the name that the key was given by.
  std::string word(const std::string& key) const {
    const auto found = words_.find(key);
    return found == words_.end() ? key : found->second;
  }

  /// Returns the location of the first of `keys` that was given: "job.yaml:4".
  const std::string& of(std::initializer_list<std::string> keys) const {
    for (const std::string& key : keys)
      if (const auto found = locations_.find(key); found != locations_.end()) return found->second;
    return whole_;
  }

 private:
  std::string whole_;
  std::map<std::string, std::string> locations_, words_;
  std::set<std::string> overridden_, in_file_;
};

}  // namespace plimsoll::job
