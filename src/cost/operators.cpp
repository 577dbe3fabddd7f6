#include "cost/operators.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/merged_ops.h"

namespace plimsoll {
namespace {

const View* operand(const Op& op, size_t index) {
  if (index >= op.arguments.size() || op.arguments[index].views.empty()) return nullptr;
  const View& view = op.arguments[index].views[0];
  return view.buffer == kNoBuffer ? nullptr : &view;
}

double elementwise_flops(const Op& op) {
  int64_t elements = 0;
  for_each_view(op, [&](const View& view, bool) { elements = std::max(elements, view.elements()); });
  return static_cast<double>(elements);
}

// Matmuls [..., M, K] x [..., K, N] of the operands from `first` on.
template <size_t first>
double product_flops(const Op& op) {
  const View *a = operand(op, first), *b = operand(op, first + 1);
  if (!a || !b || a->sizes.empty() || b->sizes.empty()) return 0;
  return 2.0 * static_cast<double>(a->elements()) * static_cast<double>(b->sizes.back());
}

// Each output element of a convolution is a dot product over weight[0]: [Cin / groups, kernel...].
double convolution_flops(const View* output, const View* weight) {
  if (!output || !weight || weight->sizes.empty() || weight->sizes[0] == 0) return 0;
  return 2.0 * static_cast<double>(output->elements()) * static_cast<double>(weight->elements() / weight->sizes[0]);
}
double convolution_forward_flops(const Op& op) {
  return op.results.empty() ? elementwise_flops(op) : convolution_flops(&op.results[0], operand(op, 1));
}
double convolution_backward_flops(const Op& op) {
  return 2.0 * convolution_flops(operand(op, 0), operand(op, 2));
}

// Two matmuls a head, [T, D] x [D, T] and [T, T] x [T, D]; five in backward (scores again, dV, dP, dQ, dK). The queries
// are argument `query`, and the keys follow.
template <size_t query, int products>
double attention_flops(const Op& op) {
  const View *q = operand(op, query), *k = operand(op, query + 1);
  if (!q || !k || q->sizes.size() != 4) return 0;
  return products * 2.0 * static_cast<double>(q->elements()) * static_cast<double>(k->sizes[2]);
}

// Matmuls within chunks of L positions: [L, N] x [N, L] for each group and [L, L] x [L, P] for each head, and those of
// the [N, P] states in and out of each chunk. Backward has two more matmuls of each kind, the states a second time, and
// their gradients.
template <size_t x_at, bool backward>
double scan_flops(const Op& op) {
  const View *x = operand(op, x_at), *b = operand(op, x_at + 3);
  if (!x || !b || x->sizes.size() != 4 || b->sizes.size() != 4 || op.results.empty()) return 0;
  const auto chunks = static_cast<double>(op.results.back().sizes[3]);
  const double chunk = static_cast<double>(x->sizes[1]) / chunks;
  const auto state = static_cast<double>(b->sizes[3]);
  const double scores = 2.0 * chunk * static_cast<double>(b->elements());
  const double weights = 2.0 * chunk * static_cast<double>(x->elements());
  const double states = 2.0 * state * static_cast<double>(x->elements());
  return backward ? 3 * scores + 2 * weights + 5 * states : scores + weights + 2 * states;
}

// Logits are one matmul; the gradients of the tokens and of the weight are one more each. A gradient that is not
// requested is an empty result.
double loss_flops(const Op& op) {
  const View *x = operand(op, 0), *weight = operand(op, 1);
  if (!x || !weight) return 0;
  return 2.0 * static_cast<double>(x->elements()) * static_cast<double>(weight->sizes[0]);
}
double loss_head_flops(const Op& op) {
  const auto gradient = [&](size_t index) { return index >= op.results.size() || op.results[index].elements() > 0; };
  return loss_flops(op) * (1 + gradient(2) + gradient(3));
}

double quantized_flops(const Op& op) {
  const View* x = operand(op, 0);
  if (!x || x->sizes.empty() || x->sizes.back() == 0 || op.results.empty()) return 0;
  const double rows = static_cast<double>(x->elements() / x->sizes.back());
  return 2.0 * rows * static_cast<double>(x->sizes.back()) * static_cast<double>(op.results[0].sizes.back());
}

// `each` operations for each element of the updated parameters, without conversions of formats.
template <int each>
double update_flops(const Op& op) {
  if (!operand(op, 0)) return elementwise_flops(op);
  int64_t elements = 0;
  for (const View& parameter : op.arguments[0].views) elements += parameter.elements();
  return each * static_cast<double>(elements);
}

using Kind = OpKind;
using Exchange = ExchangeOp;

// Name, kind, arithmetic, gradient; rows with further facts name them.
constexpr OperatorRow kRows[] = {
    // libtorch
    {"aten::mm", Kind::product, product_flops<0>},
    {"aten::bmm", Kind::product, product_flops<0>},
    {"aten::addmm", Kind::product, product_flops<1>},
    {"aten::addmm_", Kind::product, product_flops<1>},
    {"aten::baddbmm", Kind::product, product_flops<1>},
    {"aten::baddbmm_", Kind::product, product_flops<1>},
    {"aten::_grouped_mm", Kind::product, product_flops<0>},
    {"aten::mv", Kind::product},
    {"aten::dot", Kind::product},
    {"aten::convolution", Kind::convolution, convolution_forward_flops, "aten::convolution_backward"},
    {"aten::convolution_backward", Kind::convolution, convolution_backward_flops},
    {"aten::sum", Kind::reduction},
    {"aten::mean", Kind::reduction},
    {"aten::softmax", Kind::reduction},
    {"aten::_softmax", Kind::reduction, nullptr, "aten::_softmax_backward_data"},
    {"aten::_softmax_backward_data", Kind::reduction},
    {"aten::_log_softmax", Kind::reduction},
    {"aten::var", Kind::reduction},
    {"aten::std", Kind::reduction},
    {"aten::amax", Kind::reduction},

    // Attention
    {"plimsoll::attention", Kind::attention, attention_flops<0, 2>, "plimsoll::attention_backward"},
    {"plimsoll::attention_backward", Kind::attention, attention_flops<1, 5>},

    // Loss head: the forward pass computes the gradients too
    {"plimsoll::linear_cross_entropy", Kind::loss_head, loss_head_flops},
    {"plimsoll::linear_cross_entropy_loss", Kind::loss_head, loss_flops},

    // Scans
    {"plimsoll::ssd_scan", Kind::streaming, scan_flops<0, false>, "plimsoll::ssd_scan_backward"},
    {"plimsoll::ssd_scan_backward", Kind::streaming, scan_flops<1, true>},
    {"plimsoll::causal_conv1d", Kind::streaming, nullptr, "plimsoll::causal_conv1d_backward"},
    {"plimsoll::causal_conv1d_backward"},

    // Layers; the gradient of a rotation is the inverse rotation
    {"plimsoll::rope", Kind::streaming, nullptr, "plimsoll::rope"},
    {.name = "plimsoll::rope_", .gradient = "plimsoll::rope_", .in_place = true},
    {"plimsoll::swiglu", Kind::streaming, nullptr, "plimsoll::swiglu_backward"},
    {"plimsoll::swiglu_backward"},
    {"plimsoll::geglu", Kind::streaming, nullptr, "plimsoll::geglu_backward"},
    {"plimsoll::geglu_backward"},
    {"plimsoll::group_norm", Kind::reduction, nullptr, "plimsoll::group_norm_backward"},  // recorded as the next two
    {"plimsoll::group_moments", Kind::reduction},
    {"plimsoll::group_normalize"},
    {"plimsoll::group_norm_backward", Kind::reduction},
    {.name = "plimsoll::rms_norm",
     .kind = Kind::reduction,
     .gradient = "plimsoll::rms_norm_backward",
     .after_sum = "plimsoll::add_rms_norm"},
    {.name = "plimsoll::rms_norm_backward", .kind = Kind::reduction, .before_sum = "plimsoll::rms_norm_backward_add"},
    {.name = "plimsoll::add_rms_norm", .kind = Kind::reduction, .fused_name = "fused: add, rms_norm"},
    {.name = "plimsoll::rms_norm_backward_add", .kind = Kind::reduction, .fused_name = "fused: rms_norm_backward, add"},
    {.name = "plimsoll::rms_norm_backward_add_cast",
     .kind = Kind::reduction,
     .fused_name = "fused: rms_norm_backward, add, cast"},

    // Quantized weights
    {"plimsoll::quantized_linear", Kind::product, quantized_flops, "plimsoll::quantized_linear_backward"},
    {"plimsoll::quantized_linear_backward", Kind::product, quantized_flops},
    {"plimsoll::quantize_weight"},
    {"plimsoll::quantize_scales"},
    {"plimsoll::dequantize_weight"},

    // Updates, and norms of gradients
    {.name = "plimsoll::adamw_", .kind = Kind::update, .flops = update_flops<14>, .converted_argument = 2},
    {.name = "plimsoll::lion_", .kind = Kind::update, .flops = update_flops<10>, .converted_argument = 2},
    {.name = "plimsoll::momentum_sgd_", .kind = Kind::update, .flops = update_flops<6>, .converted_argument = 2},
    {.name = "plimsoll::sgd_", .kind = Kind::update, .flops = update_flops<4>, .converted_argument = 2},
    {.name = "plimsoll::adafactor_", .kind = Kind::update, .flops = update_flops<14>, .converted_argument = 2},
    {"plimsoll::nesterov_momentum_", Kind::update, update_flops<5>},
    {"plimsoll::accumulate_", Kind::update, update_flops<1>},
    {.name = "plimsoll::gradient_norm_", .kind = Kind::reduction, .converted_argument = 2},
    {"plimsoll::gradient_block_sums_"},
    {"plimsoll::norms_of_blocks_", Kind::reduction},
    {"plimsoll::block_norm", Kind::reduction},
    {"plimsoll::unpacked"},

    // Exchanges between ranks; a reduction sums in the dtype of the sum
    {.name = "plimsoll::reduce_scatter_", .exchange = Exchange::reduce_scatter, .converted_argument = 1},
    {.name = "plimsoll::all_reduce_", .exchange = Exchange::all_reduce, .converted_argument = 1},
    {.name = "plimsoll::all_gather_", .exchange = Exchange::all_gather},
    {.name = "plimsoll::gather_", .exchange = Exchange::gather},
    {.name = "plimsoll::broadcast_", .exchange = Exchange::broadcast},

    // Chains of pointwise ops; a plan calls them by their program
    {"plimsoll::fused"},
};

const std::map<std::string_view, const OperatorRow*>& rows_by_name() {
  static const std::map<std::string_view, const OperatorRow*> rows = [] {
    std::map<std::string_view, const OperatorRow*> by_name;
    for (const OperatorRow& row : kRows) {
      by_name[row.name] = &row;
      if (!row.fused_name.empty()) by_name[row.fused_name] = &row;
    }
    return by_name;
  }();
  return rows;
}

// Returns the kind of an operator that has no row. libtorch's convolutions, attention kernels, fused updates and norms
// have many names, and are known by a part of the name.
OpKind kind_by_name(std::string_view name) {
  constexpr struct {
    std::string_view part;
    OpKind kind;
  } kFamilies[] = {{"convolution", Kind::convolution},
                   {"attention", Kind::attention},
                   {"_fused_adam", Kind::update},
                   {"_fused_sgd", Kind::update},
                   {"norm", Kind::reduction}};
  for (const auto& family : kFamilies)
    if (name.find(family.part) != std::string_view::npos) return family.kind;
  return OpKind::streaming;
}

}  // namespace

const OperatorRow* operator_row(std::string_view name) {
  const auto found = rows_by_name().find(single_name(name.substr(0, name.find('.'))));
  return found == rows_by_name().end() ? nullptr : found->second;
}

std::span<const OperatorRow> operator_rows() {
  return kRows;
}

OpKind kind_of(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  const OpKind kind = row ? row->kind : kind_by_name(std::string_view(op.name).substr(0, op.name.find('.')));
  // Draws of random numbers limit ops that otherwise only read and write.
  return op.random_id >= 0 && (kind == OpKind::streaming || kind == OpKind::reduction) ? OpKind::random : kind;
}

double flops_of(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  return row && row->flops ? row->flops(op) : elementwise_flops(op);
}

std::optional<Matmul> matmul_of(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  if (!row || row->kind != OpKind::product || !row->flops) return std::nullopt;
  const auto of = [&](const View* a, double columns) -> std::optional<Matmul> {
    if (!a || a->sizes.size() < 2 || a->elements() == 0 || columns <= 0) return std::nullopt;
    const auto depth = static_cast<double>(a->sizes.back()), rows = static_cast<double>(a->sizes.end()[-2]);
    return Matmul{static_cast<double>(a->elements()) / (rows * depth), rows, depth, columns};
  };
  const bool quantized = row->flops == quantized_flops;
  const size_t first = row->flops == product_flops<1> ? 1 : 0;
  const View *a = operand(op, first), *b = operand(op, first + 1);
  if (quantized) {
    if (op.results.empty() || op.results[0].sizes.empty()) return std::nullopt;
    std::optional<Matmul> matmul = of(a, static_cast<double>(op.results[0].sizes.back()));
    if (matmul) matmul->rows *= std::exchange(matmul->batch, 1);
    return matmul;
  }
  if (!b || b->sizes.empty() || op.name.starts_with("aten::_grouped_mm")) return std::nullopt;
  return of(a, static_cast<double>(b->sizes.back()));
}

double score_bytes_of(const Op& op) {
  const bool backward = op.name.find("backward") != std::string::npos;
  const View* q = operand(op, backward ? 1 : 0);
  if (!q || q->sizes.empty() || q->sizes.back() == 0) return 0;
  const double scores = op.flops / ((backward ? 5 : 2) * 2.0 * static_cast<double>(q->sizes.back()));
  const auto value = static_cast<double>(element_bytes(q->dtype));
  return scores * (backward ? 4 * 4 + 5 * value : 2 * 4 + 2 * value);
}

int64_t bytes_moved_by(const Op& op) {
  // An operand in place is read and written.
  const OperatorRow* row = operator_row(op.name);
  const int64_t written_times = row && (row->kind == OpKind::update || row->in_place) ? 2 : 1;
  int64_t bytes = 0;
  for_each_view(op, [&](const View& view, bool written) {
    bytes += view.elements() * element_bytes(view.dtype) * (written ? written_times : 1);
  });
  return bytes;
}

}  // namespace plimsoll
