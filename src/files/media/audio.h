// Declares the function that decodes the sound of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::media {

/// Throws MediaError (media_file.h).
void audio(const std::string& path, int64_t sample_rate, std::vector<float>& samples);

}  // namespace plimsoll::media
