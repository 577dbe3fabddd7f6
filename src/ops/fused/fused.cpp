#include "ops/fused/fused.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <c10/util/hash.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>

#include "ops/fused/fused_series.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"

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

namespace {

// Floats of all registers together: 64 KiB of stack, of which a usual program uses a few blocks.
constexpr int64_t kScratch = 16384;
constexpr int64_t kMaxBlock = 1024;
constexpr int64_t kBlockUnit = 64;

// The position of element `index` of the loop, as coordinates.
struct Position {
  Position(const FusedCall& call, int64_t index) {
    for (int d = call.dimensions; d-- > 0;) {
      at[d] = index % call.sizes[d];
      index /= call.sizes[d];
    }
  }
  int64_t offset(const FusedCall& call, const FusedTensor& tensor) const {
    int64_t offset = 0;
    for (int d = 0; d < call.dimensions; ++d) offset += at[d] * tensor.strides[d];
    return offset;
  }
  // Returns the elements to the end of the innermost run.
  int64_t run(const FusedCall& call) const { return call.sizes[call.dimensions - 1] - at[call.dimensions - 1]; }
  void advance(const FusedCall& call, int64_t by) {
    int d = call.dimensions - 1;
    at[d] += by;
    while (d > 0 && at[d] == call.sizes[d]) {
      at[d] = 0;
      ++at[--d];
    }
  }
  std::array<int64_t, kMaxFusedDimensions> at{};
};

// Calls `visit(address, done, count)` for each contiguous run among `count` elements from `begin` on.
template <typename Visit>
void for_each_run(const FusedCall& call, const FusedTensor& tensor, int64_t begin, int64_t count, const Visit& visit) {
  const auto address = [&](int64_t offset) {
    return static_cast<std::byte*>(tensor.data) + offset * element_bytes(tensor.dtype);
  };
  if (call.dimensions == 0) return visit(address(0), 0, count);
  if (call.dimensions == 1) return visit(address(begin * tensor.strides[0]), 0, count);
  Position position(call, begin);
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(position.run(call), count - done);
    visit(address(position.offset(call, tensor)), done, run);
    position.advance(call, run);
    done += run;
  }
}

void load(const FusedCall& call, const FusedTensor& tensor, int64_t begin, int64_t count, float* to) {
  const bool again = call.dimensions > 0 && tensor.strides[call.dimensions - 1] == 0;
  for_each_run(call, tensor, begin, count, [&](const std::byte* from, int64_t done, int64_t run) {
    fused_block_load(to + done, from, tensor.dtype, again ? 1 : run);
    if (again) std::fill(to + done + 1, to + done + run, to[done]);
  });
}

void store(const FusedCall& call, const FusedTensor& tensor, int64_t begin, int64_t count, const float* from) {
  for_each_run(call, tensor, begin, count, [&](std::byte* to, int64_t done, int64_t run) {
    fused_block_store(to, from + done, tensor.dtype, run);
  });
}

}  // namespace

FusedSchedule schedule_fused(FusedProgram program) {
  FusedSchedule schedule;
  const int32_t first_step = program.first_step(), values = program.values();
  const auto steps = static_cast<int32_t>(program.steps.size());
  std::vector<int32_t> last_use(values, -1);
  schedule.loads.assign(values, steps);
  for (int32_t s = 0; s < steps; ++s) {
    last_use[first_step + s] = s;
    for (int i = 0; i < operands_of(program.steps[s].opcode); ++i) {
      const int32_t value = program.steps[s].operands[i];
      last_use[value] = s;
      schedule.loads[value] = std::min(schedule.loads[value], s);
    }
  }
  schedule.registers.assign(values, -1);
  // Values that are one number for all elements stay from block to block.
  for (int32_t value = program.inputs; value < first_step; ++value) schedule.registers[value] = schedule.count++;
  std::vector<int32_t> free;
  const auto take = [&] {
    if (free.empty()) return schedule.count++;
    const int32_t taken = free.back();
    free.pop_back();
    return taken;
  };
  for (int32_t s = 0; s < steps; ++s) {
    for (int32_t input = 0; input < program.inputs; ++input)
      if (schedule.loads[input] == s) schedule.registers[input] = take();
    schedule.registers[first_step + s] = take();
    for (int32_t value = 0; value < values; ++value)
      if (last_use[value] == s && (value < program.inputs || value >= first_step))
        free.push_back(schedule.registers[value]);
  }
  schedule.program = std::move(program);
  return schedule;
}

void fused_range(const FusedCall& call, int64_t begin, int64_t end) {
  alignas(64) float scratch[kScratch];
  const FusedSchedule& schedule = *call.schedule;
  const FusedProgram& program = schedule.program;
  const int32_t first_step = program.first_step();
  const int64_t block = std::min(kMaxBlock, kScratch / std::max(schedule.count, 1) / kBlockUnit * kBlockUnit);
  const auto register_of = [&](int32_t value) { return scratch + schedule.registers[value] * block; };
  for (size_t c = 0; c < program.constants.size(); ++c)
    std::fill_n(register_of(program.inputs + static_cast<int32_t>(c)), std::min(block, end - begin),
                static_cast<float>(program.constants[c]));
  constexpr int32_t kMaxValues = kMaxFusedInputs + kMaxFusedSteps * (kMaxOperands + 1);
  std::array<float*, kMaxValues> places;  // addresses in the current block, by value
  const auto in_place = [&](const FusedTensor& tensor) {
    return tensor.dtype == DType::float32 && (call.dimensions == 0 || (call.dimensions == 1 && tensor.strides[0] == 1));
  };
  for (int64_t at = begin; at < end; at += block) {
    const int64_t count = std::min(block, end - at);
    for (int32_t value = 0; value < program.values(); ++value)
      if (schedule.registers[value] >= 0) places[value] = register_of(value);
    for (int32_t input = 0; input < program.inputs; ++input)
      if (in_place(call.inputs[input])) places[input] = static_cast<float*>(call.inputs[input].data) + at;
    for (size_t output = 0; output < program.outputs.size(); ++output)
      if (in_place(call.outputs[output]))
        places[program.outputs[output]] = static_cast<float*>(call.outputs[output].data) + at;
    for (int32_t s = 0; s < static_cast<int32_t>(program.steps.size()); ++s) {
      const FusedProgram::Step& step = program.steps[s];
      for (int32_t input = 0; input < program.inputs; ++input)
        if (schedule.loads[input] == s && !in_place(call.inputs[input]))
          load(call, call.inputs[input], at, count, places[input]);
      FusedBlockStep block_step{step.opcode, step.dtype, places[first_step + s], {}};
      for (int i = 0; i < operands_of(step.opcode); ++i) block_step.from[i] = places[step.operands[i]];
      if (!is_series(step.opcode))
        fused_block_step(block_step, count);
      else if (!fused_series_step(block_step, count, at - begin, end - begin))
        throw InternalError("plimsoll::fused: " + std::string(name_of(step.opcode)) + " does not run on the CPU");
      for (size_t output = 0; output < program.outputs.size(); ++output)
        if (program.outputs[output] == first_step + s && !in_place(call.outputs[output]))
          store(call, call.outputs[output], at, count, places[first_step + s]);
    }
  }
}

}  // namespace plimsoll::ops
