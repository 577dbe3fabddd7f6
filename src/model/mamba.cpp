#include "model/mamba.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "model/blocks.h"
#include "ops/causal_conv1d.h"
#include "ops/ssd_scan.h"

namespace plimsoll::model {
namespace {

constexpr double kInitialDeviation = 0.02;
// Steps at first, and decays: as the authors of Mamba-2 have them.
constexpr double kLeastStep = 1e-3, kMostStep = 0.1;
constexpr double kLeastDecay = 1, kMostDecay = 16;

/// What exponents and sums over time are computed in.
at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

}  // namespace

MambaMixerImpl::MambaMixerImpl(const GestureSsmConfig& config, double residual_deviation)
    : width_(config.expand * config.hidden_dim),
      heads_(width_ / config.head_dim),
      state_(config.d_state),
      chunk_(config.chunk_size) {
  const int64_t convolved = width_ + 2 * state_;
  in_ =
      register_module("in", Linear(config.hidden_dim, width_ + convolved + heads_, /*bias=*/false, kInitialDeviation));
  const double bound = 1 / std::sqrt(static_cast<double>(config.conv_width));
  conv_weight_ = register_parameter("conv_weight", torch::empty({convolved, config.conv_width}));
  torch::nn::init::uniform_(conv_weight_, -bound, bound);
  conv_bias_ = register_parameter("conv_bias", torch::zeros({convolved}));
  // softplus(dt_bias) is spread evenly over the logarithms of steps.
  at::Tensor step = torch::empty({heads_});
  torch::nn::init::uniform_(step, std::log(kLeastStep), std::log(kMostStep));
  step = step.exp();
  dt_bias_ = register_parameter("dt_bias", step + at::log(-at::expm1(-step)));
  at::Tensor decay = torch::empty({heads_});
  torch::nn::init::uniform_(decay, kLeastDecay, kMostDecay);
  a_log_ = register_parameter("a_log", decay.log());
  d_ = register_parameter("d", torch::ones({heads_}));
  norm_ = register_module("norm", Norm("rmsnorm", width_, config.norm_eps));
  out_ = register_module("out", Linear(width_, config.hidden_dim, /*bias=*/false, residual_deviation));
}

MambaMixerImpl::Projected MambaMixerImpl::projected(const at::Tensor& x) {
  const auto parts = in_(x).split_with_sizes({width_, width_ + 2 * state_, heads_}, -1);
  return {at::silu(parts[0]), parts[1], at::softplus(wide(parts[2]) + wide(dt_bias_))};
}

at::Tensor MambaMixerImpl::scanned(const Projected& in, bool reverse) {
  const int64_t batch = in.xbc.size(0), time = in.xbc.size(1);
  const auto parts =
      ops::causal_conv1d(in.xbc, conv_weight_, conv_bias_, reverse).split_with_sizes({width_, state_, state_}, -1);
  const at::Tensor y = ops::ssd_scan(parts[0].view({batch, time, heads_, width_ / heads_}), in.dt, -wide(a_log_).exp(),
                                     parts[1].unsqueeze(2), parts[2].unsqueeze(2), wide(d_), chunk_, reverse);
  return norm_(y.view({batch, time, width_}) * in.gate);
}

at::Tensor MambaMixerImpl::forward(const at::Tensor& x, bool reverse) {
  return out_(scanned(projected(x), reverse));
}

at::Tensor MambaMixerImpl::both(const at::Tensor& x) {
  const Projected in = projected(x);
  return out_(scanned(in, false) + scanned(in, true));
}

BidirectionalBlockImpl::BidirectionalBlockImpl(const GestureSsmConfig& config, double residual_deviation,
                                               const MambaMixer& shared)
    : dropout_(config.dropout) {
  norm_ = register_module("norm", Norm("rmsnorm", config.hidden_dim, config.norm_eps));
  forward_ = shared.is_empty() ? register_module("mixer", MambaMixer(config, residual_deviation)) : shared;
  if (config.share_weights == "false")
    backward_ = register_module("backward_mixer", MambaMixer(config, residual_deviation));
}

at::Tensor BidirectionalBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor normal = norm_(x);
  const at::Tensor told =
      backward_.is_empty() ? forward_->both(normal) : forward_(normal, false) + backward_(normal, true);
  return x + dropped(told, dropout_, is_training());
}

}  // namespace plimsoll::model
