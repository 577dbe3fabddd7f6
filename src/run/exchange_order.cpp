#include "run/exchange_order.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace plimsoll {

std::string exchange_order(const Trace& trace) {
  std::string all;
  int64_t exchanges = 0;
  for (const Segment& segment : trace.segments) {
    all += std::string(name_of(segment.kind)) + "\n";
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace.ops[i];
      if (op.link_bytes == 0) continue;
      ++exchanges;
      all += op.name;
      for_each_view(
          op, [&](const View& view, bool) { all += fmt::format(" {}:{}", name_of(view.dtype), view.elements()); });
      all += "\n";
    }
  }
  return fmt::format("{} exchanges, {:016x}", exchanges, hash_bytes(all));
}

}  // namespace plimsoll
