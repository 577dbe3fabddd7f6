#include "run/optimizer/parameter_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/names.h"
#include "base/text.h"
#include "ops/formats.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/optimizer_plan.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::vector<at::Tensor> model_tensors(const std::vector<OptimizedParameter>& parameters) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(parameters.size());
  for (const OptimizedParameter& parameter : parameters) tensors.push_back(parameter.model_tensor());
  return tensors;
}

}  // namespace plimsoll

namespace plimsoll::optimizer {
namespace {

bool of_16_bits(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

/// Returns zeros in the parameter's order in memory.
at::Tensor zeros_as(const at::Tensor& value, at::ScalarType type) {
  return at::zeros_like(value, value.options().dtype(type).requires_grad(false));
}

class StateMaker {
 public:
  StateMaker(const OptimizerConfig& config, const OptimizedParameter& parameter, std::vector<NamedState>& named)
      : config_(config), parameter_(parameter), named_(named) {}

  ParameterState run(int64_t seed) {
    state_.rounding.seed = seed;
    if (parameter_.slice) state_.rounding.first_element = parameter_.slice->first_element();
    state_.kind = kind_of(config_, parameter_);
    switch (state_.kind) {
      case Kind::adamw:
        state_.first = mean("exp_avg");
        state_.second = mean("exp_avg_sq");
        break;
      case Kind::lion:
        state_.first = mean("exp_avg");
        break;
      case Kind::sgd:
        if (config_.momentum > 0) state_.first = mean("momentum");
        break;
      case Kind::adafactor:
        make_means_of_squares();
        break;
      case Kind::muon:
        state_.first = mean("momentum");
        break;
    }
    add_companion();
    return std::move(state_);
  }

 private:
  const at::Tensor& value() const { return parameter_.value; }

  // Names state with one number for each of the parameter's.
  at::Tensor named(const std::string& kind, at::Tensor tensor) {
    NamedState& state = named_.emplace_back(NamedState{"optimizer." + kind + "." + parameter_.name, tensor});
    if (parameter_.slice) state.whole_sizes = parameter_.model_tensor().sizes().vec();
    return tensor;
  }

  // Makes flat state. `count_of(elements)` returns its number of elements for a parameter of `elements`.
  template <typename CountOf>
  at::Tensor flat(const std::string& kind, const CountOf& count_of, at::ScalarType type) {
    const at::Tensor tensor =
        at::zeros({count_of(value().numel())}, value().options().dtype(type).requires_grad(false));
    NamedState& state = named_.emplace_back(NamedState{"optimizer." + kind + "." + parameter_.name, tensor});
    if (parameter_.slice) state.whole_sizes = {count_of(parameter_.model_tensor().numel())};
    return tensor;
  }

  ops::Packed mean(const std::string& kind) {
    const int64_t count = value().numel();
    StateDtype dtype = config_.state_dtype;
    const bool shrunk = dtype == StateDtype::bits8 || dtype == StateDtype::bits4 || dtype == StateDtype::bfloat16;
    if (shrunk && count < kMinShrunk) dtype = StateDtype::float32;
    if (dtype == StateDtype::bits8 || dtype == StateDtype::bits4) {
      const bool eight = dtype == StateDtype::bits8;
      const auto scales = [&](int64_t elements) {
        return ops::scales_of(eight ? ops::Format::bits8 : ops::Format::bits4, elements);
      };
      // Not the function itself, which is always inlined, and cannot be called through a pointer.
      const auto code_bytes = [](int64_t elements) { return ops::bytes_of_bits4(elements); };
      const at::Tensor codes = eight ? named(kind, zeros_as(value(), at::kByte)) : flat(kind, code_bytes, at::kChar);
      return {codes, flat(kind + "_scales", scales, at::kByte)};
    }
    const at::ScalarType type = dtype == StateDtype::float32    ? at::kFloat
                                : dtype == StateDtype::bfloat16 ? at::kBFloat16
                                                                : value().scalar_type();
    const at::Tensor tensor = named(kind, zeros_as(value(), type));
    // Rounding to nearest is what libtorch's kernels do.
    if (of_16_bits(tensor) && config_.weight_update != WeightUpdate::nearest) state_.rounding.stochastic_state = true;
    return {tensor};
  }

  void make_means_of_squares() {
    if (value().scalar_type() == at::kDouble)
      throw UserError(fmt::format(
          "optimizer.name is adafactor; '{}' is float64, allowed are float32, bfloat16 and float16", parameter_.name));
    const ops::MatrixShape shape = ops::matrix_shape(value().sizes(), value().strides());
    check(!parameter_.slice, "adafactor updates whole matrices");
    state_.first = {flat(
        "row_mean", [&](int64_t) { return shape.rows; }, at::kFloat)};
    state_.second = {flat(
        "column_mean", [&](int64_t) { return shape.columns; }, at::kFloat)};
  }

  void add_companion() {
    if (!of_16_bits(value())) return;
    switch (config_.weight_update) {
      case WeightUpdate::nearest:
        return;
      case WeightUpdate::automatic:
      case WeightUpdate::stochastic:
        state_.rounding.stochastic_parameter = true;
        return;
      case WeightUpdate::kahan:
        state_.companion = named("compensation", zeros_as(value(), value().scalar_type()));
        return;
      case WeightUpdate::split:
        if (value().scalar_type() != at::kBFloat16)
          throw UserError(
              fmt::format("optimizer.weight_update is split, which makes a float32 of a bfloat16 and 16 bits more; "
                          "'{}' is float16. Allowed for it are stochastic, kahan, master and nearest",
                          parameter_.name));
        state_.companion = named("remainder", zeros_as(value(), at::kShort));
        return;
      case WeightUpdate::master:
        state_.companion = named("master", value().detach().to(at::kFloat));
        return;
    }
    throw InternalError("not a weight update");
  }

  const OptimizerConfig& config_;
  const OptimizedParameter& parameter_;
  std::vector<NamedState>& named_;
  ParameterState state_;
};

}  // namespace

Kind kind_of(const OptimizerConfig& config, const OptimizedParameter& parameter) {
  if (config.name == "adamw") return Kind::adamw;
  if (config.name == "lion") return Kind::lion;
  if (config.name == "sgd") return Kind::sgd;
  if (config.name == "adafactor") return Kind::adafactor;
  if (config.name != "muon")
    throw UserError("optimizer.name is '" + config.name + "'; allowed are adamw, lion, sgd, adafactor and muon");
  const bool matrix = parameter.value.dim() >= 2 && parameter.value.numel() > 0 && parameter.value.is_contiguous();
  const bool excepted = parameter.embedding || std::ranges::any_of(config.adamw_parameters, [&](const auto& pattern) {
                          return matches_path(pattern, parameter.name);
                        });
  return matrix && !excepted ? Kind::muon : Kind::adamw;
}

void check_patterns(const OptimizerConfig& config, const std::vector<std::string>& names) {
  if (config.name != "muon") return;
  const std::vector<std::string> defaults = OptimizerConfig{}.adamw_parameters;
  for (const std::string& pattern : config.adamw_parameters) {
    if (std::ranges::find(defaults, pattern) != defaults.end()) continue;
    if (std::ranges::any_of(names, [&](const std::string& name) { return matches_path(pattern, name); })) continue;
    throw UserError(fmt::format("optimizer.adamw_parameters: {} matches no parameter of the model; near it are {}",
                                in_quotes(pattern), few_names(nearest_few(pattern, names, 3))));
  }
}

ParameterState make_parameter_state(const OptimizerConfig& config, const OptimizedParameter& parameter, int64_t seed,
                                    std::vector<NamedState>& named) {
  return StateMaker(config, parameter, named).run(seed);
}

namespace {

constexpr int64_t kMinRankElements = 4096, kWholeBlocks = 128;

}  // namespace

int64_t slice_elements(int64_t elements, int64_t ranks) {
  if (elements < kMinRankElements * ranks || elements % kWholeBlocks != 0) return 0;
  const int64_t each = (elements + ranks - 1) / ranks;
  return (each + ops::kNormBlock - 1) / ops::kNormBlock * ops::kNormBlock;
}

}  // namespace plimsoll::optimizer
