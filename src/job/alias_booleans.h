// Resolves booleans of other programs whose false has a meaning too, together with our keys of the same subject;
// precision among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/keys/aliases.h"
#include "job/keys/document.h"
#include "job/keys/values.h"

namespace plimsoll::job {

/// One key that says something about the precision.
struct PrecisionRequest {
  enum class Of : uint8_t {
    name,   ///< precision itself, in our words: `word`
    bf16,   ///< bfloat16 with float32 weights
    fp16,   ///< float16 with float32 weights
    mixed,  ///< either of them: use_amp, use_mixed_precision
  };
  Of of = Of::name;
  bool yes = true;     ///< value of a boolean
  std::string word;    ///< value of a name
  std::string stated;  ///< text as written: "bf16: true"
  std::string place;   ///< "job.yaml:3"
  bool command_line = false;
};

struct ResolvedPrecision {
  std::string word;       ///< "bf16-mixed"; empty: no claim requests a precision
  size_t decided_by = 0;  ///< index of the claim that decided
  /// Booleans that had an effect, by index, and their result. A false that denies nothing is not among them.
  std::vector<std::pair<size_t, std::string>> applied;
};

/// Returns the precision that `requests` resolve to; claims of the file precede those of the command line.
///
/// Within the file all claims must agree, and so must booleans of the command line; otherwise throws UserError that
/// names both. The command line has priority over the file, and its later words over its earlier ones. A name or a true
/// replaces earlier claims. A false removes what it denies: it leaves 32-true, or the other kind if mixed precision was
/// requested without a kind. Mixed precision without a kind is bfloat16. It is float16 if bfloat16 is denied, or if the
/// weights are in float16, which works with no other kind.
ResolvedPrecision resolve_precision(const std::vector<PrecisionRequest>& requests, bool float16_weights = false);

/// A resolver of booleans of other programs whose false has a meaning too, together with our keys of the same subject.
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
