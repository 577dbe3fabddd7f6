#include "ops/layers/group_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "ops/layers/group_norm_kernels_cpu.h"
#include "ops/op_support.h"

namespace plimsoll::ops {

bool is_channels_last(Dims sizes, Dims strides) {
  const size_t dims = sizes.size();
  if (dims < 3 || is_contiguous(sizes, strides)) return false;
  int64_t expected = 1;
  const auto follows = [&](size_t d) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
    return true;
  };
  if (!follows(1)) return false;
  for (size_t d = dims; d-- > 2;)
    if (!follows(d)) return false;
  return follows(0);
}

namespace {

int64_t sums_of(const Strips& strips) {
  return strips.samples * (strips.last ? strips.blocks() : 1) * strips.channels;
}

}  // namespace

int64_t group_moments_scratch(Dims sizes, bool channels_last) {
  return 3 * sizes[0] * sizes[1] + sums_of(strips_of(sizes, channels_last));
}
int64_t group_normalize_scratch(Dims sizes) {
  return 3 * sizes[0] * sizes[1];
}
int64_t group_norm_backward_scratch(Dims sizes, bool channels_last) {
  return 5 * sizes[0] * sizes[1] + 2 * sums_of(strips_of(sizes, channels_last));
}

namespace {

using at::Tensor;
using Moments = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, int64_t, double);
using Normalize = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t);
using Gradients = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                     const Tensor&, const Tensor&, int64_t);
using Norm = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, double, bool);

bool lies_last(const Tensor& x) {
  return is_channels_last(x.sizes(), x.strides());
}

Tensor empty_as(const Tensor& x) {
  return lies_last(x) ? at::empty_strided(x.sizes(), x.strides(), x.options()) : at::empty(x.sizes(), x.options());
}

// Returns the tensor, or a copy, in the layout of a result for x.
Tensor laid_out_as(const Tensor& tensor, const Tensor& x) {
  const bool last = lies_last(x);
  if (last ? same_order(x.sizes(), tensor.strides(), x.strides()) : tensor.is_contiguous()) return tensor;
  Tensor copy = empty_as(x);
  copy.copy_(tensor);
  return copy;
}

void require_parameters(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_floating(op, "x", x);
  require_floating(op, "weight", weight);
  require(weight.dim() == 1 && x.dim() >= 2 && weight.size(0) == x.size(1) && bias.sizes() == weight.sizes() &&
              bias.scalar_type() == weight.scalar_type(),
          op, "x has shape ", x.sizes(), ", weight ", weight.sizes(), " and bias ", bias.sizes(),
          "; weight and bias have a number for each of the channels, the second size of x, and one type");
  require((x.scalar_type() == at::kDouble) == (weight.scalar_type() == at::kDouble), op, "x is ",
          c10::toString(x.scalar_type()), ", weight ", c10::toString(weight.scalar_type()),
          "; float64 does not mix with other types");
}

std::tuple<Tensor, Tensor, Tensor> moments_results(const Tensor& x, int64_t groups, double) {
  constexpr const char* op = "plimsoll::group_moments";
  require_floating(op, "x", x);
  require(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0 && x.numel() > 0, op, "x has shape ", x.sizes(),
          "; its second size, the channels, must be a multiple of the ", groups, " groups");
  const auto moments = [&] { return at::empty({x.size(0), groups}, x.options().dtype(accumulator(x.scalar_type()))); };
  return {moments(), moments(), moments()};
}

Tensor normalize_result(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias, int64_t) {
  constexpr const char* op = "plimsoll::group_normalize";
  require_parameters(op, x, weight, bias);
  require(mean.dim() == 2 && mean.size(0) == x.size(0) && mean.size(1) > 0 && x.size(1) % mean.size(1) == 0 &&
              rstd.sizes() == mean.sizes(),
          op, "x has shape ", x.sizes(), ", mean ", mean.sizes(), " and rstd ", rstd.sizes(),
          "; the moments have a number for each sample and group of channels");
  return empty_as(x);
}

std::tuple<Tensor, Tensor, Tensor> backward_results(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                                    const Tensor& rstd, const Tensor& weight, const Tensor& bias,
                                                    int64_t activation) {
  require(grad.sizes() == x.sizes() && grad.scalar_type() == x.scalar_type(), "plimsoll::group_norm_backward",
          "grad has shape ", grad.sizes(), " and x ", x.sizes());
  return {normalize_result(x, mean, rstd, weight, bias, activation), at::empty(weight.sizes(), weight.options()),
          at::empty(bias.sizes(), bias.options())};
}

// The host's part of a call: scratch, sums over groups, and the numbers for each channel. S is the accumulator.
template <typename S>
struct Host {
  GroupNormArguments args;
  DType dtype;
  int64_t groups;
  const S *weight, *bias;
  S *centers, *scales, *shifts, *slopes, *offsets, *sums;

  int64_t group_channels() const { return args.strips.channels / groups; }
  double count() const { return static_cast<double>(group_channels() * args.strips.places); }

  // Returns the sum of one kind over the places of a channel.
  double of_channel(int64_t sample, int64_t channel, int64_t kind, int64_t kinds) const {
    const Strips& strips = args.strips;
    if (!strips.last) return sums[(sample * strips.channels + channel) * kinds + kind];
    double total = 0;
    const S* const first = sums + (sample * strips.blocks() * kinds + kind) * strips.channels + channel;
    for (int64_t b = 0; b < strips.blocks(); ++b) total += first[b * kinds * strips.channels];
    return total;
  }
  double of_group(int64_t sample, int64_t group) const {
    double total = 0;
    for (int64_t c = 0; c < group_channels(); ++c) total += of_channel(sample, group * group_channels() + c, 0, 1);
    return total;
  }
  template <typename Function>
  void for_channels(int64_t sample, int64_t group, const Function& function) const {
    for (int64_t c = 0; c < group_channels(); ++c) {
      const int64_t channel = group * group_channels() + c;
      function(channel, sample * args.strips.channels + channel);
    }
  }

  // Runs kernels over blocks or strips; `group` of a sample if the channels are not last.
  void run(int64_t begin, int64_t end, const auto& kernel) const {
    const int64_t grain = row_grain(args.strips.width() * args.strips.block());
    at::parallel_for(begin, end, grain, kernel);
  }
  int64_t all_blocks() const { return args.strips.samples * args.strips.blocks(); }
  int64_t all_strips() const { return args.strips.samples * args.strips.per_sample(); }
  // Runs `function` for each group of each sample, given sample and group.
  void for_groups(const auto& function) const {
    const int64_t work =
        args.strips.last ? group_channels() * args.strips.blocks() : group_channels() * args.strips.places;
    at::parallel_for(0, args.strips.samples * groups, row_grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) function(i / groups, i % groups);
    });
  }

  void set_center(int64_t sample, int64_t group, S mean) const {
    for_channels(sample, group, [&](int64_t, int64_t at) { centers[at] = mean; });
  }
  void set_scales(int64_t sample, int64_t group, S rstd) const {
    for_channels(sample, group, [&](int64_t channel, int64_t at) {
      scales[at] = rstd * weight[channel];
      shifts[at] = bias[channel];
    });
  }

  void set_numbers(const S* mean, const S* rstd) const {
    for (int64_t sample = 0; sample < args.strips.samples; ++sample)
      for (int64_t group = 0; group < groups; ++group) {
        set_center(sample, group, mean[sample * groups + group]);
        set_scales(sample, group, rstd[sample * groups + group]);
      }
  }

  void moments(S* mean, S* rstd, S* variances, double eps) const {
    const auto set_mean = [&](int64_t sample, int64_t group) {
      set_center(sample, group, mean[sample * groups + group] = static_cast<S>(of_group(sample, group) / count()));
    };
    const auto set_rstd = [&](int64_t sample, int64_t group) {
      const double variance = of_group(sample, group) / count();
      variances[sample * groups + group] = static_cast<S>(variance);
      rstd[sample * groups + group] = static_cast<S>(1 / std::sqrt(variance + eps));
    };
    if (!args.strips.last)
      return for_groups([&](int64_t sample, int64_t group) {
        const int64_t begin = (sample * groups + group) * group_channels(), end = begin + group_channels();
        sum_group_moments(dtype, args, begin, end, false);
        set_mean(sample, group);
        sum_group_moments(dtype, args, begin, end, true);
        set_rstd(sample, group);
      });
    for (const bool squares : {false, true}) {
      run(0, all_blocks(), [&](int64_t begin, int64_t end) { sum_group_moments(dtype, args, begin, end, squares); });
      squares ? for_groups(set_rstd) : for_groups(set_mean);
    }
  }

  void normalize(const S* mean, const S* rstd) const {
    set_numbers(mean, rstd);
    at::parallel_for(0, all_strips(), row_grain(args.strips.width()),
                     [&](int64_t begin, int64_t end) { normalize_groups(dtype, args, begin, end); });
  }

  void backward(const S* mean, const S* rstd) const {
    set_numbers(mean, rstd);
    const auto set_slopes = [&](int64_t sample, int64_t group) {
      const double scale = rstd[sample * groups + group];
      double total = 0, product = 0;
      for_channels(sample, group, [&](int64_t channel, int64_t) {
        total += weight[channel] * of_channel(sample, channel, 0, 2);
        product += weight[channel] * of_channel(sample, channel, 1, 2);
      });
      const S offset = static_cast<S>(scale * total / count());
      const S slope = static_cast<S>(scale * scale * scale * product / count());
      for_channels(sample, group, [&](int64_t, int64_t at) {
        offsets[at] = offset;
        slopes[at] = slope;
      });
    };
    if (!args.strips.last)
      return for_groups([&](int64_t sample, int64_t group) {
        const int64_t begin = (sample * groups + group) * group_channels(), end = begin + group_channels();
        sum_group_gradients(dtype, args, begin, end);
        set_slopes(sample, group);
        differentiate_groups(dtype, args, begin, end);
      });
    run(0, all_blocks(), [&](int64_t begin, int64_t end) { sum_group_gradients(dtype, args, begin, end); });
    for_groups(set_slopes);
    at::parallel_for(0, all_strips(), row_grain(args.strips.width()),
                     [&](int64_t begin, int64_t end) { differentiate_groups(dtype, args, begin, end); });
  }

  // Sums over the samples.
  void parameters(const S* rstd, const Tensor& dweight, const Tensor& dbias) const {
    for (int64_t channel = 0; channel < args.strips.channels; ++channel) {
      double total = 0, product = 0;
      for (int64_t sample = 0; sample < args.strips.samples; ++sample) {
        total += of_channel(sample, channel, 0, 2);
        product += of_channel(sample, channel, 1, 2) * rstd[sample * groups + channel / group_channels()];
      }
      AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dweight.scalar_type(), "group_norm", [&] {
        dweight.mutable_data_ptr<scalar_t>()[channel] = static_cast<scalar_t>(product);
        dbias.mutable_data_ptr<scalar_t>()[channel] = static_cast<scalar_t>(total);
      });
    }
  }
};

// Returns the parts of a call, whose `scratch` has the numbers of channels and then the partial sums.
template <typename S>
Host<S> host_of(const Tensor& x, const Tensor& scratch, const Tensor& weight, const Tensor& bias, int64_t groups,
                int64_t activation, bool backward) {
  Host<S> host{};
  host.args.strips = strips_of(x.sizes(), lies_last(x));
  host.args.x = x.const_data_ptr();
  host.args.activation = static_cast<Activation>(activation);
  host.dtype = dtype_of(x);
  host.groups = groups;
  host.weight = weight.defined() ? weight.const_data_ptr<S>() : nullptr;
  host.bias = bias.defined() ? bias.const_data_ptr<S>() : nullptr;
  S* next = scratch.mutable_data_ptr<S>();
  for (S** part : {&host.centers, &host.scales, &host.shifts, &host.slopes, &host.offsets}) {
    if (!backward && (part == &host.slopes || part == &host.offsets)) continue;
    *part = next;
    next += x.size(0) * x.size(1);
  }
  host.sums = next;
  host.args.centers = host.centers;
  host.args.scales = host.scales;
  host.args.shifts = host.shifts;
  host.args.slopes = host.slopes;
  host.args.offsets = host.offsets;
  host.args.sums = host.sums;
  return host;
}

std::tuple<Tensor, Tensor, Tensor> moments_cpu(const Tensor& x, int64_t groups, double eps) {
  const auto results = moments_results(x, groups, eps);
  const Tensor& mean = std::get<0>(results);
  const Tensor from = laid_out_as(x, x);
  const Tensor scratch = at::empty({group_moments_scratch(x.sizes(), lies_last(x))}, mean.options());
  AT_DISPATCH_FLOATING_TYPES(mean.scalar_type(), "group_moments", [&] {
    host_of<scalar_t>(from, scratch, {}, {}, groups, 0, false)
        .moments(mean.mutable_data_ptr<scalar_t>(), std::get<1>(results).mutable_data_ptr<scalar_t>(),
                 std::get<2>(results).mutable_data_ptr<scalar_t>(), eps);
  });
  return results;
}

Tensor normalize_cpu(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias,
                     int64_t activation) {
  const Tensor y = normalize_result(x, mean, rstd, weight, bias, activation);
  const auto type = accumulator(x.scalar_type());
  const Tensor from = laid_out_as(x, x), scale = weight.to(type).contiguous(), shift = bias.to(type).contiguous();
  const Tensor scratch = at::empty({group_normalize_scratch(x.sizes())}, mean.options());
  AT_DISPATCH_FLOATING_TYPES(type, "group_normalize", [&] {
    auto host = host_of<scalar_t>(from, scratch, scale, shift, mean.size(1), activation, false);
    host.args.out = y.mutable_data_ptr();
    host.normalize(mean.const_data_ptr<scalar_t>(), rstd.const_data_ptr<scalar_t>());
  });
  return y;
}

std::tuple<Tensor, Tensor, Tensor> backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                                const Tensor& rstd, const Tensor& weight, const Tensor& bias,
                                                int64_t activation) {
  const auto results = backward_results(grad, x, mean, rstd, weight, bias, activation);
  const auto type = accumulator(x.scalar_type());
  const Tensor from = laid_out_as(x, x), dy = laid_out_as(grad, x), scale = weight.to(type).contiguous(),
               shift = bias.to(type).contiguous();
  const Tensor scratch = at::empty({group_norm_backward_scratch(x.sizes(), lies_last(x))}, mean.options());
  AT_DISPATCH_FLOATING_TYPES(type, "group_norm_backward", [&] {
    auto host = host_of<scalar_t>(from, scratch, scale, shift, mean.size(1), activation, true);
    host.args.grad = dy.const_data_ptr();
    host.args.out = std::get<0>(results).mutable_data_ptr();
    host.backward(mean.const_data_ptr<scalar_t>(), rstd.const_data_ptr<scalar_t>());
    host.parameters(rstd.const_data_ptr<scalar_t>(), std::get<1>(results), std::get<2>(results));
  });
  return results;
}

// Returns [N, C, H, W] with channels last as a view [1, C, N H W], and the other way round.
Tensor as_one_sample(const Tensor& x) {
  const Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
  return last.permute({0, 2, 3, 1}).view({-1, x.size(1)}).t().unsqueeze(0);
}
Tensor as_samples(const Tensor& places, const Tensor& x) {
  return places.squeeze(0).t().view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2});
}

struct GroupNormFunction : torch::autograd::Function<GroupNormFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x,
                                                const Tensor& weight, const Tensor& bias, int64_t groups, double eps,
                                                bool batch) {
    static const auto moments = operator_handle<Moments>("plimsoll::group_moments");
    static const auto normalize = operator_handle<Normalize>("plimsoll::group_normalize");
    at::AutoDispatchBelowADInplaceOrView below;  // the result is no view: it may be changed in place
    const Tensor from = batch ? as_one_sample(x) : x;
    auto [mean, rstd, variance] = moments.call(from, groups, eps);
    const Tensor y = normalize.call(from, mean, rstd, weight, bias, 0);
    context->save_for_backward({x, mean, rstd, weight, bias});
    context->saved_data["batch"] = batch;
    context->mark_non_differentiable({mean, variance});
    return {batch ? as_samples(y, x) : y, mean, variance};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<Gradients>("plimsoll::group_norm");
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const bool batch = context->saved_data["batch"].toBool();
    auto [dx, dweight, dbias] = handle.call(batch ? as_one_sample(grads[0]) : grads[0], batch ? as_one_sample(x) : x,
                                            saved[1], saved[2], saved[3], saved[4], 0);
    return {batch ? as_samples(dx, x) : dx, dweight, dbias, Tensor(), Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                                            double eps, bool batch) {
  require(!batch || (x.dim() == 4 && groups == x.size(1)), "plimsoll::group_norm", "x has shape ", x.sizes(), " and ",
          groups, " groups; a batch norm is of [N, C, H, W] with C groups");
  auto all = GroupNormFunction::apply(x, weight, bias, groups, eps, batch);
  return {all[0], all[1], all[2]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "group_norm(Tensor x, Tensor weight, Tensor bias, int groups, float eps, bool batch=False) -> (Tensor y, Tensor "
      "mean, Tensor variance)");
  m.def("group_moments(Tensor x, int groups, float eps) -> (Tensor mean, Tensor rstd, Tensor variance)");
  m.def("group_normalize(Tensor x, Tensor mean, Tensor rstd, Tensor weight, Tensor bias, int activation=0) -> Tensor");
  m.def(
      "group_norm_backward(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor weight, Tensor bias, int "
      "activation=0) -> (Tensor dx, Tensor dweight, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("group_moments", moments_results);
  m.impl("group_normalize", normalize_result);
  m.impl("group_norm_backward", backward_results);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("group_moments", moments_cpu);
  m.impl("group_normalize", normalize_cpu);
  m.impl("group_norm_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("group_norm", autograd);
  m.impl("group_moments", torch::autograd::autogradNotImplementedFallback());
  m.impl("group_normalize", torch::autograd::autogradNotImplementedFallback());
  m.impl("group_norm_backward", torch::autograd::autogradNotImplementedFallback());
}

std::tuple<Tensor, Tensor, Tensor> group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                                              double eps, bool batch) {
  static const auto handle = operator_handle<Norm>("plimsoll::group_norm");
  return handle.call(x, weight, bias, groups, eps, batch);
}

}  // namespace plimsoll::ops
