// Resolves booleans of other programs whose false has a meaning too, together with our keys of the same subject.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/precision_requests.h"
#include "job/values/aliases.h"
#include "job/values/document.h"
#include "job/values/values.h"

namespace plimsoll::job {

class AliasBooleans {
 public:
  /// Adds our own key, or another program's name for it whose value is a precision.
  void add_precision(const Node& node, const Source& source);
  /// Adds a boolean. Throws UserError if the value is not one.
  void add(const Alias& alias, const Node& node, const Source& source);

  struct Precision {
    std::string word;            ///< "bf16-mixed"; empty: the value of our own key
    const Node* node = nullptr;  ///< the node that decided
    const Source* source = nullptr;
    std::vector<std::string> notes;
  };
  /// Returns the resolved precision. `float16_weights`: the job's weights are of that type. Throws UserError for
  /// contradictions.
  Precision precision(bool float16_weights) const;

  /// Returns the note of use_cpu: false for the job's device, which is nullptr if none is given. Throws UserError if
  /// that is the CPU.
  std::optional<std::string> note_on_device(const Value* device) const;

 private:
  struct Mention {
    const Node* node = nullptr;
    const Source* source = nullptr;
    const Alias* alias = nullptr;  ///< nullptr: our own name
    std::string text() const;
    std::string where() const;
  };
  std::vector<PrecisionRequest> requests_;
  std::vector<Mention> mentions_;  // by index of its claim
  std::optional<Mention> no_cpu_;
};

}  // namespace plimsoll::job
