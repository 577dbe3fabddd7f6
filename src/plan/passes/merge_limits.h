// Limits of the passes that merge ops into one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// Ops between the first and the last of a merged pair or group, at most.
inline constexpr int32_t kMaxMergeDistance = 256;

/// Groups that are still open, at most: each is compared with every op that follows. Updates need few: optimizers have
/// those with and without weight decay, and with and without a companion.
inline constexpr size_t kMaxOpenGroups = 8;

}  // namespace plimsoll
