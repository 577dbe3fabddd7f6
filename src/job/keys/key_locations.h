// Declares the location of each key of a job, for messages about several keys.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace plimsoll::job {

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
