#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void run_as(const UpdateCall& call, const Draw& draw) {
  const auto step = lion_step<Number>(step_numbers(call), call.numbers.data());
  for_each_chunk<Number>(bind_update(call.tensors, draw),
                         [&](Number* p, const Number* g, Number* mean, Number*, int64_t, int64_t count) {
                           lion_update(p, g, mean, count, step);
                         });
}

void run(const UpdateCall& call, const Draw& draw) {
  if (call.tensors.parameter.scalar_type() == at::kDouble)
    run_as<double>(call, draw);
  else
    run_as<float>(call, draw);
}

}  // namespace

const UpdateOp kLion{"plimsoll::lion_", {{"exp_avg", false}}, {"beta1", "beta2", "weight_decay"}, run};
PLIMSOLL_UPDATE_OP("lion_", kLion)

void lion_(const UpdatedTensors& tensors, const Packed& exp_avg, const at::Tensor& step, const StepScalars& scalars,
           double beta1, double beta2, double weight_decay) {
  call_update(kLion, tensors, {exp_avg}, step, scalars, {beta1, beta2, weight_decay});
}

}  // namespace plimsoll::ops
