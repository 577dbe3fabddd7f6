#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void run_as(const UpdateCall& call, const Draw& draw) {
  const auto step = adamw_step<Number>(step_numbers(call), call.numbers.data());
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

const UpdateOp kAdamW{
    "plimsoll::adamw_", {{"exp_avg", false}, {"exp_avg_sq", true}}, {"beta1", "beta2", "weight_decay", "eps"}, run};
PLIMSOLL_UPDATE_OP("adamw_", kAdamW)

void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps) {
  call_update(kAdamW, tensors, {exp_avg, exp_avg_sq}, step, scalars, {beta1, beta2, weight_decay, eps});
}

}  // namespace plimsoll::ops
