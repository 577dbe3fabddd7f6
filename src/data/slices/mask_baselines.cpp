#include "data/slices/mask_baselines.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace plimsoll {
namespace {

/// Number of thresholds at which a mean mask is cut: 0.05, 0.10, ..., 0.95.
constexpr int kThresholds = 19;

constexpr int kLevels = 33;
constexpr float kDarkest = -2, kStep = 4.0F / (kLevels - 1);

/// Returns the Dice of a mask with all pixels brighter than each threshold, then with all pixels that are not.
std::array<double, 2 * kLevels> dices_of(const std::vector<float>& brightness, const std::vector<uint8_t>& mask) {
  std::array<int64_t, kLevels + 1> inside = {}, all = {};  // pixels, indexed by the number of thresholds that a pixel
                                                           // is above
  for (size_t i = 0; i < mask.size(); ++i) {
    const float above = std::clamp((brightness[i] - kDarkest) / kStep, -1.0F, static_cast<float>(kLevels - 1));
    const auto level = static_cast<size_t>(std::floor(above) + 1);
    inside[level] += mask[i];
    ++all[level];
  }
  int64_t masked = 0, pixels = 0, inside_below = 0, below = 0;
  for (size_t i = 0; i <= kLevels; ++i) masked += inside[i], pixels += all[i];
  std::array<double, 2 * kLevels> dices = {};
  for (size_t t = 0; t < kLevels; ++t) {
    inside_below += inside[t], below += all[t];
    dices[t] = dice_of(masked - inside_below, pixels - below, masked);
    dices[kLevels + t] = dice_of(inside_below, below, masked);
  }
  return dices;
}

std::array<double, 2 * kLevels> sums_of(const MaskedPictures& pictures) {
  std::array<double, 2 * kLevels> sums = {};
  for (int64_t i = 0; i < pictures.masks.count; ++i) {
    const auto dices = dices_of(pictures.brightness(i), pictures.masks.mask(i));
    for (size_t t = 0; t < sums.size(); ++t) sums[t] += dices[t];
  }
  return sums;
}

}  // namespace

double dice_of(int64_t both, int64_t one, int64_t other) {
  return one + other > 0 ? 2.0 * static_cast<double>(both) / static_cast<double>(one + other) : 0;
}

double mean_mask_dice(int64_t pixels, const Masks& trained, const Masks& evaluated) {
  if (trained.count == 0) return 0;
  std::vector<int64_t> count(static_cast<size_t>(pixels), 0);
  for (int64_t m = 0; m < trained.count; ++m) {
    const std::vector<uint8_t> mask = trained.mask(m);
    for (size_t i = 0; i < mask.size(); ++i) count[i] += mask[i];
  }
  // The number of thresholds that each pixel of the mean is above.
  std::vector<uint8_t> level(count.size());
  std::array<int64_t, kThresholds + 1> area = {};
  for (size_t i = 0; i < count.size(); ++i) {
    level[i] = static_cast<uint8_t>(std::min<int64_t>(kThresholds, count[i] * (kThresholds + 1) / trained.count));
    ++area[level[i]];
  }
  for (size_t t = kThresholds; t-- > 0;) area[t] += area[t + 1];
  const auto dices = [&](const Masks& masks) {
    std::array<double, kThresholds + 1> sums = {};
    for (int64_t m = 0; m < masks.count; ++m) {
      const std::vector<uint8_t> mask = masks.mask(m);
      std::array<int64_t, kThresholds + 1> both = {};
      for (size_t i = 0; i < mask.size(); ++i) both[level[i]] += mask[i];
      for (size_t t = kThresholds; t-- > 0;) both[t] += both[t + 1];
      for (size_t t = 1; t < sums.size(); ++t) sums[t] += dice_of(both[t], area[t], both[0]);
    }
    return sums;
  };
  const auto learned = dices(trained);
  const auto best = std::ranges::max_element(learned.begin() + 1, learned.end()) - learned.begin();
  return dices(evaluated)[static_cast<size_t>(best)];
}

double brightness_dice(int64_t pixels, const MaskedPictures& trained, const MaskedPictures& evaluated) {
  if (trained.masks.count == 0 || pixels == 0) return 0;
  const auto learned = sums_of(trained);
  const auto best = std::ranges::max_element(learned) - learned.begin();
  return sums_of(evaluated)[static_cast<size_t>(best)];
}

}  // namespace plimsoll
