// Declares features of the stimuli of an fMRI series (pictures, sound or text) that were computed before, as arrays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/npy.h"

namespace plimsoll {

/// Rows of features, evenly spaced over a series, the same number for each volume. Any number of threads may read it.
class StimulusFeatures {
 public:
  StimulusFeatures() = default;  ///< no features

  /// Reads a .npy file of [n x volumes, row...]: n rows for each volume, each of the sizes `row`. `key`
  /// ("data.text_features") is named in messages. Throws UserError that names the file: unreadable, of other sizes,
  /// numbers that are not finite.
  StimulusFeatures(const std::filesystem::path& file, const std::string& key, const std::vector<int64_t>& row,
                   int64_t volumes);

  bool given() const { return rows_ > 0; }
  bool bytes() const { return array_.type == NpyType::uint8; }

  /// Returns the row at `volumes` volumes after the beginning of the series; -1: there is none.
  int64_t row_at(double volumes) const;
  /// Returns number `i` of a row, in C order.
  float number(int64_t row, int64_t i) const { return static_cast<float>(array_.at(row * width_ + i)); }

 private:
  NpyArray array_;
  int64_t rows_ = 0, width_ = 1, per_volume_ = 1;
};

}  // namespace plimsoll
