// Declares our own optimizer operators: one pass over a parameter, its gradient and its state, all updated in place.
//
// The random bits of stochastic rounding depend on a seed, the number of updates before and the element. They are the
// same for any number of threads, for any order of the operators, and after resuming.
//
// The tensors of a call determine the formats. Without scales they are float32, bfloat16, float16 (and float64, for
// parameters of that type). With scales they are uint8 for 8 bits and int8 for 4 bits (formats.h). The parameter's
// companion keeps small updates of 16-bit parameters. It is absent, of the same type (Kahan's compensated sum), int16
// (the lower half of a float32) or float32 (master). Values of 8 and 4 bits are rounded stochastically. Values of 16
// bits are if UpdateRounding says so, otherwise they are rounded to nearest. A parameter with a companion is always
// rounded to nearest.
//
// The gradient is not changed; the operators divide it by `grad_scale` as they read it. If `skipped` is not 0, nothing
// changes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

/// The values of a tensor and, for 8 or 4 bits, the scales of their blocks.
struct Packed {
  at::Tensor values;
  at::Tensor scales = {};
};

struct UpdateRounding {
  bool stochastic_state = false;
  bool stochastic_parameter = false;
  int64_t seed = 0;           ///< seed of the parameter: two parameters with one seed are rounded alike
  int64_t first_element = 0;  ///< the element of its parameter at which a slice begins; a multiple of 512
};

struct UpdatedTensors {
  at::Tensor parameter;
  at::Tensor companion;  ///< may be undefined
  Packed gradient;       ///< 8 bits, or any floating-point type
  UpdateRounding rounding = {};
};

/// The tensors of one element: learning_rate float64, the others float32.
struct StepScalars {
  at::Tensor learning_rate, grad_scale, skipped;
};

/// Updates by AdamW: Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2. `step` (float32)
/// is the number of updates before this one.
void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps);

/// Updates by Lion: Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2.
void lion_(const UpdatedTensors& tensors, const Packed& exp_avg, const at::Tensor& step, const StepScalars& scalars,
           double beta1, double beta2, double weight_decay);

/// Updates by SGD with momentum (none: `momentum_buffer` undefined) and decoupled weight decay.
void sgd_(const UpdatedTensors& tensors, const Packed& momentum_buffer, const at::Tensor& step,
          const StepScalars& scalars, double momentum, double weight_decay);

/// Updates by Adafactor: Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost",
/// algorithm 4 with the given learning rate. It has no momentum. It keeps means of squares by row and column (float32;
/// optimizer_plan.h defines them), with decay 1 - step^-0.8. Updates longer than `clip_threshold` (root mean square)
/// are shortened.
void adafactor_(const UpdatedTensors& tensors, const at::Tensor& row_mean, const at::Tensor& column_mean,
                const at::Tensor& step, const StepScalars& scalars, double clip_threshold, double weight_decay);

/// Computes momentum <- decay momentum + g, with g the gradient divided by grad_scale. Returns g + decay momentum in
/// `dtype` (float32 or bfloat16), contiguous; zeros if the step is skipped. Muon computes its update from the result
/// (run/optimizer/optimizer.h).
at::Tensor nesterov_momentum_(const Packed& gradient, const Packed& momentum, const at::Tensor& step,
                              const StepScalars& scalars, double decay, at::ScalarType dtype,
                              const UpdateRounding& rounding);

/// Computes accumulator += gradient, in the accumulator's format: float32, or bfloat16, float16 and 8 bits rounded
/// stochastically. `overwrite`: the old values of the accumulator are ignored. A gradient that is not finite makes the
/// accumulator's element not finite; with 8 bits, its whole block. Random bits come from `generator` (none: the
/// device's default one), which the executor seeds for each micro batch.
void accumulate_(const Packed& accumulator, const at::Tensor& gradient, bool overwrite,
                 const std::optional<at::Generator>& generator = std::nullopt);

/// Returns the 2-norm of an accumulator of 8 bits as float32; it is not finite if any element is not.
at::Tensor block_norm(const at::Tensor& codes, const at::Tensor& scales);

/// Returns the values of 8 or 4 bits as float32, in `like`'s shape and order.
at::Tensor unpacked(const Packed& packed, const at::Tensor& like, bool squares);

}  // namespace plimsoll::ops
