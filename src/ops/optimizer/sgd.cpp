#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void run_as(const UpdateCall& call, const Draw& draw) {
  const auto step =
      sgd_step<Number>(step_numbers(call), call.numbers.size() > 1 ? call.numbers[0] : 0, call.numbers.back());
  for_each_chunk<Number>(bind_update(call.tensors, draw),
                         [&](Number* p, const Number* g, Number* momentum, Number*, int64_t, int64_t count) {
                           sgd_update(p, g, momentum, count, step);
                         });
}

void run(const UpdateCall& call, const Draw& draw) {
  if (call.tensors.parameter.scalar_type() == at::kDouble)
    run_as<double>(call, draw);
  else
    run_as<float>(call, draw);
}

}  // namespace

const UpdateOp kSgd{"plimsoll::sgd_", {}, {"weight_decay"}, run};
const UpdateOp kMomentumSgd{
    "plimsoll::momentum_sgd_", {{"momentum", false}}, {"decay_of_momentum", "weight_decay"}, run};
PLIMSOLL_UPDATE_OP("sgd_", kSgd)
PLIMSOLL_UPDATE_OP("momentum_sgd_", kMomentumSgd)

void sgd_(const UpdatedTensors& tensors, const Packed& momentum_buffer, const at::Tensor& step,
          const StepScalars& scalars, double momentum, double weight_decay) {
  if (momentum_buffer.values.defined())
    call_update(kMomentumSgd, tensors, {momentum_buffer}, step, scalars, {momentum, weight_decay});
  else
    call_update(kSgd, tensors, {}, step, scalars, {weight_decay});
}

}  // namespace plimsoll::ops
