// The machine's copy of a result: --json FILE, or - for standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/plan.h"

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// Keys keep the order in which they were set.
using Json = nlohmann::ordered_json;

/// {"parameters": bytes, "gradients": …, …, "fragmentation": …}
Json json_of(const Breakdown& breakdown);
/// [{"label", "role", "bytes"}, …]
Json json_of(const std::vector<Resident>& residents);

/// One result, in words and as JSON. With `--json -` standard output holds the JSON and nothing else.
class Output {
 public:
  void add_option_to(CLI::App& command);

  bool json_wanted() const { return !target_.empty(); }
  /// As given: a file, -, or nothing.
  const std::string& target() const { return target_; }

  /// Throws UserError (failure) where the JSON file could not be written: to be called before work that takes long.
  void require_writable() const;

  /// Prints `text` to standard output, unless that is for JSON.
  void print(const std::string& text) const;

  /// Writes the JSON, whole or not at all. Numbers that are not finite become null, bytes that are no UTF-8 the
  /// replacement character.
  void write(const Json& json) const;

 private:
  bool to_standard_output() const { return target_ == "-"; }

  std::string target_;  ///< as given; empty: no JSON
};

}  // namespace plimsoll::cli
