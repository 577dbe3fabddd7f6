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
