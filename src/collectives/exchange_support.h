// Declares helpers that every transport of Exchange shares: the description of a call that ranks compare, flat
// tensors and their slices, and sums in a given order.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

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

/// Returns the first byte of a tensor on the CPU.
inline std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

/// Returns the number of elements that slice `slice` (of `elements` elements) of a source has from element `from` of
/// the slice on, at most `max_elements`. The source has `source_elements` elements, so its last slices may be shorter
/// or empty.
inline int64_t part_of_slice(int64_t source_elements, int64_t slice, int64_t elements, int64_t from,
                             int64_t max_elements) {
  return std::clamp<int64_t>(source_elements - slice * elements - from, 0, std::min(max_elements, elements - from));
}

/// Describes a call. Throws InternalError unless both tensors are flat, contiguous and on the CPU.
inline ExchangeCall call_of(ExchangeKind kind, const at::Tensor& target, const at::Tensor& source, int detail) {
  for (const at::Tensor* tensor : {&target, &source}) {
    check(tensor->is_cpu() && tensor->dim() == 1 && tensor->is_contiguous(),
          "exchange: a tensor is not flat on the CPU");
  }
  ExchangeCall call{kind};
  call.target_type = static_cast<int32_t>(target.scalar_type());
  call.source_type = static_cast<int32_t>(source.scalar_type());
  call.detail = detail;
  call.target_elements = target.numel();
  call.source_elements = source.numel();
  return call;
}

/// Returns true if sums of `sum` can take terms of `source`: float32, float64, bfloat16 or float16 from the same dtype,
/// float32 also from bfloat16 and float16, float64 from all of them.
bool can_sum(at::ScalarType sum, at::ScalarType source);

/// Sets sum = t_0 + t_1 + … if `first`, else sum + t_0 + t_1 + …, element by element in this order. Each addition is
/// rounded to the dtype of `sum`: the bits of sum.copy_(t_0) and sum.add_(t_1). `sum` and every term have `elements`
/// elements, all terms the dtype `source_type`. `sum` may be one of the terms. Runs on the threads of at::parallel_for
/// if there are many elements. Throws InternalError if !can_sum(sum_type, source_type).
void add_in_order(void* sum, at::ScalarType sum_type, std::span<const void* const> terms, at::ScalarType source_type,
                  int64_t elements, bool first);

/// Copies bytes, on the threads of at::parallel_for if there are many. The ranges do not overlap.
void copy_bytes(void* target, const void* source, int64_t bytes);

// Exchanges between ranks as operators, which are recorded and planned like other operators.
//
//     plimsoll::reduce_scatter_(Tensor(a!) sum, Tensor source, bool first) -> ()
//     plimsoll::all_reduce_(Tensor(a!) sum, Tensor source, bool first) -> ()
//     plimsoll::all_gather_(Tensor(a!) whole, int ranks) -> ()
//     plimsoll::gather_(Tensor(a!) whole, Tensor slice) -> ()
//     plimsoll::broadcast_(Tensor(a!) tensor, int root) -> ()
//
// They do what the functions of Exchange do (collectives/exchange.h), with the exchange of the thread that runs them.

/// Sums slices of the `source` of all ranks, in rank order. `sum` and `source` are flat; the dtype of `source` is that
/// of `sum` or narrower. Throws UserError if sizes or dtypes do not fit.
void reduce_scatter_(const at::Tensor& sum, const at::Tensor& source, bool first);
/// Sums the `source` of all ranks, of the size of `sum`, in rank order.
void all_reduce_(const at::Tensor& sum, const at::Tensor& source, bool first);
/// Fills in the slices of the other `ranks` - 1 ranks.
void all_gather_(const at::Tensor& whole, int64_t ranks);
/// Copies the slices of all ranks to `whole`, in rank order. `slice` is this rank's, in memory of its own.
void gather_(const at::Tensor& whole, const at::Tensor& slice);
/// Copies the tensor of rank `root` to every rank.
void broadcast_(const at::Tensor& tensor, int64_t root);

/// Returns the bytes that each of `ranks` sends to the others in `op`, on average over the ranks, rounded up; 0 for
/// other ops. It is (ranks - 1) / ranks of the bytes that are exchanged: for an all-reduce those of the source and the
/// sum.
int64_t exchange_bytes(const Op& op, int64_t ranks);

}  // namespace plimsoll
