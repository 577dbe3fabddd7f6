// Implements the optimizers' operators on CUDA. The kernels read scalars (step, learning rate, the gradient's scale,
// the skip flag) from device memory. Nothing waits for them, and a captured graph of the step stays valid.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "base/hash.h"
#include "ops/cuda_op_support.h"
#include "ops/optimizer/element_update.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/optimizer_launch.h"
#include "ops/optimizer/update_group.h"
#include "ops/optimizer/update_op.h"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

void require_beside(const char* op, const char* name, const Tensor& tensor, const Tensor& parameter) {
  if (!tensor.defined()) return;  // an undefined tensor has no device
  ops::require(tensor.device() == parameter.device(), op, name, " is on ", tensor.device(), ", the parameter on ",
               parameter.device(), "; it must be there too");
}

/// Returns the values if kernels can read them: four codes of 8 bits at a time.
ops::Values in_words(const char* op, const char* name, const ops::Values& values) {
  ops::require(values.format != ops::Format::bits8 || reinterpret_cast<uintptr_t>(values.data) % 4 == 0, op, name,
               " begins at an address that is no multiple of 4, as its 8-bit codes must");
  return values;
}

StepPointers pointers(const ops::UpdateCall& call) {
  const ops::UpdateTensors& tensors = call.tensors;
  require_beside(tensors.op, "the gradient", tensors.gradient, tensors.parameter);
  require_beside(tensors.op, "the gradient's scales", tensors.gradient_scales, tensors.parameter);
  require_beside(tensors.op, "the companion", tensors.companion, tensors.parameter);
  for (const ops::StateTensor& state : tensors.state) {
    require_beside(tensors.op, state.name, state.values, tensors.parameter);
    require_beside(tensors.op, state.name, state.scales, tensors.parameter);
  }
  require_beside(tensors.op, "step", call.step, tensors.parameter);
  require_beside(tensors.op, "learning_rate", call.learning_rate, tensors.parameter);
  require_beside(tensors.op, "grad_scale", tensors.grad_scale, tensors.parameter);
  require_beside(tensors.op, "skipped", tensors.skipped, tensors.parameter);
  return {call.step.const_data_ptr<float>(), call.learning_rate.const_data_ptr<double>(),
          tensors.grad_scale.const_data_ptr<float>(), tensors.skipped.const_data_ptr<float>()};
}

UpdateTarget target_of(const ops::ElementUpdate& update, const ops::UpdateCall& call) {
  UpdateTarget target{.parameter = update.parameter,
                      .gradient = in_words(call.tensors.op, "the gradient", update.gradient),
                      .state = {in_words(call.tensors.op, "state", update.state[0]),
                                in_words(call.tensors.op, "state", update.state[1])},
                      .count = update.count,
                      .seed = call.seed,
                      .states = static_cast<uint8_t>(update.states),
                      .stochastic_parameter = update.parameter_rounding.stochastic,
                      .stochastic_state = call.tensors.stochastic_state,
                      .random = update.random,
                      .first_chunk = static_cast<int32_t>(call.first_element / ops::kChunk)};
  return target;
}

RuleNumbers numbers_of(const ops::UpdateCall& call) {
  RuleNumbers numbers;
  std::copy(call.numbers.begin(), call.numbers.end(), std::begin(numbers.values));
  return numbers;
}

template <const ops::UpdateOp& op, ElementRule rule>
void update(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const ops::UpdateCall call = ops::pop_call(op, stack);
  const OnDevice device(op.name, call.tensors.parameter);
  const StepPointers scalars = pointers(call);
  const ops::ElementUpdate bound = ops::bind_update(call.tensors, {});
  launch_update(rule, target_of(bound, call), scalars, numbers_of(call), device.stream());
}

template <const ops::UpdateOp& op, ElementRule rule>
void update_group(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const std::vector<ops::UpdateCall> calls = ops::pop_group(op, stack);
  if (calls.empty()) return;
  const OnDevice device(op.name, calls[0].tensors.parameter);
  std::vector<ops::ElementUpdate> bound;  // holds copies of gradients until the kernels are launched
  std::vector<UpdateTarget> targets;
  for (const ops::UpdateCall& call : calls) {
    require_on(op.name, calls[0].tensors.parameter.device(), call.tensors.parameter);
    pointers(call);
    bound.push_back(ops::bind_update(call.tensors, {}));
    targets.push_back(target_of(bound.back(), call));
  }
  launch_updates(rule, targets.data(), static_cast<int64_t>(targets.size()), pointers(calls[0]), numbers_of(calls[0]),
                 device.stream());
}

void adafactor(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const ops::UpdateCall call = ops::pop_call(ops::kAdafactor, stack);
  const Tensor& parameter = call.tensors.parameter;
  const OnDevice device(call.tensors.op, parameter);
  const StepPointers scalars = pointers(call);
  const ops::ElementUpdate bound = ops::bind_update(call.tensors, {});
  if (bound.count == 0) return;
  const ops::MatrixShape shape = ops::matrix_shape(parameter.sizes(), parameter.strides());
  const Tensor scratch = at::empty({adafactor_scratch_bytes(shape)}, parameter.options().dtype(at::kByte));
  UpdateTarget target = target_of(bound, call);
  target.stochastic_parameter = target.stochastic_parameter && bound.random;
  launch_adafactor(target, shape, call.tensors.state[0].values.mutable_data_ptr<float>(),
                   call.tensors.state[1].values.mutable_data_ptr<float>(), scalars, numbers_of(call),
                   scratch.data_ptr(), device.stream());
}

ops::Values values_of(const char* op, const char* name, const Tensor& tensor, const Optional& scales,
                      const Tensor& like, bool squares = false) {
  const Tensor of_blocks = scales.value_or(Tensor());
  return in_words(op, name,
                  {tensor.data_ptr(), of_blocks.defined() ? static_cast<uint8_t*>(of_blocks.data_ptr()) : nullptr,
                   ops::format_of(op, name, tensor, of_blocks, like), squares});
}

Tensor nesterov_momentum(const Tensor& gradient, const Optional& gradient_scales, const Tensor& momentum,
                         const Optional& momentum_scales, const Tensor& step, const Tensor& grad_scale,
                         const Tensor& skipped, double decay, at::ScalarType dtype, bool stochastic_state,
                         int64_t seed) {
  constexpr const char* op = "plimsoll::nesterov_momentum_";
  const OnDevice device(op, gradient, gradient_scales, momentum, momentum_scales, step, grad_scale, skipped);
  Tensor result =
      ops::empty_nesterov_momentum(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype);
  const Tensor from = gradient.is_contiguous() ? gradient : ops::contiguous_copy(gradient);
  launch_nesterov_momentum(
      values_of(op, "the gradient", from, gradient_scales, from),
      values_of(op, "momentum", momentum, momentum_scales, from), values_of(op, "the result", result, {}, from),
      from.numel(),
      {step.const_data_ptr<float>(), nullptr, grad_scale.const_data_ptr<float>(), skipped.const_data_ptr<float>()},
      static_cast<float>(decay), stochastic_state, seed, device.stream());
  return result;
}

void accumulate_by(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite,
                   bool random, const ops::Draw& draw) {
  constexpr const char* op = "plimsoll::accumulate_";
  const OnDevice device(op, accumulator, scales, gradient);
  const ops::Format format = ops::check_accumulator(accumulator, scales, gradient, random);
  if (format == ops::Format::float64) {
    if (overwrite)
      accumulator.copy_(gradient);
    else
      accumulator.add_(gradient);
    return;
  }
  // Both tensors are read in the accumulator's order.
  Tensor from = gradient;
  if (!ops::same_order(gradient.sizes(), gradient.strides(), accumulator.strides())) {
    from = at::empty_strided(accumulator.sizes(), accumulator.strides(), gradient.options());
    from.copy_(gradient);
  }
  launch_accumulate(values_of(op, "the accumulator", accumulator, scales, from),
                    values_of(op, "the gradient", from, {}, from), gradient.numel(), overwrite, draw, device.stream());
}

void accumulate(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite) {
  accumulate_by(accumulator, scales, gradient, overwrite, false, {});
}

/// Returns the first draw of a CPU generator with the same seed: the executor seeds before each operator that draws.
/// After that the generator's offset distinguishes calls.
ops::Draw draw_from(const std::optional<at::Generator>& given, const Tensor& tensor) {
  at::Generator generator = given && given->defined() ? *given : at::globalContext().defaultGenerator(tensor.device());
  const std::lock_guard lock(generator.mutex());
  uint64_t offset = 0;
  if (generator.device().is_cuda()) {
    offset = generator.get_offset();
    generator.set_offset(offset + 4);
  }
  auto first = at::make_generator<at::CPUGeneratorImpl>(generator.current_seed());
  const uint64_t key = at::check_generator<at::CPUGeneratorImpl>(first)->random64();
  return ops::draw_from_key(offset == 0 ? key : splitmix64(key ^ splitmix64(offset)));
}

void accumulate_random(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite,
                       std::optional<at::Generator> generator) {
  accumulate_by(accumulator, scales, gradient, overwrite, true, draw_from(generator, accumulator));
}

Tensor block_norm(const Tensor& codes, const Tensor& scales) {
  const OnDevice device("plimsoll::block_norm", codes, scales);
  Tensor norm = ops::empty_block_norm(codes, scales);
  const Tensor parts = at::empty({kNormParts}, codes.options().dtype(at::kDouble));
  launch_block_norm(values_of("plimsoll::block_norm", "the accumulator", codes, scales, codes), codes.numel(),
                    parts.mutable_data_ptr<double>(), norm.mutable_data_ptr<float>(), device.stream());
  return norm;
}

Tensor unpacked(const Tensor& codes, const Tensor& scales, const Tensor& like, bool squares) {
  const OnDevice device("plimsoll::unpacked", codes, scales);
  Tensor result = ops::empty_unpacked(codes, scales, like);
  launch_unpack(values_of("plimsoll::unpacked", "the tensor", codes, scales, like, squares), like.numel(),
                result.mutable_data_ptr<float>(), device.stream());
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  using torch::CppFunction;
  m.impl("adamw_", CppFunction::makeFromBoxedFunction<&update<ops::kAdamW, ElementRule::adamw>>());
  m.impl("lion_", CppFunction::makeFromBoxedFunction<&update<ops::kLion, ElementRule::lion>>());
  m.impl("sgd_", CppFunction::makeFromBoxedFunction<&update<ops::kSgd, ElementRule::sgd>>());
  m.impl("momentum_sgd_", CppFunction::makeFromBoxedFunction<&update<ops::kMomentumSgd, ElementRule::momentum_sgd>>());
  m.impl("adamw_group_", CppFunction::makeFromBoxedFunction<&update_group<ops::kAdamW, ElementRule::adamw>>());
  m.impl("lion_group_", CppFunction::makeFromBoxedFunction<&update_group<ops::kLion, ElementRule::lion>>());
  m.impl("sgd_group_", CppFunction::makeFromBoxedFunction<&update_group<ops::kSgd, ElementRule::sgd>>());
  m.impl("momentum_sgd_group_",
         CppFunction::makeFromBoxedFunction<&update_group<ops::kMomentumSgd, ElementRule::momentum_sgd>>());
  m.impl("adafactor_", CppFunction::makeFromBoxedFunction<&adafactor>());
  m.impl("nesterov_momentum_", nesterov_momentum);
  m.impl("accumulate_", accumulate);
  m.impl("accumulate_.random", accumulate_random);
  m.impl("block_norm", block_norm);
  m.impl("unpacked", unpacked);
}

}  // namespace plimsoll::cuda

namespace plimsoll::ops {
namespace {

using at::Tensor;

static_assert(kCudaNormBlock == kNormBlock, "slices of gradients would begin inside of a block");

void gradient_norm_cuda(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  check_gradient_norm(norms, skipped, gradient, index);
  const cuda::OnDevice on("plimsoll::gradient_norm_", gradient, norms, skipped);
  // The order of the elements in memory does not matter if there are no gaps.
  const Tensor dense = gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
  const Tensor partials = at::empty({div_up(dense.numel(), kCudaNormBlock)}, gradient.options().dtype(at::kDouble));
  cuda::launch_gradient_norm(
      dense.const_data_ptr(), dtype_of(dense), dense.numel(), static_cast<double*>(partials.data_ptr()),
      norms.mutable_data_ptr<float>() + index * norms.stride(0), skipped.mutable_data_ptr<float>(), on.stream());
}

void gradient_norm_group_cuda(Tensor& norms, Tensor& skipped, at::TensorList gradients, at::IntArrayRef index) {
  check_gradient_norm_group(norms, skipped, gradients, index);
  if (gradients.empty()) return;
  const cuda::OnDevice on("plimsoll::gradient_norm_group_", gradients[0], gradients, norms, skipped);
  std::vector<Tensor> dense;  // copies stay until the kernels are launched
  int64_t most = 0;           // blocks of a launch
  for (size_t begin = 0; begin < gradients.size(); begin += cuda::kNormsOfLaunch) {
    int64_t blocks = 0;
    for (size_t i = begin; i < std::min<size_t>(gradients.size(), begin + cuda::kNormsOfLaunch); ++i) {
      const Tensor& each = gradients[i];
      dense.push_back(each.is_non_overlapping_and_dense() ? each : each.contiguous());
      blocks += div_up(each.numel(), kCudaNormBlock);
    }
    most = std::max(most, blocks);
  }
  const Tensor partials = at::empty({most}, gradients[0].options().dtype(at::kDouble));
  for (size_t begin = 0; begin < dense.size(); begin += cuda::kNormsOfLaunch) {
    cuda::SummedGradients summed{};
    cuda::BlocksOfGradients of{};
    int64_t blocks = 0;
    for (size_t i = begin; i < std::min<size_t>(dense.size(), begin + cuda::kNormsOfLaunch); ++i) {
      const size_t g = i - begin;
      summed.data[g] = dense[i].const_data_ptr();
      summed.count[g] = dense[i].numel();
      summed.first[g] = static_cast<uint32_t>(blocks);
      of.index[g] = index[i];
      of.first[g] = blocks;
      of.blocks[g] = div_up(dense[i].numel(), kCudaNormBlock);
      blocks += of.blocks[g];
      summed.gradients = static_cast<int32_t>(g + 1);
    }
    auto* const sums = static_cast<double*>(partials.data_ptr());
    cuda::launch_gradient_sums(summed, dtype_of(dense[0]), sums, on.stream());
    cuda::launch_norms_of_blocks(sums, /*ranks=*/1, blocks, of, summed.gradients, norms.mutable_data_ptr<float>(),
                                 norms.stride(0), skipped.mutable_data_ptr<float>(), on.stream());
  }
}

void block_sums_cuda(Tensor& sums, const Tensor& gradient, int64_t first) {
  check_block_sums(sums, gradient, first);
  const cuda::OnDevice on("plimsoll::gradient_block_sums_", gradient, sums);
  cuda::launch_block_sums(gradient.const_data_ptr(), dtype_of(gradient), gradient.numel(),
                          sums.mutable_data_ptr<double>() + first, on.stream());
}

void norms_of_blocks_cuda(Tensor& norms, Tensor& skipped, const Tensor& sums, int64_t ranks, at::IntArrayRef index,
                          at::IntArrayRef first, at::IntArrayRef blocks) {
  check_norms_of_blocks(norms, skipped, sums, ranks, index, first, blocks);
  const cuda::OnDevice on("plimsoll::norms_of_blocks_", sums, norms, skipped);
  for (size_t begin = 0; begin < index.size(); begin += cuda::kNormsOfLaunch) {
    const size_t count = std::min<size_t>(cuda::kNormsOfLaunch, index.size() - begin);
    cuda::BlocksOfGradients of{};
    std::ranges::copy(index.slice(begin, count), of.index);
    std::ranges::copy(first.slice(begin, count), of.first);
    std::ranges::copy(blocks.slice(begin, count), of.blocks);
    cuda::launch_norms_of_blocks(sums.const_data_ptr<double>(), ranks, sums.numel() / ranks, of,
                                 static_cast<int>(count), norms.mutable_data_ptr<float>(), norms.stride(0),
                                 skipped.mutable_data_ptr<float>(), on.stream());
  }
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("gradient_norm_", gradient_norm_cuda);
  m.impl("gradient_norm_group_", gradient_norm_group_cuda);
  m.impl("gradient_block_sums_", block_sums_cuda);
  m.impl("norms_of_blocks_", norms_of_blocks_cuda);
}

}  // namespace
}  // namespace plimsoll::ops
