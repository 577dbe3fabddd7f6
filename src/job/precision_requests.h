// Resolves the precision of a job from several keys: precision itself, and the booleans of other programs (bf16, fp16,
// use_amp), whose false means "not that".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  bool yes = true;    ///< value of a boolean
  std::string word;   ///< value of a name
  std::string stated;   ///< text as written: "bf16: true"
  std::string place;  ///< "job.yaml:3"
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

}  // namespace plimsoll::job
