// Declares the function that decodes a picture in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "files/picture.h"

namespace plimsoll::media {

/// Decodes one PNG or JPEG file, whole in memory. Throws MediaError (media_file.h).
Picture picture(const std::vector<uint8_t>& bytes, bool png);

}  // namespace plimsoll::media
