// Declares the discrete Fourier transform in double precision. It is FFmpeg's, and loaded as files/media.h describes.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <span>

namespace plimsoll {

/// A transform of one size, to be used by one thread at a time.
class FourierTransform {
 public:
  FourierTransform() = default;
  FourierTransform(const FourierTransform&) = delete;
  FourierTransform& operator=(const FourierTransform&) = delete;
  virtual ~FourierTransform() = default;

  /// Returns sum over n of values[n] exp(-2 pi i n k / size) for each k, valid until the next call. `values` has `size`
  /// values.
  virtual std::span<const std::complex<double>> of(std::span<std::complex<double>> values) = 0;
};

/// Returns a transform of `size` values, a power of two. Throws UserError (failure) if FFmpeg cannot be loaded.
std::unique_ptr<FourierTransform> make_fourier_transform(int64_t size);

}  // namespace plimsoll
