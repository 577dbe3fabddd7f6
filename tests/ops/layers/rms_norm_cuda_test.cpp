#include "ops/layers/layers_launch.h"

#include "cuda_on_cpu/kernel_testing.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr double kEps = 1e-5;

struct Result {
  Tensor y, rstd, dx, dweight;
};

Result run(const Tensor& x, const Tensor& weight, const Tensor& grad, double eps = kEps) {
  const int64_t count = x.size(0), width = x.size(1);
  const auto wide = accumulator(x.scalar_type());
  Result result{unwritten({count, width}, grad.scalar_type()), unwritten({count, 1}, wide),
                unwritten({count, width}, x.scalar_type()), unwritten({width}, weight.scalar_type())};
  cuda::launch_rms_norm({.x = const_rows(x),
                         .y = rows(result.y),
                         .weight = weight.const_data_ptr(),
                         .rstd = result.rstd.data_ptr(),
                         .width = width,
                         .eps = eps},
                        dtype_of(weight), count, nullptr);
  const Tensor partials = unwritten({div_up(count, cuda_norm_block_rows(count)), width}, wide);
  cuda::launch_rms_norm_backward({.grad_y = const_rows(grad),
                                  .x = const_rows(x),
                                  .dx = rows(result.dx),
                                  .weight = weight.const_data_ptr(),
                                  .rstd = result.rstd.const_data_ptr(),
                                  .width = width},
                                 dtype_of(weight), count, partials.data_ptr(), result.dweight.data_ptr(), nullptr);
  return result;
}

void expect_as_on_cpu(const Tensor& x, const Tensor& weight, const Tensor& grad, const std::string& what,
                      double eps = kEps) {
  const auto type = x.scalar_type();
  const Result got = run(x, weight, grad, eps);
  const auto want = call("plimsoll::rms_norm", {x, weight, eps, grad.scalar_type()});
  const auto gradients = call("plimsoll::rms_norm_backward", {grad, x, weight, want[1]});
  const double close = std::max(tolerance(type), tolerance(grad.scalar_type()));
  expect_close(got.y, want[0].toTensor(), close, what + " y");
  expect_close(got.rstd, want[1].toTensor(), type == at::kDouble ? 1e-12 : 1e-5, what + " rstd");
  expect_close(got.dx, gradients[0].toTensor(), 2 * tolerance(type), what + " dx", 1.0);
  expect_close(got.dweight, gradients[1].toTensor(), std::max(1e-5, tolerance(weight.scalar_type())),
               what + " dweight");
}

TEST(CudaRmsNorm, AgreesWithTheCpu) {
  at::manual_seed(1);
  for (const auto type : kTypes)
    for (const int64_t width : {1, 31, 33, 64, 257, 1024, 1032, 2056})
      for (const int64_t count : {1, 19}) {
        const auto weight_type = type == at::kDouble ? at::kDouble : at::kFloat;
        const std::string what = std::string(c10::toString(type)) + " " + std::to_string(width);
        const Tensor x = random_rows(count, width, type), grad = random_rows(count, width, type);
        expect_as_on_cpu(x, random_rows(1, width, weight_type)[0], grad, what);
        if (type != at::kDouble) expect_as_on_cpu(x, random_rows(1, width, type)[0], grad, what + " weight alike");
      }
}

TEST(CudaRmsNorm, ScalesARowOfZerosIfEpsIsBelowZero) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    Tensor x = random_rows(5, 72, type);
    x[1].zero_();
    for (const double eps : {kEps, -kEps})
      expect_as_on_cpu(x, random_rows(1, 72, type)[0], random_rows(5, 72, type), std::to_string(eps), eps);
  }
}

TEST(CudaRmsNorm, TakesEveryPairOfTypes) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto out : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const auto weight : {at::kFloat, at::kBFloat16, at::kHalf})
        expect_as_on_cpu(random_rows(5, 72, type), random_rows(1, 72, weight)[0], random_rows(5, 72, out),
                         std::string(c10::toString(type)) + " to " + c10::toString(out));
}

TEST(CudaRmsNorm, TakesRowsThatAreApartOrMisaligned) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [extra, shift] : {std::pair{8, 0}, {3, 0}, {0, 1}, {8, 8}, {5, 3}})
      for (const int64_t width : {48, 1056}) {
        const Tensor x = random_rows(18, width, type, extra, shift), grad = random_rows(18, width, type, shift, extra);
        const Tensor weight = random_rows(1, width, type, 0, shift)[0];
        expect_as_on_cpu(x, weight, grad, "apart");
      }
}

TEST(CudaRmsNorm, IsTheSameInEveryOrderAndOverManyBlocks) {
  // Rows wider than shared memory holds add up in global memory.
  for (const auto& [count, width] : {std::pair<int64_t, int64_t>{700, 32}, {37, 1100}, {17, 25000}}) {
    const Tensor x = random_rows(count, width, at::kFloat), weight = random_rows(1, width, at::kFloat)[0],
                 grad = random_rows(count, width, at::kFloat);
    expect_as_on_cpu(x, weight, grad, std::to_string(width));
    const Result first = run(x, weight, grad);
    for (const auto order : kOrders) {
      const InOrder in(order);
      const Result again = run(x, weight, grad);
      EXPECT_TRUE(at::equal(first.y, again.y));
      EXPECT_TRUE(at::equal(first.dx, again.dx));
      EXPECT_TRUE(at::equal(first.dweight, again.dweight));
    }
  }
}

/// Compares the sum of a and b, its norm and the addition of its backward to `before` with separate calls, bit for bit.
void expect_as_one_by_one(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& grad,
                          const Tensor& before, const std::string& what) {
  const int64_t count = a.size(0), width = a.size(1);
  const Tensor x = at::add(a, b);
  const Result want = run(x, weight, grad);
  const Tensor sum = a.scalar_type() == at::kFloat ? a : unwritten({count, width}, x.scalar_type());  // in place
  Result got{unwritten({count, width}, grad.scalar_type()),
             unwritten({count, 1}, want.rstd.scalar_type()),
             {},
             unwritten({width}, weight.scalar_type())};
  cuda::launch_add_rms_norm({.a = const_rows(a), .b = const_rows(b), .sum = rows(sum), .width = width},
                            {.x = const_rows(sum),
                             .y = rows(got.y),
                             .weight = weight.const_data_ptr(),
                             .rstd = got.rstd.data_ptr(),
                             .width = width,
                             .eps = kEps},
                            dtype_of(weight), count, nullptr);
  EXPECT_TRUE(at::equal(sum, x)) << what;
  EXPECT_TRUE(at::equal(got.y, want.y)) << what;
  EXPECT_TRUE(at::equal(got.rstd, want.rstd)) << what;
  const Tensor after = at::add(before, want.dx),
               partials = unwritten({div_up(count, cuda_norm_block_rows(count)), width}, want.rstd.scalar_type());
  const Tensor target = before.scalar_type() == after.scalar_type() ? before : at::empty_like(after);
  // A float32 sum is copied to 16 bits too, if there is a place for it.
  const bool copies = target.scalar_type() == at::kFloat;
  const Tensor copy = copies ? unwritten({count, width}, count % 2 ? at::kBFloat16 : at::kHalf) : Tensor();
  cuda::launch_rms_norm_backward_add({.a = const_rows(before), .b = {}, .sum = rows(target), .width = width},
                                     copies ? rows(copy) : Rows{},
                                     {.grad_y = const_rows(grad),
                                      .x = const_rows(sum),
                                      .dx = {},
                                      .weight = weight.const_data_ptr(),
                                      .rstd = got.rstd.const_data_ptr(),
                                      .width = width},
                                     dtype_of(weight), count, partials.data_ptr(), got.dweight.data_ptr(), nullptr);
  EXPECT_TRUE(at::equal(target, after)) << what;
  if (copies) {
    EXPECT_TRUE(at::equal(copy, after.to(copy.scalar_type()))) << what << ", copied";
  }
  EXPECT_TRUE(at::equal(got.dweight, want.dweight)) << what;
}

TEST(CudaRmsNorm, WithSumsGivesTheBitsOfTheOperatorsOneByOne) {
  at::manual_seed(4);
  const auto types = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};
  for (const auto a : types)
    for (const auto b : types) {
      if (a != b && a != at::kFloat && b != at::kFloat) continue;
      if ((a == at::kDouble) != (b == at::kDouble)) continue;
      for (const auto grad : {a, b})
        for (const auto before : {a, b})
          for (const int64_t width : {31, 64, 1032}) {
            // If x has 16 bits, gradients added to dx may have 16 or 32 of them.
            const auto weight = a == at::kDouble ? a : at::kBFloat16;
            expect_as_one_by_one(
                random_rows(19, width, a, 8), random_rows(19, width, b, 0, 8), random_rows(1, width, weight)[0],
                random_rows(19, width, grad), random_rows(19, width, before, 16, 8),
                std::string(c10::toString(a)) + " + " + c10::toString(b) + " " + std::to_string(width));
          }
    }
  // 16 bits with a float32 gradient.
  for (const int64_t extra : {0, 8})
    expect_as_one_by_one(random_rows(37, 72, at::kHalf, extra), random_rows(37, 72, at::kHalf),
                         random_rows(1, 72, at::kFloat)[0], random_rows(37, 72, at::kHalf),
                         random_rows(37, 72, at::kFloat, extra, extra), "a float32 gradient");
  // Misaligned: one by one, as for the rows of the reference sum if their width is odd.
  for (const auto& [extra, shift] : {std::pair{2, 0}, {0, 1}, {5, 3}})
    expect_as_one_by_one(random_rows(37, 71, at::kHalf, extra), random_rows(37, 71, at::kFloat, shift),
                         random_rows(1, 71, at::kFloat)[0], random_rows(37, 71, at::kHalf),
                         random_rows(37, 71, at::kFloat, extra, shift), "misaligned");
  // Wider than shared memory holds, and over many blocks.
  for (const auto order : kOrders) {
    const InOrder in(order);
    for (const auto& [count, width] : {std::pair<int64_t, int64_t>{700, 32}, {17, 25000}}) {
      const auto some = [&, rows = count, columns = width] { return random_rows(rows, columns, at::kFloat); };
      expect_as_one_by_one(some(), some(), some()[0], some(), some(), std::to_string(width));
    }
  }
}

TEST(CudaRmsNorm, OfNoRowsLeavesAWeightGradientOfZeros) {
  const Tensor none = at::empty({0, 40}), weight = at::ones({40});
  EXPECT_TRUE(at::equal(run(none, weight, none).dweight, at::zeros({40})));
}

}  // namespace
}  // namespace plimsoll::ops
