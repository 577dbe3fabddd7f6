// Declares baselines for a model's Dice: masks that are predicted without learning.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace plimsoll {

/// Returns 2 both / (one + other) for numbers of pixels; 0 if there are none.
double dice_of(int64_t both, int64_t one, int64_t other);

/// Masks of `pixels` values 0 or 1 each.
struct Masks {
  int64_t count = 0;
  std::function<std::vector<uint8_t>(int64_t)> mask;
};

/// Predicts the mean of the training masks, cut at one of 19 thresholds: the one with the best Dice on these masks.
/// Returns the sum of its Dice with each of `evaluated`.
double mean_mask_dice(int64_t pixels, const Masks& trained, const Masks& evaluated);

/// Pictures with their masks.
struct MaskedPictures {
  Masks masks;
  std::function<std::vector<float>(int64_t)> brightness;
};

/// Predicts all pixels brighter, or all darker, than one of 33 thresholds from -2 to 2: the best one for the training
/// samples. Returns the sum of its Dice with each of `evaluated`.
double brightness_dice(int64_t pixels, const MaskedPictures& trained, const MaskedPictures& evaluated);

}  // namespace plimsoll
