// Starts of the optimizers' CUDA kernels: raw memory of the device, no tensors, no allocation, no waiting.
#pragma once

#include <cstdint>

#include "ops/arithmetic/formats.h"
#include "ops/optimizer/optimizer_plan.h"

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// A parameter that is updated, with its gradient and its state, all in the parameter's order. Small, so that a table
/// of them can be handed to one launch.
struct UpdateTarget {
  ops::Weights parameter;
  ops::Values gradient;
  ops::Values state[2];
  int64_t count = 0;
  int64_t seed = 0;
  uint8_t states = 0;
  bool stochastic_parameter = false;
  bool stochastic_state = false;
  bool random = false;      ///< something is rounded at random
  int32_t first_chunk = 0;  ///< of a slice: where it begins in the whole tensor, in chunks of 512 elements
};

/// Parameters that one launch updates, and from which of its blocks on each has its own. With the launch's other
/// arguments within 4 KiB, which all devices take.
constexpr int kMostTargets = 32;
struct UpdateTable {
  UpdateTarget targets[kMostTargets];
  uint32_t first_block[kMostTargets] = {};
  int32_t count = 0;
};

/// The tensors of one element that an update reads, on the device.
struct StepPointers {
  const float* step = nullptr;
  const double* learning_rate = nullptr;
  const float* grad_scale = nullptr;
  const float* skipped = nullptr;
};

enum class ElementRule : uint8_t { adamw, lion, sgd, momentum_sgd };
constexpr int kMostNumbers = 4;
/// An operator's numbers, in its schema's order.
struct RuleNumbers {
  double values[kMostNumbers] = {};
};
static_assert(sizeof(UpdateTable) + sizeof(StepPointers) + sizeof(RuleNumbers) <= 4096);

void launch_update(ElementRule rule, const UpdateTarget& target, const StepPointers& scalars,
                   const RuleNumbers& numbers, cudaStream_t stream);

/// The same of `count` targets, all float64 or none, kMostTargets with a launch.
void launch_updates(ElementRule rule, const UpdateTarget* targets, int64_t count, const StepPointers& scalars,
                    const RuleNumbers& numbers, cudaStream_t stream);

/// The parameter's kind is not float64, `state` of the target is not used. numbers: clip threshold, weight decay.
/// `scratch`: adafactor_scratch_bytes() of ops/optimizer/optimizer_plan.h.
void launch_adafactor(const UpdateTarget& target, const ops::MatrixShape& shape, float* row_means, float* column_means,
                      const StepPointers& scalars, const RuleNumbers& numbers, void* scratch, cudaStream_t stream);

/// `result` float32 or bfloat16, contiguous, as are the others.
void launch_nesterov_momentum(const ops::Values& gradient, const ops::Values& momentum, const ops::Values& result,
                              int64_t count, const StepPointers& scalars, float decay, bool stochastic_state,
                              int64_t seed, cudaStream_t stream);

/// sum <- sum + part, or part alone. Not of float64 sums.
void launch_accumulate(const ops::Values& sum, const ops::Values& part, int64_t count, bool overwrite,
                       const ops::Draw& draw, cudaStream_t stream);

void launch_unpack(const ops::Values& values, int64_t count, float* to, cudaStream_t stream);

/// The 2-norm of numbers of 8 bits with signs; `parts` are kNormParts of scratch.
void launch_block_norm(const ops::Values& values, int64_t count, double* parts, float* norm, cudaStream_t stream);

}  // namespace plimsoll::cuda
