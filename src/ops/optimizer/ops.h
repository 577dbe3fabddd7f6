// Optimizer operators of our own: one pass over a parameter, its gradient and its state, all changed in place.
//
// What is rounded at random is so by a seed, the number of updates before and the element: the same for any number of
// threads, for any order of the operators, and after resuming.
//
// Formats, by the tensors that are given: float32, bfloat16, float16 (and float64, for parameters of that type); with
// scales, uint8 for 8 bits and int8 for 4 bits (formats.h). The parameter's companion says how small updates of 16-bit
// parameters are kept: none, the same type (Kahan's compensated sum), int16 (the lower half of a float32) or float32
// (master). Numbers of 8 and 4 bits are rounded stochastically, those of 16 if UpdateRounding says so, otherwise to
// nearest; a parameter with a companion is always.
//
// The gradient is not changed. It is divided by `grad_scale` on the way. Where `skipped` is not 0, nothing changes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

/// Numbers and, where they have 8 or 4 bits, the scales of their blocks.
struct Packed {
  at::Tensor values;
  at::Tensor scales = {};
};

struct UpdateRounding {
  bool stochastic_state = false;
  bool stochastic_parameter = false;
  int64_t seed = 0;           ///< of the parameter: two with the same seed are rounded alike
  int64_t first_element = 0;  ///< of a slice: where it begins in its parameter; a multiple of 512
};

struct UpdatedTensors {
  at::Tensor parameter;
  at::Tensor companion;  ///< or undefined
  Packed gradient;       ///< 8 bits, or any floating-point type
  UpdateRounding rounding = {};
};

/// Tensors of one element: learning_rate float64, the others float32.
struct StepScalars {
  at::Tensor learning_rate, grad_scale, skipped;
};

/// AdamW: Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2. `step` (float32) counts the
/// updates before this one.
void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps);

/// Lion: Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2.
void lion_(const UpdatedTensors& tensors, const Packed& exp_avg, const at::Tensor& step, const StepScalars& scalars,
           double beta1, double beta2, double weight_decay);

/// SGD with momentum (none: `momentum_buffer` undefined) and decoupled weight decay.
void sgd_(const UpdatedTensors& tensors, const Packed& momentum_buffer, const at::Tensor& step,
          const StepScalars& scalars, double momentum, double weight_decay);

/// Adafactor: Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost", algorithm 4 with
/// the learning rate as it is given: no momentum, means of squares by row and column (float32; which ones:
/// adafactor_plan.h), whose decay is 1 - step^-0.8, updates longer than `clip_threshold` (root mean square) shortened.
void adafactor_(const UpdatedTensors& tensors, const at::Tensor& row_mean, const at::Tensor& column_mean,
                const at::Tensor& step, const StepScalars& scalars, double clip_threshold, double weight_decay);

/// momentum <- decay momentum + g; returns g + decay momentum in `dtype` (float32 or bfloat16), contiguous, where g is
/// the gradient divided by grad_scale. Zeros where the step is skipped. What Muon makes its update from (muon.h).
at::Tensor nesterov_momentum_(const Packed& gradient, const Packed& momentum, const at::Tensor& step,
                              const StepScalars& scalars, double decay, at::ScalarType dtype,
                              const UpdateRounding& rounding);

/// accumulator += gradient, in the accumulator's format: float32, or bfloat16, float16 and 8 bits rounded
/// stochastically. `overwrite`: what the accumulator held does not count. A gradient that is not finite makes the
/// accumulator's element so; of 8 bits, its block. Random numbers are the generator's (none: the device's default
/// one), which the executor seeds for each micro batch.
void accumulate_(const Packed& accumulator, const at::Tensor& gradient, bool overwrite,
                 const std::optional<at::Generator>& generator = std::nullopt);

/// The 2-norm of an accumulator of 8 bits, float32: not finite if anything in it is not.
at::Tensor block_norm(const at::Tensor& codes, const at::Tensor& scales);

/// The numbers of 8 or 4 bits as float32, in `like`'s shape and order.
at::Tensor unpacked(const Packed& packed, const at::Tensor& like, bool squares);

}  // namespace plimsoll::ops
