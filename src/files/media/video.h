// Declares the functions that read the pictures of a video file.
#pragma once

#include <string>
#include <vector>

#include "files/media.h"

namespace plimsoll::media {

/// All throw MediaError (media_file.h).
VideoInfo describe(const std::string& path);
void frames(const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
            std::vector<uint8_t>& pixels);

}  // namespace plimsoll::media
