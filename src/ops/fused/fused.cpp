#include "ops/fused/fused.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <c10/util/hash.h>
#include <torch/library.h>

#include <bit>
#include <memory>
#include <unordered_map>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

struct KnownProgram {
  std::vector<int64_t> code;
  std::vector<double> constants;
  FusedSchedule schedule;
};

bool same_constants(at::ArrayRef<double> a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); });
}

FusedTensor tensor_of(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes) {
  require(tensor.sizes() == sizes, kFused, what, " of shape ", tensor.sizes(), " beside ", sizes);
  FusedTensor described;
  described.data = tensor.mutable_data_ptr();
  described.dtype = dtype_of(tensor);
  std::copy(tensor.strides().begin(), tensor.strides().end(), described.strides.begin());
  return described;
}

void fused_cpu(at::TensorList inputs, at::TensorList outputs, at::IntArrayRef program, at::ArrayRef<double> constants) {
  const FusedCall call = fused_call(fused_schedule(program, constants), inputs, outputs);
  // The grain is libtorch's own, so a thread's piece is the same as with separate ops.
  at::parallel_for(0, outputs[0].numel(), at::internal::GRAIN_SIZE,
                   [&](int64_t begin, int64_t end) { fused_range(call, begin, end); });
}

}  // namespace

const FusedSchedule& fused_schedule(at::IntArrayRef program, at::ArrayRef<double> constants) {
  // Programs are few, and a plan's programs do not change: a training runs the same ones at every step.
  thread_local std::unordered_multimap<size_t, std::unique_ptr<KnownProgram>> known;
  size_t hash = program.size();
  for (const int64_t number : program) hash = c10::hash_combine(hash, static_cast<size_t>(number));
  for (const double number : constants) hash = c10::hash_combine(hash, std::bit_cast<uint64_t>(number));
  const auto [first, last] = known.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (program == at::IntArrayRef(at->second->code) && same_constants(constants, at->second->constants))
      return at->second->schedule;
  auto added = std::make_unique<KnownProgram>(KnownProgram{program.vec(), constants.vec(), {}});
  added->schedule = schedule_fused(fused_program(added->code, added->constants));
  return known.emplace(hash, std::move(added))->second->schedule;
}

FusedCall fused_call(const FusedSchedule& schedule, at::TensorList inputs, at::TensorList outputs) {
  const FusedProgram& program = schedule.program;
  require(inputs.size() == static_cast<size_t>(program.inputs) && outputs.size() == program.outputs.size(), kFused,
          "a program for ", program.inputs, " inputs and ", program.outputs.size(), " outputs was given ",
          inputs.size(), " and ", outputs.size());
  const at::IntArrayRef sizes = outputs[0].sizes();
  require(sizes.size() <= static_cast<size_t>(kMaxFusedDimensions), kFused, "more than ", kMaxFusedDimensions,
          " dimensions");
  FusedCall call;
  call.schedule = &schedule;
  call.dimensions = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), call.sizes.begin());
  for (size_t i = 0; i < inputs.size(); ++i) call.inputs[i] = tensor_of("an input", inputs[i], sizes);
  for (size_t i = 0; i < outputs.size(); ++i) {
    call.outputs[i] = tensor_of("an output", outputs[i], sizes);
    require(call.outputs[i].dtype == program.steps[program.outputs[i] - program.first_step()].dtype, kFused,
            "an output of another type than its step");
  }
  return call;
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("fused(Tensor[] inputs, Tensor(a!)[] outputs, int[] program, float[] constants) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("fused", fused_cpu);
}

}  // namespace plimsoll::ops
