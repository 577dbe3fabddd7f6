// A boxed fallback on a dispatch key that libtorch keeps for modes: while the key is included on a thread, every
// operator call passes here first, and factory functions are sent to the plan device.
#include "plimsoll/plan_scope.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <unordered_map>

#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

constexpr c10::DispatchKey kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// A factory takes a device and no tensor. -1 for every other operator.
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

// A CPU tensor with values of its own (torch::tensor({1, 2, 3})) that meets plan tensors becomes a constant of the
// trace. Here and not in the recorder: libtorch compares devices before a call arrives there.
void adopt_cpu_tensors(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  Recorder* recorder = Recorder::active();
  if (!recorder) return;
  const size_t count = op.schema().arguments().size();
  bool plan = false, cpu = false;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    plan |= is_plan(tensor);
    cpu |= tensor.device().is_cpu() && tensor.dim() > 0;
  }
  if (!plan || !cpu) return;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const at::Tensor tensor = stack[i].toTensor();
    if (tensor.device().is_cpu() && tensor.dim() > 0) stack[i] = recorder->constant_tensor(tensor);
  }
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
