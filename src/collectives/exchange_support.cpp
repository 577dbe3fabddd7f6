#include "collectives/exchange_support.h"

#include <ATen/Parallel.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

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

namespace {

constexpr int64_t kSumGrain = 1 << 15;     // minimum elements for a thread
constexpr int64_t kSumBlock = 2048;        // elements that stay in the first-level cache while all terms are added
constexpr int64_t kCopyGrain = 256 << 10;  // minimum bytes for a thread

// bfloat16 as bits: GCC vectorizes these lines, but not c10's, which have a branch.
struct BFloat16Bits {
  uint16_t bits;
};

inline float widened(BFloat16Bits x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline float widened(c10::Half x) {
  return static_cast<float>(x);
}

inline float widened(float x) {
  return x;
}

inline double widened(double x) {
  return x;
}

template <class To, class From>
inline To rounded(From x) {
  if constexpr (std::is_same_v<To, BFloat16Bits>) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    const uint32_t even = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : even)};
  } else {
    return static_cast<To>(x);
  }
}

template <class Sum, class Term>
void add_term(Sum* sum, const Term* term, int64_t count) {
  using Wide = decltype(widened(Sum()));
  for (int64_t i = 0; i < count; ++i) sum[i] = rounded<Sum>(widened(sum[i]) + static_cast<Wide>(widened(term[i])));
}

template <class Sum, class Term>
void set_term(Sum* sum, const Term* term, int64_t count) {
  if constexpr (std::is_same_v<Sum, Term>) {
    std::memcpy(sum, term, static_cast<size_t>(count) * sizeof(Sum));
  } else {
    for (int64_t i = 0; i < count; ++i) sum[i] = rounded<Sum>(widened(term[i]));
  }
}

template <class Sum, class Term>
void add_terms(void* sum, std::span<const void* const> terms, int64_t elements, bool first) {
  at::parallel_for(0, elements, kSumGrain, [&](int64_t begin, int64_t end) {
    Sum block_sum[kSumBlock];  // a copy, because `sum` may be one of the terms
    for (int64_t block = begin; block < end; block += kSumBlock) {
      const int64_t count = std::min(kSumBlock, end - block);
      Sum* to = static_cast<Sum*>(sum) + block;
      if (!first) set_term(block_sum, to, count);
      for (size_t t = 0; t < terms.size(); ++t) {
        const Term* term = static_cast<const Term*>(terms[t]) + block;
        if (t == 0 && first) {
          set_term(block_sum, term, count);
        } else {
          add_term(block_sum, term, count);
        }
      }
      set_term(to, block_sum, count);
    }
  });
}

}  // namespace

bool can_sum(at::ScalarType sum, at::ScalarType source) {
  const auto small = [](at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; };
  if (sum == at::kDouble) return source == at::kDouble || source == at::kFloat || small(source);
  if (sum == at::kFloat) return source == at::kFloat || small(source);
  return small(sum) && source == sum;
}

void add_in_order(void* sum, at::ScalarType sum_type, std::span<const void* const> terms, at::ScalarType source_type,
                  int64_t elements, bool first) {
  if (!can_sum(sum_type, source_type)) {
    throw InternalError(std::string("ranks cannot sum ") + c10::toString(source_type) + " into " +
                        c10::toString(sum_type));
  }
  const auto add = [&]<class Sum>(Sum) {
    if (source_type == sum_type) return add_terms<Sum, Sum>(sum, terms, elements, first);
    if constexpr (std::is_same_v<Sum, double>) {
      if (source_type == at::kFloat) return add_terms<Sum, float>(sum, terms, elements, first);
    }
    if constexpr (std::is_same_v<Sum, double> || std::is_same_v<Sum, float>) {
      if (source_type == at::kHalf) return add_terms<Sum, c10::Half>(sum, terms, elements, first);
      return add_terms<Sum, BFloat16Bits>(sum, terms, elements, first);
    }
  };
  if (sum_type == at::kDouble) return add(double());
  if (sum_type == at::kFloat) return add(float());
  if (sum_type == at::kHalf) return add(c10::Half());
  add(BFloat16Bits());
}

void copy_bytes(void* target, const void* source, int64_t bytes) {
  at::parallel_for(0, bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace plimsoll
