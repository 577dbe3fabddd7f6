// Declares the counters of a training, and their text in a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace plimsoll {

/// The counters of a training that a checkpoint stores.
struct TrainingCounters {
  int64_t steps = 0, skipped = 0;  ///< optimizer steps, and those skipped among them
  double loss_scale = 1;
  int64_t loss_scale_growth = 0;  ///< LossScaler::growth_tracker()
};

/// Returns the counters as text, by name.
std::map<std::string, std::string> text_of(const TrainingCounters& counters);

/// Returns the counters of text_of(). Throws UserError (failure) if one is missing or out of range.
TrainingCounters counters_of(const std::map<std::string, std::string>& text);

}  // namespace plimsoll
