#include "device/cuda/cuda_calls.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/atomic_file.h"
#include "device/nvrtc.h"
#include "ops/cuda_op_support.h"
#include "ops/fused/fused.h"
#include "ops/fused/fused_source.h"
#include "ops/libtorch_types.h"

namespace plimsoll::cuda {
namespace {

using ops::FusedLayout;

constexpr int kThreads = 256;
constexpr int64_t kBlocksAProcessor = 8;  // blocks that fit on a multiprocessor at the same time; each continues with
                                          // later elements

struct Kernel {
  cudaKernel_t wide = nullptr;  // null if operands are neither dense nor in rows
  cudaKernel_t single = nullptr;
  int64_t width = 1;
  int64_t max_blocks = 0;
};

// Arguments of a kernel over several dimensions, as its source declares them.
struct Strides {
  long long sizes[kMaxFusedDimensions] = {};
  long long strides[kMaxFusedInputs + kMaxFusedOutputs][kMaxFusedDimensions] = {};
};
static_assert(kMaxFusedDimensions == 6 && kMaxFusedInputs + kMaxFusedOutputs == 18);

// Everything that a kernel's source depends on, and the device.
using Key = std::vector<int64_t>;

Key key_of(const FusedProgram& program, const FusedLayout& layout, int device) {
  Key key = program.code();
  for (const double constant : program.constants) key.push_back(std::bit_cast<int64_t>(constant));
  for (size_t i = 0; i < layout.inputs.size(); ++i)
    key.push_back(2 * static_cast<int64_t>(layout.inputs[i]) + (layout.scalar[i] ? 1 : 0));
  for (const DType dtype : layout.outputs) key.push_back(static_cast<int64_t>(dtype));
  key.push_back(2 * layout.dimensions + (layout.in_rows ? 1 : 0));
  for (const bool each : layout.row_scalar) key.push_back(each ? 1 : 0);
  key.push_back(device);
  return key;
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  require(cudaDeviceGetAttribute(&value, which, device), "asking what the device is");
  return value;
}

Kernel compiled(const FusedProgram& program, const FusedLayout& layout, int device) {
  static const Nvrtc nvrtc;
  static const CompiledCache cache(cache_folder().empty() ? cache_folder() : cache_folder() / "kernels");
  const int capability =
      10 * attribute(cudaDevAttrComputeCapabilityMajor, device) + attribute(cudaDevAttrComputeCapabilityMinor, device);
  const std::string source = ops::fused_source(program, layout);
  const std::string key = fmt::format("NVRTC {}, sm_{}\n{}", nvrtc.version(), capability, source);
  auto code = cache.find(key);
  if (!code) {
    code = nvrtc.compile(source, capability);
    cache.keep(key, *code);
  }
  cudaLibrary_t library = nullptr;  // stays loaded: later plans need the same kernels
  require(cudaLibraryLoadData(&library, code->data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "loading a fused kernel");
  Kernel kernel;
  require(cudaLibraryGetKernel(&kernel.single, library, "plimsoll_fused"), "finding a fused kernel");
  if (ops::has_wide_kernel(layout))
    require(cudaLibraryGetKernel(&kernel.wide, library, "plimsoll_fused_wide"), "finding a fused kernel");
  kernel.width = ops::fused_vector_width(layout);
  kernel.max_blocks = kBlocksAProcessor * attribute(cudaDevAttrMultiProcessorCount, device);
  return kernel;
}

const Kernel& kernel_of(const FusedProgram& program, const FusedLayout& layout, int device) {
  static std::mutex mutex;
  static std::map<Key, Kernel> known;
  Key key = key_of(program, layout, device);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(std::move(key), compiled(program, layout, device)).first->second;
}

FusedLayout layout_of(const ops::FusedCall& call, const FusedProgram& program) {
  FusedLayout layout;
  layout.dimensions = std::max(1, call.dimensions);
  for (int32_t i = 0; i < program.inputs; ++i) {
    const auto& strides = call.inputs[i].strides;
    layout.inputs.push_back(call.inputs[i].dtype);
    layout.scalar.push_back(
        std::all_of(strides.begin(), strides.begin() + call.dimensions, [](int64_t stride) { return stride == 0; }));
  }
  for (size_t o = 0; o < program.outputs.size(); ++o) layout.outputs.push_back(call.outputs[o].dtype);
  if (layout.dimensions > 1) {
    const auto last_strides = [&](std::span<const ops::FusedTensor> tensors) {
      std::vector<int64_t> strides;
      for (const ops::FusedTensor& each : tensors) strides.push_back(each.strides[call.dimensions - 1]);
      return strides;
    };
    ops::set_rows(layout, last_strides(std::span(call.inputs).first(layout.inputs.size())),
                  last_strides(std::span(call.outputs).first(layout.outputs.size())));
  }
  return layout;
}

void fused_cuda(at::TensorList inputs, at::TensorList outputs, at::IntArrayRef code, at::ArrayRef<double> constants) {
  const ops::FusedSchedule& schedule = ops::fused_schedule(code, constants);
  const FusedProgram& program = schedule.program;
  ops::FusedCall call = ops::fused_call(schedule, inputs, outputs);
  const OnDevice on(ops::kFused, outputs[0], inputs, outputs);
  const FusedLayout layout = layout_of(call, program);
  const Kernel& kernel = kernel_of(program, layout, outputs[0].get_device());

  Strides strides;
  std::copy_n(call.sizes.begin(), call.dimensions, strides.sizes);
  long long elements = outputs[0].numel();
  std::vector<void*> arguments;
  std::vector<ops::FusedOperand> operands;
  const auto add = [&](ops::FusedTensor& tensor) {
    std::copy(tensor.strides.begin(), tensor.strides.end(), strides.strides[arguments.size()]);
    operands.push_back({tensor.data, tensor.strides});
    arguments.push_back(&tensor.data);
  };
  for (int32_t i = 0; i < program.inputs; ++i) add(call.inputs[i]);
  for (size_t o = 0; o < program.outputs.size(); ++o) add(call.outputs[o]);
  arguments.push_back(&elements);
  if (layout.dimensions > 1) arguments.push_back(&strides);

  const bool wide =
      ops::takes_packs(layout, std::span(call.sizes).first(static_cast<size_t>(call.dimensions)), operands);
  const int64_t items = wide ? (elements + kernel.width - 1) / kernel.width : elements;
  const auto blocks =
      static_cast<unsigned>(std::clamp((items + kThreads - 1) / kThreads, int64_t{1}, kernel.max_blocks));
  require(cudaLaunchKernel(reinterpret_cast<const void*>(wide ? kernel.wide : kernel.single), dim3(blocks),
                           dim3(kThreads), arguments.data(), 0, on.stream()),
          "running a fused kernel");
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("fused", fused_cuda);
}

}  // namespace

void prepare_fused(const Op& op) {
  if (op.call->op.schema().name() != ops::kFused) return;
  int device = 0;
  require(cudaGetDevice(&device), "asking for the current device");
  const FusedProgram program =
      fused_program(op.call->constants.at(2).toIntVector(), op.call->constants.at(3).toDoubleVector());
  kernel_of(program, ops::fused_layout(op.arguments[0].views, op.arguments[1].views), device);
}

}  // namespace plimsoll::cuda
