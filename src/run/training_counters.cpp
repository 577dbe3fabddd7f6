#include "run/training_counters.h"

#include <fmt/format.h>

#include <charconv>

#include "plimsoll/error.h"

namespace plimsoll {

std::map<std::string, std::string> text_of(const TrainingCounters& counters) {
  return {{"steps", std::to_string(counters.steps)},
          {"steps_skipped", std::to_string(counters.skipped)},
          {"loss_scale", fmt::format("{}", counters.loss_scale)},
          {"loss_scale_growth", std::to_string(counters.loss_scale_growth)}};
}

TrainingCounters counters_of(const std::map<std::string, std::string>& text) {
  const auto refuse = [](const char* name) -> UserError {
    return UserError(fmt::format("the checkpoint's counter '{}' is missing or damaged", name),
                     UserError::Kind::failure);
  };
  const auto number = [&]<typename Number>(const char* name, Number min, Number max) {
    const auto found = text.find(name);
    if (found == text.end()) throw refuse(name);
    Number value{};
    const char* const end = found->second.data() + found->second.size();
    const auto [stop, error] = std::from_chars(found->second.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= min && value <= max)) throw refuse(name);
    return value;
  };
  constexpr int64_t kMaxCount = int64_t{1} << 62;
  TrainingCounters counters;
  counters.steps = number("steps", int64_t{0}, kMaxCount);
  counters.skipped = number("steps_skipped", int64_t{0}, counters.steps);
  counters.loss_scale = number("loss_scale", 1e-30, 1e30);
  counters.loss_scale_growth = number("loss_scale_growth", int64_t{0}, kMaxCount);
  return counters;
}

}  // namespace plimsoll
