// Tests attention by its CUDA kernels: in blocks, and on a GPU by libtorch's flash kernels.
#include "cuda_on_cpu/layer_testing.h"
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
  shape.capped = true;
  EXPECT_FALSE(flash_takes(shape, DType::bfloat16));
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
