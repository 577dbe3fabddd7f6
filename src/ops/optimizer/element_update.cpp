#include "ops/optimizer/element_update.h"

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

Format plain_format(const char* op, const char* name, at::ScalarType type) {
  require(is_floating(type), op, name, " is ", c10::toString(type),
          "; allowed are float32, bfloat16, float16, float64, and with scales uint8 (8 bits) and int8 (4 bits)");
  return type == at::kFloat      ? Format::float32
         : type == at::kBFloat16 ? Format::bfloat16
         : type == at::kHalf     ? Format::float16
                                 : Format::float64;
}

Companion companion_of(const UpdateTensors& tensors) {
  if (!tensors.companion.defined()) return Companion::none;
  const at::ScalarType type = tensors.companion.scalar_type(), of = tensors.parameter.scalar_type();
  require(of == at::kBFloat16 || of == at::kHalf, tensors.op, "a ", c10::toString(of),
          " parameter has a companion; only 16-bit ones have");
  if (type == at::kFloat) return Companion::master;
  if (type == at::kShort && of == at::kBFloat16) return Companion::remainder;
  require(type == of, tensors.op, "the companion of a ", c10::toString(of), " parameter is ", c10::toString(type),
          "; allowed are its own type, float32, and int16 for bfloat16");
  return Companion::compensation;
}

Values values_of(const char* op, const char* name, const at::Tensor& values, const at::Tensor& scales,
                 const at::Tensor& parameter, bool squares) {
  const Format format = format_of(op, name, values, scales, parameter);
  return {values.data_ptr(), scales.defined() ? static_cast<uint8_t*>(scales.data_ptr()) : nullptr, format, squares};
}

}  // namespace

Format format_of(const char* op, const char* name, const at::Tensor& values, const at::Tensor& scales,
                 const at::Tensor& parameter) {
  const int64_t count = parameter.numel();
  if (!scales.defined()) {
    const Format format = plain_format(op, name, values.scalar_type());
    require(values.numel() == count && values.is_non_overlapping_and_dense(), op, name, " is ", values.sizes(),
            "; it must be dense, with one number for each of the parameter's ", parameter.sizes());
    return format;
  }
  const bool eight = values.scalar_type() == at::kByte;
  require(eight || values.scalar_type() == at::kChar, op, name, " with scales is ", c10::toString(values.scalar_type()),
          "; allowed are uint8 (8 bits) and int8 (4 bits)");
  const Format format = eight ? Format::bits8 : Format::bits4;
  require(values.numel() == (eight ? count : bytes_of_bits4(count)) && values.is_non_overlapping_and_dense(), op, name,
          " has ", values.numel(), " bytes of codes; the parameter's ", parameter.sizes(), " take ",
          eight ? count : bytes_of_bits4(count));
  require(scales.scalar_type() == at::kByte && scales.numel() == scales_of(format, count) && scales.is_contiguous(), op,
          name, " has ", scales.numel(), " scales of ", c10::toString(scales.scalar_type()), "; it needs ",
          scales_of(format, count), " of uint8");
  return format;
}

void check_update(const UpdateTensors& tensors) {
  const char* op = tensors.op;
  const at::Tensor& parameter = tensors.parameter;
  require_floating(op, "the parameter", parameter);
  require(parameter.is_non_overlapping_and_dense(), op, "the parameter ", parameter.sizes(), " with strides ",
          parameter.strides(), " is not dense; make it contiguous");
  require(!tensors.companion.defined() ||
              (tensors.companion.numel() == parameter.numel() && tensors.companion.is_non_overlapping_and_dense()),
          op, "the companion does not have the parameter's size");
  companion_of(tensors);
  require(tensors.gradient_scales.defined() || tensors.gradient.sizes() == parameter.sizes(), op, "the gradient is ",
          tensors.gradient.sizes(), ", the parameter ", parameter.sizes());
  // A gradient in another order is copied. Only layouts that format_of() knows are accepted otherwise.
  if (tensors.gradient_scales.defined())
    require(format_of(op, "the gradient", tensors.gradient, tensors.gradient_scales, parameter) == Format::bits8, op,
            "the gradient has 4 bits; accumulators have 8 or more");
  if (tensors.gradient_scales.defined())
    require(tensors.gradient.sizes() == parameter.sizes() &&
                same_order(parameter.sizes(), tensors.gradient.strides(), parameter.strides()),
            op, "the gradient's codes are ", tensors.gradient.sizes(), " with strides ", tensors.gradient.strides(),
            "; they must lie as the parameter's numbers do: ", parameter.sizes(), ", ", parameter.strides());
  else
    require_floating(op, "the gradient", tensors.gradient);
  for (const StateTensor& state : tensors.state) {
    if (!state.element_wise) continue;
    format_of(op, state.name, state.values, state.scales, parameter);
  }
  for (const at::Tensor& scalar : {tensors.grad_scale, tensors.skipped})
    require(scalar.numel() == 1 && scalar.scalar_type() == at::kFloat, op,
            "grad_scale and skipped are float32 tensors of one element");
}

double scalar_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? *tensor.const_data_ptr<double>() : *tensor.const_data_ptr<float>();
}

ElementUpdate bind_update(const UpdateTensors& tensors, const Draw& draw) {
  const at::Tensor& parameter = tensors.parameter;
  ElementUpdate update;
  update.count = parameter.numel();
  update.parameter = {parameter.data_ptr(), tensors.companion.defined() ? tensors.companion.data_ptr() : nullptr,
                      plain_format(tensors.op, "the parameter", parameter.scalar_type()), companion_of(tensors)};
  at::Tensor gradient = tensors.gradient;
  if (!tensors.gradient_scales.defined() && !same_order(gradient.sizes(), gradient.strides(), parameter.strides())) {
    gradient = at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options());
    // The copy has one more dimension: to transpose a matrix, libtorch would allocate a buffer of its own.
    gradient.unsqueeze(0).copy_(tensors.gradient.unsqueeze(0));
    update.held = gradient;
  }
  update.gradient = values_of(tensors.op, "the gradient", gradient, tensors.gradient_scales, parameter, false);
  update.parameter_rounding = {tensors.stochastic_parameter && update.parameter.kind == Companion::none, draw};
  update.draw = draw;
  update.random = update.parameter_rounding.stochastic && update.parameter.format != Format::float32;
  for (const StateTensor& state : tensors.state) {
    if (!state.element_wise) continue;
    const auto s = static_cast<size_t>(update.states++);
    update.state[s] = values_of(tensors.op, state.name, state.values, state.scales, parameter, state.squares);
    update.state_rounding[s] = {tensors.stochastic_state, draw};
    const Format format = update.state[s].format;
    update.random = update.random || format == Format::bits8 || format == Format::bits4 ||
                    (tensors.stochastic_state && (format == Format::bfloat16 || format == Format::float16));
  }
  return update;
}

}  // namespace plimsoll::ops
