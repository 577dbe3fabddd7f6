// What masks are without learning, to hold a model's Dice against.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace plimsoll {

/// 2 both / (one + other), of numbers of pixels; 0 where there are none.
double dice_of(int64_t both, int64_t one, int64_t other);

/// So many masks of `pixels` 0s and 1s each.
struct Masks {
  int64_t count = 0;
  std::function<std::vector<uint8_t>(int64_t)> mask;
};

/// The mean of the masks trained on, cut at that of 19 thresholds where its Dice with these is best: the sum of its
/// Dice with each of `evaluated`.
double mean_mask_dice(int64_t pixels, const Masks& trained, const Masks& evaluated);

/// So many pictures of numbers, with their masks.
struct MaskedPictures {
  Masks masks;
  std::function<std::vector<float>(int64_t)> brightness;
};

/// All pixels brighter, or all darker, than one of 33 thresholds from -2 to 2, whichever is best for those trained on:
/// the sum of its Dice with each of `evaluated`.
double brightness_dice(int64_t pixels, const MaskedPictures& trained, const MaskedPictures& evaluated);

}  // namespace plimsoll
