#include "base/bytes_up.h"

#include <fmt/format.h>

#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxReadBytes = int64_t{1} << 59;  ///< for larger values format_bytes may write EiB, which
                                                     ///< parse_bytes does not read

// Returns one unit of the last digit that format_bytes wrote: "0.01 GiB" of "1.38 GiB".
int64_t last_place_of(std::string text) {
  const size_t last = text.find_last_of("0123456789");
  for (size_t i = 0; i <= last; ++i)
    if (text[i] != '.') text[i] = i == last ? '1' : '0';
  return parse_bytes(text);
}

}  // namespace

std::string format_bytes_up(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxReadBytes) return fmt::format("{} B", bytes);
  const std::string text = format_bytes(bytes);
  if (parse_bytes(text) >= bytes) return text;
  // Rounding to nearest loses at most half a unit of the last digit.
  return format_bytes(bytes + last_place_of(text));
}

}  // namespace plimsoll
