// Booleans of other programs whose false says something too: what they come to beside our keys of the same subject.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/precision_claims.h"
#include "job/values/aliases.h"
#include "job/values/document.h"
#include "job/values/values.h"

namespace plimsoll::job {

class OtherBooleans {
 public:
  /// Our own key, or another program's name for it whose value is a precision.
  void add_precision(const Node& node, const Source& source);
  /// Throws UserError where the value is no boolean.
  void add(const Alias& alias, const Node& node, const Source& source);

  struct Precision {
    std::string word;            ///< "bf16-mixed"; empty: as our own key has it
    const Node* node = nullptr;  ///< what decided
    const Source* source = nullptr;
    std::vector<std::string> notes;
  };
  /// `float16_weights`: the job's weights are of that type. Throws UserError for what contradicts itself.
  Precision precision(bool float16_weights) const;

  /// What use_cpu: false has to say beside the job's device, nullptr where none is given. Throws UserError where that
  /// is the CPU.
  std::optional<std::string> beside(const Value* device) const;

 private:
  struct Said {
    const Node* node = nullptr;
    const Source* source = nullptr;
    const Alias* alias = nullptr;  ///< nullptr: our own name
    std::string text() const;
    std::string where() const;
  };
  std::vector<PrecisionClaim> claims_;
  std::vector<Said> said_;  // of each claim
  std::optional<Said> no_cpu_;
};

}  // namespace plimsoll::job
