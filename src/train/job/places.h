// Where each key of a job was given, for messages about several keys at once.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace plimsoll::job {

class Places {
 public:
  /// `whole` stands for keys that were not given: the name of the file.
  explicit Places(std::string whole) : whole_(std::move(whole)) {}

  void set(const std::string& key, std::string place, bool command_line = false) {
    places_[key] = std::move(place);
    if (command_line) overridden_.insert(key);
  }
  bool given(const std::string& key) const { return places_.contains(key); }
  bool overridden(const std::string& key) const { return overridden_.contains(key); }  ///< on the command line

  /// The place of the first of `keys` that was given: "job.yaml:4".
  const std::string& of(std::initializer_list<std::string> keys) const {
    for (const std::string& key : keys)
      if (const auto found = places_.find(key); found != places_.end()) return found->second;
    return whole_;
  }

 private:
  std::string whole_;
  std::map<std::string, std::string> places_;
  std::set<std::string> overridden_;
};

}  // namespace plimsoll::job
