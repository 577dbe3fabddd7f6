// Environment variables by which `plimsoll train --devices N` tells its processes where they stand.
#pragma once

namespace plimsoll {

constexpr const char* kRankVariable = "PLIMSOLL_RANK";    ///< in [0, PLIMSOLL_RANKS)
constexpr const char* kRanksVariable = "PLIMSOLL_RANKS";  ///< number of ranks, all on this machine
constexpr const char* kStoreVariable = "PLIMSOLL_STORE";  ///< path of a FileStore

}  // namespace plimsoll
