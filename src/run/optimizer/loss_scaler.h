// Implements dynamic loss scaling for float16 gradients (Micikevicius et al. 2018), with the constants of
// torch.amp.GradScaler.
#pragma once

#include <cstdint>

namespace plimsoll {

class LossScaler {
 public:
  /// `enabled` false: the scale is always 1.
  explicit LossScaler(bool enabled) : enabled_(enabled), scale_(enabled ? 65536.0 : 1.0) {}

  double scale() const { return scale_; }
  int64_t growth_tracker() const { return growth_tracker_; }
  void restore(double scale, int64_t growth_tracker) {
    scale_ = scale;
    growth_tracker_ = growth_tracker;
  }

  /// Updates the scale after a step: halves it if a gradient was not finite, doubles it after 2000 good steps in a row.
  void update(bool skipped) {
    if (!enabled_) return;
    if (skipped) {
      scale_ *= 0.5;
      growth_tracker_ = 0;
    } else if (++growth_tracker_ == 2000) {
      scale_ *= 2;
      growth_tracker_ = 0;
    }
  }

 private:
  bool enabled_;
  double scale_;
  int64_t growth_tracker_ = 0;
};

}  // namespace plimsoll
