#include "ops/optimizer/update_group.h"
#include "ops/optimizer/update_op.h"
#include "ops/optimizer/updates_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void adamw_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = adamw_step<Number>(of, numbers.data());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* mean, Number* square, int64_t, int64_t count) {
    adamw_update(p, g, mean, square, count, step);
  });
}

void adamw_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    adamw_chunks<double>(of, numbers, all);
  else
    adamw_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kAdamW{"plimsoll::adamw_",
                      {{"exp_avg", false}, {"exp_avg_sq", true}},
                      {"beta1", "beta2", "weight_decay", "eps"},
                      adamw_elements};
PLIMSOLL_UPDATE_OP("adamw_", kAdamW)
PLIMSOLL_UPDATE_GROUP("adamw_group_", kAdamW)

void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps) {
  call_update(kAdamW, tensors, {exp_avg, exp_avg_sq}, step, scalars, {beta1, beta2, weight_decay, eps});
}

}  // namespace plimsoll::ops
