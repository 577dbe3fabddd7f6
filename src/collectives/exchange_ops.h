// Exchanges between ranks as operators, so that they are recorded and planned like any other.
//
//     plimsoll::reduce_scatter_(Tensor(a!) sum, Tensor source, bool first) -> ()
//     plimsoll::all_reduce_(Tensor(a!) sum, Tensor source, bool first) -> ()
//     plimsoll::all_gather_(Tensor(a!) whole, int ranks) -> ()
//     plimsoll::gather_(Tensor(a!) whole, Tensor slice) -> ()
//     plimsoll::broadcast_(Tensor(a!) tensor, int root) -> ()
//
// They do what the functions of Exchange do (collectives/exchange.h), with the exchange of the thread that runs them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Sums slices of all ranks' `source`, in rank order. `sum` and `source` are flat; the dtype of `source` is that of
/// `sum` or narrower. Throws UserError if they do not go together.
void reduce_scatter_(const at::Tensor& sum, const at::Tensor& source, bool first);
/// Sums all ranks' `source`, of the size of `sum`, in rank order.
void all_reduce_(const at::Tensor& sum, const at::Tensor& source, bool first);
/// Fills in the slices of the other `ranks` - 1.
void all_gather_(const at::Tensor& whole, int64_t ranks);
/// The same from a slice elsewhere: `whole` becomes the slices of all ranks, one behind the other.
void gather_(const at::Tensor& whole, const at::Tensor& slice);
/// Takes over the tensor of rank `root`.
void broadcast_(const at::Tensor& tensor, int64_t root);

/// Whether `op` is one of these.
bool is_exchange(const Op& op);

/// Returns the bytes that each of `ranks` sends to the others in `op`, on average over the ranks, rounded up; 0 for
/// other ops. It is (ranks - 1) / ranks of what is exchanged; of an all-reduce, of the source and of the sum.
int64_t exchange_bytes(const Op& op, int64_t ranks);

}  // namespace plimsoll
