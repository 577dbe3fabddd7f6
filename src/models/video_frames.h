// Frames of video, as models read them.
#pragma once

#include <cstdint>

namespace plimsoll::model {

inline constexpr int64_t kFrameChannels = 3;  ///< red, green, blue

}  // namespace plimsoll::model
