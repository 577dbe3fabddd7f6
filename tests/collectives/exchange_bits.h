// Declares checks that compare the results of an exchange with a serial loop of at::add_, bit for bit.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <string>

#include "collectives/exchange.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// Returns a tensor of normal values, the same on every rank for the same seed.
inline at::Tensor random_tensor(int64_t elements, at::ScalarType type, int64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randn({elements}, generator, at::kFloat).to(type);
}

inline void expect_same_bits(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  if (!at::equal(got.view(at::kByte), expected.view(at::kByte))) throw InternalError(what + ": other bits");
}

/// Adds `ranks` sources of `elements` elements onto `sum`, in rank order.
inline at::Tensor serial_sum(at::Tensor sum, int ranks, int64_t elements, at::ScalarType type, bool first,
                             int64_t seed) {
  for (int r = 0; r < ranks; ++r) {
    const at::Tensor source = random_tensor(elements, type, seed + r);
    if (first && r == 0) {
      sum.copy_(source);
    } else {
      sum.add_(source);
    }
  }
  return sum;
}

/// Runs reduce_scatter of `elements` in slices of `slice`, then all_reduce of `elements`. Throws if a bit differs.
inline void check_sums(Exchange& exchange, int64_t elements, int64_t slice, at::ScalarType sum_type,
                       at::ScalarType type, bool first) {
  const int64_t seed = 100 * elements + 7;
  const int ranks = exchange.size(), rank = exchange.rank();
  const std::string what = std::to_string(elements) + " " + c10::toString(type) + " into " + c10::toString(sum_type) +
                           ", " + std::to_string(ranks) + " ranks" + (first ? ", first" : "");
  const at::Tensor before = random_tensor(elements, sum_type, seed - 1);
  const at::Tensor expected = serial_sum(before.clone(), ranks, elements, type, first, seed);
  const at::Tensor source = random_tensor(elements, type, seed + rank), kept = source.clone();

  const at::Tensor padded = at::zeros({slice * ranks}, sum_type);
  padded.narrow(0, 0, elements).copy_(before);
  const at::Tensor sum = padded.narrow(0, rank * slice, slice).clone();
  if (first) sum.fill_(3);  // overwritten by the exchange
  exchange.reduce_scatter(sum, source, first);
  padded.narrow(0, 0, elements).copy_(expected);
  expect_same_bits(sum, padded.narrow(0, rank * slice, slice), "reduce_scatter of " + what);
  expect_same_bits(source, kept, "the source of reduce_scatter of " + what);

  const at::Tensor all = first ? at::full({elements}, 3, sum_type) : before.clone();
  exchange.all_reduce(all, source, first);
  expect_same_bits(all, expected, "all_reduce of " + what);
  expect_same_bits(source, kept, "the source of all_reduce of " + what);
  if (sum_type == type && first) {
    exchange.all_reduce(source, source, true);
    expect_same_bits(source, expected, "all_reduce in place of " + what);
  }
}

/// Runs all_gather of slices of `slice` elements and broadcasts from every rank. Throws if a bit differs.
inline void check_copies(Exchange& exchange, int64_t slice, at::ScalarType type) {
  const int64_t elements = slice * exchange.size();
  const std::string what = std::to_string(elements) + " " + c10::toString(type);
  const at::Tensor expected = (random_tensor(elements, at::kFloat, 5) * 100).to(type);
  const at::Tensor whole = at::zeros({elements}, type);
  const int64_t begin = exchange.rank() * slice;
  whole.narrow(0, begin, slice).copy_(expected.narrow(0, begin, slice));
  exchange.all_gather(whole);
  expect_same_bits(whole, expected, "all_gather of " + what);
  for (int root = 0; root < exchange.size(); ++root) {
    const at::Tensor sent = exchange.rank() == root ? expected.clone() : at::zeros({elements}, type);
    exchange.broadcast(sent, root);
    expect_same_bits(sent, expected, "broadcast of " + what);
  }
}

/// Returns the allowed pairs of sum and source.
inline const std::vector<std::pair<at::ScalarType, at::ScalarType>>& summed_types() {
  static const std::vector<std::pair<at::ScalarType, at::ScalarType>> types = {
      {at::kFloat, at::kFloat},  {at::kDouble, at::kDouble},   {at::kBFloat16, at::kBFloat16},
      {at::kHalf, at::kHalf},    {at::kFloat, at::kBFloat16},  {at::kFloat, at::kHalf},
      {at::kDouble, at::kFloat}, {at::kDouble, at::kBFloat16}, {at::kDouble, at::kHalf},
  };
  return types;
}

/// Checks every dtype pair, `first` true and false, for each number of elements, in even and in uneven slices.
inline void check_all_sums(Exchange& exchange, const std::vector<int64_t>& sizes) {
  for (const auto& [sum, source] : summed_types()) {
    for (const int64_t elements : sizes) {
      const int64_t even = (elements + exchange.size() - 1) / exchange.size();
      for (const bool first : {true, false}) {
        check_sums(exchange, elements, even, sum, source, first);
        check_sums(exchange, elements, even + 3, sum, source, first);  // the last ranks have less, or nothing
      }
    }
  }
}

/// Throws if the exchange of one of 4 ranks does not count the bytes that it sends.
inline void check_bytes_sent(Exchange& exchange) {
  const at::Tensor source = at::ones({4000}), sum = at::ones({1000});
  exchange.reduce_scatter(sum, source, true);
  check(exchange.bytes_sent() == 12'000, "reduce_scatter");
  exchange.all_gather(source);
  check(exchange.bytes_sent() == 24'000, "all_gather");
  exchange.all_reduce(source, source.clone(), true);
  check(exchange.bytes_sent() == 48'000, "all_reduce");
  exchange.broadcast(sum, 1);
  check(exchange.bytes_sent() == (exchange.rank() == 1 ? 60'000 : 48'000), "broadcast");
}

}  // namespace plimsoll
