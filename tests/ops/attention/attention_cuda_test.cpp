// Tests attention by its CUDA kernels: in blocks, and on a GPU by libtorch's flash kernels.
#include <limits>

#include "cuda_on_cpu/layer_testing.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

struct Case {
  int64_t batch, query_heads, kv_heads, queries, keys, width;
  bool causal;
  int64_t window;
};

/// Makes [B, H, T, D] with the layout of models: [B, T, H, D].
Tensor heads(int64_t batch, int64_t count, int64_t tokens, int64_t width, at::ScalarType type) {
  return at::randn({batch, tokens, count, width}, at::kDouble).to(type).transpose(1, 2);
}

// If a query sees one key, gradients of q and k are differences of equal numbers. Each side computes its sums in its
// own order.
constexpr double kMinScale = 0.05;

void expect_attention(const Case& c, at::ScalarType type, double softcap, bool scratch) {
  const Tensor q = heads(c.batch, c.query_heads, c.queries, c.width, type),
               k = heads(c.batch, c.kv_heads, c.keys, c.width, type),
               v = heads(c.batch, c.kv_heads, c.keys, c.width, type);
  const double close = 2 * tolerance(type);
  for (const auto& scale : {c10::IValue(), c10::IValue(0.7)}) {
    expect_as_on_cpu("plimsoll::attention",
                     {q, k, v, c.causal, c.window, scale, softcap, c10::IValue(), c10::IValue(), 0.0}, close, scratch);
    const auto forward =
        call("plimsoll::attention", {q, k, v, c.causal, c.window, scale, softcap, c10::IValue(), c10::IValue(), 0.0});
    expect_as_on_cpu("plimsoll::attention_backward",
                     {heads(c.batch, c.query_heads, c.queries, c.width, type), q, k, v, forward[0], forward[1],
                      c.causal, c.window, scale, softcap, c10::IValue(), c10::IValue(), 0.0},
                     close, scratch, kMinScale);
    if (c.queries != c.keys) continue;
    const Tensor packed =
        at::zeros({c.batch, c.queries, c.query_heads + 2 * c.kv_heads, c.width}, type).transpose(1, 2);
    const auto parts = packed.split_with_sizes({c.query_heads, c.kv_heads, c.kv_heads}, 1);
    expect_as_on_cpu(
        "plimsoll::attention_backward.out",
        {heads(c.batch, c.query_heads, c.queries, c.width, type), q, k, v, forward[0], forward[1], c.causal, c.window,
         scale, softcap, c10::IValue(), c10::IValue(), 0.0, parts[0], parts[1], parts[2]},
        close, scratch, kMinScale);
  }
}

constexpr Case kCases[] = {
    {2, 4, 2, 37, 37, 16, true, 0}, {1, 3, 3, 40, 25, 8, false, 0},  {2, 4, 1, 70, 70, 16, true, 9},
    {1, 2, 2, 1, 1, 8, true, 0},    {1, 6, 2, 20, 33, 24, false, 0}, {1, 2, 1, 300, 300, 8, true, 50},
};

TEST(CudaAttention, InBlocks) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(7);
  for (const Case& c : kCases)
    for (const auto type : {at::kFloat, at::kDouble})
      for (const double softcap : {0.0, 2.0}) expect_attention(c, type, softcap, /*scratch=*/true);
}

TEST(CudaAttention, InBlocksOf16Bits) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(8);
  // On the CPU the emulated products of 16-bit operands take copies that a GPU's do not.
  for (const Case& c : kCases)
    for (const auto type : {at::kBFloat16, at::kHalf}) expect_attention(c, type, 2.0, /*scratch=*/false);
  expect_attention({1, 2, 1, 40, 40, 12, true, 0}, at::kBFloat16, 0, false);  // a width that flash kernels do not take
  expect_attention({1, 2, 2, 20, 20, 264, true, 7}, at::kBFloat16, 0, false);
}

TEST(CudaAttention, ByFlashKernels) {
#ifndef PLIMSOLL_ON_GPU
  GTEST_SKIP() << "libtorch's flash kernels run on a GPU alone";
#endif
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(9);
  for (const Case& c : kCases)
    for (const auto type : {at::kBFloat16, at::kHalf}) expect_attention(c, type, 0, true);
  for (const int64_t width : {64, 96, 128, 192, 256})
    expect_attention({2, 4, 2, 257, 257, width, true, 100}, at::kBFloat16, 0, true);
}

TEST(CudaAttention, TakesOperandsThatLieOtherwise) {
  PLIMSOLL_NEEDS_GPU();
  const Tensor q = at::randn({2, 8, 30, 4}).transpose(2, 3), k = at::randn({2, 2, 4, 30}), v = at::randn({2, 2, 30, 4});
  // q [2, 8, 4, 30]: four tokens of width 30, contiguous along the tokens.
  expect_as_on_cpu("plimsoll::attention",
                   {q, k, v.transpose(2, 3), true, 0, c10::IValue(), 0.0, c10::IValue(), c10::IValue(), 0.0}, 1e-5);
}

// Many query heads and keys: heads and queries are taken in several parts.
TEST(CudaAttention, InSeveralParts) {
  PLIMSOLL_NEEDS_GPU();
  const Case c{1, 64, 2, 700, 700, 4, true, 0};
  const ScoreBlocks cut = score_blocks({1, 64, 2, 700, 700, 4, true, 0});
  EXPECT_GE(cut.blocks.size(), 3u);
#ifdef PLIMSOLL_ON_GPU
  expect_attention(c, at::kFloat, 0, true);
#else
  const Tensor q = heads(1, 4, c.queries, 4, at::kFloat), k = heads(1, 2, c.keys, 4, at::kFloat);
  expect_as_on_cpu("plimsoll::attention", {q, k, k, true, 0, c10::IValue(), 0.0, c10::IValue(), c10::IValue(), 0.0},
                   1e-5);
#endif
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// A call with a mask, dropout, or both.
struct Changed {
  Case c;
  at::ScalarType type;
  Tensor mask = {};  ///< undefined: none
  double dropout = 0;
  double softcap = 0;
  Tensor seed = at::full({1}, 0x123456789abcdef, at::kLong);

  Arguments arguments(const Tensor& q, const Tensor& k, const Tensor& v) const {
    return {q,
            k,
            v,
            c.causal,
            c.window,
            c10::IValue(0.4),
            softcap,
            mask.defined() ? c10::IValue(mask) : c10::IValue(),
            dropout > 0 ? c10::IValue(seed) : c10::IValue(),
            dropout};
  }
};

using Run = Arguments(const std::string&, const Arguments&);
Arguments on_cpu(const std::string& name, const Arguments& arguments) {
  return call(name, arguments);
}

/// Returns which probabilities dropout keeps, [B, H, T, S], as 0 and 1. They show in equal shares of orthogonal values.
Tensor kept_by(Run run, const Changed& call) {
  const Case& c = call.c;
  const Tensor v = at::eye(c.keys).expand({c.batch, c.kv_heads, c.keys, c.keys});
  Changed all{{c.batch, c.query_heads, c.kv_heads, c.queries, c.keys, c.keys, false, 0}, at::kFloat};
  all.dropout = call.dropout;
  all.seed = call.seed;
  const Tensor out = run("plimsoll::attention", all.arguments(at::zeros({c.batch, c.query_heads, c.queries, c.keys}),
                                                              at::zeros_like(v), v.contiguous()))[0]
                         .toTensor();
  return (out > 0.5 / static_cast<double>(c.keys)).to(at::kDouble);
}

/// Attention of matrices in float64.
Tensor composite(const Changed& call, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Case& c = call.c;
  const int64_t group = c.query_heads / c.kv_heads;
  Tensor scores = at::matmul(q, k.repeat_interleave(group, 1).transpose(2, 3)) * 0.4;
  if (call.softcap > 0) scores = call.softcap * at::tanh(scores / call.softcap);
  if (call.mask.defined())
    scores = call.mask.scalar_type() == at::kBool ? scores.masked_fill(call.mask.logical_not(), kHidden)
                                                  : scores + call.mask.to(at::kDouble);
  const Tensor apart = at::arange(c.queries).unsqueeze(1) - at::arange(c.keys).unsqueeze(0);
  if (c.causal) scores = scores.masked_fill(apart < 0, kHidden);
  if (c.window > 0) scores = scores.masked_fill(apart >= c.window, kHidden);
  const Tensor sees_none = (scores == kHidden).all(-1, true);
  Tensor shares = at::softmax(scores.masked_fill(sees_none, 0), -1).masked_fill(sees_none, 0);
  if (call.dropout > 0) shares = shares * kept_by(on_cpu, call) / (1 - call.dropout);
  return at::matmul(shares, v.repeat_interleave(group, 1));
}

/// Expects the same largest scores and rests, and a rest of infinity for the same queries.
void expect_logsumexp(const Tensor& got, const Tensor& want, double close, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  ASSERT_EQ(got.strides(), want.strides()) << what;
  if (got.dim() == 3) return expect_close(got, want, close, what, 1.0);
  const Tensor none = want.select(-1, 1).isinf();
  EXPECT_TRUE(at::equal(got.select(-1, 1).isinf(), none)) << what;
  for (const int64_t part : {0, 1})
    expect_close(got.select(-1, part).masked_fill(none, 0), want.select(-1, part).masked_fill(none, 0), close, what,
                 1.0);
}

/// Compares forward and backward with the CPU's operators and with the composite, and the scratch with its rule.
void expect_changed(const Changed& changed, const std::string& what) {
  SCOPED_TRACE(what);
  const Case& c = changed.c;
  const Tensor q = heads(c.batch, c.query_heads, c.queries, c.width, changed.type),
               k = heads(c.batch, c.kv_heads, c.keys, c.width, changed.type),
               v = heads(c.batch, c.kv_heads, c.keys, c.width, changed.type),
               grad = heads(c.batch, c.query_heads, c.queries, c.width, changed.type);
  const double close = 2 * tolerance(changed.type);
  const Arguments arguments = changed.arguments(q, k, v);
  const auto both = [&](Run run) {
    Arguments results = run("plimsoll::attention", copied(arguments));
    Arguments backward{grad, q, k, v, results[0], results[1]};
    backward.insert(backward.end(), arguments.begin() + 3, arguments.end());
    for (const c10::IValue& gradient : run("plimsoll::attention_backward", copied(backward)))
      results.push_back(gradient);
    return std::pair(results, backward);
  };
  const auto [want, ignored] = both(on_cpu);
  const auto [got, backward] = both(call_on_cuda);
  std::vector<Tensor> leaves;
  for (const Tensor& each : {q, k, v}) leaves.push_back(each.to(at::kDouble).detach().requires_grad_(true));
  const Tensor exact = composite(changed, leaves[0], leaves[1], leaves[2]);
  exact.backward(grad.to(at::kDouble));
  const std::vector<Tensor> exacts{exact.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  expect_logsumexp(got[1].toTensor(), want[1].toTensor(), close, "logsumexp");
  const char* const names[] = {"out", "dq", "dk", "dv"};
  for (size_t i = 0; i < 4; ++i) {
    const Tensor result = got[i == 0 ? 0 : i + 1].toTensor(), of_cpu = want[i == 0 ? 0 : i + 1].toTensor();
    EXPECT_EQ(result.strides(), of_cpu.strides()) << names[i];
    expect_close(result, of_cpu, close, std::string(names[i]) + " of the CPU", 0.25);
    expect_close(result, exacts[i], close, names[i], 0.25);
  }
  // On the CPU the emulated products of 16-bit operands take copies that a GPU's do not.
  if (element_bytes(dtype_of(q)) == 2) return;
  expect_cuda_workspace("plimsoll::attention", copied(arguments));
  expect_cuda_workspace("plimsoll::attention_backward", copied(backward));
}

/// A mask [B, H, T, S] that is expanded from a part of it, or has the keys' stride above 1, and an offset.
struct Layout {
  const char* name;
  Tensor (*make)(const Case& c, const Tensor& numbers);
};
constexpr Layout kLayouts[] = {
    {"dense", [](const Case&, const Tensor& numbers) { return numbers; }},
    {"padding", [](const Case&, const Tensor& numbers) { return numbers.narrow(1, 0, 1).narrow(2, 0, 1); }},
    {"matrix", [](const Case&, const Tensor& numbers) { return numbers[0][0]; }},
    {"queries", [](const Case&, const Tensor& numbers) { return numbers.narrow(3, 0, 1); }},
    {"transposed",
     [](const Case&, const Tensor& numbers) { return numbers.transpose(2, 3).contiguous().transpose(2, 3); }},
    {"part",
     [](const Case& c, const Tensor& numbers) {
       return at::cat({numbers, numbers}, 3).narrow(3, c.keys / 2, c.keys);
     }},
};

Tensor random_mask(const Case& c, at::ScalarType type, const Layout& layout) {
  Tensor seen = at::rand({c.batch, c.query_heads, c.queries, c.keys}) > 0.4;
  if (c.queries > 2) seen.narrow(2, 1, 1).fill_(false);  // a query sees no key
  if (c.keys > 8) seen.narrow(3, 0, 5).fill_(false);
  Tensor mask = seen;
  if (type != at::kBool) mask = at::randn(seen.sizes()).masked_fill(seen.logical_not(), kHidden).to(type);
  return layout.make(c, mask).expand(seen.sizes());
}

constexpr Case kChangedCases[] = {
    {2, 4, 2, 17, 41, 16, false, 0},
    {1, 3, 1, 40, 40, 8, true, 0},
    {2, 2, 2, 35, 35, 12, true, 6},
    {1, 1, 1, 1, 1, 8, false, 0},
};

TEST(CudaAttentionMask, OfEveryTypeAndLayout) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(21);
  int64_t turn = 0;
  for (const Case& c : kChangedCases)
    for (const auto mask : {at::kBool, at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      for (const Layout& layout : kLayouts) {
        const auto type = kTypes[turn++ % 4];  // each type of masks meets each of operands
        expect_changed(
            {.c = c,
             .type = type,
             .mask = random_mask(c, mask, layout),
             .dropout = turn % 3 == 0 ? 0.3 : 0.0,
             .softcap = turn % 5 == 0 ? 1.5 : 0.0},
            c10::str(c10::toString(type), " mask ", c10::toString(mask), " ", layout.name, " T=", c.queries));
      }
}

TEST(CudaAttentionMask, FullyMaskedQueriesHaveResultsAndGradientsOfZero) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(22);
  const Case c{2, 2, 1, 6, 33, 8, false, 0};
  for (const auto type : kTypes)
    for (const auto mask_type : {at::kBool, at::kFloat}) {
      Tensor mask = at::ones({2, 1, 6, 33}, at::kBool);
      mask[0].fill_(false);
      mask.select(2, 4).fill_(false);
      if (mask_type != at::kBool) mask = at::zeros(mask.sizes()).masked_fill(mask.logical_not(), kHidden);
      const Changed changed{.c = c, .type = type, .mask = mask.expand({2, 2, 6, 33})};
      const Tensor q = heads(2, 2, 6, 8, type), k = heads(2, 1, 33, 8, type), v = heads(2, 1, 33, 8, type);
      Arguments arguments = changed.arguments(q, k, v);
      const auto forward = call_on_cuda("plimsoll::attention", arguments);
      Arguments backward{heads(2, 2, 6, 8, type), q, k, v, forward[0], forward[1]};
      backward.insert(backward.end(), arguments.begin() + 3, arguments.end());
      const auto gradients = call_on_cuda("plimsoll::attention_backward", backward);
      for (const Tensor& of_queries : {forward[0].toTensor(), gradients[0].toTensor()}) {
        EXPECT_TRUE(at::equal(of_queries[0], at::zeros_like(of_queries[0])));
        EXPECT_TRUE(at::equal(of_queries[1].select(1, 4), at::zeros_like(of_queries[1].select(1, 4))));
        EXPECT_GT(of_queries[1].select(1, 3).abs().max().item<double>(), 0);
      }
      for (const size_t i : {1, 2}) {
        const Tensor of_keys = gradients[i].toTensor();
        EXPECT_TRUE(at::equal(of_keys[0], at::zeros_like(of_keys[0])));
        EXPECT_TRUE(at::isfinite(of_keys).all().item<bool>());
      }
    }
}

// A query whose scores are all as low as float32 goes has equal shares, also in backward.
TEST(CudaAttentionMask, QueriesOfTheLowestNumberHaveEqualShares) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(23);
  const Case c{1, 2, 2, 5, 70, 8, false, 0};
  Tensor mask = at::zeros({1, 1, 5, 70});
  mask.select(2, 3).fill_(std::numeric_limits<float>::lowest());
  mask.select(2, 1).narrow(-1, 0, 69).fill_(std::numeric_limits<float>::lowest());
  const Changed changed{.c = c, .type = at::kFloat, .mask = mask.expand({1, 2, 5, 70})};
  const Tensor q = heads(1, 2, 5, 8, at::kFloat), k = heads(1, 2, 70, 8, at::kFloat),
               v = heads(1, 2, 70, 8, at::kFloat);
  Arguments arguments = changed.arguments(q, k, v);
  const auto got = call_on_cuda("plimsoll::attention", arguments), want = call("plimsoll::attention", arguments);
  expect_close(got[0].toTensor().select(2, 3), v.mean(2), 1e-5, "equal shares");
  expect_close(got[0].toTensor(), want[0].toTensor(), 1e-5, "out");
  Arguments backward{heads(1, 2, 5, 8, at::kFloat), q, k, v, got[0], got[1]};
  backward.insert(backward.end(), arguments.begin() + 3, arguments.end());
  const auto gradients = call_on_cuda("plimsoll::attention_backward", backward),
             of_cpu = call("plimsoll::attention_backward", backward);
  for (size_t i = 0; i < 3; ++i) expect_close(gradients[i].toTensor(), of_cpu[i].toTensor(), 2e-5, "gradient");
}

TEST(CudaAttentionMask, NanAndInfinityAreNotHidden) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(24);
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Tensor mask = at::zeros({1, 1, 3, 40});
    mask[0][0][1][37] = value;
    const Changed changed{.c = {1, 1, 1, 3, 40, 8, false, 0}, .type = at::kFloat, .mask = mask};
    const Tensor k = heads(1, 1, 40, 8, at::kFloat);
    const Tensor out =
        call_on_cuda("plimsoll::attention", changed.arguments(heads(1, 1, 3, 8, at::kFloat), k, k))[0].toTensor();
    EXPECT_TRUE(out[0][0][1].isnan().all().item<bool>());
    EXPECT_TRUE(at::isfinite(out[0][0][0]).all().item<bool>());
  }
}

TEST(CudaAttentionDropout, KeepsTheElementsThatTheCpuKeeps) {
  PLIMSOLL_NEEDS_GPU();
  for (const Case& c : {Case{2, 4, 2, 33, 70, 8, false, 0}, {1, 2, 2, 300, 65, 8, false, 0}})
    for (const double dropout : {0.1, 0.5, 1e-12, 1 - 1e-12})
      for (const int64_t seed : {int64_t{0}, int64_t{-5}, int64_t{1} << 40}) {
        const Changed changed{.c = c, .type = at::kFloat, .dropout = dropout, .seed = at::full({1}, seed, at::kLong)};
        const Tensor kept = kept_by(call_on_cuda, changed);
        EXPECT_TRUE(at::equal(kept, kept_by(on_cpu, changed))) << dropout << " " << seed;
        EXPECT_NEAR(kept.mean().item<double>(), 1 - dropout, 0.02);
      }
}

TEST(CudaAttentionDropout, InEveryOrder) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(25);
  in_every_order([&] {
    for (const Case& c : kChangedCases)
      for (const auto type : kTypes)
        for (const double softcap : {0.0, 2.0})
          expect_changed({.c = c, .type = type, .dropout = 0.2, .softcap = softcap},
                         c10::str("dropout ", c10::toString(type), " T=", c.queries));
  });
}

// Blocks of queries, and windows whose first key is not 0: masks and bits are of the tokens, not of a block's rows.
TEST(CudaAttentionDropout, InSeveralBlocks) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(26);
  for (const Case& c : {Case{1, 2, 1, 300, 300, 4, true, 40}, {2, 1, 1, 270, 50, 4, false, 0}}) {
    ASSERT_GE(score_blocks({c.batch, c.query_heads, c.kv_heads, c.queries, c.keys, c.width, c.causal, c.window})
                  .blocks.size(),
              2u);
    for (const bool masked : {false, true})
      expect_changed({.c = c,
                      .type = at::kFloat,
                      .mask = masked ? random_mask(c, at::kBool, kLayouts[0]) : Tensor(),
                      .dropout = 0.25},
                     c10::str("T=", c.queries, " masked=", masked));
  }
}

// More scores than one part holds: heads are taken in several parts.
TEST(CudaAttentionDropout, InSeveralPartsOfHeads) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(27);
  const Case c{1, 33, 33, 4, 131072, 4, false, 0};
  ASSERT_LT(score_blocks({1, 33, 33, 4, 131072, 4, false, 0}).kv_heads, 33);
  const Changed changed{.c = c,
                        .type = at::kFloat,
                        .mask = (at::rand({1, 33, 1, c.keys}) > 0.5).expand({1, 33, c.queries, c.keys}),
                        .dropout = 0.5};
  const Tensor k = heads(1, 33, c.keys, 4, at::kFloat);
  const Arguments arguments = changed.arguments(heads(1, 33, 4, 4, at::kFloat), k, k);
  const auto got = call_on_cuda("plimsoll::attention", arguments), want = call("plimsoll::attention", arguments);
  expect_close(got[0].toTensor(), want[0].toTensor(), 1e-4, "out");
  expect_logsumexp(got[1].toTensor(), want[1].toTensor(), 1e-4, "logsumexp");
}

TEST(CudaAttentionPlan, FlashKernelsTakeWhatTheyCan) {
  AttentionShape shape{1, 8, 2, 64, 64, 128, true, 0};
  EXPECT_TRUE(flash_takes(shape, DType::bfloat16));
  EXPECT_TRUE(flash_takes(shape, DType::float16));
  EXPECT_FALSE(flash_takes(shape, DType::float32));
  for (const int64_t width : {8, 40, 256}) {
    shape.width = width;
    EXPECT_TRUE(flash_takes(shape, DType::bfloat16)) << width;
  }
  for (const int64_t width : {4, 20, 264}) {
    shape.width = width;
    EXPECT_FALSE(flash_takes(shape, DType::bfloat16)) << width;
  }
  shape.width = 64;
  EXPECT_TRUE(flash_takes(shape, DType::bfloat16));
  for (bool AttentionShape::*const refused :
       {&AttentionShape::capped, &AttentionShape::masked, &AttentionShape::dropped}) {
    AttentionShape other = shape;
    other.*refused = true;
    EXPECT_FALSE(flash_takes(other, DType::bfloat16));
  }
}

TEST(CudaAttentionPlan, FlashKernelsReadTokensInOrder) {
  const int64_t sizes[] = {2, 30, 4, 16};
  const auto reads = [&](std::vector<int64_t> strides, int64_t offset) { return flash_reads(sizes, strides, offset); };
  EXPECT_TRUE(reads({30 * 64, 64, 16, 1}, 0));
  EXPECT_TRUE(reads({30 * 192, 192, 16, 1}, 64));     // part of a fused projection
  EXPECT_FALSE(reads({30 * 192, 192, 16, 1}, 3));     // not at 16 bytes
  EXPECT_FALSE(reads({30 * 64, 16, 30 * 16, 1}, 0));  // heads before tokens
  EXPECT_FALSE(reads({30 * 64, 64, 16, 2}, 0));
  EXPECT_FALSE(reads({30 * 64, 64, 0, 1}, 0));  // expanded
}

TEST(CudaAttentionPlan, FlashScratchIsAsLibtorchHasIt) {
  // 32 heads of 8192 tokens fill any GPU: nothing is split. Backward: 132 processors take 5 shares of 32 heads.
  const AttentionShape shape{1, 32, 8, 8192, 8192, 128, true, 0};
  EXPECT_EQ(flash_forward_scratch(shape, 132, 256), 512);
  EXPECT_EQ(flash_forward_scratch(shape, 0, 256), 512);
  EXPECT_EQ(flash_backward_scratch(shape, 132, 256),
            32 * 8192 * 4 + int64_t{5} * 32 * 8192 * 128 * 4 + 2 * int64_t{32} * 8192 * 128 * 2);
  EXPECT_GE(flash_backward_scratch(shape, 0, 256), flash_backward_scratch(shape, 132, 256));
  // 4 heads of 128 tokens are 8 blocks for 216 slots; 512 keys of width 64 are two blocks: two splits.
  const AttentionShape few{1, 4, 4, 128, 512, 64, false, 0};
  EXPECT_EQ(flash_forward_scratch(few, 108, 256), 512 + 2 * 4 * 128 * 4 + 2 * 4 * 128 * 64 * 4);
  EXPECT_EQ(flash_forward_scratch(few, 0, 256), flash_forward_scratch(few, 108, 256));
}

TEST(CudaAttentionPlan, ScoresAreBounded) {
  for (const AttentionShape& shape : {AttentionShape{1, 32, 8, 8192, 8192, 128, true, 0},
                                      {4, 64, 1, 32768, 32768, 128, true, 0},
                                      {2, 16, 16, 100, 100, 64, true, 20}}) {
    const ScoreBlocks cut = score_blocks(shape);
    const int64_t scores = cut.kv_heads * shape.group() * cut.rows * cut.max_keys * 4;
    EXPECT_TRUE(scores <= int64_t{64} << 20 || cut.rows <= 16) << scores;
    int64_t queries = 0;
    for (const QueryBlock& block : cut.blocks) {
      EXPECT_EQ(block.begin, queries);
      queries += block.count;
      EXPECT_LE(block.keys, cut.max_keys);
      EXPECT_LE(block.first_key + block.keys, shape.keys);
    }
    EXPECT_EQ(queries, shape.queries);
  }
}

}  // namespace
}  // namespace plimsoll::ops
