// Declares the output of a result: as text, and as JSON with --json FILE, or - for standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/plan.h"

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// JSON whose keys keep the order in which they were set.
using Json = nlohmann::ordered_json;

/// Returns {"parameters": bytes, "gradients": …, …, "fragmentation": …}.
Json json_of(const Breakdown& breakdown);
/// Returns [{"label", "role", "bytes"}, …].
Json json_of(const std::vector<Resident>& residents);

/// An output of one result, as text and as JSON. With `--json -` standard output has the JSON and nothing else.
class Output {
 public:
  void add_option_to(CLI::App& command);

  bool json_wanted() const { return !target_.empty(); }
  /// Returns the target as given: a file, -, or nothing.
  const std::string& target() const { return target_; }

  /// Throws UserError, as cli::require_writable(), if the JSON file could not be written. Called before work that takes
  /// long.
  void require_writable() const;

  /// Prints `text` to standard output, unless that is reserved for JSON.
  void print(const std::string& text) const;

  /// Writes the JSON, whole or not at all. Numbers that are not finite become null; bytes that are not UTF-8 become the
  /// replacement character.
  void write(const Json& json) const;

 private:
  bool to_standard_output() const { return target_ == "-"; }

  std::string target_;  ///< value of --json; empty: no JSON
};

}  // namespace plimsoll::cli
