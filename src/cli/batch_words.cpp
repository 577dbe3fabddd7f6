#include "cli/batch_words.h"

#include <fmt/format.h>

#include "cli/screen/short_numbers.h"

namespace plimsoll::cli {

int64_t effective_batch_of(const ResolvedSettings& settings) {
  return settings.sequences(settings.first_accumulation()) * settings.ranks.count;
}

std::string describe_effective_batch(const ResolvedSettings& settings) {
  std::string text =
      fmt::format("effective batch {}: micro batch {}", effective_batch_of(settings), describe_micro_batches(settings));
  if (settings.ranks.count > 1) text += fmt::format(" x {} devices", settings.ranks.count);
  const char* separator = ";";
  for (const auto& [epoch, count] : settings.accumulation()) {
    if (epoch == 0) continue;
    text += fmt::format("{} from epoch {} on {} (x {})", separator, epoch,
                        settings.sequences(count) * settings.ranks.count, count);
    separator = ",";
  }
  return text;
}

std::string describe_parameters(const ResolvedSettings& settings) {
  const auto text = [](int64_t count) { return short_count(static_cast<double>(count)); };
  std::string all = text(settings.parameters);
  if (settings.parameters != settings.model_parameters) all += " of " + text(settings.model_parameters);
  if (settings.rank_parameters < settings.parameters)
    all += fmt::format(", {} on a rank", text(settings.rank_parameters));
  return all;
}

}  // namespace plimsoll::cli
