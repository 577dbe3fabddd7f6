#include <cmath>

#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void run_as(const UpdateCall& call, const Draw& draw) {
  const double updates = scalar_of(call.step) + 1, rate = scalar_of(call.learning_rate);
  const double beta1 = call.numbers[0], beta2 = call.numbers[1], weight_decay = call.numbers[2];
  AdamWStep<Number> step;
  step.unscale = static_cast<Number>(1 / scalar_of(call.tensors.grad_scale));
  step.kept = static_cast<Number>(1 - rate * weight_decay);
  step.beta1 = static_cast<Number>(beta1);
  step.beta2 = static_cast<Number>(beta2);
  step.rest1 = static_cast<Number>(1 - beta1);
  step.rest2 = static_cast<Number>(1 - beta2);
  step.step_size = static_cast<Number>(rate / (1 - std::pow(beta1, updates)));
  step.root_correction = static_cast<Number>(1 / std::sqrt(1 - std::pow(beta2, updates)));
  step.eps = static_cast<Number>(call.numbers[3]);
  for_each_chunk<Number>(bind_update(call.tensors, draw),
                         [&](Number* p, const Number* g, Number* mean, Number* square, int64_t, int64_t count) {
                           adamw_update(p, g, mean, square, count, step);
                         });
}

void run(const UpdateCall& call, const Draw& draw) {
  if (call.tensors.parameter.scalar_type() == at::kDouble)
    run_as<double>(call, draw);
  else
    run_as<float>(call, draw);
}

}  // namespace

extern const UpdateOp kAdamW;
const UpdateOp kAdamW{
    "plimsoll::adamw_", {{"exp_avg", false}, {"exp_avg_sq", true}}, {"beta1", "beta2", "weight_decay", "eps"}, run};
PLIMSOLL_UPDATE_OP("adamw_", kAdamW)

void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps) {
  call_update(kAdamW, tensors, {exp_avg, exp_avg_sq}, step, scalars, {beta1, beta2, weight_decay, eps});
}

}  // namespace plimsoll::ops
