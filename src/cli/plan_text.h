// Formats plans as text.
#pragma once

#include <string>

#include "cli/screen/terminal.h"
#include "plimsoll/plan.h"

namespace plimsoll::cli {

/// Number of the largest buffers at the peak that text and JSON name.
constexpr size_t kResidentsShown = 8;

/// Returns "fits: 7.42 GiB of 8.00 GiB" or "does not fit: …" with the minimum budget; one line.
std::string verdict_of(const Plan& plan);

/// Returns the verdict that is known before the fastest plan is: "fits: 42.6 GiB of 47.4 GiB are enough; looking for
/// the fastest plan"; one line.
std::string early_verdict_of(int64_t enough_bytes, int64_t budget_bytes);

/// Returns, for a plan that does not fit, the verdict and the memory at the peak, by name and bytes.
std::string peak_report(const Plan& plan, const Screen& screen);

/// Returns "12.3 %"; "-" if `whole` is 0.
std::string percent_of(int64_t part, int64_t whole);

/// Returns "1.20 M", "12.3 k", "812".
std::string short_count(double count);

/// Returns "1.25 s", "12.3 ms", "0.5 us".
std::string short_seconds(double seconds);

/// Calls `visit("parameters", &Breakdown::parameters)` and so on for every part.
template <typename Visit>
void for_each_part(Visit&& visit) {
  visit("parameters", &Breakdown::parameters);
  visit("gradients", &Breakdown::gradients);
  visit("optimizer state", &Breakdown::optimizer_state);
  visit("activations", &Breakdown::activations);
  visit("inputs", &Breakdown::inputs);
  visit("workspace", &Breakdown::workspace);
  visit("context", &Breakdown::context);
  visit("fragmentation", &Breakdown::fragmentation);
}

}  // namespace plimsoll::cli
