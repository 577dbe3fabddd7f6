#include "checkpoint/weight_companions.h"

#include <ATen/ATen.h>

#include "plimsoll/error.h"

namespace plimsoll {

bool companion_fits(const std::string& kind, at::IntArrayRef parameter_sizes, at::ScalarType parameter_type,
                    at::IntArrayRef sizes, at::ScalarType type) {
  if (sizes != parameter_sizes) return false;
  if (kind == "master") return type == at::kFloat;
  if (kind == "remainder") return type == at::kShort && parameter_type == at::kBFloat16;
  return kind == "compensation" && type == parameter_type;
}

at::Tensor whole_weights(const at::Tensor& parameter, const at::Tensor& companion) {
  if (!companion.defined()) return parameter.to(at::kFloat);
  if (companion.scalar_type() == at::kFloat) return companion.clone();
  if (companion.scalar_type() == at::kShort) {
    const at::Tensor upper = at::bitwise_left_shift(parameter.view(at::kShort).to(at::kInt), 16);
    return (upper + companion.to(at::kInt)).view(at::kFloat);
  }
  return parameter.to(at::kFloat) + companion.to(at::kFloat);
}

void put_whole_weights(const at::Tensor& whole, const std::string& kind, const at::Tensor& parameter,
                       const at::Tensor& companion) {
  if (kind == "remainder") {
    // The parameter is the upper half rounded to nearest, ties away from zero. copy_() would round ties to even.
    const at::Tensor bits = whole.view(at::kInt);
    const at::Tensor upper = at::bitwise_right_shift(bits + 0x8000, 16);
    parameter.copy_(upper.to(at::kShort).view(at::kBFloat16));
    companion.copy_((bits - at::bitwise_left_shift(upper, 16)).to(at::kShort));
    return;
  }
  const at::Tensor rounded = whole.to(parameter.scalar_type());
  parameter.copy_(rounded);
  if (kind == "master")
    companion.copy_(whole);
  else if (kind == "compensation")
    companion.copy_(whole - rounded.to(at::kFloat));
  else
    throw InternalError("no such companion");
}

}  // namespace plimsoll
