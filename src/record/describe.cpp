#include <fmt/format.h>

#include <sstream>

#include "ops/op_call.h"
#include "trace/pointwise.h"
#include "trace/update_group.h"

namespace plimsoll {
namespace {

std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return "None";
    if (tensor.dim() == 0 && tensor.device().is_cpu()) return fmt::format("{}", tensor.item().toDouble());
    return "tensor";
  }
  if (value.isDevice()) return "device";
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

std::string describe_constants(const Op& op) {
  if (!op.call) return "";
  // The name of a fused op lists its operations; its constants are the encoded program.
  if (is_fused(op)) return "";
  std::string text;
  const auto& arguments = op.call->op.schema().arguments();
  for (size_t i = 0; i < op.call->constants.size() && i < op.arguments.size(); ++i) {
    const c10::IValue& value = op.call->constants[i];
    if (op.arguments[i].kind != Argument::Kind::constant || value.isNone()) continue;
    if (value.isTensor() && !value.toTensor().defined()) continue;
    // A group has a seed for each parameter.
    if (value.isIntList() && is_update_group(op.name)) continue;
    const auto& default_value = arguments[i].default_value();
    if (default_value && !value.isTensor() && text_of(*default_value) == text_of(value)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", arguments[i].name(), text_of(value));
  }
  return text;
}

}  // namespace plimsoll
