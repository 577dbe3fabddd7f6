#include "job/keys/ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plimsoll::job {

std::string for_example(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? "" : fmt::format(" (for example {})", fmt::join(numbers, " or "));
}

}  // namespace plimsoll::job
