#include "run/fake_device.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>

#include "device/backend.h"

namespace plimsoll::testing {
namespace {

constexpr auto kType = c10::DeviceType::MAIA;
std::atomic<long> kernels{0}, allocated{0};
std::atomic<bool> has_float64{true};

class FakeAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    allocated += static_cast<long>(bytes);
    void* const memory = bytes > 0 ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    return {memory, memory, &std::free, c10::Device(kType, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override { return {kType, 0}; }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device device) const override {}
  void uncheckedSetDevice(c10::Device device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(c10::DeviceIndex device) const override {}

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, {kType, 0}); }
};

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(has_float64 || c10::dtype_or_default(type) != at::kDouble, "this device has no float64");
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), c10::GetAllocator(kType),
                                   c10::DispatchKeySet(c10::DispatchKey::MAIA), c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           c10::GetAllocator(kType), c10::DispatchKeySet(c10::DispatchKey::MAIA),
                                           c10::dtype_or_default(type));
}

// The same bytes as the CPU sees them.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kType) return tensor;
  const size_t bytes = tensor.storage().nbytes();
  auto seen = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                   c10::DataPtr(const_cast<void*>(tensor.storage().data()), c10::kCPU), nullptr, false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  seen.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  seen.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return seen;
}

// A result of the CPU's: the argument that it was written to, or a tensor of the device's own allocator.
at::Tensor on_device(const at::Tensor& made, const std::vector<std::pair<at::Tensor, at::Tensor>>& arguments) {
  if (!made.defined()) return made;
  for (const auto& [seen, argument] : arguments)
    if (made.unsafeGetTensorImpl() == seen.unsafeGetTensorImpl()) return argument;
  at::Tensor result =
      at::detail::empty_strided_generic(made.sizes(), made.strides(), c10::GetAllocator(kType),
                                        c10::DispatchKeySet(c10::DispatchKey::MAIA), made.scalar_type());
  on_cpu(result).copy_(made);
  return result;
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++kernels;
  const size_t count = op.schema().arguments().size();
  std::vector<std::pair<at::Tensor, at::Tensor>> arguments;
  const auto seen = [&](const at::Tensor& tensor) {
    at::Tensor cpu = on_cpu(tensor);
    if (tensor.defined() && tensor.device().type() == kType) arguments.emplace_back(cpu, tensor);
    return cpu;
  };
  std::vector<c10::IValue> cpu_stack;
  for (const c10::IValue& value : torch::jit::last(*stack, count)) {
    if (value.isTensor()) {
      cpu_stack.emplace_back(seen(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(seen(tensor));
      cpu_stack.emplace_back(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      const c10::List<std::optional<at::Tensor>> given = value.toOptionalTensorList();
      for (size_t i = 0; i < given.size(); ++i) {
        const std::optional<at::Tensor> tensor = given.get(i);
        list.push_back(tensor ? std::optional(seen(*tensor)) : std::nullopt);
      }
      cpu_stack.emplace_back(list);
    } else if (value.isDevice()) {
      cpu_stack.emplace_back(c10::Device(c10::kCPU));
    } else {
      cpu_stack.push_back(value);
    }
  }
  torch::jit::drop(*stack, count);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &cpu_stack);
  for (c10::IValue& value : cpu_stack) {
    if (value.isTensor()) {
      stack->emplace_back(on_device(value.toTensor(), arguments));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_device(tensor, arguments));
      stack->emplace_back(list);
    } else {
      stack->push_back(std::move(value));
    }
  }
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                             self.key_set(), self.dtype());
  at::native::setStrided(view, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                         offset ? offset->expect_int() : self.storage_offset());
  return view;
}

}  // namespace

FakeDeviceWithoutFloat64::FakeDeviceWithoutFloat64() {
  has_float64 = false;
}

FakeDeviceWithoutFloat64::~FakeDeviceWithoutFloat64() {
  has_float64 = true;
}

FakeUse fake_use() {
  return {kernels, allocated};
}

void add_fake_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    static FakeAllocator allocator;
    c10::SetAllocator(kType, &allocator);
    static c10::impl::DeviceGuardImplRegistrar guard(kType, new FakeGuard);
    static torch::Library fallback(torch::Library::IMPL, "_", c10::DispatchKey::MAIA, __FILE__, __LINE__);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::MAIA, __FILE__, __LINE__);
    aten.impl("empty.memory_format", empty);
    aten.impl("empty_strided", empty_strided);
    aten.impl("as_strided", as_strided);
    aten.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    aten.impl("_copy_from", [](const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
      ++kernels;
      on_cpu(target).copy_(on_cpu(self));
      return target;
    });
    add_backend("made_up", *generic_backend(kType));
  });
}

}  // namespace plimsoll::testing
