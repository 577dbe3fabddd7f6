// Implements the recognition of RMS norms. Its rules are about the ops of the trace, and about the autograd graph,
// whose gradients must reach the operand as those of the norm do: a statistic that is detached is no norm.
#include "record/composed_norm.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "ops/layers/rms_norm.h"
#include "ops/libtorch_types.h"
#include "record/plan_device.h"
#include "record/recorder.h"
#include "record/replacement.h"

namespace plimsoll {
namespace {

using at::Tensor;

// A norm's ops follow one another, but for casts and what the model computes between them.
constexpr size_t kMaxDistance = 32;

std::string_view base_of(const Op& op) {
  return std::string_view(op.name).substr(0, op.name.find('.'));
}

// Returns what the op writes, if it is one view.
const View* written_by(const Op& op) {
  const View* found = op.results.size() == 1 ? &op.results[0] : nullptr;
  for (const Argument& argument : op.arguments)
    if (argument.written) {
      if (found || argument.views.size() != 1) return nullptr;
      found = &argument.views[0];
    }
  return found;
}

const View* operand_of(const Op& op, size_t index) {
  const bool is_one = index < op.arguments.size() && op.arguments[index].views.size() == 1 &&
                      op.arguments[index].views[0].buffer != kNoBuffer;
  return is_one ? &op.arguments[index].views[0] : nullptr;
}

bool writes_to(const Op& op, BufferId buffer) {
  bool writes = false;
  for_each_view(op, [&](const View& view, bool written) { writes |= written && view.buffer == buffer; });
  return writes;
}

std::optional<double> number_of(const Op& op, size_t index) {
  const c10::IValue& value = op.call->constants.at(index);
  if (value.isComplexDouble()) return std::nullopt;
  if (value.isScalar()) return value.toScalar().toDouble();
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().dim() == 0 && !value.toTensor().is_complex())
    return value.toTensor().item<double>();
  return std::nullopt;
}

bool is_square(const Op& op) {
  if (base_of(op) == "aten::pow") return operand_of(op, 0) && !operand_of(op, 1) && number_of(op, 1) == 2;
  return base_of(op) == "aten::mul" && operand_of(op, 0) && operand_of(op, 1) &&
         *operand_of(op, 0) == *operand_of(op, 1);
}

bool is_widening(const Op& op) {
  if (op.name != "aten::copy_") return false;
  const View *to = operand_of(op, 0), *from = operand_of(op, 1);
  return to && from && to->sizes == from->sizes && to->dtype == DType::float32 &&
         (from->dtype == DType::bfloat16 || from->dtype == DType::float16);
}

bool is_floating_cast(const Op& op) {
  const auto floating = [](DType type) {
    return type == DType::float32 || type == DType::float64 || type == DType::bfloat16 || type == DType::float16;
  };
  const View *to = operand_of(op, 0), *from = operand_of(op, 1);
  return op.name == "aten::copy_" && to && from && to->sizes == from->sizes && floating(to->dtype) &&
         floating(from->dtype);
}

// Returns whether the op computes the mean over the last dimension, which stays with size 1.
bool is_mean_of_rows(const Op& op) {
  const View* const from = operand_of(op, 0);
  if (base_of(op) != "aten::mean" || !from || op.call->constants.size() < 4) return false;
  const auto& constants = op.call->constants;
  if (!constants[1].isIntList() || !constants[2].isBool() || !constants[2].toBool() || !constants[3].isNone())
    return false;
  const auto dims = constants[1].toIntVector();
  return dims.size() == 1 && (dims[0] == -1 || dims[0] == static_cast<int64_t>(from->sizes.size()) - 1);
}

// Returns the number that the op adds to its operand.
std::optional<double> added_by(const Op& op) {
  if (base_of(op) != "aten::add" || !operand_of(op, 0) || operand_of(op, 1) || number_of(op, 2) != 1)
    return std::nullopt;
  return number_of(op, 1);
}

// Returns whether the op computes the square root of its operand, or (unless `divides`) one divided by it.
bool is_root(const Op& op, bool divides) {
  if (!operand_of(op, 0)) return false;
  if (base_of(op) == "aten::pow") return !operand_of(op, 1) && number_of(op, 1) == (divides ? 0.5 : -0.5);
  return base_of(op) == (divides ? "aten::sqrt" : "aten::rsqrt");
}

// The ops that computed a tensor, searched from the end of the trace.
class Ops {
 public:
  explicit Ops(const Trace& trace)
      : trace_(trace),
        begin_(std::max<size_t>(trace.segments.back().begin,
                                trace.ops.size() < kMaxDistance ? 0 : trace.ops.size() - kMaxDistance)) {}

  // Returns the last op that writes to the view's buffer, if it writes exactly this view; null: there is none.
  const Op* writer_of(const View& view) const {
    for (size_t i = trace_.ops.size(); i-- > begin_;) {
      if (!writes_to(trace_.ops[i], view.buffer)) continue;
      const View* const made = written_by(trace_.ops[i]);
      return made && *made == view ? &trace_.ops[i] : nullptr;
    }
    return nullptr;
  }
  // Returns whether no op from `first` on writes to the buffer.
  bool is_unchanged(BufferId buffer, const Op* first) const {
    return std::none_of(trace_.ops.begin() + (first - trace_.ops.data()), trace_.ops.end(),
                        [&](const Op& op) { return writes_to(op, buffer); });
  }
  // Returns the view that the ops cast to `view`, itself if there is no such cast. `cast`: set to the op.
  View before_widening(const View& view, const Op** cast = nullptr) const {
    const Op* const op = writer_of(view);
    if (!op || !is_widening(*op)) return view;
    if (cast) *cast = op;
    return *operand_of(*op, 1);
  }

 private:
  const Trace& trace_;
  const size_t begin_;
};

// x / sqrt(mean(x^2) + eps) as ops computed it.
struct Normalized {
  const Op *square = nullptr, *cast = nullptr;  // cast: null if x was squared in its own type
  View x;
  double eps = 0;
};

std::optional<Normalized> normalized_by(const Ops& ops, View view) {
  const Op* op = ops.writer_of(view);
  for (; op && is_floating_cast(*op); op = ops.writer_of(view)) view = *operand_of(*op, 1);
  const bool divides = op && base_of(*op) == "aten::div" && op->arguments.size() == 3;  // without a rounding mode
  if (!op || (!divides && base_of(*op) != "aten::mul") || !operand_of(*op, 0) || !operand_of(*op, 1))
    return std::nullopt;
  View scaled = *operand_of(*op, 0), scale = *operand_of(*op, 1);
  if (scaled.sizes != view.sizes && !divides) std::swap(scaled, scale);
  std::vector<int64_t> one_a_row = view.sizes;
  one_a_row.back() = 1;
  if (scaled.sizes != view.sizes || scale.sizes != one_a_row) return std::nullopt;
  const Op* const root = ops.writer_of(scale);
  if (!root || !is_root(*root, divides)) return std::nullopt;
  const Op* const sum = ops.writer_of(*operand_of(*root, 0));
  const std::optional<double> eps = sum ? added_by(*sum) : std::nullopt;
  if (!eps || *eps <= 0) return std::nullopt;
  const Op* const mean = ops.writer_of(*operand_of(*sum, 0));
  if (!mean || !is_mean_of_rows(*mean)) return std::nullopt;
  Normalized result{.square = ops.writer_of(*operand_of(*mean, 0)), .eps = *eps};
  if (!result.square || !is_square(*result.square)) return std::nullopt;
  result.x = ops.before_widening(*operand_of(*result.square, 0), &result.cast);
  if (ops.before_widening(scaled) != result.x || result.x.sizes != view.sizes) return std::nullopt;
  const Op* const first = result.cast ? std::min(result.cast, result.square) : result.square;
  if (!ops.is_unchanged(result.x.buffer, first)) return std::nullopt;
  return result;
}

using torch::autograd::Edge;

// Nodes have a number for the overload: AddBackward0.
bool is_named(const torch::autograd::Node& node, std::string_view name) {
  const std::string whole = node.name();
  return whole.size() == name.size() + 1 && whole.starts_with(name);
}

// The nodes through which the gradient of a normalized tensor becomes that of x.
class Nodes {
 public:
  explicit Nodes(const Tensor& x) : x_(torch::autograd::impl::gradient_edge(x)) {}

  // Returns the nodes; empty if there are others.
  std::vector<NodePointer> of(const Tensor& normalized) {
    Edge edge = uncast(torch::autograd::impl::gradient_edge(normalized));
    const NodePointer product = taken(edge, {"MulBackward", "DivBackward"});
    if (!product || product->num_outputs() != 2) return {};
    Edge scaled = product->next_edge(0), scale = product->next_edge(1);
    if (uncast(scaled) != x_) std::swap(scaled, scale);
    if (uncast(scaled) != x_) return {};
    const NodePointer root = taken(scale, {"RsqrtBackward", "SqrtBackward", "PowBackward"});
    const NodePointer sum = root ? taken(root->next_edge(0), {"AddBackward"}) : root;
    const NodePointer mean = sum ? taken(sum->next_edge(0), {"MeanBackward"}) : sum;
    const NodePointer square = mean ? taken(mean->next_edge(0), {"PowBackward", "MulBackward"}) : mean;
    if (!square) return {};
    for (size_t i = 0; i < square->num_outputs(); ++i)
      if (uncast(square->next_edge(i)) != x_) return {};
    return std::move(nodes_);
  }

 private:
  NodePointer taken(const Edge& edge, std::initializer_list<std::string_view> names) {
    const auto named = [&](std::string_view name) { return is_named(*edge.function, name); };
    if (!edge.function || std::ranges::none_of(names, named)) return {};
    nodes_.push_back(edge.function);
    return edge.function;
  }
  Edge uncast(Edge edge) {
    while (edge != x_) {
      const NodePointer cast = taken(edge, {"ToCopyBackward"});
      if (!cast) break;
      edge = cast->next_edge(0);
    }
    return edge;
  }

  const Edge x_;
  std::vector<NodePointer> nodes_;
};

bool has_hook(const NodePointer& node) {
  return is_watched(*node);
}

// Returns the recorder that replaces norms now; null: none.
Recorder* replacing_norms() {
  Recorder* const recorder = Recorder::active();
  const bool computes = recorder && (recorder->phase() == Phase::forward || recorder->phase() == Phase::evaluate);
  return computes && recorder->composed_norms().replaces() && recorder->kernels().norms ? recorder : nullptr;
}

// Returns whether `weight` may be the weight of rows of x.
bool is_weight_of(const Tensor& weight, const Tensor& x) {
  return is_plan(weight) && is_plan(x) && weight.dim() == 1 && x.dim() > 0 && weight.size(0) == x.size(-1) &&
         x.numel() > 0 && at::isFloatingType(weight.scalar_type()) && at::isFloatingType(x.scalar_type()) &&
         is_plainly_differentiated({&weight, &x});
}

}  // namespace

void ComposedNorms::note(const Op& op, const std::vector<c10::IValue>& arguments) {
  if (!replaces()) return;
  const bool widens = is_widening(op);
  if (!widens && !is_square(op)) return;
  const View* const made = written_by(op);
  if (made) operands_[made->buffer] = arguments.at(widens ? 1 : 0).toTensor();
}

std::optional<Tensor> ComposedNorms::norm(const Tensor& x, const Tensor& weight, double eps, at::ScalarType result) {
  const bool wide = x.scalar_type() == at::kDouble;
  if (wide != (weight.scalar_type() == at::kDouble) || wide != (result == at::kDouble)) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  ++replaced_;
  return ops::rms_norm(x, weight, -eps, result);
}

std::optional<Tensor> ComposedNorms::scaled(const Trace& trace, const Tensor& normalized, const Tensor& weight) {
  if (!normalized.is_contiguous() || trace.segments.empty()) return std::nullopt;
  const std::optional<Normalized> found = normalized_by(Ops(trace), view_of(normalized));
  if (!found) return std::nullopt;
  const auto operand = operands_.find(written_by(found->cast ? *found->cast : *found->square)->buffer);
  if (operand == operands_.end()) return std::nullopt;
  const Tensor x = operand->second;
  if (view_of(x) != found->x || !is_plainly_differentiated({&x})) return std::nullopt;
  std::vector<NodePointer> nodes;
  if (at::GradMode::is_enabled()) {
    if (normalized.requires_grad() != x.requires_grad()) return std::nullopt;  // a part is detached
    if (x.requires_grad()) nodes = Nodes(x).of(normalized);
    if (nodes.empty() == x.requires_grad() || std::ranges::any_of(nodes, has_hook)) return std::nullopt;
  }
  std::optional<Tensor> result = norm(x, weight, found->eps, at::result_type(weight, normalized));
  if (result) passed_over_.insert(passed_over_.end(), nodes.begin(), nodes.end());
  return result;
}

bool ComposedNorms::is_watched() const {
  return std::ranges::any_of(passed_over_, has_hook);
}

namespace {

// Every product of a step passes here, before autograd.
void multiply(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Recorder* const recorder = replacing_norms();
  const c10::IValue &left = torch::jit::peek(*stack, 0, 2), &right = torch::jit::peek(*stack, 1, 2);
  if (recorder && left.isTensor() && right.isTensor()) {
    Tensor x = left.toTensor(), weight = right.toTensor();
    if (x.defined() && weight.defined() && x.dim() < weight.dim()) std::swap(x, weight);
    if (is_weight_of(weight, x))
      if (std::optional<Tensor> result = recorder->composed_norms().scaled(recorder->trace(), x, weight)) {
        torch::jit::drop(*stack, 2);
        stack->emplace_back(*std::move(result));
        return;
      }
  }
  call_on_plan(op, stack);
}

// Without eps, libtorch's depends on the device if x is narrower than float32.
Tensor rms_norm(const Tensor& x, c10::SymIntArrayRef shape, const std::optional<Tensor>& weight,
                std::optional<double> eps) {
  Recorder* const recorder = replacing_norms();
  if (!eps && is_plan(x) && x.scalar_type() == at::kFloat) eps = std::numeric_limits<float>::epsilon();
  if (recorder && eps && *eps > 0 && shape.size() == 1 && is_plan(x) && x.dim() > 0 && shape[0] == x.size(-1) &&
      x.is_contiguous()) {
    const bool has_weight = weight && weight->defined();
    const Tensor scale = has_weight ? *weight : at::ones({x.size(-1)}, x.options());
    if (is_weight_of(scale, x))
      if (std::optional<Tensor> result = recorder->composed_norms().norm(x, scale, *eps, x.scalar_type()))
        return *std::move(result);
  }
  // libtorch's composition is not exported. Every key without a kernel of its own leads there.
  static const auto composed =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("aten::rms_norm", "")
          .typed<Tensor(const Tensor&, c10::SymIntArrayRef, const std::optional<Tensor>&, std::optional<double>)>();
  return composed.redispatch(c10::DispatchKeySet(c10::DispatchKey::AutogradCPU), x, shape, weight, eps);
}

void replace_norms(bool replaces) {
  if (Recorder* const recorder = Recorder::active()) recorder->composed_norms().replace(replaces);
}

// For Python, which has no other way to the recorder.
TORCH_LIBRARY(plimsoll_recorder, m) {
  m.def("replace_norms(bool replaces) -> ()", replace_norms);
}

TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, m) {
  m.impl("mul.Tensor", torch::CppFunction::makeFromBoxedFunction<&multiply>());
}

TORCH_LIBRARY_IMPL(aten, AutogradIPU, m) {
  m.impl("rms_norm", rms_norm);
}

}  // namespace
}  // namespace plimsoll
