#include "ops/fused/fused_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cost/operators.h"
#include "ops/libtorch_types.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll {
namespace {

bool is_reduced(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16;
}
bool is_result(DType dtype) {
  return dtype == DType::float32 || is_reduced(dtype);
}

// The opcode of an operator, and the schema's arguments that are its operands. The result is the tensor that is
// written.
struct Operator {
  Opcode opcode;
  std::vector<int> operands;
  /// The types in which the CPU's kernel has the bits of the formula, rounded once. For other types it may differ:
  /// libtorch takes square roots of float32 from MKL and error functions from oneDNN. It also rounds some 16-bit
  /// results at every step.
  std::string_view on_cpu = "fbh";
};

char letter_of(DType dtype) {
  return dtype == DType::bfloat16 ? 'b' : dtype == DType::float16 ? 'h' : 'f';
}

const std::map<std::string_view, Operator>& operators() {
  static const std::map<std::string_view, Operator> table = {
      {"aten::copy_", {Opcode::cast, {1}}},
      {"aten::add.out", {Opcode::add, {0, 1}}},
      {"aten::sub.out", {Opcode::sub, {0, 1}}},
      {"aten::mul.out", {Opcode::mul, {0, 1}}},
      {"aten::div.out", {Opcode::div, {0, 1}}},
      {"aten::neg.out", {Opcode::neg, {0}}},
      {"aten::abs.out", {Opcode::abs, {0}}},
      {"aten::sqrt.out", {Opcode::sqrt, {0}, "bh"}},
      {"aten::rsqrt.out", {Opcode::rsqrt, {0}, "f"}},
      {"aten::reciprocal.out", {Opcode::reciprocal, {0}, "f"}},
      {"aten::clamp_min.out", {Opcode::clamp_min, {0, 1}}},
      {"aten::clamp_max.out", {Opcode::clamp_max, {0, 1}}},
      {"aten::threshold_backward.grad_input", {Opcode::threshold_backward, {0, 1, 2}}},
      {"aten::sigmoid_backward.grad_input", {Opcode::sigmoid_backward, {0, 1}, "fb"}},
      {"aten::tanh_backward.grad_input", {Opcode::tanh_backward, {0, 1}}},
      {"aten::sigmoid.out", {Opcode::sigmoid, {0}}},
      {"aten::silu.out", {Opcode::silu, {0}}},
      {"aten::silu_backward.grad_input", {Opcode::silu_backward, {0, 1}}},
      {"aten::gelu.out", {Opcode::gelu, {0}, ""}},
      {"aten::gelu_backward.grad_input", {Opcode::gelu_backward, {0, 1}, ""}},
      {"aten::softplus.out", {Opcode::softplus, {0, 1, 2}}},
      {"aten::softplus_backward.grad_input", {Opcode::softplus_backward, {0, 1, 2, 3}}},
  };
  return table;
}

class Translation {
 public:
  Translation(const Op& op, PointwiseDevice device) : op_(op), device_(device) {}

  std::optional<PointwiseOp> run() {
    if (!op_.call || op_.arguments.size() != op_.call->constants.size()) return std::nullopt;
    const auto found = operators().find(op_.name);
    const bool pow = op_.name == "aten::pow.Tensor_Scalar_out", relu = op_.name == "aten::relu";
    if (found == operators().end() && !pow && !relu) return std::nullopt;
    if (!take_result()) return std::nullopt;
    const DType dtype = translated_.result.dtype;
    if (pow || relu) {
      const auto opcode = relu ? std::optional(Opcode::clamp_min) : opcode_of_power(1);
      if (!opcode || !add_operand(0)) return std::nullopt;
      translated_.opcode = *opcode;
      if (relu) translated_.operands.push_back({{}, 0});
    } else {
      const Operator& known = found->second;
      translated_.opcode = known.opcode;
      for (const int argument : known.operands)
        if (!add_operand(argument)) return std::nullopt;
    }
    if (!settle_scale() || !settle_approximation()) return std::nullopt;
    settle_quotient();
    const bool by_tanh = translated_.opcode == Opcode::gelu_tanh || translated_.opcode == Opcode::gelu_tanh_backward;
    if (device_ == PointwiseDevice::cpu && !pow && !relu && !by_tanh &&
        found->second.on_cpu.find(letter_of(dtype)) == std::string_view::npos)
      return std::nullopt;
    return types_are_plain() ? std::optional(std::move(translated_)) : std::nullopt;
  }

 private:
  // Sets the result: the one tensor that is written or created.
  bool take_result() {
    int written = 0;
    for (const Argument& argument : op_.arguments) {
      if (!argument.written) continue;
      if (argument.kind != Argument::Kind::tensor || argument.views.size() != 1) return false;
      translated_.result = argument.views[0];
      ++written;
    }
    for (const View& view : op_.results) {
      translated_.result = view;
      ++written;
    }
    return written == 1 && translated_.result.buffer != kNoBuffer && is_result(translated_.result.dtype);
  }

  std::optional<double> number(int argument) const {
    const c10::IValue& value = op_.call->constants[argument];
    if (value.isDouble()) return value.toDouble();
    if (value.isInt()) return static_cast<double>(value.toInt());
    if (value.isBool()) return value.toBool() ? 1.0 : 0.0;
    if (!value.isTensor()) return std::nullopt;
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || tensor.dim() != 0 || !tensor.device().is_cpu() || tensor.is_complex()) return std::nullopt;
    return tensor.item().toDouble();
  }

  bool add_operand(int index) {
    const Argument& argument = op_.arguments[index];
    if (argument.kind == Argument::Kind::tensor && argument.views.size() == 1 &&
        argument.views[0].buffer != kNoBuffer) {
      translated_.operands.push_back({argument.views[0], 0});
      return true;
    }
    if (argument.kind != Argument::Kind::constant) return false;
    const auto constant = number(index);
    if (!constant) return false;
    translated_.operands.push_back({{}, *constant});
    return true;
  }

  std::optional<Opcode> opcode_of_power(int argument) const {
    const auto exponent = number(argument);
    if (!exponent) return std::nullopt;
    const bool reduced = is_reduced(translated_.result.dtype);
    if (*exponent == 2) return Opcode::square;
    if (reduced) return std::nullopt;  // libtorch rounds it more than once
    if (*exponent == 3) return Opcode::cube;
    if (*exponent == 0.5 && device_ != PointwiseDevice::cpu) return Opcode::sqrt;
    if (*exponent == -0.5) return Opcode::rsqrt;
    if (*exponent == -1) return Opcode::reciprocal;
    return std::nullopt;
  }

  // Accepts a + alpha * b for alpha 1 and -1. For other factors libtorch rounds once or twice, depending on the
  // instruction set.
  bool settle_scale() {
    if (translated_.opcode != Opcode::add && translated_.opcode != Opcode::sub) return true;
    const auto alpha = number(2);
    if (!alpha || (*alpha != 1 && *alpha != -1)) return false;
    if (*alpha == -1) translated_.opcode = translated_.opcode == Opcode::add ? Opcode::sub : Opcode::add;
    return true;
  }

  // Replaces a division by a constant: on CUDA libtorch multiplies by its reciprocal.
  void settle_quotient() {
    if (device_ != PointwiseDevice::cuda || translated_.opcode != Opcode::div) return;
    PointwiseOp::Operand& divisor = translated_.operands[1];
    if (divisor.view.buffer != kNoBuffer) return;
    translated_.opcode = Opcode::mul;
    divisor.constant = 1.0f / static_cast<float>(divisor.constant);
  }

  bool settle_approximation() {
    const bool forward = translated_.opcode == Opcode::gelu;
    if (!forward && translated_.opcode != Opcode::gelu_backward) return true;
    const c10::IValue& word = op_.call->constants[forward ? 1 : 2];
    if (!word.isString()) return false;
    if (word.toStringRef() == "tanh") translated_.opcode = forward ? Opcode::gelu_tanh : Opcode::gelu_tanh_backward;
    return word.toStringRef() == "tanh" || word.toStringRef() == "none";
  }

  // Checks operands with dimensions. They decide the type that libtorch computes in, which must be the result's.
  bool types_are_plain() const {
    const DType result = translated_.result.dtype;
    const auto& operands = translated_.operands;
    if (translated_.opcode == Opcode::cast) {
      if (operands[0].view.buffer == kNoBuffer) return false;
      const DType from = operands[0].view.dtype;
      return is_result(from) || from == DType::boolean || from == DType::uint8 || from == DType::int64;
    }
    bool widest = false, any = false;
    for (const PointwiseOp::Operand& operand : operands) {
      const View& view = operand.view;
      if (view.buffer == kNoBuffer) continue;
      if (!is_result(view.dtype)) return false;
      if (view.sizes.empty() && !translated_.result.sizes.empty()) continue;
      any = true;
      widest = widest || view.dtype == result;
      // For 16-bit results libtorch would compute a wider operand in float32 and round at the end.
      if (view.dtype != result && is_reduced(result)) return false;
    }
    if (!any || !widest) return false;
    if (!is_reduced(result)) return true;
    // libtorch keeps a scalar next to 16-bit operands in float32 in two cases. On the CPU it is the second operand of a
    // product or a quotient; on CUDA it is a constant of the call.
    for (size_t i = 0; i < operands.size(); ++i) {
      const View& view = operands[i].view;
      const bool single = view.buffer == kNoBuffer || (view.sizes.empty() && !translated_.result.sizes.empty());
      if (!single) continue;
      const bool kept =
          device_ == PointwiseDevice::cpu
              ? i == 1 && (translated_.opcode == Opcode::mul || translated_.opcode == Opcode::div)
              : view.buffer == kNoBuffer && translated_.opcode >= Opcode::add && translated_.opcode <= Opcode::div;
      if (!kept) return false;
    }
    return true;
  }

  const Op& op_;
  const PointwiseDevice device_;
  PointwiseOp translated_;
};

}  // namespace

std::optional<PointwiseOp> pointwise_op(const Op& op, PointwiseDevice device) {
  return Translation(op, device).run();
}

std::shared_ptr<const OpCall> fused_op_call(const FusedProgram& program) {
  static const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow("plimsoll::fused", "");
  auto call = std::make_shared<OpCall>(OpCall{handle, {}});
  call->constants.resize(2);
  call->constants.emplace_back(program.code());
  call->constants.emplace_back(program.constants);
  return call;
}

namespace {

struct Sum {
  View a, b, result;
};

// Returns the operands if `op` adds two tensors of one shape in a type that its kernel and ours round alike.
std::optional<Sum> sum_of(const Op& op, PointwiseDevice device) {
  const std::optional<PointwiseOp> translated = pointwise_op(op, device);
  if (!translated || translated->opcode != Opcode::add) return std::nullopt;
  const View& result = translated->result;
  const auto in_rows = [](const View& view) { return ops::row_stride(view.sizes, view.strides).has_value(); };
  if (result.elements() == 0 || !in_rows(result)) return std::nullopt;
  for (const PointwiseOp::Operand& operand : translated->operands) {
    const View& view = operand.view;
    if (view.buffer == kNoBuffer || view.sizes != result.sizes || !in_rows(view)) return std::nullopt;
    // An operand in place must be the result, element for element.
    if (view.buffer == result.buffer && view != result) return std::nullopt;
  }
  return Sum{translated->operands[0].view, translated->operands[1].view, result};
}

// Constants are the last arguments of the call.
std::shared_ptr<const OpCall> call_of(std::string_view name, size_t arguments, std::vector<c10::IValue> constants) {
  auto call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(std::string(name).c_str(), ""), {}});
  call->constants.resize(arguments - constants.size());
  for (c10::IValue& constant : constants) call->constants.push_back(std::move(constant));
  return call;
}

Argument operand(const View& view, bool written = false) {
  return {Argument::Kind::tensor, written, {view}};
}

std::optional<Op> add_rms_norm(const Op& add, const Op& norm, PointwiseDevice device) {
  const OperatorRow* row = operator_row(norm.name);
  if (!row || row->after_sum.empty() || !norm.call) return std::nullopt;
  const std::optional<Sum> sum = sum_of(add, device);
  if (!sum || ops::tensor(norm, 0) != sum->result || ops::tensor(norm, 1).buffer == sum->result.buffer)
    return std::nullopt;
  Op op;
  op.name = operator_row(row->after_sum)->fused_name;
  op.arguments = {operand(sum->result, true), operand(sum->a), operand(sum->b), operand(ops::tensor(norm, 1)), {}, {}};
  op.results = norm.results;
  op.call =
      call_of(row->after_sum, op.arguments.size(), {norm.call->constants.begin() + 2, norm.call->constants.end()});
  return op;
}

std::optional<Op> rms_norm_backward_add(const Op& norm, const Op& add, PointwiseDevice device) {
  const OperatorRow* row = operator_row(norm.name);
  if (!row || row->before_sum.empty() || norm.results.size() != 2) return std::nullopt;
  const std::optional<Sum> sum = sum_of(add, device);
  if (!sum) return std::nullopt;
  const View &dx = norm.results[0], &other = sum->a == dx ? sum->b : sum->a;
  if ((sum->a != dx && sum->b != dx) || other.buffer == dx.buffer) return std::nullopt;
  // The weight's gradient is the op's own result: nothing can be added to it before it is computed.
  const BufferId dweight = norm.results[1].buffer;
  if (dweight != kNoBuffer && (other.buffer == dweight || sum->result.buffer == dweight)) return std::nullopt;
  Op op;
  op.name = operator_row(row->before_sum)->fused_name;
  op.arguments = {operand(sum->result, true), operand(other)};
  for (size_t i = 0; i < norm.arguments.size(); ++i) {
    // A row's dx is added before the next row is read.
    if (ops::tensor(norm, i).buffer == sum->result.buffer) return std::nullopt;
    op.arguments.push_back(norm.arguments[i]);
  }
  op.results = {norm.results[1]};
  op.call = call_of(row->before_sum, op.arguments.size(), {});
  return op;
}

// The sum of a norm's backward, and its copy in 16 bits, which the matmuls of the layer before read. On the CPU the
// copy would be as slow as by itself.
std::optional<Op> rms_norm_backward_add_cast(const Op& norm, const Op& copy, PointwiseDevice device) {
  constexpr std::string_view kSummed = "plimsoll::rms_norm_backward_add",
                             kCopied = "plimsoll::rms_norm_backward_add_cast";
  if (device != PointwiseDevice::cuda || norm.name != operator_row(kSummed)->fused_name || copy.name != "aten::copy_" ||
      copy.arguments.size() < 2)
    return std::nullopt;
  const View &target = ops::tensor(copy, 0), &source = ops::tensor(copy, 1), &sum = ops::tensor(norm, 0);
  if (source != sum || sum.dtype != DType::float32 || target.sizes != sum.sizes || element_bytes(target.dtype) != 2 ||
      !ops::row_stride(target.sizes, target.strides))
    return std::nullopt;
  for (size_t i = 0; i < norm.arguments.size(); ++i)
    if (ops::tensor(norm, i).buffer == target.buffer) return std::nullopt;
  Op op;
  op.name = operator_row(kCopied)->fused_name;
  op.arguments = norm.arguments;
  op.arguments.insert(op.arguments.begin() + 1, operand(target, true));
  op.results = norm.results;
  op.call = call_of(kCopied, op.arguments.size(), {});
  return op;
}

}  // namespace

std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device) {
  if (std::optional<Op> op = add_rms_norm(first, second, device)) return op;
  if (std::optional<Op> op = rms_norm_backward_add_cast(first, second, device)) return op;
  return rms_norm_backward_add(first, second, device);
}

}  // namespace plimsoll
