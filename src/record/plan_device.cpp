#include "record/plan_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>

#include <mutex>
#include <thread>
#include <unordered_map>

#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "record/autocast.h"
#include "record/op_signature.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

// A guard for one device with one stream; nothing needs synchronization.
struct PlanGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kPlanDevice; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {kPlanDevice, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(IPU, PlanGuard)

// An allocator of addresses without memory. libtorch compares addresses to find overlap, and never reads from them.
struct PlanAllocator final : c10::Allocator {
  struct Allocation {
    uint64_t recording;
    BufferId buffer;
  };
  static PlanAllocator& get() {
    static PlanAllocator allocator;
    return allocator;
  }
  static void release(void* context) { delete static_cast<Allocation*>(context); }
  c10::DataPtr allocate(size_t bytes) override {
    Recorder* recorder = Recorder::active();
    if (!recorder)
      throw UserError(
          "a tensor was made on the plan device while nothing is being recorded; make it inside the model's " +
          std::string("constructor or the step function"));
    const uintptr_t address = next_.fetch_add((bytes / kPage + 2) * kPage);
    auto* allocation = new Allocation{recorder->serial(), recorder->add_buffer(static_cast<int64_t>(bytes))};
    return {reinterpret_cast<void*>(address), allocation, &release, c10::Device(kPlanDevice, 0)};
  }
  void copy_data(void*, const void*, size_t) const override {
    throw InternalError("plan tensors hold no data to copy");
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

 private:
  static constexpr uintptr_t kPage = 4096;
  // No valid address of a program: any access through it faults immediately.
  std::atomic<uintptr_t> next_{uintptr_t{1} << 62};
};

// Reaches the engine's members for derived classes.
struct BackwardThreads : torch::autograd::Engine {
  static void start(torch::autograd::Engine& engine) {
    engine.initialize_device_threads_pool();
    auto& queues = engine.*(&BackwardThreads::device_ready_queues_);
    if (!queues.empty()) return;  // a thread serves the devices of all types that have its index
    // A backward pass on the CPU, the only device so far, does not read the queues.
    queues.push_back(std::make_shared<torch::autograd::ReadyQueue>());
    std::thread(&torch::autograd::Engine::thread_init, &engine, 0, queues[0], true).detach();
  }
};

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return make_plan_tensor(sizes, strides, dtype.value_or(at::get_default_dtype_as_scalartype()));
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                               std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
  const at::Tensor meta = at::detail::empty_meta(sizes, type, format);
  return make_plan_tensor(meta.sizes(), meta.strides(), type);
}

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
}

}  // namespace

std::string plan_device_named(std::string message) {
  constexpr std::string_view kName = "ipu:0";
  for (size_t at = 0; (at = message.find(kName, at)) != std::string::npos;) message.replace(at, kName.size(), "plan");
  return message;
}

at::Tensor make_plan_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  PlanAllocator& allocator = PlanAllocator::get();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
                                                       allocator.allocate(bytes), &allocator, /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::IPU),
                                                         c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor make_plan_view(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
                          c10::ScalarType dtype) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                         base.key_set(), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

void ensure_backward_thread() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  BackwardThreads::start(torch::autograd::Engine::get_default_engine());
}

BufferId buffer_of(const at::Tensor& tensor) {
  const void* context = tensor.storage().data_ptr().get_context();
  check(context != nullptr, "a plan tensor without a buffer");
  const auto* allocation = static_cast<const PlanAllocator::Allocation*>(context);
  const Recorder* recorder = Recorder::active();
  if (recorder && recorder->serial() != allocation->recording)
    throw UserError(
        fmt::format("a tensor{} was made while another step was recorded (a static or a captured one?); make it anew "
                    "in every step, or "
                    "register it with the model",
                    recorder->place()));
  return allocation->buffer;
}

View view_of(const at::Tensor& tensor) {
  return {buffer_of(tensor), dtype_of(tensor.scalar_type()), tensor.storage_offset(), tensor.sizes().vec(),
          tensor.strides().vec()};
}

at::Tensor meta_like(const at::Tensor& tensor) {
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(),
                                                        tensor.storage_offset());
  static c10::Allocator* const allocator = c10::GetAllocator(c10::DeviceType::Meta);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
                                                       allocator, /*resizable=*/true);
  auto meta = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::Meta),
                                                       tensor.dtype());
  meta.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  meta.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

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
  if (!recorder || op.schema().name() == "aten::ctc_loss") return;  // its lengths are read
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

// Returns whether a call draws random numbers in every step. In the model's constructor it draws once.
bool draws_in_step(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const Recorder* const recorder = Recorder::active();
  if (!recorder || recorder->phase() == Phase::initialize || !signature_of(op).random) return false;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[stack.size() - arguments.size() + i];
    if ((arguments[i].name() == "train" || arguments[i].name() == "training") && value.isBool() && !value.toBool())
      return false;  // dropout in evaluation
  }
  return true;
}

// The CPU would draw now, and each step would have these numbers.
void refuse_draw_of_cpu(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool plan = false, cpu = false;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    plan |= is_plan(stack[i].toTensor());
    cpu |= stack[i].toTensor().device().is_cpu();
  }
  if (cpu && !plan)
    throw UserError(fmt::format(
        "operator {}{} cannot be recorded: it draws random numbers for a CPU tensor, once and not in every step; make "
        "the tensor without a device, or on the device of an input",
        signature_of(op).name, Recorder::active()->place()));
}

// Replaces masks among the indices of index() by the indices of their true elements, as libtorch does. The values of
// such a mask must be known: otherwise nonzero() is refused by name.
void expand_masks(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  static const auto index = c10::Dispatcher::singleton().findSchemaOrThrow("aten::index", "Tensor");
  if (op != index || !stack.back().isOptionalTensorList()) return;
  c10::List<std::optional<at::Tensor>> expanded;
  for (const std::optional<at::Tensor> tensor : stack.back().toOptionalTensorList()) {
    const bool mask = tensor && is_plan(*tensor) && tensor->scalar_type() == at::kBool;
    if (!mask) {
      expanded.push_back(tensor);
      continue;
    }
    for (const at::Tensor& places : at::nonzero(*tensor).unbind(1)) expanded.push_back(places);
  }
  stack.back() = expanded;
}

}  // namespace

void call_on_plan(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const int device = cached_device_argument(op);
  const bool draws = draws_in_step(op, *stack);
  if (device >= 0) {
    c10::IValue& value = (*stack)[stack->size() - op.schema().arguments().size() + device];
    // torch.normal() of Python names the CPU if the caller names no device.
    if (value.isNone() || (draws && value.toDevice().is_cpu())) value = c10::Device(kPlanDevice, 0);
  } else {
    if (draws) refuse_draw_of_cpu(op, *stack);
    adopt_cpu_tensors(op, *stack);
    expand_masks(op, *stack);
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kModeKey);
  const FollowedAutocast::Call autocast;
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&call_on_plan>());
}

// A dispatch key that libtorch reserves for modes, included on this thread: every operator call passes the boxed
// fallback of the key first, which sends factory functions to the plan device.
struct PlanScope::Guard {
  c10::impl::IncludeDispatchKeyGuard include{kModeKey};
};

PlanScope::PlanScope() : guard_(std::make_unique<Guard>()) {}
PlanScope::~PlanScope() = default;

}  // namespace plimsoll
