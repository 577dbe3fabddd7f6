// What was seen, heard or read while an fMRI series was recorded, as numbers that somebody has computed already.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/npy.h"

namespace plimsoll {

/// Rows evenly over a series, so many a volume. May be read from any number of threads.
class StimulusFeatures {
 public:
  StimulusFeatures() = default;  ///< none

  /// A .npy file of [n x volumes, row...]: n rows for each volume, each of the sizes `row`. `key`
  /// ("data.text_features") is named in messages. Throws UserError that names the file: unreadable, of other sizes,
  /// numbers that are not finite.
  StimulusFeatures(const std::filesystem::path& file, const std::string& key, const std::vector<int64_t>& row,
                   int64_t volumes);

  bool given() const { return rows_ > 0; }
  bool bytes() const { return array_.type == NpyType::uint8; }

  /// The row at `volumes` volumes after the beginning of the series; -1: there is none.
  int64_t row_at(double volumes) const;
  /// Number `i` of a row, in C order.
  float number(int64_t row, int64_t i) const { return static_cast<float>(array_.at(row * width_ + i)); }

 private:
  NpyArray array_;
  int64_t rows_ = 0, width_ = 1, per_volume_ = 1;
};

}  // namespace plimsoll
