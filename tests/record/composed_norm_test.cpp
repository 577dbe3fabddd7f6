// Tests RMS norms that a step composes: those that are recorded as plimsoll::rms_norm, and what is no such norm.
#include "record/composed_norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "record/recording.h"

namespace plimsoll::composed_norm_test {
namespace {

using testing::record;
using torch::Tensor;
using Form = std::function<Tensor(const Tensor& x, const Tensor& weight)>;

constexpr double kEps = 1e-6;

struct Result {
  int64_t norms = 0;
  torch::ScalarType type{};
};

Result recorded(const Form& form, torch::ScalarType type = torch::kFloat, bool replaces = true,
                torch::ScalarType of_weight = torch::kFloat) {
  Result result;
  const Trace trace = record([&](Recorder& recorder) {
    recorder.composed_norms().replace(replaces);
    const Tensor x = torch::empty({2, 3, 8}, torch::dtype(type).requires_grad(true));
    const Tensor weight = torch::empty({8}, torch::dtype(of_weight).requires_grad(true));
    result.type = form(x, weight).scalar_type();
  });
  result.norms = std::ranges::count(trace.ops, "plimsoll::rms_norm", &Op::name);
  return result;
}

Tensor scale_of(const Tensor& x) {
  return torch::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + kEps);
}

Tensor llama(const Tensor& x, const Tensor& weight) {
  const Tensor wide = x.to(torch::kFloat);
  return weight * (wide * scale_of(wide)).to(x.scalar_type());
}

TEST(ComposedNorm, IsRecordedAsOneOperator) {
  const std::vector<std::pair<std::string, Form>> forms = {
      {"Llama", llama},
      {"the weight behind", [](auto& x, auto& w) { return x * scale_of(x) * w; }},
      {"the scale before", [](auto& x, auto& w) { return scale_of(x) * x * w; }},
      {"Gemma",
       [](auto& x, auto& w) {
         const Tensor wide = x.to(torch::kFloat);
         return wide * scale_of(wide) * (1 + w.to(torch::kFloat));
       }},
      {"T5", [](auto& x, auto& w) { return w * (x * scale_of(x.to(torch::kFloat))); }},
      {"a product", [](auto& x, auto& w) { return w * (x * torch::rsqrt((x * x).mean({2}, true) + kEps)); }},
      {"a negative power",
       [](auto& x, auto& w) { return w * (x * torch::pow(x.square().mean(-1, true) + kEps, -0.5)); }},
      {"a quotient", [](auto& x, auto& w) { return w * (x / torch::sqrt(x.pow(2).mean(-1, true) + kEps)); }},
      {"a quotient by a power", [](auto& x, auto& w) { return w * (x / (x.pow(2).mean(-1, true) + kEps).pow(0.5)); }},
      {"libtorch's", [](auto& x, auto& w) { return torch::rms_norm(x, {8}, w, kEps); }},
      {"libtorch's without weight", [](auto& x, auto&) { return torch::rms_norm(x, {8}, {}, kEps); }},
      {"heads",
       [](auto& x, auto& w) {
         return llama(x.view({6, 8}), w).view({2, 3, 8});
       }},
  };
  for (const auto& [name, form] : forms)
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      SCOPED_TRACE(name);
      const Result mine = recorded(form, type), own = recorded(form, type, /*replaces=*/false);
      EXPECT_EQ(mine.norms, 1);
      EXPECT_EQ(own.norms, 0);
      EXPECT_EQ(mine.type, own.type);
    }
  EXPECT_EQ(recorded(llama, torch::kDouble, true, torch::kDouble).norms, 0);  // float32 in between
  EXPECT_EQ(recorded(forms[1].second, torch::kDouble, true, torch::kDouble).norms, 1);
  EXPECT_EQ(recorded([](auto& x, auto& w) { return torch::rms_norm(x, {8}, w); }).norms, 1);
}

TEST(ComposedNorm, WithoutGradientsIsOneOperatorToo) {
  const auto form = [](auto& x, auto& w) {
    const torch::NoGradGuard without;
    return llama(x, w);
  };
  EXPECT_EQ(recorded(form).norms, 1);
  EXPECT_EQ(recorded([](auto& x, auto& w) { return llama(x.detach(), w); }).norms, 1);
  EXPECT_EQ(recorded([](auto& x, auto& w) { return llama(x, w.detach()); }).norms, 1);
}

TEST(ComposedNorm, OtherArithmeticIsRecordedAsItIs) {
  const std::vector<std::pair<std::string, Form>> forms = {
      {"another power", [](auto& x, auto& w) { return w * (x * torch::rsqrt(x.pow(4).mean(-1, true) + kEps)); }},
      {"another dimension", [](auto& x, auto& w) { return w * (x * torch::rsqrt(x.pow(2).mean(1, true) + kEps)); }},
      {"a sum", [](auto& x, auto& w) { return w * (x * torch::rsqrt(x.pow(2).sum(-1, true) + kEps)); }},
      {"all dimensions",
       [](auto& x, auto& w) {
         return w * (x * torch::rsqrt(x.pow(2).mean({0, 1, 2}, true) + kEps));
       }},
      {"without eps", [](auto& x, auto& w) { return w * (x * torch::rsqrt(x.pow(2).mean(-1, true))); }},
      {"eps below 0", [](auto& x, auto& w) { return w * (x * torch::rsqrt(x.pow(2).mean(-1, true) + -kEps)); }},
      {"a part of eps",
       [](auto& x, auto& w) { return w * (x * torch::rsqrt(torch::add(x.pow(2).mean(-1, true), kEps, 3))); }},
      {"a root", [](auto& x, auto& w) { return w * (x * torch::sqrt(x.pow(2).mean(-1, true) + kEps)); }},
      {"a quotient by the reciprocal", [](auto& x, auto& w) { return w * (x / scale_of(x)); }},
      {"the other quotient", [](auto& x, auto& w) { return w * (scale_of(x) / x); }},
      {"a rounded quotient",
       [](auto& x, auto& w) { return w * torch::div(x, torch::sqrt(x.pow(2).mean(-1, true) + kEps), "floor"); }},
      {"another tensor", [](auto& x, auto& w) { return w * (x.tanh() * scale_of(x)); }},
      {"another part of the tensor",
       [](auto& x, auto& w) { return w * (x.slice(0, 0, 1) * scale_of(x.slice(0, 1, 2))); }},
      {"a scale without gradient", [](auto& x, auto& w) { return w * (x * scale_of(x.detach())); }},
      {"a tensor without gradient", [](auto& x, auto& w) { return w * (x.detach() * scale_of(x)); }},
      {"a scale of no gradient mode",
       [](auto& x, auto& w) {
         Tensor scale;
         {
           const torch::NoGradGuard without;
           scale = scale_of(x);
         }
         return w * (x * scale);
       }},
      {"x changed in between",
       [](auto& x, auto& w) {
         const torch::NoGradGuard without;
         const Tensor y = x.clone(), scale = scale_of(y);
         y.mul_(2);
         return w * (y * scale);
       }},
      {"x changed behind",
       [](auto& x, auto& w) {
         const torch::NoGradGuard without;
         const Tensor y = x.clone(), normal = y * scale_of(y);
         y.mul_(2);
         return w * normal;
       }},
      {"the result changed",
       [](auto& x, auto& w) {
         const torch::NoGradGuard without;
         const Tensor normal = x * scale_of(x);
         normal.mul_(2);
         return w * normal;
       }},
      {"a weight for each row",
       [](auto& x, auto& w) {
         return (x * scale_of(x)) * w.sum().expand({2, 3, 1});
       }},
      {"another order of memory",
       [](auto& x, auto& w) {
         return w * (x.permute({1, 0, 2}) * scale_of(x.permute({1, 0, 2})));
       }},
      {"two dimensions of libtorch's",
       [](auto& x, auto&) {
         return torch::rms_norm(x, {3, 8}, {}, kEps);
       }},
  };
  for (const auto& [name, form] : forms) {
    SCOPED_TRACE(name);
    EXPECT_EQ(recorded(form).norms, 0);
  }
  // The rounding of x^2 to bfloat16 is libtorch's; its eps without a number depends on the device.
  EXPECT_EQ(recorded([](auto& x, auto& w) { return torch::rms_norm(x, {8}, w); }, torch::kBFloat16).norms, 0);
}

TEST(ComposedNorm, WithAHookOnItsGradientIsRecordedAsItIs) {
  EXPECT_EQ(recorded([](auto& x, auto& w) {
              const Tensor normal = x * scale_of(x);
              normal.register_hook([](const Tensor& gradient) { return gradient * 2; });
              return w * normal;
            }).norms,
            0);
  record([](Recorder& recorder) {
    ComposedNorms& norms = recorder.composed_norms();
    norms.replace(true);
    const Tensor x = torch::empty({2, 8}, torch::requires_grad()), normal = x * scale_of(x);
    const Tensor y = torch::empty({8}) * normal;
    EXPECT_TRUE(norms.has_replaced());
    EXPECT_FALSE(norms.is_watched());
    normal.register_hook([](const Tensor& gradient) { return gradient * 2; });
    EXPECT_TRUE(norms.is_watched());
  });
}

TEST(ComposedNorm, IsKeptForDevicesWithoutKernels) {
  const auto with = [](bool kernels) {
    return [kernels](auto& x, auto& w) {
      Recorder::active()->set_kernels({.norms = kernels});
      return llama(x, w);
    };
  };
  EXPECT_EQ(recorded(with(true)).norms, 1);
  EXPECT_EQ(recorded(with(false)).norms, 0);
  const auto kept = [](auto& x, auto& w) {
    Recorder::active()->composed_norms().keep_all();
    return llama(x, w);
  };
  EXPECT_EQ(recorded(kept).norms, 0);
}

}  // namespace
}  // namespace plimsoll::composed_norm_test
