#include "files/media/fourier.h"

extern "C" {
#include <libavutil/tx.h>
}

#include <vector>

#include "files/media/media_file.h"

namespace plimsoll::media {
namespace {

class Transform final : public FourierTransform {
 public:
  explicit Transform(int64_t size) : result_(static_cast<size_t>(size)) {
    const double scale = 1;
    const int error =
        av_tx_init(&context_, &run_, AV_TX_DOUBLE_FFT, 0, static_cast<int>(size), &scale, AV_TX_UNALIGNED);
    if (error < 0) fail("cannot be computed", error);
  }
  ~Transform() override { av_tx_uninit(&context_); }

  std::span<const std::complex<double>> of(std::span<std::complex<double>> values) override {
    run_(context_, result_.data(), values.data(), sizeof(std::complex<double>));
    return result_;
  }

 private:
  AVTXContext* context_ = nullptr;
  av_tx_fn run_ = nullptr;
  std::vector<std::complex<double>> result_;
};

}  // namespace

std::unique_ptr<FourierTransform> fourier(int64_t size) {
  return std::make_unique<Transform>(size);
}

}  // namespace plimsoll::media
