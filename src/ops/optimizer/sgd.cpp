#include "ops/optimizer/update_group.h"
#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void sgd_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = sgd_step<Number>(of, numbers.size() > 1 ? numbers[0] : 0, numbers.back());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* momentum, Number*, int64_t, int64_t count) {
    sgd_update(p, g, momentum, count, step);
  });
}

void sgd_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    sgd_chunks<double>(of, numbers, all);
  else
    sgd_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kSgd{"plimsoll::sgd_", {}, {"weight_decay"}, sgd_elements};
const UpdateOp kMomentumSgd{
    "plimsoll::momentum_sgd_", {{"momentum", false}}, {"decay_of_momentum", "weight_decay"}, sgd_elements};
PLIMSOLL_UPDATE_OP("sgd_", kSgd)
PLIMSOLL_UPDATE_GROUP("sgd_group_", kSgd)
PLIMSOLL_UPDATE_OP("momentum_sgd_", kMomentumSgd)
PLIMSOLL_UPDATE_GROUP("momentum_sgd_group_", kMomentumSgd)

void sgd_(const UpdatedTensors& tensors, const Packed& momentum_buffer, const at::Tensor& step,
          const StepScalars& scalars, double momentum, double weight_decay) {
  if (momentum_buffer.values.defined())
    call_update(kMomentumSgd, tensors, {momentum_buffer}, step, scalars, {momentum, weight_decay});
  else
    call_update(kSgd, tensors, {}, step, scalars, {weight_decay});
}

}  // namespace plimsoll::ops
