// What a job says of its precision in several words: precision itself, and the booleans of other programs (bf16, fp16,
// use_amp), whose false means "not that".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::job {

/// One of them.
struct PrecisionClaim {
  enum class Of : uint8_t {
    name,   ///< precision, in our words: `word`
    bf16,   ///< bfloat16 beside float32 weights
    fp16,   ///< float16 beside float32 weights
    mixed,  ///< either of them: use_amp, use_mixed_precision
  };
  Of of = Of::name;
  bool yes = true;    ///< of the booleans
  std::string word;   ///< of a name
  std::string said;   ///< as it was written: "bf16: true"
  std::string place;  ///< "job.yaml:3"
  bool command_line = false;
};

struct ClaimedPrecision {
  std::string word;       ///< "bf16-mixed"; empty: none of the claims asks for any
  size_t decided_by = 0;  ///< the claim, by its index
  /// Booleans that were heeded, by index, and what they came to. A false that denies nothing is not among them.
  std::vector<std::pair<size_t, std::string>> heeded;
};

/// What `claims`, those of the file before those of the command line, come to.
///
/// Within the file all must agree, and so must booleans of the command line: else UserError that names both. The
/// command line goes before the file, and its later words before its earlier ones: a name or a true replaces, a false
/// takes away what it denies and leaves 32-true, or the other kind where mixed precision was asked for without saying
/// which. That alone is bfloat16's, and float16's where bfloat16 is denied or the weights are of float16, which goes
/// with no other.
ClaimedPrecision settled(const std::vector<PrecisionClaim>& claims, bool float16_weights = false);

}  // namespace plimsoll::job
