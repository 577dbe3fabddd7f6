#include "data/stimuli/stimulus_features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "files/data_memory.h"
#include "plimsoll/error.h"

namespace plimsoll {

StimulusFeatures::StimulusFeatures(const std::filesystem::path& file, const std::string& key,
                                   const std::vector<int64_t>& row, int64_t volumes)
    : array_(read_npy(file)) {
  const std::vector<int64_t>& sizes = array_.sizes;
  const bool same = sizes.size() == row.size() + 1 && std::equal(row.begin(), row.end(), sizes.begin() + 1);
  if (!same || sizes[0] == 0 || sizes[0] % volumes != 0)
    throw UserError(
        fmt::format("{}: {} is {}; allowed: {} x {}, or a multiple of these rows (each volume of data.fmri has "
                    "the same number of rows, and the model sets the size of a row)",
                    key, file.string(), array_.describe_sizes(), volumes, fmt::join(row, " x ")));
  keep_data_memory(static_cast<double>(array_.bytes.size()));
  rows_ = sizes[0];
  per_volume_ = rows_ / volumes;
  width_ = array_.count() / rows_;
  if (!is_floating(array_.type)) return;
  for (int64_t i = 0; i < array_.count(); ++i)
    if (!std::isfinite(static_cast<float>(array_.at(i))))
      throw UserError(
          fmt::format("{}: {} has a number that is not finite in float32, in row {}", key, file.string(), i / width_),
          UserError::Kind::failure);
}

int64_t StimulusFeatures::row_at(double volumes) const {
  if (volumes < 0) return -1;
  const auto row = static_cast<int64_t>(volumes * static_cast<double>(per_volume_));
  return row < rows_ ? row : -1;
}

}  // namespace plimsoll
