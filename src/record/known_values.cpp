#include "record/recorder.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "record/op_signature.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxKnownBytes = int64_t{1} << 20;

const ConstantData* find_constant(const Trace& trace, BufferId buffer) {
  const auto found = std::ranges::find(trace.constants, buffer, &ConstantData::buffer);
  return found == trace.constants.end() ? nullptr : &*found;
}

// The ops that compute a view from numbers alone, and the buffers that they use.
struct Slice {
  std::vector<const Op*> ops;  // in recorded order
  std::unordered_set<BufferId> buffers;
};

std::optional<Slice> slice_of(const Trace& trace, const View& view) {
  Slice slice;
  std::unordered_set<BufferId> made;
  int64_t bytes = 0;
  bool known = true;
  const auto use = [&](BufferId buffer) {
    if (!slice.buffers.insert(buffer).second) return;
    bytes += trace.buffers[buffer].bytes;
    if (find_constant(trace, buffer))
      made.insert(buffer);
    else if (trace.buffers[buffer].persistent)
      known = false;
  };
  use(view.buffer);
  for (auto op = trace.ops.rbegin(); op != trace.ops.rend() && known && bytes <= kMaxKnownBytes; ++op) {
    bool makes = false;
    for_each_view(*op,
                  [&](const View& each, bool written) { makes |= written && slice.buffers.contains(each.buffer); });
    if (!makes) continue;
    if (op->random_id >= 0 || !op->call) return std::nullopt;
    slice.ops.push_back(&*op);
    for_each_view(*op, [&](const View& each, bool written) {
      use(each.buffer);
      if (written) made.insert(each.buffer);
    });
  }
  if (!known || bytes > kMaxKnownBytes || made.size() != slice.buffers.size()) return std::nullopt;
  std::ranges::reverse(slice.ops);
  return slice;
}

// Buffers of a slice in host memory.
class HostBuffers {
 public:
  HostBuffers(const Trace& trace, const std::unordered_set<BufferId>& buffers) {
    for (const BufferId buffer : buffers) {
      const at::Tensor bytes = at::zeros({trace.buffers[buffer].bytes}, at::TensorOptions(at::kCPU).dtype(at::kByte));
      if (const ConstantData* constant = find_constant(trace, buffer); constant && !constant->bytes.empty())
        std::memcpy(bytes.mutable_data_ptr(), constant->bytes.data(), constant->bytes.size());
      bytes_.emplace(buffer, bytes);
    }
  }

  at::Tensor operator[](const View& view) const {
    if (view.buffer == kNoBuffer) return {};
    const at::Tensor tensor = at::empty({0}, at::TensorOptions(at::kCPU).dtype(scalar_type_of(view.dtype)));
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(bytes_.at(view.buffer).storage());
    tensor.unsafeGetTensorImpl()->set_storage_offset(view.offset);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides);
    return tensor;
  }

 private:
  std::unordered_map<BufferId, at::Tensor> bytes_;
};

c10::IValue argument_of(const Op& op, size_t index, const HostBuffers& buffers) {
  const Argument& argument = op.arguments[index];
  if (argument.kind == Argument::Kind::constant) return op.call->constants[index];
  if (argument.kind == Argument::Kind::tensor) return buffers[argument.views.at(0)];
  const auto type = op.call->op.schema().arguments()[index].type();
  const auto list = type->cast<c10::ListType>();
  if (list && list->getElementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const View& view : argument.views)
      tensors.push_back(view.buffer == kNoBuffer ? std::nullopt : std::optional<at::Tensor>(buffers[view]));
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (const View& view : argument.views) tensors.push_back(buffers[view]);
  return tensors;
}

void run(const Op& op, const HostBuffers& buffers) {
  std::vector<c10::IValue> arguments;
  for (size_t i = 0; i < op.arguments.size(); ++i) arguments.push_back(argument_of(op, i, buffers));
  const std::vector<c10::IValue> outputs = call_on_cpu(op.call->op, std::move(arguments));
  const OpSignature& signature = signature_of(op.call->op);
  auto result = op.results.begin();
  const auto store = [&](const at::Tensor& tensor) {
    if (result->buffer != kNoBuffer && tensor.defined()) buffers[*result].copy_(tensor);
    ++result;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (signature.result_argument[i] >= 0) continue;
    if (outputs[i].isTensorList()) {
      for (const at::Tensor tensor : outputs[i].toTensorList()) store(tensor);
    } else {
      store(outputs[i].isTensor() ? outputs[i].toTensor() : at::Tensor());
    }
  }
}

}  // namespace

std::vector<c10::IValue> call_on_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments) {
  // The recorded calls are those below autograd and autocast. The plan device's scope is a mode of the thread.
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const c10::impl::ExcludeDispatchKeyGuard no_mode(c10::DispatchKey::TESTING_ONLY_GenericMode);
  for (c10::IValue& argument : arguments)
    if (argument.isDevice()) argument = c10::Device(c10::kCPU);
  op.callBoxed(&arguments);
  return arguments;
}

bool depends_on(const Trace& trace, BufferId buffer, const std::unordered_set<BufferId>& sources) {
  std::unordered_set<BufferId> needed;
  const auto is_source = [&](BufferId each) {
    needed.insert(each);
    return sources.contains(each);
  };
  if (is_source(buffer)) return true;
  for (auto op = trace.ops.rbegin(); op != trace.ops.rend(); ++op) {
    bool makes = false, found = false;
    for_each_view(*op, [&](const View& each, bool written) { makes |= written && needed.contains(each.buffer); });
    if (makes) for_each_view(*op, [&](const View& each, bool) { found |= is_source(each.buffer); });
    if (found) return true;
  }
  return false;
}

std::optional<at::Tensor> known_values(const Trace& trace, const View& view) {
  const std::optional<Slice> slice = slice_of(trace, view);
  if (!slice) return std::nullopt;
  try {
    const HostBuffers buffers(trace, slice->buffers);
    for (const Op* op : slice->ops) run(*op, buffers);
    return buffers[view];
  } catch (const c10::Error&) {  // an operator without a kernel for the CPU
    return std::nullopt;
  }
}

}  // namespace plimsoll
