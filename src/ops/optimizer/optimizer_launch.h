// Declares the launchers of the optimizers' CUDA kernels, on raw device memory: no tensors, no allocation, no waiting.
#pragma once

#include <cstdint>

#include "ops/arithmetic/formats.h"
#include "ops/optimizer/optimizer_plan.h"

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// A parameter to update, with its gradient and its state, all in the parameter's order. It is small, so that one
/// launch can carry a table of them.
struct UpdateTarget {
  ops::Weights parameter;
  ops::Values gradient;
  ops::Values state[2];
  int64_t count = 0;
  int64_t seed = 0;
  uint8_t states = 0;
  bool stochastic_parameter = false;
  bool stochastic_state = false;
  bool random = false;      ///< some operand is rounded stochastically
  int32_t first_chunk = 0;  ///< the chunk of 512 elements of the whole tensor at which a slice begins
};

/// Maximum number of parameters that one launch updates. With the launch's other arguments the table fits into 4 KiB,
/// the limit of all devices. UpdateTable::first_block is the first block of the launch for each parameter.
constexpr int kMaxTargets = 32;
struct UpdateTable {
  UpdateTarget targets[kMaxTargets];
  uint32_t first_block[kMaxTargets] = {};
  int32_t count = 0;
};

/// The device tensors of one element that an update reads.
struct StepPointers {
  const float* step = nullptr;
  const double* learning_rate = nullptr;
  const float* grad_scale = nullptr;
  const float* skipped = nullptr;
};

enum class ElementRule : uint8_t { adamw, lion, sgd, momentum_sgd };
constexpr int kMaxNumbers = 4;
/// The numbers of an operator, in its schema's order.
struct RuleNumbers {
  double values[kMaxNumbers] = {};
};
static_assert(sizeof(UpdateTable) + sizeof(StepPointers) + sizeof(RuleNumbers) <= 4096);

void launch_update(ElementRule rule, const UpdateTarget& target, const StepPointers& scalars,
                   const RuleNumbers& numbers, cudaStream_t stream);

/// Updates `count` targets, all float64 or none, at most kMaxTargets per launch.
void launch_updates(ElementRule rule, const UpdateTarget* targets, int64_t count, const StepPointers& scalars,
                    const RuleNumbers& numbers, cudaStream_t stream);

/// Updates by Adafactor. The parameter's kind is not float64; `state` of the target is not used. numbers: clip
/// threshold, weight decay. `scratch`: adafactor_scratch_bytes() of ops/optimizer/optimizer_plan.h.
void launch_adafactor(const UpdateTarget& target, const ops::MatrixShape& shape, float* row_means, float* column_means,
                      const StepPointers& scalars, const RuleNumbers& numbers, void* scratch, cudaStream_t stream);

/// Computes nesterov_momentum_. `result` is float32 or bfloat16; all operands are contiguous.
void launch_nesterov_momentum(const ops::Values& gradient, const ops::Values& momentum, const ops::Values& result,
                              int64_t count, const StepPointers& scalars, float decay, bool stochastic_state,
                              int64_t seed, cudaStream_t stream);

/// Computes sum <- sum + part, or sum <- part with `overwrite`. `sum` is not float64.
void launch_accumulate(const ops::Values& sum, const ops::Values& part, int64_t count, bool overwrite,
                       const ops::Draw& draw, cudaStream_t stream);

void launch_unpack(const ops::Values& values, int64_t count, float* to, cudaStream_t stream);

/// Computes the 2-norm of signed 8-bit values; `parts` is scratch of kNormParts elements.
void launch_block_norm(const ops::Values& values, int64_t count, double* parts, float* norm, cudaStream_t stream);

}  // namespace plimsoll::cuda
