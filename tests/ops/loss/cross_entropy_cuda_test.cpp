#include "ops/loss/cross_entropy_launch.h"

#include "cuda_on_cpu/kernel_testing.h"
#include "ops/kernels_cpu.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr int64_t kIgnored = -100;

struct Result {
  Tensor losses, gradient;
};

CrossEntropy arguments(const Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                       double softcap) {
  return {.logits = rows(logits),
          .targets = targets.const_data_ptr<int64_t>(),
          .target_stride = targets.stride(0),
          .ignore_index = kIgnored,
          .losses = losses.data_ptr(),
          .width = logits.size(1),
          .gradient = gradient,
          .softcap = softcap};
}

Tensor copy_of(const Tensor& logits) {
  Tensor copy = at::empty_strided(logits.sizes(), logits.strides(), logits.options());
  return copy.copy_(logits);
}

Result on_cuda(const Tensor& logits, const Tensor& targets, double softcap, bool gradient = true) {
  Result result{unwritten({logits.size(0)}, accumulator(logits.scalar_type())), copy_of(logits)};
  cuda::launch_cross_entropy(arguments(result.gradient, targets, result.losses, gradient, softcap), logits.size(0),
                             nullptr);
  return result;
}

Tensor some_targets(int64_t count, int64_t vocabulary) {
  Tensor targets = at::randint(vocabulary, {count, 2}, at::kLong).select(1, 0);
  if (count > 2) targets[2] = kIgnored;
  return targets;
}

TEST(CudaCrossEntropy, AgreesWithTheCpu) {
  at::manual_seed(5);
  for (const auto type : kTypes)
    for (const int64_t vocabulary : {1, 2, 31, 33, 257, 1024, 9001})
      for (const double softcap : {0.0, 3.0})
        for (const int64_t extra : {0, 8, 1}) {
          const Tensor logits = random_rows(5, vocabulary, type, extra).mul_(3);
          const Tensor targets = some_targets(5, vocabulary);
          const Result got = on_cuda(logits, targets, softcap);
          // In float64, from the same logits.
          const Tensor exact = copy_of(logits.to(at::kDouble)), losses = unwritten({5}, at::kDouble);
          cross_entropy_rows(arguments(exact, targets, losses, true, softcap), 0, 5);
          const std::string what = std::string(c10::toString(type)) + " " + std::to_string(vocabulary);
          expect_close(got.losses, losses, type == at::kDouble ? 1e-12 : 3e-6, what + " losses", 1.0);
          expect_close(got.gradient, exact, tolerance(type) / 4, what + " gradient", 1e-3);
          EXPECT_EQ(got.losses[2].item<double>(), 0);
          EXPECT_EQ(got.gradient[2].abs().max().item<double>(), 0);
        }
}

TEST(CudaCrossEntropy, LeavesLogitsAloneWithoutAGradient) {
  const Tensor logits = random_rows(3, 100, at::kFloat), targets = some_targets(3, 100);
  const Result got = on_cuda(logits, targets, 0, false);
  EXPECT_TRUE(at::equal(got.gradient, logits));
  EXPECT_TRUE(at::equal(got.losses, on_cuda(logits, targets, 0).losses));
}

TEST(CudaCrossEntropy, IsTheSameInEveryOrder) {
  const Tensor logits = random_rows(4, 5000, at::kBFloat16), targets = some_targets(4, 5000);
  const Result first = on_cuda(logits, targets, 0);
  for (const auto order : kOrders) {
    const InOrder in(order);
    const Result again = on_cuda(logits, targets, 0);
    EXPECT_TRUE(at::equal(first.losses, again.losses));
    EXPECT_TRUE(at::equal(first.gradient, again.gradient));
  }
}

TEST(CudaCrossEntropy, KeepsInfinitiesAndShowsWhatIsNoTarget) {
  Tensor logits = at::zeros({3, 40});
  logits.narrow(1, 0, 36).fill_(-std::numeric_limits<double>::infinity());
  logits[1][39] = std::numeric_limits<double>::quiet_NaN();
  const Tensor targets = at::tensor({38, 38, 40}, at::kLong);  // the last is outside
  const Result got = on_cuda(logits, targets, 0);
  EXPECT_NEAR(got.losses[0].item<float>(), std::log(4.0), 1e-6);
  EXPECT_EQ(got.gradient[0][3].item<float>(), 0);
  for (const int64_t row : {1, 2}) {
    EXPECT_TRUE(std::isnan(got.losses[row].item<float>()));
    EXPECT_TRUE(at::isnan(got.gradient[row]).all().item<bool>());
  }
}

TEST(CudaMeanLoss, CountsWhatIsNotIgnored) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int64_t tokens : {1, 33, 5000}) {
      const Tensor losses = at::rand({tokens}, type);
      Tensor targets = at::randint(9, {tokens}, at::kLong);
      targets.masked_fill_(targets.eq(0), kIgnored);
      const double counted = std::max(1.0, targets.ne(kIgnored).sum().item<double>());
      Tensor loss = unwritten({}, type), count = unwritten({}, type);
      cuda::launch_mean_loss(losses.data_ptr(), dtype_of(losses), targets.const_data_ptr<int64_t>(), 1, kIgnored,
                             tokens, loss.data_ptr(), count.data_ptr(), nullptr);
      EXPECT_NEAR(loss.item<double>(), losses.sum(at::kDouble).item<double>() / counted, 1e-6);
      EXPECT_EQ(count.item<double>(), counted);
    }
}

TEST(CudaSplitAdd, IsTheCpusBitByBit) {
  for (const auto type : kTypes)
    for (const auto& [width, extra] : {std::pair{64, 0}, {33, 0}, {40, 8}})
      for (const bool read_low : {false, true})
        for (const bool write_low : {false, true}) {
          const Tensor part = random_rows(9, width, type, extra).mul_(0.01);
          const Tensor high = random_rows(9, width, type), low = random_rows(9, width, type).mul_(0.001);
          const auto sum = [&](const Tensor& to, const Tensor& rest) {
            return SplitAdd{.part = const_rows(part),
                            .high = rows(to),
                            .low = read_low || write_low ? rows(rest) : Rows{},
                            .read_low = read_low,
                            .write_low = write_low,
                            .width = width};
          };
          const Tensor want = high.clone(), want_low = low.clone(), got = high.clone(), got_low = low.clone();
          split_add_rows(sum(want, want_low), 0, 9);
          cuda::launch_split_add(sum(got, got_low), 9, nullptr);
          EXPECT_TRUE(at::equal(got, want)) << c10::toString(type) << " " << width;
          EXPECT_TRUE(at::equal(got_low, want_low));
        }
}

}  // namespace
}  // namespace plimsoll::ops
