#include "collectives/exchange_call.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

const char* type_name(int32_t type) {
  return type >= 0 && type < static_cast<int32_t>(c10::ScalarType::NumOptions)
             ? c10::toString(static_cast<c10::ScalarType>(type))
             : "an unknown dtype";
}

std::string described(const ExchangeCall& call) {
  const std::string target = fmt::format("{} {}", call.target_elements, type_name(call.target_type));
  const auto sum = [&](const char* name) {
    return fmt::format("{} of {} {} into {} (first: {})", name, call.source_elements, type_name(call.source_type),
                       target, call.detail);
  };
  switch (call.kind) {
    case ExchangeKind::none:
      return "nothing";
    case ExchangeKind::reduce_scatter:
      return sum("reduce_scatter");
    case ExchangeKind::all_reduce:
      return sum("all_reduce");
    case ExchangeKind::all_gather:
      return fmt::format("all_gather of {}", target);
    case ExchangeKind::broadcast:
      return fmt::format("broadcast of {} from rank {}", target, call.detail);
    case ExchangeKind::gather_text:
      return "gather_text";
    case ExchangeKind::meet:
      return "meet";
  }
  return fmt::format("a call of unknown kind {}", static_cast<int32_t>(call.kind));
}

}  // namespace

void check_calls(std::span<const ExchangeCall> calls) {
  for (size_t r = 1; r < calls.size(); ++r) {
    if (calls[r] == calls[0]) continue;
    throw InternalError(
        fmt::format("ranks exchange different things: rank 0 calls {} (exchange {}), rank {} calls {} (exchange {})",
                    described(calls[0]), calls[0].number, r, described(calls[r]), calls[r].number));
  }
}

}  // namespace plimsoll
