// One value of a job file, read as the type its key asks for.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/document.h"

namespace plimsoll::job {

/// A value, its key ("optimizer.betas") and the text that both stand in.
struct Value {
  const Node* node;
  std::string key;
  const Source* source;

  /// Throws UserError "job.yaml:9: precision is 'half'; allowed: 32-true, ..." about this value; `advice` stands behind
  /// it.
  [[noreturn]] void refuse(std::string_view allowed, std::string_view advice = {}) const;
  /// Throws UserError "job.yaml:9: " + key + " " + `what`.
  [[noreturn]] void refuse_since(std::string_view what) const;
  /// The same key, another node: an item of a list.
  Value with(const Node* item) const { return {item, key, source}; }
  /// True for a scalar that reads exactly `word`, in any case of its letters; a null that is written out (null, ~)
  /// reads "none".
  bool is(std::string_view word) const;
};

/// Whole numbers from `least` to `most`, both included.
struct IntegerRange {
  int64_t least;
  int64_t most;
  bool none = false;         ///< 0 means none, and is written so too
  std::string text() const;  ///< "integer from 1 to 4096", "integer from 0 to 10 or none"
};

/// Finite numbers between two bounds, each included unless it is open.
struct NumberRange {
  double least = 0;
  bool least_open = false;
  double most = std::numeric_limits<double>::infinity();
  bool most_open = false;
  bool none = false;         ///< 0 means none, and is written so too
  std::string text() const;  ///< "number > 0", "number in [0, 1)", "number >= 0 or none"
};

/// Words with `separator` between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator);

/// What read_boolean reads, or nothing where the value is none of its words.
std::optional<bool> boolean_in(const Value& value);

/// Each throws UserError, through Value::refuse, where the value is not what it reads. `also` names words that the
/// caller has dealt with ("auto"); it goes into the message.
int64_t read_integer(const Value& value, const IntegerRange& range, std::string_view also = {});
double read_number(const Value& value, const NumberRange& range);
/// true, yes, on and false, no, off in any case of their letters: as YAML 1.1 has them, and Python.
bool read_boolean(const Value& value);
std::string read_word(const Value& value, const std::vector<std::string>& allowed);
/// Text without a zero byte, which no path can hold; `allowed` says in a message what it stands for.
std::string read_text(const Value& value, std::string_view allowed);

}  // namespace plimsoll::job
