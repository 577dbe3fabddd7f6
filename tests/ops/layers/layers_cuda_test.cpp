// Tests the operators of layers, of the loss head and of gradients' norms as libtorch calls them on a GPU.
#include "cuda_on_cpu/layer_testing.h"
#include "ops/fused/op_forms.h"
#include "ops/loss/linear_cross_entropy_chunks.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr at::ScalarType kNarrow[] = {at::kFloat, at::kBFloat16, at::kHalf};

Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, at::kDouble).to(type);
}

TEST(CudaLayers, RmsNorm) {
  PLIMSOLL_NEEDS_GPU();
  for (const auto type : kNarrow) {
    const Tensor wide = random({3, 20, 200}, type), weight = random({96}, at::kFloat);
    wide[1].narrow(0, 4, 3).zero_();  // rows of zeros have no scale
    for (const Tensor& x : {wide.narrow(2, 8, 96), wide.narrow(2, 3, 96).transpose(0, 1)}) {
      expect_as_on_cpu("plimsoll::rms_norm", {x, weight, 1e-5, c10::IValue()}, tolerance(type));
      const Tensor rstd = call("plimsoll::rms_norm", {x, weight, 1e-5, c10::IValue()})[1].toTensor();
      expect_as_on_cpu("plimsoll::rms_norm_backward", {random(x.sizes(), type), x, weight.to(type), rstd},
                       2 * tolerance(type));
    }
  }
}

TEST(CudaLayers, RmsNormWithSums) {
  PLIMSOLL_NEEDS_GPU();
  for (const auto type : kNarrow)
    for (const auto other : {type, at::kFloat}) {
      const auto wide = type == at::kFloat ? type : other;
      const Tensor a = random({3, 20, 200}, other).narrow(2, 8, 96), b = random({3, 96, 20}, type).transpose(1, 2),
                   weight = random({96}, at::kFloat), sum = random({3, 20, 128}, wide).narrow(2, 0, 96);
      expect_as_on_cpu("plimsoll::add_rms_norm", {sum, a, b, weight, 1e-5, at::kBFloat16}, tolerance(at::kBFloat16));
      const Tensor rstd = call("plimsoll::rms_norm", {b, weight, 1e-5, c10::IValue()})[1].toTensor();
      expect_as_on_cpu("plimsoll::rms_norm_backward_add", {sum, a, random({3, 20, 96}, type), b, weight.to(type), rstd},
                       2 * tolerance(type));
      for (const auto narrow : {at::kBFloat16, at::kHalf})
        if (wide == at::kFloat)
          expect_as_on_cpu("plimsoll::rms_norm_backward_add_cast",
                           {sum, random({3, 20, 104}, narrow).narrow(2, 8, 96), a, random({3, 20, 96}, type), b,
                            weight.to(type), rstd},
                           2 * tolerance(at::kBFloat16));
    }
}

TEST(CudaLayers, Rope) {
  PLIMSOLL_NEEDS_GPU();
  for (const auto type : kNarrow)
    for (const auto& scaling : {std::vector<double>{}, {8.0, 1.0, 4.0, 8192.0}}) {
      expect_as_on_cpu("plimsoll::rope", {random({2, 9, 4, 64}, type), 100000, 500000.0, false, scaling},
                       tolerance(type));
      expect_as_on_cpu("plimsoll::rope",
                       {random({2, 4, 64, 9}, type).transpose(1, 3).transpose(2, 3), 3, 1e4, true, scaling},
                       tolerance(type));
    }
}

// Some heads of a packed tensor, wide and narrow loads, more pairs than a launch takes, and more heads than a thread.
TEST(CudaLayers, RopeInPlace) {
  PLIMSOLL_NEEDS_GPU();
  for (const auto type : kNarrow)
    for (const int64_t width : {6, 64, 1040})
      for (const bool inverse : {false, true})
        expect_as_on_cpu("plimsoll::rope_",
                         {random({2, 17, 14, width}, type).narrow(2, 1, 11), 3, 1e4, inverse, std::vector<double>{}},
                         tolerance(type));
  EXPECT_THROW(call_on_cuda("plimsoll::rope_",
                            {random({2, 17, 8, 4}, at::kFloat).transpose(2, 3), 0, 1e4, true, std::vector<double>{}}),
               UserError);
}

TEST(CudaLayers, SwigluAndGeglu) {
  PLIMSOLL_NEEDS_GPU();
  for (const auto type : kNarrow)
    for (const std::string name : {"plimsoll::swiglu", "plimsoll::geglu"})
      for (const Tensor& gate_up : {random({2, 7, 96}, type), random({2, 96, 7}, type).transpose(1, 2)}) {
        expect_as_on_cpu(name, {gate_up}, tolerance(type));
        expect_as_on_cpu(name + "_backward", {random({2, 7, 48}, type), gate_up}, tolerance(type));
      }
}

TEST(CudaLayers, GradientNorm) {
  PLIMSOLL_NEEDS_GPU();
  const Tensor wide = random({300, 300}, at::kFloat);
  for (const Tensor& gradient : {wide, wide.t(), wide.narrow(1, 0, 70)})
    expect_as_on_cpu("plimsoll::gradient_norm_", {at::zeros({4}), at::zeros({}), gradient, 2}, 1e-6);
  expect_as_on_cpu("plimsoll::gradient_norm_group_",
                   {at::zeros({4}), at::zeros({}), std::vector<Tensor>{wide, wide.narrow(1, 0, 70), wide.t()},
                    std::vector<int64_t>{2, 0, 1}},
                   1e-6);
}

TEST(CudaLayers, LinearCrossEntropy) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(6);
  for (const auto type : kNarrow)
    for (const double softcap : {0.0, 5.0}) {
      const Tensor x = random({70, 32}, type), weight = random({130, 32}, type).mul_(0.3);
      Tensor targets = at::randint(130, {70}, at::kLong);
      targets[4] = -100;
      const double close = 2 * tolerance(type);
      const bool scratch = type == at::kFloat;  // the CPU's products of 16 bits take some of their own
      expect_as_on_cpu("plimsoll::linear_cross_entropy_loss", {x, weight, targets, -100, softcap}, close, scratch);
      for (const auto& [wants_x, wants_weight] : {std::pair{true, true}, {true, false}, {false, true}})
        expect_as_on_cpu("plimsoll::linear_cross_entropy", {x, weight, targets, -100, wants_x, wants_weight, softcap},
                         close, scratch);
    }
}

// Enough tokens for several chunks, whose 16-bit gradients are summed in two numbers.
TEST(CudaLayers, LinearCrossEntropyInChunks) {
  PLIMSOLL_NEEDS_GPU();
  const int64_t tokens = 2200, vocabulary = 32768;
  ASSERT_EQ(loss_chunks(tokens, vocabulary, 2, cuda_loss_chunk_bytes(vocabulary)).count, 3);
  const Tensor x = random({tokens, 4}, at::kBFloat16), weight = random({vocabulary, 4}, at::kBFloat16);
  const Arguments usual = {x, weight, at::randint(vocabulary, {tokens}, at::kLong), -100, true, true, 0.0};
  expect_as_on_cpu("plimsoll::linear_cross_entropy", usual, 0.06, /*scratch=*/false);
  Arguments large_blocks = usual;
  large_blocks.emplace_back(kLargeGradientBlocks);
  const Arguments want = call_on(c10::DispatchKey::CPU, "plimsoll::linear_cross_entropy", usual),
                  got = call_on_cuda("plimsoll::linear_cross_entropy.chunks", large_blocks);
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i].toTensor(), want[i].toTensor(), 0.06, std::to_string(i));
}

// With memory for more tokens at a time: fewer chunks, whose 16-bit gradients are summed in float32.
TEST(CudaLayers, LinearCrossEntropyInLargeChunks) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(7);
  for (const auto type : kNarrow)
    for (const int64_t tokens : {70, 128, 300}) {
      const Tensor x = random({tokens, 32}, type), weight = random({130, 32}, type).mul_(0.3);
      Tensor targets = at::randint(130, {tokens}, at::kLong);
      targets[4] = -100;
      for (const auto& [wants_x, wants_weight] : {std::pair{true, true}, {true, false}, {false, true}}) {
        const Arguments usual = {x, weight, targets, -100, wants_x, wants_weight, 5.0};
        Arguments large = usual;
        large.emplace_back(128);
        const Arguments want = call_on(c10::DispatchKey::CPU, "plimsoll::linear_cross_entropy", usual);
        const Arguments got = call_on_cuda("plimsoll::linear_cross_entropy.chunks", large);
        for (size_t i = 0; i < want.size(); ++i)
          if (want[i].toTensor().numel() > 0)
            expect_close(got[i].toTensor(), want[i].toTensor(), 2 * tolerance(type),
                         std::string(c10::toString(type)) + " " + std::to_string(tokens) + " " + std::to_string(i));
        if (type == at::kFloat) expect_cuda_workspace("plimsoll::linear_cross_entropy.chunks", large);
      }
      const Arguments loss = {x, weight, targets, -100, 0.0, 128};
      const Arguments usual_loss(loss.begin(), loss.end() - 1);
      expect_close(call_on_cuda("plimsoll::linear_cross_entropy_loss.chunks", loss)[0].toTensor(),
                   call_on(c10::DispatchKey::CPU, "plimsoll::linear_cross_entropy_loss", usual_loss)[0].toTensor(),
                   2 * tolerance(type), "loss");
      if (type == at::kFloat) expect_cuda_workspace("plimsoll::linear_cross_entropy_loss.chunks", loss);
    }
}

#ifndef PLIMSOLL_ON_GPU
// The CPU's products of 16 bits take scratch of their own, as much with the gradient's sum as without.
TEST(CudaLayers, LinearCrossEntropyInLargeChunksTakesTheSumThatIsPlanned) {
  const Tensor x = random({300, 32}, at::kBFloat16), weight = random({130, 32}, at::kBFloat16);
  const Tensor targets = at::randint(130, {300}, at::kLong);
  const auto used = [](const std::string& name, const Arguments& arguments) {
    Arguments results;
    const int64_t measured = measured_workspace([&] { return call_on_cuda(name, arguments); }, &results, 256);
    return std::pair{measured, cuda_workspace_bytes(recorded(name, arguments, results)).value()};
  };
  const auto with = used("plimsoll::linear_cross_entropy.chunks", {x, weight, targets, -100, false, true, 0.0, 128}),
             without = used("plimsoll::linear_cross_entropy_loss.chunks", {x, weight, targets, -100, 0.0, 128});
  EXPECT_EQ(with.first - without.first, with.second - without.second);
  EXPECT_EQ(with.second - without.second, 130 * 32 * 4);
}
#endif

// Sums of many chunks keep what a 16-bit sum would lose: each of 40 chunks adds a part that rounds away.
TEST(CudaLayers, LinearCrossEntropyInLargeChunksLosesNoSmallParts) {
  PLIMSOLL_NEEDS_GPU();
  const int64_t tokens = 40 * 64, vocabulary = 3;
  Tensor x = at::full({tokens, 1}, 1e-3, at::kDouble);
  x.narrow(0, 0, 64).fill_(1);
  const Tensor weight = at::zeros({vocabulary, 1}, at::kDouble), targets = at::zeros({tokens}, at::kLong);
  const Arguments got =
      call_on_cuda("plimsoll::linear_cross_entropy.chunks",
                   {x.to(at::kBFloat16), weight.to(at::kBFloat16), targets, -100, true, true, 0.0, 64});
  // Each token's logits are 0: the gradient of row 1 is a third of the sum of x.
  const double exact = x.to(at::kBFloat16).sum(at::kDouble).item<double>() / 3;
  EXPECT_NEAR(got[3].toTensor()[1].item<double>(), exact, exact / 256);
}

// A loss head of bfloat16 with gradients.
Op loss_head(int64_t tokens, int64_t vocabulary, int64_t width) {
  const auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  const Arguments arguments = {at::empty({tokens, width}, options),
                               at::empty({vocabulary, width}, options),
                               at::empty({tokens}, options.dtype(at::kLong)),
                               -100,
                               true,
                               true,
                               0.0};
  return recorded("plimsoll::linear_cross_entropy", arguments,
                  call_on(c10::DispatchKey::Meta, "plimsoll::linear_cross_entropy", arguments));
}

// Minimum budgets count it: losses, the logits of 832 tokens, 4096 rows of the weight's gradient, and rounding errors.
TEST(CudaLayers, TheRecordedLossHeadTakesLittleScratch) {
  EXPECT_EQ(cuda_workspace_bytes(loss_head(65536, 151936, 896)),
            65536 * 4 + (832 * 151936 + 4096 * 896 + 151936 * 896) * int64_t{2});
}

TEST(CudaLayers, LossHeadsHaveFormsWithFewerChunks) {
  const auto chunks_of = [](int64_t tokens, int64_t vocabulary, int64_t width) {
    std::vector<std::pair<int64_t, int64_t>> forms;  // tokens of a chunk, scratch in MiB
    for (const Op& form : larger_chunks_cuda(loss_head(tokens, vocabulary, width)))
      forms.emplace_back(form.call->constants.back().toInt(), cuda_workspace_bytes(form).value() >> 20);
    return forms;
  };
  using Forms = std::vector<std::pair<int64_t, int64_t>>;
  // The last form has blocks of 32 MiB, not of 4096 rows.
  EXPECT_EQ(chunks_of(65536, 151936, 896), (Forms{{8192, 2893}, {4096, 1706}, {2048, 1113}, {0, 533}}));
  EXPECT_EQ(chunks_of(4096, 152064, 3584), (Forms{{8192, 1188}, {2048, 2673}, {0, 1312}}));  // one chunk needs no sum
  EXPECT_EQ(chunks_of(65536, 151936, 4096), (Forms{{8192, 4748}, {4096, 3561}, {2048, 2967}}));  // 32 MiB already
  EXPECT_EQ(chunks_of(1024, 32000, 2048), Forms{});
}

}  // namespace
}  // namespace plimsoll::ops
