#include "collectives/exchange_support.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "collectives/exchange.h"
#include "cost/operators.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using at::Tensor;
using ops::require;

constexpr std::string_view kReduceScatter = "plimsoll::reduce_scatter_", kAllReduce = "plimsoll::all_reduce_",
                           kAllGather = "plimsoll::all_gather_", kGather = "plimsoll::gather_",
                           kBroadcast = "plimsoll::broadcast_";

void require_flat(std::string_view op, const char* name, const Tensor& tensor) {
  require(tensor.dim() == 1 && tensor.is_contiguous(), op.data(), name, " must be flat and contiguous; it is ",
          tensor.sizes(), " with strides ", tensor.strides());
}

void check_reduction(std::string_view op, const Tensor& sum, const Tensor& source) {
  require_flat(op, "sum", sum);
  require_flat(op, "source", source);
  ops::require_floating(op.data(), "sum", sum);
  ops::require_floating(op.data(), "source", source);
  require(source.scalar_type() == sum.scalar_type() || sum.scalar_type() == at::kFloat, op.data(), "source is ",
          c10::toString(source.scalar_type()), ", sum ", c10::toString(sum.scalar_type()),
          "; they must be alike, or sum float32");
}

void check_reduce_scatter(Tensor& sum, const Tensor& source, bool) {
  check_reduction(kReduceScatter, sum, source);
}

void check_all_reduce(Tensor& sum, const Tensor& source, bool) {
  check_reduction(kAllReduce, sum, source);
  require(sum.numel() == source.numel(), kAllReduce.data(), "sum has ", sum.numel(), " elements, source ",
          source.numel());
}

void check_all_gather(Tensor& whole, int64_t ranks) {
  require_flat(kAllGather, "whole", whole);
  require(ranks >= 1 && whole.numel() % ranks == 0, kAllGather.data(), "whole has ", whole.numel(), " elements for ",
          ranks, " ranks");
}

void check_gather(Tensor& whole, const Tensor& slice) {
  require_flat(kGather, "whole", whole);
  require_flat(kGather, "slice", slice);
  require(slice.numel() > 0 && whole.numel() % slice.numel() == 0 && whole.scalar_type() == slice.scalar_type(),
          kGather.data(), "whole has ", whole.numel(), " elements of ", c10::toString(whole.scalar_type()),
          ", the slice ", slice.numel(), " of ", c10::toString(slice.scalar_type()));
}

void check_broadcast(Tensor& tensor, int64_t root) {
  require_flat(kBroadcast, "tensor", tensor);
  require(root >= 0, kBroadcast.data(), "root is ", root);
}

Exchange& exchange_of(std::string_view op) {
  Exchange* const exchange = current_exchange();
  check(exchange != nullptr, std::string(op) + " runs without an exchange");
  note_operator(op);
  return *exchange;
}

void run_reduce_scatter(Tensor& sum, const Tensor& source, bool first) {
  const ExchangeTimer timer;
  check_reduce_scatter(sum, source, first);
  exchange_of(kReduceScatter).reduce_scatter(sum, source, first);
}

void run_all_reduce(Tensor& sum, const Tensor& source, bool first) {
  const ExchangeTimer timer;
  check_all_reduce(sum, source, first);
  exchange_of(kAllReduce).all_reduce(sum, source, first);
}

void run_all_gather(Tensor& whole, int64_t ranks) {
  const ExchangeTimer timer;
  check_all_gather(whole, ranks);
  Exchange& exchange = exchange_of(kAllGather);
  require(ranks == exchange.size(), kAllGather.data(), "recorded for ", ranks, " ranks; there are ", exchange.size());
  exchange.all_gather(whole);
}

void run_gather(Tensor& whole, const Tensor& slice) {
  const ExchangeTimer timer;
  check_gather(whole, slice);
  Exchange& exchange = exchange_of(kGather);
  require(whole.numel() == slice.numel() * exchange.size(), kGather.data(), "recorded for ",
          whole.numel() / slice.numel(), " ranks; there are ", exchange.size());
  whole.narrow(0, exchange.rank() * slice.numel(), slice.numel()).copy_(slice);
  exchange.all_gather(whole);
}

void run_broadcast(Tensor& tensor, int64_t root) {
  const ExchangeTimer timer;
  check_broadcast(tensor, root);
  exchange_of(kBroadcast).broadcast(tensor, static_cast<int>(root));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("reduce_scatter_(Tensor(a!) sum, Tensor source, bool first) -> ()");
  m.def("all_reduce_(Tensor(a!) sum, Tensor source, bool first) -> ()");
  m.def("all_gather_(Tensor(a!) whole, int ranks) -> ()");
  m.def("gather_(Tensor(a!) whole, Tensor slice) -> ()");
  m.def("broadcast_(Tensor(a!) tensor, int root) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("reduce_scatter_", check_reduce_scatter);
  m.impl("all_reduce_", check_all_reduce);
  m.impl("all_gather_", check_all_gather);
  m.impl("gather_", check_gather);
  m.impl("broadcast_", check_broadcast);
}
// The CPU and CUDA share these functions: the exchange handles the device.
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("reduce_scatter_", run_reduce_scatter);
  m.impl("all_reduce_", run_all_reduce);
  m.impl("all_gather_", run_all_gather);
  m.impl("gather_", run_gather);
  m.impl("broadcast_", run_broadcast);
}
TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("reduce_scatter_", run_reduce_scatter);
  m.impl("all_reduce_", run_all_reduce);
  m.impl("all_gather_", run_all_gather);
  m.impl("gather_", run_gather);
  m.impl("broadcast_", run_broadcast);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  for (const char* name : {"reduce_scatter_", "all_reduce_", "all_gather_", "gather_", "broadcast_"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

void reduce_scatter_(const Tensor& sum, const Tensor& source, bool first) {
  static const auto handle = ops::operator_handle<void(Tensor&, const Tensor&, bool)>(kReduceScatter.data());
  Tensor sum_out = sum;
  handle.call(sum_out, source, first);
}

void all_reduce_(const Tensor& sum, const Tensor& source, bool first) {
  static const auto handle = ops::operator_handle<void(Tensor&, const Tensor&, bool)>(kAllReduce.data());
  Tensor sum_out = sum;
  handle.call(sum_out, source, first);
}

void all_gather_(const Tensor& whole, int64_t ranks) {
  static const auto handle = ops::operator_handle<void(Tensor&, int64_t)>(kAllGather.data());
  Tensor whole_out = whole;
  handle.call(whole_out, ranks);
}

void gather_(const Tensor& whole, const Tensor& slice) {
  static const auto handle = ops::operator_handle<void(Tensor&, const Tensor&)>(kGather.data());
  Tensor whole_out = whole;
  handle.call(whole_out, slice);
}

void broadcast_(const Tensor& tensor, int64_t root) {
  static const auto handle = ops::operator_handle<void(Tensor&, int64_t)>(kBroadcast.data());
  Tensor out = tensor;
  handle.call(out, root);
}

int64_t exchange_bytes(const Op& op, int64_t ranks) {
  if (!is_exchange(op) || ranks < 2) return 0;
  const auto bytes_of = [&](size_t argument) {
    const View& view = op.arguments[argument].views[0];
    return view.elements() * element_bytes(view.dtype);
  };
  const ExchangeOp kind = exchange_op_of(op);
  // An all-reduce is a reduce-scatter of the sources and an all-gather of the sums.
  const int64_t bytes = kind == ExchangeOp::reduce_scatter ? bytes_of(1)
                        : kind == ExchangeOp::all_reduce   ? bytes_of(0) + bytes_of(1)
                                                           : bytes_of(0);
  return (bytes * (ranks - 1) + ranks - 1) / ranks;
}

}  // namespace plimsoll
