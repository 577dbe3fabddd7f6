// Implements the plan device's boxed fallback: every operator call below autograd gets its output shapes here and is
// recorded.
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>

#include "plimsoll/error.h"
#include "record/op_signature.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

// Remedy for libtorch's attention, the one module that calls a refused operator before it reads a parameter.
constexpr const char* kInsteadOfAttention =
    ". In place of the module use linear layers for query, key, value and output with at::scaled_dot_product_attention "
    "between them";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

c10::IValue to_meta(const c10::IValue& value) {
  const auto convert = [](const at::Tensor& tensor) { return is_plan(tensor) ? meta_like(tensor) : tensor; };
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor tensor : value.toTensorList()) list.push_back(convert(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      list.push_back(tensor ? std::optional<at::Tensor>(convert(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice()) return c10::Device(c10::kMeta);
  return value;
}

std::vector<c10::IValue> infer_outputs(const OpSignature& signature, const std::vector<c10::IValue>& arguments,
                                       Recorder* recorder) {
  torch::jit::Stack meta;
  for (const c10::IValue& argument : arguments) meta.push_back(to_meta(argument));
  const std::string place = recorder ? recorder->place() : "";
  try {
    if (signature.rule) {
      std::vector<c10::IValue> outputs;
      for (at::Tensor& tensor : (*signature.rule)(meta)) outputs.emplace_back(std::move(tensor));
      return outputs;
    }
    // libtorch's boxing drops the arguments before it copies the outputs. Several `out` tensors are references to
    // arguments, so a copy must keep them alive.
    const torch::jit::Stack held = meta;
    signature.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &meta);
    return meta;
  } catch (const c10::NotImplementedError&) {
    throw UserError(
        fmt::format("operator {}{} cannot be recorded: Plimsoll has no shape rule for it, nor libtorch a Meta kernel. "
                    "Write the step without it, or add a rule in src/record/shape_rules.cpp",
                    signature.name, place));
  } catch (const c10::Error& error) {
    if (recorder && signature.only_views) recorder->note_refused_view();
    throw UserError(fmt::format("operator {}{}: {}", signature.name, place,
                                first_line(plan_device_named(error.what_without_backtrace()))));
  }
}

at::Tensor fresh_like(const at::Tensor& meta) {
  return make_plan_tensor(meta.sizes(), meta.strides(), meta.scalar_type());
}

// Returns the plan tensor of output `index`, for the meta kernel's result.
c10::IValue make_output(const OpSignature& signature, size_t index, const c10::IValue& meta,
                        const std::vector<c10::IValue>& arguments, Recorder* recorder) {
  const int aliased = signature.result_argument[index];
  if (aliased < 0) {
    if (meta.isTensor()) return meta.toTensor().defined() ? c10::IValue(fresh_like(meta.toTensor())) : meta;
    if (meta.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor tensor : meta.toTensorList()) list.push_back(fresh_like(tensor));
      return list;
    }
    return meta;
  }
  const c10::IValue& argument = arguments[aliased];
  if (signature.result_is_view[index]) {
    const auto view = [&](const at::Tensor& tensor) {
      return make_plan_view(argument.toTensor(), tensor.sizes(), tensor.strides(), tensor.storage_offset(),
                            tensor.scalar_type());
    };
    if (meta.isTensor()) return view(meta.toTensor());
    c10::List<at::Tensor> list;
    for (const at::Tensor tensor : meta.toTensorList()) list.push_back(view(tensor));
    return list;
  }
  // The output is written in place. An `out` of the wrong size is resized, as the real kernel does.
  if (argument.isTensor() && meta.isTensor()) {
    const at::Tensor& out = argument.toTensor();
    const at::Tensor& wanted = meta.toTensor();
    if (out.defined() && out.sizes() != wanted.sizes()) {
      const auto bytes =
          at::detail::computeStorageNbytes(wanted.sizes(), wanted.strides(), out.element_size(), out.storage_offset());
      if (bytes > out.storage().nbytes()) {
        out.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
        if (recorder) recorder->grow_buffer(buffer_of(out), static_cast<int64_t>(bytes));
      }
      out.unsafeGetTensorImpl()->set_sizes_and_strides(wanted.sizes(), wanted.strides());
    }
  }
  return argument;
}

// Calls a refused operator now, if the values of all its tensors are known: models read numbers of small tensors that
// they made from numbers. A boolean that is not known may be assumed. Returns whether it did.
bool call_with_known_values(const OpSignature& signature, std::vector<c10::IValue> arguments, Recorder& recorder,
                            torch::jit::Stack* stack) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (signature.written[i] || arguments[i].isTensorList() || arguments[i].isOptionalTensorList()) return false;
    if (!arguments[i].isTensor() || !is_plan(arguments[i].toTensor())) continue;
    const at::Tensor tensor = arguments[i].toTensor();
    if (const std::optional<at::Tensor> values = recorder.known_values(tensor)) {
      arguments[i] = *values;
      continue;
    }
    const bool reads = signature.name == "aten::_local_scalar_dense";
    const std::optional<bool> value = recorder.assumed(buffer_of(tensor));
    if (!value || !reads) return false;
    stack->emplace_back(at::Scalar(*value));
    return true;
  }
  std::vector<c10::IValue> outputs = call_on_cpu(signature.op, std::move(arguments));
  for (const c10::IValue& output : outputs)
    if (output.isTensorList() || (output.isTensor() && output.toTensor().layout() != at::kStrided)) return false;
  for (c10::IValue& output : outputs)
    stack->push_back(output.isTensor() ? c10::IValue(recorder.constant_tensor(output.toTensor())) : std::move(output));
  return true;
}

// Notes what follows from the assumption that values are finite, which isfinite() and its like begin.
void follow_assumptions(const OpSignature& signature, const std::vector<c10::IValue>& arguments,
                        const std::vector<c10::IValue>& outputs, Recorder& recorder) {
  const auto tensor_of = [](const std::vector<c10::IValue>& values, size_t i) {
    return i < values.size() && values[i].isTensor() && is_plan(values[i].toTensor()) ? values[i].toTensor()
                                                                                      : at::Tensor();
  };
  const at::Tensor from = tensor_of(arguments, 0), to = tensor_of(outputs, 0);
  if (from.defined() && to.defined()) {
    const std::string name = signature.name.substr(0, signature.name.find('.'));
    const bool same = name == "aten::all" || name == "aten::any";
    const bool flipped = name == "aten::logical_not" || name == "aten::bitwise_not";
    const std::optional<bool> value = same || flipped ? recorder.assumed(buffer_of(from)) : std::nullopt;
    if (value) return recorder.assume(buffer_of(to), *value != flipped);
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const at::Tensor written = signature.written[i] ? tensor_of(arguments, i) : at::Tensor(); written.defined())
      recorder.forget_assumption(buffer_of(written));
}

}  // namespace

void record_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpSignature& signature = signature_of(op);
  Recorder* recorder = Recorder::active();
  const size_t count = signature.written.size();
  auto top = torch::jit::last(*stack, count);
  std::vector<c10::IValue> arguments(top.begin(), top.end());
  torch::jit::drop(*stack, count);

  if (signature.refusal) {
    if (recorder && call_with_known_values(signature, arguments, *recorder, stack)) return;
    const Recorder::RefusedCall call = recorder ? recorder->place_of_refused(signature.name) : Recorder::RefusedCall();
    throw UserError(fmt::format("operator {}{} cannot be recorded: {}{}", signature.name, call.place,
                                *signature.refusal, call.caller ? kInsteadOfAttention : ""));
  }
  if (recorder && signature.random && std::ranges::any_of(arguments, &c10::IValue::isGenerator))
    throw UserError(fmt::format(
        "operator {}{} cannot be recorded with a generator: a step draws its random numbers from the seed of the "
        "training, its step, micro batch and operator; leave the generator out",
        signature.name, recorder->place()));
  if (recorder) recorder->adopt_cpu_tensors(signature, arguments.data());
  const std::vector<c10::IValue> meta = infer_outputs(signature, arguments, recorder);
  const size_t results = signature.result_argument.size();
  check(meta.size() >= results, "shape rule of " + signature.name + " gives too few outputs");

  std::vector<c10::IValue> outputs;
  for (size_t i = 0; i < results; ++i)
    outputs.push_back(make_output(signature, i, meta[meta.size() - results + i], arguments, recorder));
  if (recorder) {
    if (signature.only_views)
      recorder->note_view();
    else
      recorder->add_op(signature, arguments, outputs);
    if (!signature.only_views) follow_assumptions(signature, arguments, outputs, *recorder);
  }
  for (c10::IValue& output : outputs) stack->push_back(std::move(output));
}

namespace {

// Copies from or to the plan device. libtorch calls this operator for a private device; on every real device it is
// copy_.
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  Recorder* recorder = Recorder::active();
  if (!is_plan(target)) {
    if (const std::optional<at::Tensor> values = recorder ? recorder->known_values(source) : std::nullopt)
      return target.copy_(*values);
    throw UserError(fmt::format(
        "a tensor of the step{} is copied to the CPU while it is recorded, but it has no values yet; return "
        "what you want to read from the step, or read it after the step has run",
        recorder ? recorder->place() : ""));
  }
  static const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  std::vector<c10::IValue> arguments{target, source, non_blocking};
  if (recorder) {
    recorder->adopt_cpu_tensors(signature_of(copy), arguments.data());
    recorder->add_op(signature_of(copy), arguments, {target});
  }
  return target;
}

// torch.nn.utils.parametrize sets a parameter to itself. Another storage is refused.
at::Tensor& set_source(at::Tensor& self, const at::Tensor& source) {
  static const auto set = c10::Dispatcher::singleton().findSchemaOrThrow("aten::set_", "source_Tensor");
  if (is_plan(source) && self.storage().is_alias_of(source.storage()) && self.dtype() == source.dtype()) {
    self.unsafeGetTensorImpl()->set_storage_offset(source.storage_offset());
    self.unsafeGetTensorImpl()->set_sizes_and_strides(source.sizes(), source.strides());
    return self;
  }
  torch::jit::Stack stack{self, source};
  record_call(set, &stack);  // throws
  return self;
}

// libtorch's CPU kernel has no histogram of integers.
at::Tensor float_histogram(const at::Tensor& input, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  if (at::isIntegralType(input.scalar_type(), /*includeBool=*/true))
    return at::histc(input.to(at::kFloat), bins, min, max).to(input.scalar_type());
  static const auto histc = c10::Dispatcher::singleton().findSchemaOrThrow("aten::histc", "");
  torch::jit::Stack stack{input, bins, min, max};
  record_call(histc, &stack);
  return stack.at(0).toTensor();
}

TORCH_LIBRARY_IMPL(_, IPU, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&record_call>());
}

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("_copy_from", copy_from);
  m.impl("set_.source_Tensor", set_source);
  // Record these as single ops: libtorch would split them into ops that need more memory, or fail.
  for (const char* name :
       {"native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
        "native_batch_norm", "native_batch_norm_backward", "embedding", "convolution", "convolution_backward",
        "_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_sgd_", "_fused_sgd_.tensor_lr", "native_dropout",
        "native_dropout_backward", "linalg_vector_norm", "mse_loss", "smooth_l1_loss"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&record_call>());
  m.impl("_grouped_mm", torch::CppFunction::makeFromBoxedFunction<&record_call>());
  m.impl("histc", float_histogram);
  // libtorch writes these as addmv with beta 0, which reads a result that nothing has written.
  for (const char* name : {"mv", "mv.out"}) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&record_call>());
  // Real devices have kernels for these. A device without one gets a formula instead, with more buffers and other bits.
  for (const char* name : {"silu_backward", "mish_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&record_call>());
}

}  // namespace
}  // namespace plimsoll
