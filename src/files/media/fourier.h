// Declares the function that makes a Fourier transform.
#pragma once

#include <cstdint>
#include <memory>

#include "files/fourier_transform.h"

namespace plimsoll::media {

/// Throws MediaError (media_file.h).
std::unique_ptr<FourierTransform> fourier(int64_t size);

}  // namespace plimsoll::media
