#include "ops/loss/row_rules.h"

#include <ATen/Functions.h>
#include <ATen/core/Reduction.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "ops/libtorch_types.h"

namespace plimsoll {
namespace {

// A form of an operator: which dimensions of its operands are walked together, and which are whole.
enum class RowForm : uint8_t {
  pointwise,            // operands broadcast to the result
  along,                // all operands have the same sizes; dimension `dim` is whole
  reduction,            // removes the dimensions `dim`, which are whole
  sum,                  // adds up the dimensions `dim`
  mean,                 // adds up the dimensions `dim`, and divides by their elements
  indexed,              // reads or writes at indices along `dim`
  product,              // a b
  sum_and_product,      // c + a b
  likelihood,           // nll_loss_forward, for each row
  likelihood_backward,  // nll_loss_backward
};

struct FormRow {
  std::string_view name;
  RowForm form;
};

// Operators by name, in place or not. An operator without a row is never cut.
constexpr FormRow kForms[] = {
    {"abs", RowForm::pointwise},
    {"add", RowForm::pointwise},
    {"addcmul", RowForm::pointwise},
    {"bitwise_and", RowForm::pointwise},
    {"bitwise_not", RowForm::pointwise},
    {"bitwise_or", RowForm::pointwise},
    {"clamp", RowForm::pointwise},
    {"clamp_max", RowForm::pointwise},
    {"clamp_min", RowForm::pointwise},
    {"copy", RowForm::pointwise},
    {"div", RowForm::pointwise},
    {"elu", RowForm::pointwise},
    {"elu_backward", RowForm::pointwise},
    {"eq", RowForm::pointwise},
    {"erf", RowForm::pointwise},
    {"exp", RowForm::pointwise},
    {"expm1", RowForm::pointwise},
    {"fill", RowForm::pointwise},
    {"ge", RowForm::pointwise},
    {"gelu", RowForm::pointwise},
    {"gelu_backward", RowForm::pointwise},
    {"gt", RowForm::pointwise},
    {"hardtanh", RowForm::pointwise},
    {"hardtanh_backward", RowForm::pointwise},
    {"isnan", RowForm::pointwise},
    {"le", RowForm::pointwise},
    {"leaky_relu", RowForm::pointwise},
    {"leaky_relu_backward", RowForm::pointwise},
    {"log", RowForm::pointwise},
    {"log1p", RowForm::pointwise},
    {"log_sigmoid_backward", RowForm::pointwise},
    {"log_sigmoid_forward", RowForm::pointwise},
    {"logaddexp", RowForm::pointwise},
    {"logical_and", RowForm::pointwise},
    {"logical_not", RowForm::pointwise},
    {"logical_or", RowForm::pointwise},
    {"lt", RowForm::pointwise},
    {"masked_fill", RowForm::pointwise},
    {"maximum", RowForm::pointwise},
    {"minimum", RowForm::pointwise},
    {"mul", RowForm::pointwise},
    {"nan_to_num", RowForm::pointwise},
    {"ne", RowForm::pointwise},
    {"neg", RowForm::pointwise},
    {"pow", RowForm::pointwise},
    {"reciprocal", RowForm::pointwise},
    {"relu", RowForm::pointwise},
    {"rsqrt", RowForm::pointwise},
    {"sgn", RowForm::pointwise},
    {"sigmoid", RowForm::pointwise},
    {"sigmoid_backward", RowForm::pointwise},
    {"sign", RowForm::pointwise},
    {"silu", RowForm::pointwise},
    {"silu_backward", RowForm::pointwise},
    {"softplus", RowForm::pointwise},
    {"softplus_backward", RowForm::pointwise},
    {"sqrt", RowForm::pointwise},
    {"square", RowForm::pointwise},
    {"sub", RowForm::pointwise},
    {"tanh", RowForm::pointwise},
    {"tanh_backward", RowForm::pointwise},
    {"threshold", RowForm::pointwise},
    {"threshold_backward", RowForm::pointwise},
    {"where", RowForm::pointwise},
    {"xlogy", RowForm::pointwise},
    {"zero", RowForm::pointwise},

    {"_log_softmax", RowForm::along},
    {"_log_softmax_backward_data", RowForm::along},
    {"_softmax", RowForm::along},
    {"_softmax_backward_data", RowForm::along},
    {"cumsum", RowForm::along},

    {"all", RowForm::reduction},
    {"amax", RowForm::reduction},
    {"amin", RowForm::reduction},
    {"any", RowForm::reduction},
    {"argmax", RowForm::reduction},
    {"argmin", RowForm::reduction},
    {"linalg_vector_norm", RowForm::reduction},
    {"logsumexp", RowForm::reduction},
    {"max", RowForm::reduction},
    {"min", RowForm::reduction},
    {"prod", RowForm::reduction},
    {"mean", RowForm::mean},
    {"sum", RowForm::sum},

    {"gather", RowForm::indexed},
    {"scatter", RowForm::indexed},
    {"scatter_add", RowForm::indexed},

    {"mm", RowForm::product},
    {"addmm", RowForm::sum_and_product},
    {"nll_loss_forward", RowForm::likelihood},
    {"nll_loss_backward", RowForm::likelihood_backward},
};

std::optional<RowForm> form_of(std::string_view name) {
  static const std::map<std::string_view, RowForm> forms = [] {
    std::map<std::string_view, RowForm> by_name;
    for (const FormRow& row : kForms) by_name[row.name] = row.form;
    return by_name;
  }();
  constexpr std::string_view kPrefix = "aten::";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.find('.') - kPrefix.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto found = forms.find(name);
  return found == forms.end() ? std::nullopt : std::optional(found->second);
}

// Builds the rule of one op.
class RuleBuilder {
 public:
  explicit RuleBuilder(const Op& op) : op_(op) {
    for_each_view(op, [&](const View& view, bool written) {
      views_.push_back(&view);
      if (written && (!result_ || view.elements() >= result_->elements())) result_ = &view;
    });
  }

  std::optional<RowRule> build(RowForm form) {
    if (!result_) return std::nullopt;
    bool possible = false;
    switch (form) {
      case RowForm::pointwise:
        possible = pointwise();
        break;
      case RowForm::along:
        possible = along();
        break;
      case RowForm::reduction:
      case RowForm::sum:
      case RowForm::mean:
        possible = reduction(form != RowForm::reduction);
        rule_.means = form == RowForm::mean;
        break;
      case RowForm::indexed:
        possible = indexed();
        break;
      case RowForm::product:
        possible = product({{0, 1}, {1, 2}, {0, 2}});
        break;
      case RowForm::sum_and_product:
        possible = sum_and_product();
        break;
      case RowForm::likelihood:
        possible = likelihood(/*backward=*/false);
        break;
      case RowForm::likelihood_backward:
        possible = likelihood(/*backward=*/true);
        break;
    }
    if (!possible || rule_.labels.size() != views_.size()) return std::nullopt;
    int labels = 0;
    for (size_t v = 0; v < views_.size(); ++v) {
      if (rule_.labels[v].size() != views_[v]->sizes.size()) return std::nullopt;
      for (const int label : rule_.labels[v]) labels = std::max(labels, label + 1);
    }
    rule_.whole.resize(labels, 0);
    rule_.unused.resize(views_.size(), 0);
    return std::move(rule_);
  }

 private:
  static std::vector<int> numbered(int first, int count) {
    std::vector<int> labels(count);
    for (int d = 0; d < count; ++d) labels[d] = first + d;
    return labels;
  }
  static int rank(const View& view) { return static_cast<int>(view.sizes.size()); }

  // Returns the constant argument `name`; null: the operator has none.
  const c10::IValue* constant(std::string_view name) const {
    const auto& arguments = op_.call->op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name() == name) return &op_.call->constants.at(i);
    return nullptr;
  }

  // Returns the dimensions of argument "dim", of a tensor with `rank` dimensions; all if it is none or an empty list.
  std::optional<std::vector<char>> dimensions(int rank) const {
    const c10::IValue* const dim = constant("dim");
    std::vector<char> chosen(rank, 0);
    std::vector<int64_t> list;
    if (dim && dim->isInt()) list = {dim->toInt()};
    if (dim && dim->isIntList()) list = dim->toIntVector();
    for (const int64_t d : list) {
      if (d < -rank || d >= rank) return std::nullopt;
      chosen[d < 0 ? d + rank : d] = 1;
    }
    return list.empty() ? std::vector<char>(rank, 1) : chosen;
  }

  bool pointwise() {
    const int result = rank(*result_);
    for (const View* view : views_) {
      // Such as the buffer of log_sigmoid_forward on CUDA.
      const bool empty = view->elements() == 0 && result_->elements() > 0;
      if (rank(*view) > result) return false;
      rule_.labels.push_back(empty ? std::vector<int>(rank(*view), RowRule::kNone)
                                   : numbered(result - rank(*view), rank(*view)));
      rule_.unused.push_back(empty);
    }
    return true;
  }

  bool along() {
    const auto whole = dimensions(rank(*result_));
    if (!whole) return false;
    for (const View* view : views_) {
      if (view->sizes != result_->sizes) return false;
      rule_.labels.push_back(numbered(0, rank(*view)));
    }
    rule_.whole = *whole;
    return true;
  }

  bool reduction(bool sum) {
    const int count = rank(*views_[0]);
    const auto reduced = dimensions(count);
    const auto read = std::ranges::count_if(op_.arguments, [](const Argument& argument) {
      return !argument.written && argument.kind != Argument::Kind::constant;
    });
    if (!reduced || views_.size() < 2 || read != 1) return false;
    const c10::IValue* const keep = constant("keepdim");
    std::vector<int> rest;
    for (int d = 0; d < count; ++d) {
      if (!(*reduced)[d])
        rest.push_back(d);
      else if (keep && keep->toBool())
        rest.push_back(RowRule::kNone);
    }
    rule_.labels.assign(views_.size(), rest);
    rule_.labels[0] = numbered(0, count);
    rule_.sums = sum;
    if (!sum) rule_.whole = *reduced;
    return true;
  }

  bool indexed() {
    const int count = rank(*result_);
    const auto along = dimensions(count);
    if (!along || count == 0) return false;
    std::vector<int> labels = numbered(0, count);
    for (int d = 0; d < count; ++d)
      for (const View* view : views_)
        if ((*along)[d] || rank(*view) != count || view->sizes[d] != result_->sizes[d]) labels[d] = RowRule::kNone;
    rule_.labels.assign(views_.size(), labels);
    return true;
  }

  bool product(std::vector<std::vector<int>> labels) {
    rule_.labels = std::move(labels);
    rule_.product = true;
    rule_.sums = views_.size() == 3 && result_ == views_[2];
    return true;
  }

  bool sum_and_product() {
    if (views_.size() != 4) return false;  // in place: it adds to what chunks before have written
    std::vector<int> bias = {0, 2};
    if (rank(*views_[0]) < 2) bias.erase(bias.begin(), bias.end() - rank(*views_[0]));
    product({bias, {0, 1}, {1, 2}, {0, 2}});
    return true;
  }

  bool likelihood(bool backward) {
    const c10::IValue* const reduction = constant("reduction");
    const bool by_row = reduction && reduction->toInt() == at::Reduction::None;
    if (!by_row && !backward) return false;
    const View& logarithms = op_.arguments[backward ? 1 : 0].views[0];
    if (rank(logarithms) != 2) return false;
    size_t number = 0;
    for (const Argument& argument : op_.arguments)
      for (const View& view : argument.views) {
        if (view.buffer == kNoBuffer) continue;
        const bool weight = &argument == &op_.arguments[backward ? 3 : 2];
        if (rank(view) == 2)
          rule_.labels.push_back({0, 1});
        else if (rank(view) == 1)
          rule_.labels.push_back({weight ? 1 : 0});
        else
          rule_.labels.emplace_back();
        rule_.unused.push_back(by_row && rank(view) == 0);  // the weight of all targets, which only a mean has
        ++number;
      }
    rule_.whole = {0, 1};
    return number == views_.size();
  }

  const Op& op_;
  std::vector<const View*> views_;
  const View* result_ = nullptr;
  RowRule rule_;
};

std::optional<RowRule> row_rule(const Op& op) {
  if (!op.call || op.random_id >= 0 || op.on_host || op.copy != CopyStage::none) return std::nullopt;
  const std::optional<RowForm> form = form_of(op.name);
  return form ? RuleBuilder(op).build(*form) : std::nullopt;
}

struct Operand {
  View view;
  bool written = false;
};

// Returns a call of the operator `name`.`overload` with `operands` as its tensors, and its constants as they are by
// default, except `alpha`.
Op call_of(const char* name, const char* overload, std::vector<Operand> operands, double alpha = 1) {
  const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  Op op;
  op.name = *overload ? std::string(name) + "." + overload : name;
  auto call = std::make_shared<OpCall>(OpCall{handle, {}});
  size_t next = 0;
  for (const c10::Argument& argument : handle.schema().arguments()) {
    if (argument.type()->isSubtypeOf(*c10::TensorType::get())) {
      Operand& operand = operands.at(next++);
      op.arguments.push_back({Argument::Kind::tensor, operand.written, {std::move(operand.view)}});
      call->constants.emplace_back();
    } else {
      op.arguments.push_back({Argument::Kind::constant, false, {}});
      const bool is_alpha = argument.name() == "alpha" && alpha != 1;
      call->constants.push_back(is_alpha ? c10::IValue(alpha) : argument.default_value().value_or(c10::IValue()));
    }
  }
  op.call = std::move(call);
  return op;
}

}  // namespace

RowSlicing row_slicing() {
  RowSlicing slicing;
  slicing.rule = row_rule;
  slicing.scale = [](const View& value, double factor) {
    static const c10::OperatorHandle mul = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "out");
    at::Tensor number = at::scalar_tensor(factor, at::kDouble);
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    Op op;
    op.name = "aten::mul.out";
    op.arguments = {{Argument::Kind::tensor, false, {value}},
                    {Argument::Kind::constant, false, {}},
                    {Argument::Kind::tensor, true, {value}}};
    op.call = std::make_shared<OpCall>(OpCall{mul, {c10::IValue(), number, c10::IValue()}});
    return op;
  };
  slicing.add_product = [](const View& sum, const View& a, const View& b) {
    return call_of("aten::addmm_", "", {{sum, true}, {a}, {b}});
  };
  slicing.add = [](const View& sum, const View& addend, double factor) {
    return call_of("aten::add", "out", {{sum}, {addend}, {sum, true}}, factor);
  };
  slicing.copy = [](const View& target, const View& source) {
    return call_of("aten::copy_", "", {{target, true}, {source}});
  };
  return slicing;
}

}  // namespace plimsoll
