#include "ops/fused/op_forms.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <utility>

#include "ops/libtorch_types.h"
#include "ops/loss/linear_cross_entropy_chunks.h"
#include "ops/workspace/workspace.h"

namespace plimsoll {
namespace {

// Returns the only view of an argument that is a tensor; nullptr: it is none.
const View* operand(const Op& op, size_t index) {
  if (index >= op.arguments.size() || op.arguments[index].kind != Argument::Kind::tensor) return nullptr;
  const View& view = op.arguments[index].views[0];
  return view.buffer == kNoBuffer ? nullptr : &view;
}

// Returns whether the op is target = source.
bool is_copy(const Op& op) {
  return op.name == "aten::copy_" && operand(op, 0) && operand(op, 1);
}

// Returns whether the op is sum += addend, without a factor, in place.
bool is_sum_of(const Op& op, const View& addend) {
  if (op.name != "aten::add.out" || op.arguments.size() != 4 || !op.call) return false;
  const View *a = operand(op, 0), *b = operand(op, 1), *out = operand(op, 3);
  const c10::IValue& alpha = op.call->constants.at(2);
  if (!a || !b || !out || !alpha.isScalar() || !alpha.toScalar().equal(1)) return false;
  const View& sum = *a == addend ? *b : *a;
  return (*a == addend || *b == addend) && sum == *out && sum.sizes == addend.sizes;
}

struct NamedArgument {
  std::optional<View> view;  ///< the tensor; none: a constant
  bool written = false;
  c10::IValue constant = {};
};

Op call_of(const std::string& name, const std::string& overload, std::vector<NamedArgument> arguments) {
  Op op;
  op.name = overload.empty() ? name : name + "." + overload;
  auto call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()), {}});
  for (NamedArgument& argument : arguments) {
    if (argument.view)
      op.arguments.push_back({Argument::Kind::tensor, argument.written, {std::move(*argument.view)}});
    else
      op.arguments.push_back({Argument::Kind::constant, false, {}});
    call->constants.push_back(std::move(argument.constant));
  }
  op.call = std::move(call);
  return op;
}

// Returns the form of a loss head with `chunk_tokens`.
Op with_chunks(const Op& op, int64_t chunk_tokens) {
  Op form = op;
  form.name += ".chunks";
  form.arguments.push_back({Argument::Kind::constant, false, {}});
  std::vector<c10::IValue> constants = op.call->constants;
  constants.emplace_back(chunk_tokens);
  form.call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(op.name.c_str(), "chunks"), std::move(constants)});
  form.staged_bytes = ops::staged_bytes(form);
  return form;
}

}  // namespace

std::vector<Op> larger_chunks_cuda(const Op& op) {
  if (op.name != "plimsoll::linear_cross_entropy" && op.name != "plimsoll::linear_cross_entropy_loss") return {};
  const View *x = operand(op, 0), *weight = operand(op, 1);
  if (!x || !weight || !op.call) return {};
  const int64_t tokens = x->sizes[0], width = x->sizes[1], bytes = element_bytes(x->dtype),
                vocabulary = weight->sizes[0];
  const int64_t chunks_now = ops::cuda_loss_chunks(tokens, vocabulary, width, bytes, {}).count;
  int64_t chunks_before = 0;  // those of the form before
  std::vector<Op> forms;
  for (const int64_t chunk_tokens : ops::kLargeLossChunks) {
    const int64_t chunks = ops::cuda_loss_chunks(tokens, vocabulary, width, bytes, chunk_tokens).count;
    if (chunks >= chunks_now || chunks == chunks_before) continue;
    chunks_before = chunks;
    forms.push_back(with_chunks(op, chunk_tokens));
  }
  // Sums of 16-bit weight gradients are added in blocks.
  const bool in_blocks = op.name == "plimsoll::linear_cross_entropy" && op.call->constants.at(5).toBool() &&
                         bytes == 2 && chunks_now > 1 && vocabulary > ops::kLossGradientBlock;
  if (in_blocks && ops::kLossGradientBlock * width * bytes < ops::kLargeGradientBlockBytes)
    forms.push_back(with_chunks(op, ops::kLargeGradientBlocks));
  return forms;
}

std::optional<Op> product_sum_cuda(const Op& product, const Op* cast, const Op& sum) {
  if (product.name != "aten::mm.out") return std::nullopt;
  const View *a = operand(product, 0), *b = operand(product, 1), *made = operand(product, 2);
  if (!a || !b || !made) return std::nullopt;
  if (cast && !(is_copy(*cast) && *operand(*cast, 1) == *made)) return std::nullopt;
  const View& addend = cast ? *operand(*cast, 0) : *made;
  const bool copies = !cast && is_copy(sum) && *operand(sum, 1) == addend;
  if (!copies && !is_sum_of(sum, addend)) return std::nullopt;
  const View& target = *operand(sum, copies ? 0 : 3);
  if (target.sizes != made->sizes || target.strides.size() != 2 || target.strides[1] != 1) return std::nullopt;
  if (target.buffer == a->buffer || target.buffer == b->buffer) return std::nullopt;
  if (target.dtype == made->dtype) {
    if (copies || cast) return std::nullopt;
    return call_of("aten::addmm_", "", {{target, true}, {*a}, {*b}, {{}, false, 1}, {{}, false, 1}});
  }
  // cuBLAS adds 16-bit matmuls to float32 sums.
  if (target.dtype != DType::float32 || element_bytes(made->dtype) != 2) return std::nullopt;
  const c10::IValue wide = at::kFloat;
  if (copies) return call_of("aten::mm", "dtype_out", {{*a}, {*b}, {{}, false, wide}, {target, true}});
  return call_of("aten::addmm", "dtype_out",
                 {{target}, {*a}, {*b}, {{}, false, wide}, {{}, false, 1}, {{}, false, 1}, {target, true}});
}

}  // namespace plimsoll
