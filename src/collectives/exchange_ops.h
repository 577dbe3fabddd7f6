// Declares exchanges between ranks as operators, which are recorded and planned like other operators.
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
