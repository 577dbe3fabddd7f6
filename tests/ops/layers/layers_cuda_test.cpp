// Tests the operators of layers, of the loss head and of gradients' norms as libtorch calls them on a GPU.
#include "cuda_on_cpu/layer_testing.h"
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
  expect_as_on_cpu("plimsoll::linear_cross_entropy",
                   {x, weight, at::randint(vocabulary, {tokens}, at::kLong), -100, true, true, 0.0}, 0.06,
                   /*scratch=*/false);
}

}  // namespace
}  // namespace plimsoll::ops
