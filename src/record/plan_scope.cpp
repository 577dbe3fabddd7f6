// Implements PlanScope with a boxed fallback on a dispatch key that libtorch reserves for modes.
//
// While the key is included on a thread, every operator call passes here first, and factory functions are sent to the
// plan device.
#include "record/plan_scope.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <unordered_map>

#include "record/autocast.h"
#include "record/op_signature.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

constexpr c10::DispatchKey kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Returns the index of the device argument of a factory, which takes a device and no tensor; -1 for every other
// operator.
int device_argument(const c10::FunctionSchema& schema) {
  int device = -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.name() == "device") device = static_cast<int>(i);
    const auto kind = argument.type()->kind();
    if (kind == c10::TypeKind::TensorType) return -1;
  }
  return device;
}

int cached_device_argument(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, int> cache;
  const auto [entry, added] = cache.try_emplace(&op.schema(), 0);
  if (added) entry->second = device_argument(op.schema());
  return entry->second;
}

// Turns CPU tensors with values (torch::tensor({1, 2, 3})) that are operands next to plan tensors into constants of the
// trace. This cannot be done in the recorder, because libtorch compares devices before a call arrives there.
void adopt_cpu_tensors(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  Recorder* recorder = Recorder::active();
  if (!recorder) return;
  const size_t count = op.schema().arguments().size();
  c10::IValue* const arguments = stack.data() + stack.size() - count;
  bool plan = false, cpu = false;
  const auto look = [&](const at::Tensor& tensor) {
    plan = plan || is_plan(tensor);
    cpu = cpu || (tensor.defined() && tensor.device().is_cpu() && tensor.dim() > 0);
  };
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].isTensor()) look(arguments[i].toTensor());
    if (arguments[i].isTensorList())
      for (const at::Tensor tensor : arguments[i].toTensorList()) look(tensor);
    if (arguments[i].isOptionalTensorList())
      for (const std::optional<at::Tensor> tensor : arguments[i].toOptionalTensorList())
        look(tensor.value_or(at::Tensor()));
  }
  if (plan && cpu) recorder->adopt_cpu_tensors(signature_of(op), arguments);
}

void send_to_plan(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const int device = cached_device_argument(op);
  if (device >= 0) {
    c10::IValue& value = (*stack)[stack->size() - op.schema().arguments().size() + device];
    if (value.isNone()) value = c10::Device(kPlanDevice, 0);
  } else {
    adopt_cpu_tensors(op, *stack);
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kModeKey);
  const FollowedAutocast::Call autocast;
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&send_to_plan>());
}

}  // namespace

struct PlanScope::Guard {
  c10::impl::IncludeDispatchKeyGuard include{kModeKey};
};

PlanScope::PlanScope() : guard_(std::make_unique<Guard>()) {}
PlanScope::~PlanScope() = default;

}  // namespace plimsoll
