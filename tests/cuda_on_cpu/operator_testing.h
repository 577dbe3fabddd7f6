// Declares calls of our operators' CUDA kernels on tensors of the CPU. cuda_kernel_tests has the kernels compiled for
// the CPU (cuda_on_cpu); with PLIMSOLL_ON_GPU (tests/cuda) they run on the machine's GPU, on copies.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "cuda_on_cpu/kernel_testing.h"
#include "ops/workspace/workspace.h"

#ifdef PLIMSOLL_ON_GPU
#include "cuda/needs_gpu.h"
#else
/// Begins a test that needs the kernels' device.
#define PLIMSOLL_NEEDS_GPU() static_assert(true)
#endif

namespace plimsoll::ops::testing {

using Arguments = std::vector<c10::IValue>;

/// Returns `name`, with its overload after a point if it has one.
inline c10::OperatorHandle find_operator(const std::string& name) {
  const size_t point = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, point).c_str(),
                                                        point == std::string::npos ? "" : name.c_str() + point + 1);
}

inline Arguments call_on(c10::DispatchKey key, const std::string& name, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  torch::jit::Stack stack = arguments;
  find_operator(name).redispatchBoxed(c10::DispatchKeySet(key), &stack);
  return stack;
}

/// Returns the elements that are in memory: dimensions of stride 0, as of an expanded mask, have size 1.
inline at::Tensor without_repeats(at::Tensor tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) tensor = tensor.narrow(d, 0, 1);
  return tensor;
}

/// Copies each tensor, also those in lists, to its own memory on `device`, with the same layout.
inline Arguments copied(const Arguments& arguments, c10::DeviceType device = at::kCPU) {
  const auto copy_of = [&](const at::Tensor& tensor) {
    const at::Tensor from = without_repeats(tensor);
    at::Tensor copy = at::empty_strided(from.sizes(), from.strides(), from.options().device(device));
    return copy.copy_(from).as_strided(tensor.sizes(), tensor.strides());
  };
  Arguments copies;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      copies.emplace_back(copy_of(argument.toTensor()));
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) list.push_back(copy_of(tensor));
      copies.emplace_back(list);
    } else {
      copies.push_back(argument);
    }
  }
  return copies;
}

/// Calls with arguments, which it may change, and returns the results, as call() on the CPU.
inline Arguments call_on_cuda(const std::string& name, const Arguments& arguments) {
#ifdef PLIMSOLL_ON_GPU
  const Arguments there = copied(arguments, at::kCUDA);
  const Arguments results = call_on(c10::DispatchKey::CUDA, name, there);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor()) without_repeats(arguments[i].toTensor()).copy_(without_repeats(there[i].toTensor()));
    if (!arguments[i].isTensorList()) continue;
    const auto here = arguments[i].toTensorVector(), changed = there[i].toTensorVector();
    for (size_t t = 0; t < here.size(); ++t) here[t].copy_(changed[t]);
  }
  return copied(results);
#else
  return call_on(c10::DispatchKey::CUDA, name, arguments);
#endif
}

/// Expects that cuda_workspace_bytes() is the allocator's count. For operands whose matmuls allocate none
/// themselves.
inline void expect_cuda_workspace(const std::string& name, const Arguments& arguments) {
#ifndef PLIMSOLL_ON_GPU  // there the executor measures
  Arguments results;
  const int64_t measured = measured_workspace([&] { return call_on_cuda(name, arguments); }, &results, 256);
  const auto stated = cuda_workspace_bytes(recorded(name, arguments, results));
  ASSERT_TRUE(stated) << name;
  EXPECT_EQ(measured, *stated) << name;
#endif
}

/// Calls `run` with blocks and threads in one order after the other; on a GPU in the device's order.
template <typename Run>
void in_every_order(const Run& run) {
  for (const auto order : kOrders) {
#ifndef PLIMSOLL_ON_GPU
    const InOrder in(order);
#else
    static_cast<void>(order);
#endif
    run();
  }
}

}  // namespace plimsoll::ops::testing
