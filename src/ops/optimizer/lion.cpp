#include "ops/optimizer/update_group.h"
#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void lion_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = lion_step<Number>(of, numbers.data());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* mean, Number*, int64_t, int64_t count) {
    lion_update(p, g, mean, count, step);
  });
}

void lion_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    lion_chunks<double>(of, numbers, all);
  else
    lion_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kLion{"plimsoll::lion_", {{"exp_avg", false}}, {"beta1", "beta2", "weight_decay"}, lion_elements};
PLIMSOLL_UPDATE_OP("lion_", kLion)
PLIMSOLL_UPDATE_GROUP("lion_group_", kLion)

void lion_(const UpdatedTensors& tensors, const Packed& exp_avg, const at::Tensor& step, const StepScalars& scalars,
           double beta1, double beta2, double weight_decay) {
  call_update(kLion, tensors, {exp_avg}, step, scalars, {beta1, beta2, weight_decay});
}

}  // namespace plimsoll::ops
