// Tests that kernels, which count in 32 bits, compute addresses in 64 bits: rows that are more than 2^31 elements apart
// give the bits of adjacent rows. Launches refuse counts above 32 bits.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include "cuda_on_cpu/operator_testing.h"
#include "ops/attention/capped_softmax_launch.h"
#include "ops/device_support.cuh"
#include "ops/layers/layers_launch.h"
#include "ops/layers/quantized_plan.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"
#include "ops/loss/cross_entropy_launch.h"
#include "ops/optimizer/optimizer_testing.h"
#include "ops/packed_numbers.cuh"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Elements between rows: their product with a row's index is wrong in 32 bits, signed and unsigned.
constexpr int64_t kFar = (int64_t{3} << 31) + 64;

void* addresses(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/// Tests with rows far apart. Where the system reserves no such range of addresses (strict overcommit, `ulimit -v`),
/// they are skipped.
class CudaIndexFar : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr size_t kBytes = size_t{1} << 40;
    void* const data = addresses(kBytes);
    if (data == MAP_FAILED) GTEST_SKIP() << "no range of 1 TiB of addresses";
    munmap(data, kBytes);
  }
};

/// Returns zero bytes. The system adds memory only to pages that are written.
Tensor sparse_zeros(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* const data = addresses(size);
  TORCH_CHECK(data != MAP_FAILED, "no addresses");
  return at::from_blob(
      data, {bytes}, [size](void* at) { munmap(at, size); }, at::TensorOptions(at::kByte));
}
/// Returns zeros whose dimension `dim` has a stride of kFar elements.
Tensor far_zeros(at::IntArrayRef sizes, at::ScalarType type, int64_t dim = 0) {
  std::vector<int64_t> strides = at::empty(sizes, at::kByte).strides().vec();
  strides.at(dim) = kFar;
  const Tensor memory = sparse_zeros(sizes[dim] * kFar * static_cast<int64_t>(at::elementSize(type)));
  return at::from_blob(
      memory.data_ptr(), sizes, strides, [memory](void*) {}, at::TensorOptions(type));
}
Tensor far(const Tensor& near, int64_t dim = 0) {
  return far_zeros(near.sizes(), near.scalar_type(), dim).copy_(near);
}
Tensor near(const Tensor& tensor) {
  return tensor.clone();
}

/// Expects that `run` changes the tensors that `place` returns to the same bits at both places.
template <typename Run>
void expect_same_when_far(const Run& run) {
  const std::vector<Tensor> want = run([](const Tensor&tensor) { return near(tensor); }),
                            got = run([](const Tensor&tensor) { return far(tensor); });
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(same_bytes(got[i].contiguous(), want[i].contiguous())) << "result " << i;
}

__global__ void store_count(int32_t count, int32_t* to) {
  *to = count;
}

TEST(CudaIndex, LaunchesRefuseCountsAbove32Bits) {
  int32_t got = 0;
  for (const int64_t count : {int64_t{0}, int64_t{1} << 30, cuda::kMaxIndex, -cuda::kMaxIndex}) {
    cuda::launch(store_count, 1, 1, 0, nullptr, count, &got);
    EXPECT_EQ(got, count);
  }
  for (const int64_t count : {cuda::kMaxIndex + 1, -cuda::kMaxIndex - 1, int64_t{1} << 32, kFar})
    EXPECT_THAT([&] { cuda::launch(store_count, 1, 1, 0, nullptr, count, &got); },
                ThrowsMessage<InternalError>(HasSubstr("not to " + std::to_string(count))));
  EXPECT_EQ(got, -cuda::kMaxIndex);
}

// The last index plus one stride of the largest grid of a loop, 2048 blocks of 256 threads, or of the widest row's
// loop, 1024 threads of 16 elements.
TEST(CudaIndex, LeavesRoomForAStride) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  EXPECT_LE(cuda::kMaxIndex - 1 + 2048 * 256, kLargest);
  EXPECT_LE(cuda::kMaxIndex - 1 + 1024 * 16, kLargest);
  EXPECT_GT(cuda::kMaxIndex, (int64_t{1} << 31) - (int64_t{1} << 21));
}

TEST_F(CudaIndexFar, NormsTakeRowsFarApart) {
  for (const int64_t width : {72, 1032}) {
    const Tensor x = random_rows(2, width, at::kBFloat16), grad = random_rows(2, width, at::kBFloat16),
                 weight = at::randn({width}), partials = unwritten({1, width}, at::kFloat);
    expect_same_when_far([&](const auto& placed) {
      const Tensor from = placed(x), of_y = placed(grad), y = placed(unwritten(x.sizes(), x.scalar_type())),
                   sum = placed(y), dx = placed(y), dsum = placed(y), rstd = unwritten({2}, at::kFloat),
                   dweight = at::empty({width});
      const auto forward = [&](const Tensor& to) {
        return RmsNorm{.x = const_rows(from),
                       .y = rows(to),
                       .weight = weight.const_data_ptr(),
                       .rstd = rstd.data_ptr(),
                       .width = width,
                       .eps = 1e-5};
      };
      cuda::launch_rms_norm(forward(y), DType::float32, 2, nullptr);
      const Tensor of_sum = placed(y);
      cuda::launch_add_rms_norm({.a = const_rows(from), .b = const_rows(of_y), .sum = rows(sum)}, forward(of_sum),
                                DType::float32, 2, nullptr);
      const RmsNormBackward backward{.grad_y = const_rows(of_y),
                                     .x = const_rows(from),
                                     .dx = rows(dx),
                                     .weight = weight.const_data_ptr(),
                                     .rstd = rstd.const_data_ptr(),
                                     .width = width};
      cuda::launch_rms_norm_backward(backward, DType::float32, 2, partials.data_ptr(), dweight.data_ptr(), nullptr);
      cuda::launch_rms_norm_backward_add({.a = const_rows(of_y), .sum = rows(dsum)}, {}, backward, DType::float32, 2,
                                         partials.data_ptr(), dweight.data_ptr(), nullptr);
      return std::vector{y, sum, of_sum, rstd, dx, dsum, dweight};
    });
  }
}

TEST_F(CudaIndexFar, GatesTakeRowsFarApart) {
  const Tensor gate_up = random_rows(2, 80, at::kBFloat16), grad = random_rows(2, 40, at::kBFloat16);
  expect_same_when_far([&](const auto& placed) {
    const Tensor from = placed(gate_up), y = placed(at::zeros_like(grad)), dx = placed(at::zeros_like(gate_up));
    cuda::launch_gated(cuda::Gate::silu, const_rows(from), rows(y), 2, 40, nullptr);
    cuda::launch_gated_backward(cuda::Gate::silu, const_rows(placed(grad)), const_rows(from), rows(dx), 2, 40, nullptr);
    return std::vector{y, dx};
  });
}

TEST_F(CudaIndexFar, RopeTakesTensorsFarApart) {
  const Tensor x = at::randn({2, 2, 2, 32}).to(at::kBFloat16);
  const std::vector<double> frequencies(16, 0.5);
  const auto rotated = [&](const Tensor& from) {
    Tensor out = unwritten(x.sizes(), x.scalar_type());
    cuda::launch_rope({.x = from.const_data_ptr(),
                       .out = out.data_ptr(),
                       .dtype = DType::bfloat16,
                       .batch = 2,
                       .tokens = 2,
                       .heads = 2,
                       .width = 32,
                       .from = {from.stride(0), from.stride(1), from.stride(2)},
                       .to = {out.stride(0), out.stride(1), out.stride(2)},
                       .frequencies = frequencies.data(),
                       .position = 3,
                       .inverse = false},
                      nullptr);
    return out;
  };
  const Tensor want = rotated(x);
  for (const int64_t dim : {0, 1, 2}) EXPECT_TRUE(same_bytes(rotated(far(x, dim)), want)) << dim;
}

TEST_F(CudaIndexFar, LossesTakeRowsFarApart) {
  const Tensor logits = random_rows(2, 72, at::kBFloat16), targets = at::tensor({3, 71}, at::kLong);
  expect_same_when_far([&](const auto& placed) {
    const Tensor gradient = placed(logits), losses = unwritten({2}, at::kFloat);
    cuda::launch_cross_entropy({.logits = rows(gradient),
                                .targets = targets.const_data_ptr<int64_t>(),
                                .target_stride = 1,
                                .ignore_index = -100,
                                .losses = losses.data_ptr(),
                                .width = 72,
                                .gradient = true,
                                .softcap = 0},
                               2, nullptr);
    return std::vector{gradient, losses};
  });
  const Tensor part = random_rows(2, 72, at::kBFloat16);
  expect_same_when_far([&](const auto& placed) {
    const Tensor high = placed(logits), low = placed(part);
    cuda::launch_split_add({.part = const_rows(placed(part)),
                            .high = rows(high),
                            .low = rows(low),
                            .read_low = true,
                            .write_low = true,
                            .width = 72},
                           2, nullptr);
    return std::vector{high, low};
  });
}

TEST_F(CudaIndexFar, QuantizationTakesRowsFarApart) {
  const int64_t width = 136, blocks = quantized_blocks(width);
  const Tensor weight = random_rows(2, width, at::kBFloat16);
  for (const bool four_bits : {false, true})
    expect_same_when_far([&](const auto& placed) {
      const Tensor codes = at::zeros({2, width}, at::kByte), scales = at::zeros({2 * blocks}),
                   out = placed(at::zeros_like(weight));
      cuda::launch_quantize(const_rows(placed(weight)), 2, width, four_bits, codes.data_ptr(), scales.data_ptr<float>(),
                            nullptr);
      cuda::launch_dequantize(
          {.codes = codes.data_ptr(), .scales = scales.data_ptr(), .rows = 2, .width = width, .four_bits = four_bits},
          rows(out), 0, width, 0, 2, nullptr);
      return std::vector{codes, scales, out};
    });
}

/// Doubles `count` values, with all of them or the last part of them in this block.
__global__ void double_values(Values values, int64_t count, Draw draw) {
  cuda::for_each_place(count, [&](const cuda::Place& at) {
    float numbers[cuda::kEach];
    cuda::load_floats(values, at, numbers);
    for (float& number : numbers) number *= 2;
    cuda::store_floats(values, at, numbers, true, cuda::draw_eight(draw, at));
  });
}

// The last 1000 of more than 2^32 values, by the last of the blocks of threads that all values need.
TEST_F(CudaIndexFar, OptimizersReachValuesAbove32Bits) {
  constexpr int64_t kBefore = int64_t{3} << 31, kCount = 1000, kOfBlock = 2048;
  for (const auto& [format, bits] : {std::pair{Format::float32, 32},
                                     {Format::bfloat16, 16},
                                     {Format::float16, 16},
                                     {Format::bits8, 8},
                                     {Format::bits4, 4}}) {
    const int64_t values_before = kBefore / 8 * bits, scales_before = scales_of(format, kBefore);
    const Tensor values = at::randint(64, {bytes_of_bits4(kCount) * bits / 4}, at::kByte),
                 scales = at::randint(120, 130, {scales_of(format, kCount)}, at::kByte);
    const Tensor all_values = sparse_zeros(values_before + values.numel()),
                 all_scales = sparse_zeros(scales_before + scales.numel());
    const Tensor last_values = all_values.narrow(0, values_before, values.numel()).copy_(values),
                 last_scales = all_scales.narrow(0, scales_before, scales.numel()).copy_(scales);
    const auto of = [form = format](const Tensor& data, const Tensor& its_scales) {
      return Values{data.data_ptr(), its_scales.data_ptr<uint8_t>(), form, false};
    };
    cuda::launch(double_values, 1, 256, 0, nullptr, of(values, scales), kCount,
                 Draw{.key = {1, 2}, .first_element = kBefore});
    cuda_on_cpu::run(1, 256, 0, [&] {
      gridDim.x = kBefore / kOfBlock + 1;
      blockIdx.x = gridDim.x - 1;
      double_values(of(all_values, all_scales), kBefore + kCount, Draw{.key = {1, 2}});
    });
    EXPECT_TRUE(same_bytes(last_values, values)) << bits << " bits";
    EXPECT_TRUE(same_bytes(last_scales, scales)) << bits << " bits";
  }
}

TEST(CudaIndex, OptimizersRefuseMoreValues) {
  constexpr int64_t kMost = cuda::kMaxIndex * kDrawnAtATime;
  EXPECT_EQ(cuda::blocks_of_values(kMost), cuda::kMaxIndex);
  EXPECT_THROW(cuda::blocks_of_values(kMost + 1), InternalError);
}

/// Returns the probabilities, those of the backward pass and the gradient of scores, which overwrites `grad`.
std::vector<Tensor> softmax_of(const Tensor& scores, const Tensor& grad, const Tensor& probabilities,
                               int64_t first_seen, int64_t seen, const cuda::ScoreMask& mask) {
  const Tensor logsumexp = unwritten({2, 2}, at::kFloat);
  const cuda::ScoreRows args{.softmax = {.scores = rows(scores),
                                         .scale = 0.4,
                                         .cap = 2,
                                         .width = scores.size(1),
                                         .first_seen = first_seen,
                                         .seen = seen,
                                         .causal = true,
                                         .logsumexp = logsumexp.data_ptr()},
                             .rows = 2,
                             .queries = 2,
                             .logsumexp_stride = 4,
                             .mask = mask};
  cuda::launch_capped_softmax(args, rows(probabilities), nullptr);
  const Tensor forward = probabilities.clone();
  cuda::launch_capped_softmax_backward(args, const_rows(grad), rows(probabilities), rows(grad), nullptr);
  return {forward, probabilities, grad, logsumexp};
}

TEST_F(CudaIndexFar, SoftmaxTakesRowsFarApart) {
  const Tensor scores = random_rows(2, 72, at::kFloat), grad = random_rows(2, 72, at::kFloat);
  const Tensor added = random_rows(2, 72, at::kFloat);
  for (const bool masked : {false, true})
    expect_same_when_far([&](const auto& placed) {
      const Tensor of_mask = placed(added);
      cuda::ScoreMask mask;
      if (masked) mask = {of_mask.const_data_ptr(), DType::float32, 0, of_mask.stride(0), 1};
      return softmax_of(placed(scores), placed(grad), placed(at::zeros_like(scores)), -3, 40, mask);
    });
}

TEST(CudaIndex, SoftmaxTakesAnyLimitsOfColumns) {
  const Tensor scores = random_rows(2, 72, at::kFloat), grad = random_rows(2, 72, at::kFloat);
  const auto of = [&](int64_t first_seen, int64_t seen) {
    return softmax_of(scores, grad.clone(), at::zeros_like(scores), first_seen, seen, {});
  };
  constexpr int64_t kMany = int64_t{1} << 40;
  for (const auto& [far_limits, limits] : {std::pair{std::pair{-kMany, kMany}, std::pair{int64_t{-2}, int64_t{72}}},
                                           {{-kMany, 5}, {-2, 5}},
                                           {{3, kMany}, {3, 72}}}) {
    const auto got = of(far_limits.first, far_limits.second), want = of(limits.first, limits.second);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bytes(got[i], want[i])) << "result " << i;
  }
}

TEST_F(CudaIndexFar, ScansTakeSequencesFarApart) {
  const Tensor x = at::randn({2, 70, 6}), grad = at::randn({2, 70, 6}), weight = at::randn({6, 4}),
               bias = at::randn({6});
  const Tensor heads = at::randn({2, 21, 4, 6}), of_heads = at::randn({2, 21, 4, 6}), dt = at::rand({2, 21, 4}),
               a = -at::rand({4}), b = at::randn({2, 21, 2, 5}), c = at::randn({2, 21, 2, 5}), d = at::randn({4});
  for (const bool reverse : {false, true})
    expect_same_when_far([&](const auto& placed) {
      std::vector<Tensor> all;
      const auto add = [&](const std::string& name, const Arguments& arguments) {
        for (const c10::IValue& result : call_on_cuda(name, arguments)) all.push_back(result.toTensor());
      };
      add("plimsoll::causal_conv1d", {placed(x), weight, bias, reverse});
      add("plimsoll::causal_conv1d_backward", {placed(grad), placed(x), weight, bias, reverse});
      add("plimsoll::ssd_scan", {placed(heads), placed(dt), a, placed(b), placed(c), d, 8, reverse});
      add("plimsoll::ssd_scan_backward",
          {placed(of_heads), placed(heads), placed(dt), a, placed(b), placed(c), d, 8, reverse});
      return all;
    });
}

}  // namespace
}  // namespace plimsoll::ops
