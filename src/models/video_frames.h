// Declares the constants of video frames as models read them.
#pragma once

#include <cstdint>

namespace plimsoll::model {

inline constexpr int64_t kFrameChannels = 3;  ///< red, green, blue

}  // namespace plimsoll::model
