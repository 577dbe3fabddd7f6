// Tests attention with masks that are tensors, and with dropout.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <random>

#include "ops/attention/attention.h"
#include "ops/kernel_choice.h"
#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {
namespace masked {

using at::Tensor;
using namespace testing;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct MaskCase {
  int64_t batch, heads, kv_heads, queries, keys, width;
  std::vector<int64_t> mask;  // sizes
};

const std::vector<MaskCase>& mask_cases() {
  static const std::vector<MaskCase> all = {
      {2, 4, 2, 33, 33, 16, {2, 1, 1, 33}},    {1, 1, 1, 1, 1, 8, {1, 1, 1, 1}},
      {2, 3, 3, 70, 130, 16, {2, 1, 70, 130}}, {2, 4, 4, 130, 70, 10, {130, 70}},
      {1, 6, 2, 200, 200, 32, {6, 200, 200}},  {3, 2, 1, 65, 129, 8, {3, 2, 65, 129}},
      {1, 2, 2, 64, 64, 64, {1, 1, 64, 1}},    {2, 2, 1, 7, 300, 24, {1, 1, 7, 300}},
  };
  return all;
}

Tensor random_heads(int64_t batch, int64_t heads, int64_t tokens, int64_t width, at::ScalarType type) {
  return torch::randn({batch, tokens, heads, width}, at::kDouble).to(type).transpose(1, 2);
}

struct Operands {
  Tensor q, k, v, grad;
  Operands(const MaskCase& c, at::ScalarType type)
      : q(random_heads(c.batch, c.heads, c.queries, c.width, type)),
        k(random_heads(c.batch, c.kv_heads, c.keys, c.width, type)),
        v(random_heads(c.batch, c.kv_heads, c.keys, c.width, type)),
        grad(random_heads(c.batch, c.heads, c.queries, c.width, type)) {}
};

/// Returns out, dq, dk and dv.
std::vector<Tensor> results(const Operands& in,
                            const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f, bool wide) {
  std::vector<Tensor> leaves;
  for (const Tensor& each : {in.q, in.k, in.v})
    leaves.push_back(each.detach().to(wide ? at::kDouble : each.scalar_type()).requires_grad_(true));
  const Tensor out = f(leaves[0], leaves[1], leaves[2]);
  out.backward(in.grad.to(out.scalar_type()));
  std::vector<Tensor> all{out.detach()};
  for (const Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

/// Attention of matrices. `kept`, if defined, multiplies the probabilities.
Tensor reference(const MaskCase& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 const Tensor& kept = {}) {
  const int64_t group = c.heads / c.kv_heads;
  Tensor scores = at::matmul(q, k.repeat_interleave(group, 1).transpose(2, 3)) / std::sqrt(double(c.width));
  if (mask.defined())
    scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), kHidden)
                                             : scores + mask.to(at::kDouble);
  const Tensor sees_none = (scores == kHidden).all(-1, true);
  Tensor shares = at::softmax(scores.masked_fill(sees_none, 0), -1).masked_fill(sees_none, 0);
  if (kept.defined()) shares = shares * kept;
  return at::matmul(shares, v.repeat_interleave(group, 1));
}

void expect_all_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double error,
                      const std::string& what) {
  const char* const names[] = {" out", " dq", " dk", " dv"};
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], error, what + names[i], 0.25);
}

// Rows that see no key, keys that no query sees, whole blocks of both.
TEST(MaskedAttention, AgreesWithItsParts) {
  torch::manual_seed(1);
  for (const MaskCase& c : mask_cases())
    for (const auto type : kTypes)
      for (const bool boolean : {true, false}) {
        const Operands in(c, type);
        Tensor seen = torch::rand(c.mask) > 0.4;
        if (c.queries > 64) seen.narrow(-2, 0, 1).fill_(false);
        if (c.keys > 128 && c.mask.back() > 1) seen.narrow(-1, 0, 64).fill_(false);
        Tensor mask = seen;
        if (!boolean) mask = torch::randn(c.mask).masked_fill(seen.logical_not(), kHidden).to(type);
        const auto ours = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
          return attention(q, k, v, {.causal = false, .mask = mask});
        };
        const auto parts = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
          return reference(c, q, k, v, mask);
        };
        expect_all_close(results(in, ours, false), results(in, parts, true), tolerance(type),
                         c10::str("T=", c.queries, " S=", c.keys, " ", c10::toString(type), boolean ? " bool" : ""));
      }
}

// A row whose scores are all as low as float32 goes has equal shares, also in backward.
TEST(MaskedAttention, RowsOfTheLowestNumberHaveEqualShares) {
  torch::manual_seed(2);
  const MaskCase c{1, 2, 2, 70, 100, 16, {1, 1, 70, 100}};
  const Operands in(c, at::kFloat);
  Tensor mask = torch::zeros(c.mask);
  mask.select(2, 3).fill_(std::numeric_limits<float>::lowest());
  mask.select(2, 69).narrow(-1, 0, 99).fill_(std::numeric_limits<float>::lowest());
  const std::vector<Tensor> got = results(
      in,
      [&](const auto& q, const auto& k, const auto& v) { return attention(q, k, v, {.causal = false, .mask = mask}); },
      false);
  const auto torchs = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::matmul(at::softmax(at::matmul(q, k.transpose(2, 3)) / 4 + mask, -1), v);
  };
  expect_all_close(got, results(in, torchs, false), 2e-5, "lowest");
}

TEST(MaskedAttention, NanAndInfinityAreNotHidden) {
  torch::manual_seed(3);
  const MaskCase c{1, 1, 1, 3, 5, 8, {3, 5}};
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Operands in(c, at::kFloat);
    Tensor mask = torch::zeros(c.mask);
    mask[1][2] = value;
    const Tensor out = attention(in.q, in.k, in.v, {.causal = false, .mask = mask});
    EXPECT_TRUE(out[0][0][1].isnan().all().item<bool>());
    EXPECT_TRUE(at::isfinite(out[0][0][0]).all().item<bool>());
  }
}

TEST(MaskedAttention, AMaskOfATriangleHasTheResultOfCausalAttention) {
  torch::manual_seed(4);
  const MaskCase c{2, 2, 1, 200, 200, 16, {200, 200}};
  for (const auto type : kTypes) {
    const Operands in(c, type);
    const Tensor mask = at::ones(c.mask, at::kBool).tril();
    const auto with = [&](const AttentionOptions& options) {
      return results(
          in, [&](const auto& q, const auto& k, const auto& v) { return attention(q, k, v, options); }, false);
    };
    expect_all_close(with({.causal = false, .mask = mask}), with({.causal = true}), tolerance(type),
                     c10::toString(type));
  }
}

std::vector<c10::IValue> forward_arguments(const Operands& in, const c10::IValue& mask, double dropout) {
  const c10::IValue seed = dropout > 0 ? c10::IValue(at::full({1}, 12345, at::kLong)) : c10::IValue();
  return {in.q, in.k, in.v, false, int64_t{0}, c10::IValue(), 0.0, mask, seed, dropout};
}

TEST(MaskedAttention, AnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(5);
  for (const MaskCase& c : mask_cases())
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const double dropout : {0.0, 0.2}) {
        const Operands in(c, type);
        const Tensor mask = (torch::rand(c.mask) > 0.4).expand({c.batch, c.heads, c.queries, c.keys});
        SCOPED_TRACE(c10::str("T=", c.queries, " S=", c.keys, " ", c10::toString(type)));
        const std::vector<c10::IValue> forward = forward_arguments(in, mask, dropout);
        expect_meta_agrees("plimsoll::attention", forward);
        expect_workspace("plimsoll::attention", forward);
        const auto found = call("plimsoll::attention", forward);
        std::vector<c10::IValue> backward{in.grad, in.q, in.k, in.v, found[0], found[1]};
        backward.insert(backward.end(), forward.begin() + 3, forward.end());
        expect_meta_agrees("plimsoll::attention_backward", backward);
        expect_workspace("plimsoll::attention_backward", backward);
      }
}

TEST(MaskedAttention, RefusesWhatItDoesNotCompute) {
  const MaskCase c{1, 2, 2, 4, 5, 8, {}};
  const Operands in(c, at::kFloat);
  const auto refusal = [&](const AttentionOptions& options) {
    try {
      attention(in.q, in.k, in.v, options);
    } catch (const UserError& error) {
      return std::string(error.what());
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal({.causal = false, .mask = at::ones({4, 5}, at::kInt)}),
              HasSubstr("allowed are bool and floating"));
  EXPECT_THAT(refusal({.causal = false, .mask = at::ones({4, 4}, at::kBool)}), HasSubstr("expand"));
  EXPECT_THAT(refusal({.causal = false, .mask = at::ones({4, 5}).requires_grad_(true)}), HasSubstr("needs a gradient"));
  EXPECT_THAT(refusal({.causal = false, .dropout = 0.5}), HasSubstr("without a seed"));
  EXPECT_THAT(refusal({.causal = false, .dropout = 1.0}), HasSubstr("below 1"));
  EXPECT_THAT(refusal({.causal = false, .seed = at::zeros({1}, at::kLong)}), HasSubstr("with a seed"));
}

/// Returns which probabilities dropout keeps, [B, H, T, S], as factors of the probabilities: 0 or 1 / (1 - dropout).
/// They show in equal shares of orthogonal values.
Tensor kept_of(const MaskCase& c, double dropout, const Tensor& seed) {
  const Tensor q = at::zeros({c.batch, c.heads, c.queries, c.keys}),
               k = at::zeros({c.batch, c.kv_heads, c.keys, c.keys});
  const Tensor v = at::eye(c.keys).expand(k.sizes());
  const Tensor out = attention(q, k, v, {.causal = false, .dropout = dropout, .seed = seed}).to(at::kDouble);
  const Tensor kept = (out > 0.5 / double(c.keys)).to(at::kDouble) / (1 - dropout);
  expect_close(out * double(c.keys), kept, 1e-5, "dropout keeps all or nothing");
  return kept;
}

TEST(AttentionDropout, AgreesWithItsParts) {
  torch::manual_seed(6);
  for (const MaskCase& c : mask_cases())
    for (const auto type : kTypes) {
      if (c.keys > 256) continue;
      const Operands in(c, type);
      const double dropout = 0.3;
      const Tensor seed = torch::randint(1 << 30, {1}, at::kLong), kept = kept_of(c, dropout, seed);
      const Tensor mask = c.queries % 2 == 0 ? torch::rand(c.mask) > 0.3 : Tensor();
      const auto ours = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        AttentionOptions options{.causal = false, .dropout = dropout, .seed = seed};
        if (mask.defined()) options.mask = mask;
        return attention(q, k, v, options);
      };
      const auto parts = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        return reference(c, q, k, v, mask, kept);
      };
      expect_all_close(results(in, ours, false), results(in, parts, true), tolerance(type),
                       c10::str("T=", c.queries, " S=", c.keys, " ", c10::toString(type)));
    }
}

TEST(AttentionDropout, KeepsTheRightShareWithoutPatterns) {
  const MaskCase c{2, 3, 3, 200, 256, 8, {}};
  for (const double dropout : {0.1, 0.5, 0.9}) {
    const Tensor kept = kept_of(c, dropout, at::full({1}, 7, at::kLong));
    const Tensor ones = (kept > 0.5).to(at::kDouble);
    const auto expect_share = [&](const Tensor& of, double share, const char* what) {
      const double n = double(of.numel()), deviation = std::sqrt(share * (1 - share) / n);
      EXPECT_NEAR(of.mean().item<double>(), share, 5 * deviation) << what << " at " << dropout;
    };
    const double share = 1 - dropout;
    expect_share(ones, share, "all");
    // Neighbors along each dimension, and another seed, are independent: both are kept share^2 of the time.
    for (int64_t dim = 0; dim < 4; ++dim)
      expect_share(ones.narrow(dim, 1, ones.size(dim) - 1) * ones.narrow(dim, 0, ones.size(dim) - 1), share * share,
                   "neighbors");
    const Tensor other = (kept_of(c, dropout, at::full({1}, 8, at::kLong)) > 0.5).to(at::kDouble);
    expect_share(ones * other, share * share, "seeds");
    for (int64_t dim = 0; dim < 4; ++dim) {  // no row or column is kept or dropped as a whole
      const Tensor means = ones.mean(dim);
      EXPECT_GT(means.std().item<double>(), 0) << dim;
    }
  }
}

TEST(AttentionDropout, HasTheSameBitsOnAnyNumberOfThreads) {
  torch::manual_seed(8);
  const MaskCase c{1, 3, 1, 333, 333, 24, {}};
  for (const char* kernel : {"pairs", "float32"})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const KernelScope scope("attention.bfloat16", kernel);
      const Operands in(c, type);
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 5}) {
        const Threads on(threads);
        const std::vector<Tensor> all = results(
            in,
            [&](const auto& q, const auto& k, const auto& v) {
              return attention(q, k, v, {.dropout = 0.1, .seed = at::full({1}, 3, at::kLong)});
            },
            false);
        if (first.empty()) first = all;
        for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i], first[i])) << threads << " " << i;
      }
    }
}

}  // namespace masked
}  // namespace
}  // namespace plimsoll::ops
