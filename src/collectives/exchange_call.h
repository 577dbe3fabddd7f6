// Declares the description of a call of Exchange. Ranks compare descriptions to notice that they do not make the same
// call.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

/// The function of Exchange that is called; `none`: no call yet.
enum class ExchangeKind : int32_t { none, reduce_scatter, all_reduce, all_gather, broadcast, gather_text, meet };

/// One call. All fields are equal on all ranks. The struct is plain bytes: it is stored in shared memory and sent
/// between hosts.
struct ExchangeCall {
  ExchangeKind kind = ExchangeKind::none;
  int32_t target_type = 0, source_type = 0;          ///< at::ScalarType
  int32_t detail = 0;                                ///< sums: 1 if `first`; broadcast: the root
  int64_t target_elements = 0, source_elements = 0;  ///< elements of `sum` (or the tensor) and of `source`
  int64_t number = 0;                                ///< number of earlier calls on this rank
  bool operator==(const ExchangeCall&) const = default;
};

/// Throws InternalError that names two ranks and their calls unless all calls are equal. calls[r] is the
/// call of rank r.
void check_calls(std::span<const ExchangeCall> calls);

}  // namespace plimsoll
