#include "record/written_attention.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "plimsoll/error.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

using at::Tensor;
using c10::IValue;

// Ops that are steps, and the names of their nodes without the last digit.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNodes = {
    {{"mul", "MulBackward"},
     {"div", "DivBackward"},
     {"tanh", "TanhBackward"},
     {"add", "AddBackward"},
     {"sub", "SubBackward"},
     {"cat", "CatBackward"},
     {"masked_fill", "MaskedFillBackward"},
     {"where", "WhereBackward"},
     {"_softmax", "SoftmaxBackward"},
     {"native_dropout", "NativeDropoutBackward"}}};
constexpr std::array<std::string_view, 7> kRepetition = {"ToCopyBackward0", "CloneBackward0",     "UnsafeViewBackward0",
                                                         "ViewBackward0",   "TransposeBackward0", "PermuteBackward0",
                                                         "AliasBackward0"};

// Scores that are set to this number or a smaller one have the probability 0 next to any other score.
double max_hidden(double cap, at::ScalarType type) {
  constexpr double kMaxCap = 5e3;
  if (cap > 0 && cap <= kMaxCap) return -2 * kMaxCap;
  return type == at::kHalf ? -65504 : -1e9;
}

bool writes_to(const Op& op, BufferId buffer) {
  bool writes = false;
  for_each_view(op, [&](const View& view, bool written) { writes |= written && view.buffer == buffer; });
  return writes;
}

bool is_plan_tensor(const IValue& value) {
  return value.isTensor() && is_plan(value.toTensor());
}

// Returns the real number that a scalar or a tensor without dimensions has; nullopt: there is none, or not known.
std::optional<double> number_of(const Trace& trace, const IValue& value) {
  if (value.isComplexDouble()) return std::nullopt;
  if (value.isScalar()) return value.toScalar().toDouble();
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().dim() != 0) return std::nullopt;
  Tensor tensor = value.toTensor();
  if (is_plan(tensor)) {
    const std::optional<Tensor> known = known_values(trace, view_of(tensor));
    if (!known) return std::nullopt;
    tensor = *known;
  }
  if (!tensor.device().is_cpu() || at::isComplexType(tensor.scalar_type())) return std::nullopt;
  return tensor.item().toDouble();
}

// Returns "mul" for "aten::mul_.Tensor" and "aten::mul.out".
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kLibrary = "aten::";
  if (!name.starts_with(kLibrary)) return {};
  name.remove_prefix(kLibrary.size());
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

// Returns whether a dimension, or a list of one, is the last one of a tensor.
bool is_last(const IValue& dims, const IValue& tensor) {
  const int64_t last = tensor.toTensor().dim() - 1;
  if (dims.isInt()) return at::maybe_wrap_dim(dims.toInt(), last + 1) == last;
  return dims.isIntList() && dims.toIntVector().size() == 1 &&
         at::maybe_wrap_dim(dims.toIntVector()[0], last + 1) == last;
}

}  // namespace

WrittenAttentions::Operand WrittenAttentions::operand(const Trace& trace, const Tensor& tensor) {
  return {tensor, static_cast<int64_t>(tensor._version()), trace.ops.size()};
}

// A write through `.data` leaves the version as it is.
bool WrittenAttentions::Operand::is_unchanged(const Trace& trace) const {
  const BufferId buffer = buffer_of(tensor);
  return static_cast<int64_t>(tensor._version()) == version &&
         std::none_of(trace.ops.begin() + static_cast<std::ptrdiff_t>(first), trace.ops.end(),
                      [&](const Op& op) { return writes_to(op, buffer); });
}

bool WrittenAttentions::is_whole(const Matrix& matrix, const Tensor& tensor) {
  return tensor.sizes() == at::IntArrayRef(matrix.sizes) && tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         at::isFloatingType(tensor.scalar_type());
}

const WrittenAttentions::Matrix* WrittenAttentions::matrix_of(const IValue& value) const {
  if (!is_plan_tensor(value)) return nullptr;
  const auto found = matrices_.find(buffer_of(value.toTensor()));
  return found == matrices_.end() || !is_whole(found->second, value.toTensor()) ? nullptr : &found->second;
}

// Returns whether `tensor` is all columns of a matrix but that of the sinks.
bool WrittenAttentions::is_without_sinks(const Matrix& matrix, const Tensor& tensor) {
  std::vector<int64_t> sizes = matrix.sizes, strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  --sizes.back();
  return matrix.has_sinks && matrix.stage >= Stage::probabilities && tensor.storage_offset() == 0 &&
         tensor.sizes() == at::IntArrayRef(sizes) && tensor.strides() == at::IntArrayRef(strides);
}

// Returns the matrix that a tensor is, or is but for the column of the sinks.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::without_sinks(const IValue& value) const {
  if (const Matrix* const whole = matrix_of(value)) return *whole;
  const auto found = is_plan_tensor(value) ? matrices_.find(buffer_of(value.toTensor())) : matrices_.end();
  if (found == matrices_.end() || !is_without_sinks(found->second, value.toTensor())) return std::nullopt;
  Matrix matrix = found->second;
  matrix.has_sinks = false;
  --matrix.sizes.back();
  return matrix;
}

// Returns the matrix with a column of sinks that cat() makes.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::with_sinks(const Trace& trace,
                                                                       const std::vector<IValue>& arguments) const {
  if (!arguments[0].isTensorList() || arguments[0].toTensorList().size() != 2) return std::nullopt;
  const Tensor scores = arguments[0].toTensorList().get(0), sinks = arguments[0].toTensorList().get(1);
  const Matrix* const source = matrix_of(scores);
  if (!source || source->stage > Stage::masked || source->stage == Stage::tanh || source->shifted ||
      source->call.cap > 0 || source->call.hidden || source->call.scale == 0 || scores.dim() != 4 || !is_plan(sinks) ||
      sinks.is_inference() || !at::isFloatingType(sinks.scalar_type()) ||
      at::maybe_wrap_dim(arguments[1].toInt(), 4) != 3 || sinks.dim() != 4 || sinks.size(3) != 1)
    return std::nullopt;
  Matrix matrix = *source;
  matrix.call.sinks = sinks;
  matrix.operands.push_back(operand(trace, sinks));
  matrix.stage = Stage::sunk;
  matrix.has_sinks = true;
  ++matrix.sizes.back();
  return matrix;
}

// Returns whether `value` is the largest element of each row of `matrix`.
bool WrittenAttentions::is_largest_of(const IValue& value, const IValue& matrix) const {
  const auto found = is_plan_tensor(value) ? largest_.find(buffer_of(value.toTensor())) : largest_.end();
  return found != largest_.end() && found->second == buffer_of(matrix.toTensor()) &&
         value.toTensor().dim() == matrix.toTensor().dim() && value.toTensor().size(-1) == 1;
}

void WrittenAttentions::note_scores(const Trace& trace, const Tensor& q, const Tensor& keys, const Tensor& scores) {
  const int64_t dims = q.dim();
  if (dims < 2 || dims > 4 || keys.dim() != dims || scores.dim() != dims || scores.numel() == 0 || q.is_inference() ||
      keys.is_inference() || trace.ops.empty())
    return;
  Matrix matrix{.sizes = scores.sizes().vec(), .node = scores.grad_fn(), .buffers = {buffer_of(scores)}};
  if (!is_whole(matrix, scores) || q.sizes().slice(0, dims - 1) != scores.sizes().slice(0, dims - 1)) return;
  matrix.call.q = q;
  matrix.call.k = keys.transpose(-2, -1);
  matrix.operands = {operand(trace, q), operand(trace, keys)};
  if (matrix.node)
    matrix.product = nodes_before(matrix.node, std::array{torch::autograd::impl::gradient_edge(q).function,
                                                          torch::autograd::impl::gradient_edge(keys).function});
  matrices_[matrix.buffers[0]] = std::move(matrix);
}

bool WrittenAttentions::multiply(Matrix& matrix, double factor) {
  if (!std::isfinite(factor)) return false;
  if (matrix.stage == Stage::scaled) {
    matrix.call.scale *= factor;
    return true;
  }
  // c tanh(a s) is c tanh((c a) s / c).
  if (matrix.stage != Stage::tanh || factor <= 0) return false;
  matrix.call.cap = factor;
  matrix.call.scale *= factor;
  matrix.stage = Stage::capped;
  return true;
}

bool WrittenAttentions::is_mask(const Matrix& matrix, const Tensor& source, const Tensor& mask) {
  const bool maskable = matrix.stage == Stage::scaled || matrix.stage == Stage::capped || matrix.stage == Stage::masked;
  return maskable && !mask.is_inference() && at::is_expandable_to(mask.sizes(), source.sizes());
}

bool WrittenAttentions::add(const Trace& trace, Matrix& matrix, const Tensor& source, const IValue& mask) {
  if (!is_plan_tensor(mask) || matrix.call.added || (matrix.call.hidden && matrix.call.finite)) return false;
  const Tensor& added = mask.toTensor();
  if (!is_mask(matrix, source, added) || !at::isFloatingType(added.scalar_type())) return false;
  matrix.call.added = added;
  matrix.operands.push_back(operand(trace, added));
  matrix.stage = Stage::masked;
  return true;
}

bool WrittenAttentions::hide(const Trace& trace, Matrix& matrix, const Tensor& source, const IValue& mask, bool hides,
                             std::optional<double> value) {
  if (!is_plan_tensor(mask) || !value || !(*value <= max_hidden(matrix.call.cap, source.scalar_type())) ||
      matrix.call.hidden)
    return false;
  const bool finite = std::isfinite(*value);
  const Tensor& hidden = mask.toTensor();
  if (!is_mask(matrix, source, hidden) || hidden.scalar_type() != at::kBool || (finite && matrix.call.added))
    return false;
  matrix.call.hidden = hidden;
  matrix.call.hides = hides;
  matrix.call.finite = finite;
  matrix.operands.push_back(operand(trace, hidden));
  matrix.stage = Stage::masked;
  return true;
}

// Returns the matrix that an op without another operand, or with one that is a number or a mask, makes of a known one.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::next_of_one(const Trace& trace, std::string_view op,
                                                                        const std::vector<IValue>& arguments) const {
  const std::optional<Matrix> source = without_sinks(arguments[0]);
  if (!source) return std::nullopt;
  Matrix matrix = *source;
  const Tensor& tensor = arguments[0].toTensor();
  bool known = false;
  if (op == "masked_fill") {
    known = hide(trace, matrix, tensor, arguments[1], true, number_of(trace, arguments[2]));
  } else if (op == "tanh") {
    known = std::exchange(matrix.stage, Stage::tanh) == Stage::scaled && !source->shifted;
  } else if (op == "div") {
    const std::optional<double> divisor = number_of(trace, arguments[1]);
    known = divisor && *divisor != 0 && multiply(matrix, 1 / *divisor);
  } else if (op == "_softmax") {
    known = std::exchange(matrix.stage, Stage::probabilities) < Stage::probabilities && source->stage != Stage::tanh &&
            at::maybe_wrap_dim(arguments[1].toInt(), tensor.dim()) == tensor.dim() - 1;
  } else {
    matrix.call.dropout = arguments[1].toDouble();
    known = std::exchange(matrix.stage, Stage::dropped) == Stage::probabilities &&
            (arguments[2].isNone() || arguments[2].toBool());
  }
  return known ? std::optional(std::move(matrix)) : std::nullopt;
}

// Returns the matrix less the largest element of each row, which changes the result of softmax only if sinks or a soft
// cap follow.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::shifted_by(const Trace& trace,
                                                                       const std::vector<IValue>& arguments) const {
  const Matrix* const source = matrix_of(arguments[0]);
  if (!source || source->stage >= Stage::probabilities || source->stage == Stage::tanh ||
      number_of(trace, arguments[2]) != 1.0 || !is_largest_of(arguments[1], arguments[0]))
    return std::nullopt;
  Matrix matrix = *source;
  matrix.shifted = true;
  return matrix;
}

// Returns the matrix that an op makes of a known one, which is any of its operands.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::next_of_two(const Trace& trace, std::string_view op,
                                                                        const std::vector<IValue>& arguments) const {
  const size_t first = op == "where" ? 1 : 0;
  const size_t which = matrix_of(arguments[first]) ? first : first + 1;
  const Matrix* const source = matrix_of(arguments[which]);
  if (!source) return std::nullopt;
  Matrix matrix = *source;
  const Tensor& tensor = arguments[which].toTensor();
  const IValue& other = arguments[2 * first + 1 - which];
  bool known = false;
  if (op == "where") {
    known = hide(trace, matrix, tensor, arguments[0], which == 2, number_of(trace, other));
  } else if (op == "mul") {
    const std::optional<double> factor = number_of(trace, other);
    known = factor && multiply(matrix, *factor);
  } else {
    known = number_of(trace, arguments[2]) == 1.0 && add(trace, matrix, tensor, other);
  }
  return known ? std::optional(std::move(matrix)) : std::nullopt;
}

// Returns the matrix that an op makes of a known one; nullopt: of none, or another.
std::optional<WrittenAttentions::Matrix> WrittenAttentions::next_of(const Trace& trace, std::string_view name,
                                                                    const std::vector<IValue>& arguments) const {
  const std::string_view op = plain_name(name);
  if (op == "copy") {
    std::optional<Matrix> source = without_sinks(arguments[1]);
    return source && arguments[0].toTensor().sizes() == arguments[1].toTensor().sizes() ? source : std::nullopt;
  }
  const auto* const node = std::ranges::find(kNodes, op, [](const auto& each) { return each.first; });
  if (node == kNodes.end() || name.ends_with("_mode")) return std::nullopt;
  std::optional<Matrix> next;
  if (op == "cat")
    next = with_sinks(trace, arguments);
  else if (op == "sub")
    next = shifted_by(trace, arguments);
  else if (op == "mul" || op == "add" || op == "where")
    next = next_of_two(trace, op, arguments);
  else
    next = next_of_one(trace, op, arguments);
  if (next) next->steps.push_back(node->second);
  return next;
}

void WrittenAttentions::note_op(const Trace& trace, const Op& op, const std::vector<IValue>& arguments,
                                const std::vector<IValue>& outputs) {
  std::optional<Matrix> next = matrices_.empty() ? std::nullopt : next_of(trace, op.name, arguments);
  const std::string_view name = plain_name(op.name);
  const bool finds_largest = (name == "max" || name == "amax") && arguments.size() > 2 && !outputs.empty() &&
                             is_plan_tensor(outputs[0]) && matrix_of(arguments[0]) &&
                             is_last(arguments[1], arguments[0]);
  for_each_view(op, [&](const View& view, bool written) {
    if (!written) return;
    matrices_.erase(view.buffer);
    largest_.erase(view.buffer);
    repeated_.erase(view.buffer);
    cast_.erase(view.buffer);
  });
  if (finds_largest) {
    largest_[buffer_of(outputs[0].toTensor())] = buffer_of(arguments[0].toTensor());
    ops_.insert(trace.ops.size());
  }
  if (op.name == "aten::copy_") note_repetition(trace, arguments);
  if (!next || !is_plan_tensor(outputs[0]) || !is_whole(*next, outputs[0].toTensor())) return;
  const BufferId buffer = buffer_of(outputs[0].toTensor());
  next->buffers.push_back(buffer);
  if (name == "native_dropout" && next->call.dropout > 0) next->dropped = buffer;
  ops_.insert(trace.ops.size());
  matrices_[buffer] = std::move(*next);
}

void WrittenAttentions::note_repetition(const Trace& trace, const std::vector<IValue>& copy) {
  if (!is_plan_tensor(copy[0])) return;
  const Tensor& target = copy[0].toTensor();
  const BufferId buffer = buffer_of(target);
  if (!is_plan_tensor(copy[1])) return;
  const Tensor& source = copy[1].toTensor();
  if (source.sizes() != target.sizes() || target.storage_offset() != 0 || source.is_inference()) return;
  if (source.scalar_type() != target.scalar_type()) {
    if (repeated_.contains(buffer_of(source))) cast_[buffer] = {operand(trace, source), target.strides().vec()};
  } else if (source.dim() == 5 && source.stride(2) == 0 && source.size(2) > 1 && target.is_contiguous()) {
    repeated_[buffer] = operand(trace, source);
  }
}

std::optional<WrittenAttentions::Call> WrittenAttentions::find(const Trace& trace, const Tensor& probabilities) const {
  const std::optional<Matrix> matrix = is_off_ ? std::nullopt : without_sinks(probabilities);
  if (!matrix || matrix->has_sinks || matrix->stage < Stage::probabilities ||
      !std::ranges::all_of(matrix->operands, [&](const Operand& each) { return each.is_unchanged(trace); }))
    return std::nullopt;
  if (at::GradMode::is_enabled()) {
    const bool differentiable =
        matrix->operands[0].tensor.requires_grad() || matrix->operands[1].tensor.requires_grad();
    if (probabilities.requires_grad() != differentiable)
      return std::nullopt;  // detached, or recorded without gradients
    if (differentiable && path_of(*matrix, probabilities).empty()) return std::nullopt;
  }
  return matrix->call;
}

WrittenAttentions::Unrepeated WrittenAttentions::unrepeated(const Trace& trace, const Tensor& tensor) const {
  if (const auto cast = cast_.find(buffer_of(tensor)); cast != cast_.end()) return uncast(trace, tensor, cast->second);
  const auto found = tensor.dim() == 4 ? repeated_.find(buffer_of(tensor)) : repeated_.end();
  if (found == repeated_.end() || !tensor.is_contiguous() || tensor.storage_offset() != 0 ||
      !found->second.is_unchanged(trace))
    return {};
  const Tensor& source = found->second.tensor;  // [batch, fewer, times, S, D]
  std::vector<int64_t> sizes = source.sizes().vec(), strides = source.strides().vec();
  if (tensor.sizes() != at::IntArrayRef({sizes[0], sizes[1] * sizes[2], sizes[3], sizes[4]}) ||
      tensor.requires_grad() != source.requires_grad())
    return {};
  sizes[2] = 1;
  Unrepeated result;
  Tensor single = make_plan_view(source, sizes, strides, source.storage_offset(), source.scalar_type());
  torch::autograd::impl::set_version_counter(single, torch::autograd::impl::version_counter(source));
  if (source.requires_grad()) {
    const NodePointer node = source.grad_fn();
    if (!node || node->name() != "ExpandBackward0") return {};
    result.path = plain_path(tensor.grad_fn(), node.get(), kRepetition);
    if (result.path.empty()) return {};
    const torch::autograd::Edge before = node->next_edge(0);
    if (!before.function ||
        C10_AS_INTARRAYREF_SLOW(before.function->input_metadata(before.input_nr).shape_as_dim_vector()) !=
            at::IntArrayRef(sizes))
      return {};
    torch::autograd::impl::set_gradient_edge(single, before);
  }
  result.tensor = single.squeeze(2);
  return result;
}

// Returns unrepeated() of a cast tensor, or of its transpose.
WrittenAttentions::Unrepeated WrittenAttentions::uncast(const Trace& trace, const Tensor& tensor,
                                                        const Cast& cast) const {
  const Tensor& source = cast.source.tensor;
  const bool transposed = tensor.strides() != at::IntArrayRef(cast.strides);
  const Tensor same = transposed ? tensor.transpose(-2, -1) : tensor;  // in the order of dimensions of the cast
  if (!cast.source.is_unchanged(trace) || same.strides() != at::IntArrayRef(cast.strides) ||
      same.sizes() != source.sizes() || tensor.storage_offset() != 0 ||
      tensor.requires_grad() != source.requires_grad())
    return {};
  std::vector<NodePointer> path;
  if (tensor.requires_grad()) {
    path = plain_path(tensor.grad_fn(), source.grad_fn().get(), kRepetition);
    if (path.empty()) return {};
  }
  Unrepeated result = unrepeated(trace, transposed ? source.transpose(-2, -1) : source);
  if (!result.tensor.defined()) return {};
  result.tensor = result.tensor.to(tensor.scalar_type());
  result.path.insert(result.path.end(), path.begin(), path.end());
  return result;
}

}  // namespace plimsoll
