// Declares the CUDA launchers of the optimizers' updates and of the norms of gradients.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/formats.h"
#include "ops/optimizer/optimizer_plan.h"
#include "plimsoll/trace.h"

// The launchers of the optimizers' CUDA kernels, on raw device memory: no tensors, no allocation, no waiting.

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

/// Computes norm[0] = the 2-norm of `count` elements, and skipped[0] = 1 if it is not finite. `partials`: float64,
/// ceil(count / kCudaNormBlock) elements. The order of sums is always the same, and differs from the CPU's.
void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream);

/// Computes partials[b] = the sum of the squares of the elements [b * kCudaNormBlock, (b + 1) * kCudaNormBlock), for
/// all blocks of `count` elements. Zeros after the last element change no bit of it.
void launch_block_sums(const void* data, DType dtype, int64_t count, double* partials, cudaStream_t stream);

/// Gradients of one dtype. The block sums of gradient g are stored from first[g] on, without gaps between gradients.
/// packed[g]: its address allows loads of packs; launch_gradient_sums() sets it.
struct SummedGradients {
  const void* data[kNormsOfLaunch];
  int64_t count[kNormsOfLaunch];
  uint32_t first[kNormsOfLaunch];
  bool packed[kNormsOfLaunch];
  int32_t gradients;
};

/// Computes partials[first[g] + b] = the sum of squares of block b of gradient g, with the bits of launch_block_sums().
void launch_gradient_sums(SummedGradients& of, DType dtype, double* partials, cudaStream_t stream);

/// The positions of some gradients' block sums: gradient i has blocks[i] sums of each rank, from first[i] on.
struct BlocksOfGradients {
  int64_t index[kNormsOfLaunch], first[kNormsOfLaunch], blocks[kNormsOfLaunch];
};

/// Computes norms[index[i] * stride] = the norm of gradient i of `gradients` (at most kNormsOfLaunch), with the bits of
/// launch_gradient_norm() for the whole gradient. Sets skipped[0] = 1 if one is not finite. `sums`: float64, `of_rank`
/// of each of `ranks` ranks.
void launch_norms_of_blocks(const double* sums, int64_t ranks, int64_t of_rank, const BlocksOfGradients& of,
                            int gradients, float* norms, int64_t stride, float* skipped, cudaStream_t stream);

}  // namespace plimsoll::cuda
