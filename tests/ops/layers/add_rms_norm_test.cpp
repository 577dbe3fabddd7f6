// Tests add_rms_norm and rms_norm_backward_add against the operators that they replace, bit for bit.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "ops/kernels_cpu.h"
#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return (3 * at::randn(sizes, at::kDouble)).to(type);
}

Tensor rows_of_wider(at::IntArrayRef sizes, at::ScalarType type) {
  auto wider = sizes.vec();
  wider.back() += 7;
  return random(wider, type).narrow(-1, 3, sizes.back());
}

/// Compares element by element, for any memory order.
void expect_same(const Tensor& got, const Tensor& want, const std::string& what) {
  EXPECT_EQ(got.scalar_type(), want.scalar_type()) << what;
  EXPECT_TRUE(at::equal(got, want)) << what << " differs by " << (got - want).abs().max().item<double>();
}

/// Writes the sum of a and b to `sum`, which may be one of them.
void expect_forward(Tensor sum, const Tensor& a, const Tensor& b, const Tensor& weight, const c10::IValue& out,
                    const std::string& what) {
  Tensor want_sum = at::empty(sum.sizes(), sum.options());
  at::add_out(want_sum, a, b);
  const auto want = call("plimsoll::rms_norm", {want_sum, weight, kNormEps, out});
  const auto got = call("plimsoll::add_rms_norm", {sum, a, b, weight, kNormEps, out});
  expect_same(sum, want_sum, what + " sum");
  expect_same(got[0].toTensor(), want[0].toTensor(), what + " y");
  expect_same(got[1].toTensor(), want[1].toTensor(), what + " rstd");
}

void expect_backward(Tensor sum, const Tensor& grad, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                     const std::string& what) {
  const Tensor rstd = call("plimsoll::rms_norm", {x, weight, kNormEps, grad_y.scalar_type()})[1].toTensor();
  const auto gradients = call("plimsoll::rms_norm_backward", {grad_y, x, weight, rstd});
  Tensor want = at::empty(sum.sizes(), sum.options());
  at::add_out(want, grad, gradients[0].toTensor());
  const auto got = call("plimsoll::rms_norm_backward_add", {sum, grad, grad_y, x, weight, rstd});
  expect_same(sum, want, what + " sum");
  expect_same(got[0].toTensor(), gradients[1].toTensor(), what + " dweight");
}

struct Types {
  at::ScalarType a, b, sum;
};
constexpr Types kSums[] = {{at::kFloat, at::kFloat, at::kFloat},          {at::kFloat, at::kBFloat16, at::kFloat},
                           {at::kBFloat16, at::kFloat, at::kFloat},       {at::kFloat, at::kHalf, at::kFloat},
                           {at::kHalf, at::kFloat, at::kFloat},           {at::kHalf, at::kHalf, at::kHalf},
                           {at::kBFloat16, at::kBFloat16, at::kBFloat16}, {at::kDouble, at::kDouble, at::kDouble}};

std::string name_of(const Types& types) {
  return std::string(c10::toString(types.a)) + " + " + c10::toString(types.b);
}

std::vector<at::ScalarType> results_beside(at::ScalarType type) {
  if (type == at::kDouble) return {at::kDouble};
  return {at::kFloat, at::kBFloat16, at::kHalf};
}

class AddRmsNorm : public ::testing::TestWithParam<int> {
 protected:
  AddRmsNorm() : before_(at::get_num_threads()) {
    at::set_num_threads(GetParam());
    at::manual_seed(3);
  }
  ~AddRmsNorm() override { at::set_num_threads(before_); }

 private:
  int before_;
};

// Widths that end in the midst of a vector, and rows that take a turn by themselves.
constexpr int64_t kWidths[] = {1, 5, 16, 77, 448, 5003};

TEST_P(AddRmsNorm, GivesTheBitsOfASumAndANorm) {
  for (const Types& types : kSums)
    for (const at::ScalarType out : results_beside(types.sum))
      for (const int64_t width : kWidths) {
        const std::vector<int64_t> sizes = {3, 35, width};
        const Tensor a = random(sizes, types.a), b = random(sizes, types.b), weight = random({width}, out);
        expect_forward(at::empty(sizes, types.sum), a, b, weight, out, name_of(types) + " " + std::to_string(width));
      }
}

TEST_P(AddRmsNorm, BackwardGivesTheBitsOfABackwardAndASum) {
  for (const Types& types : kSums)
    for (const at::ScalarType out : results_beside(types.sum))
      for (const int64_t width : kWidths) {
        const std::vector<int64_t> sizes = {3, 35, width};
        // The gradient is a, dx has the type of b.
        expect_backward(at::empty(sizes, types.sum), random(sizes, types.a), random(sizes, out), random(sizes, types.b),
                        random({width}, out), name_of(types) + " " + std::to_string(width));
      }
}

TEST_P(AddRmsNorm, InPlace) {
  for (const Types& types : kSums) {
    const std::vector<int64_t> sizes = {40, 77};
    Tensor a = random(sizes, types.a), b = random(sizes, types.b);
    const Tensor weight = random({77}, types.sum == at::kDouble ? at::kDouble : at::kFloat);
    const Tensor grad_y = random(sizes, types.sum), x = random(sizes, types.b);
    for (Tensor* each : {&a, &b}) {
      if (each->scalar_type() != types.sum) continue;
      Tensor want_sum = at::add(a, b), sum = each->clone();
      const Tensor &left = each == &a ? sum : a, &right = each == &b ? sum : b;
      const auto want = call("plimsoll::rms_norm", {want_sum, weight, kNormEps, c10::IValue()});
      const auto got = call("plimsoll::add_rms_norm", {sum, left, right, weight, kNormEps, c10::IValue()});
      expect_same(sum, want_sum, name_of(types));
      expect_same(got[0].toTensor(), want[0].toTensor(), name_of(types));
    }
    if (types.a != types.sum) continue;
    const Tensor rstd = call("plimsoll::rms_norm", {x, weight, kNormEps, c10::IValue()})[1].toTensor();
    const auto gradients = call("plimsoll::rms_norm_backward", {grad_y, x, weight, rstd});
    const Tensor want = at::add(a, gradients[0].toTensor()), sum = a.clone();
    const auto got = call("plimsoll::rms_norm_backward_add", {sum, sum, grad_y, x, weight, rstd});
    expect_same(sum, want, name_of(types));
    expect_same(got[0].toTensor(), gradients[1].toTensor(), name_of(types));
  }
}

TEST_P(AddRmsNorm, TakesAnyStrides) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor wide = rows_of_wider({6, 9, 24}, type), turned = random({9, 6, 24}, type).transpose(0, 1),
                 upright = random({6, 24, 9}, type).transpose(1, 2), same = random({24}, type).expand({6, 9, 24}),
                 weight = random({48}, at::kFloat).slice(0, 0, 48, 2);
    for (const Tensor& a : {wide, turned, upright, same})
      for (const Tensor& b : {wide, upright}) {
        expect_forward(rows_of_wider({6, 9, 24}, type), a, b, weight, at::kBFloat16, "forward");
        expect_backward(rows_of_wider({6, 9, 24}, type), a, b, b, weight, "backward");
        expect_backward(at::empty({6, 9, 24}, type), b, a, wide, weight, "backward");
      }
  }
}

TEST_P(AddRmsNorm, OddNumbersPassThrough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> odd = {0.0f, -0.0f, infinity, -1e-40f, 3e38f, 3e38f, 65504.0f, 1e-8f};
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    Tensor a = at::tensor(odd).to(type).repeat({20, 5}), b = a.flip({1}).contiguous(), sum = at::empty_like(a);
    call("plimsoll::add_rms_norm", {sum, a, b, at::ones({40}), kNormEps, c10::IValue()});
    expect_same(sum.nan_to_num(7), at::add(a, b).nan_to_num(7), c10::toString(type));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, AddRmsNorm, ::testing::Values(1, 3));

TEST(AddRmsNormCalls, ShapesAndScratchAreAsAnnounced) {
  for (const Types& types : kSums)
    for (const int64_t width : {40, 5003}) {
      const std::vector<int64_t> sizes = {6, 8, width};
      const Tensor a = random(sizes, types.a), b = random(sizes, types.b), sum = at::empty(sizes, types.sum);
      const Tensor weight = random({width}, types.sum),
                   rstd = at::ones({6, 8, 1}, types.sum == at::kDouble ? at::kDouble : at::kFloat);
      const std::vector<c10::IValue> forward = {sum, a, b, weight, kNormEps, c10::IValue()},
                                     backward = {sum, a, random(sizes, types.sum), b, weight, rstd};
      expect_meta_agrees("plimsoll::add_rms_norm", forward);
      expect_workspace("plimsoll::add_rms_norm", forward);
      expect_meta_agrees("plimsoll::rms_norm_backward_add", backward);
      expect_workspace("plimsoll::rms_norm_backward_add", backward);
      if (types.sum != at::kFloat) continue;
      std::vector<c10::IValue> with_copy = backward;
      const Tensor copy = at::empty(sizes, at::kBFloat16);
      with_copy.insert(with_copy.begin() + 1, copy);
      expect_meta_agrees("plimsoll::rms_norm_backward_add_cast", with_copy);
      expect_workspace("plimsoll::rms_norm_backward_add_cast", with_copy);
      EXPECT_TRUE(at::equal(copy, sum.to(at::kBFloat16)));
    }
  const Tensor turned = at::randn({6, 24, 9}).transpose(1, 2), sum = at::empty({6, 9, 24}),
               rows = at::randn({6, 9, 24});
  const Tensor weight = at::randn({24}, at::kBFloat16), rstd = at::ones({6, 9, 1});
  for (const Tensor& a : {turned, rows})
    for (const Tensor& b : {turned, rows}) {
      expect_workspace("plimsoll::add_rms_norm", {sum, a, b, weight, kNormEps, c10::IValue()});
      expect_workspace("plimsoll::rms_norm_backward_add", {sum, a, b, rows, weight, rstd});
      expect_workspace("plimsoll::rms_norm_backward_add", {sum, rows, a, b, weight, rstd});
    }
}

TEST(AddRmsNormCalls, RefuseWhatDoesNotAgree) {
  const Tensor x = at::randn({4, 8}), weight = at::ones({8}), rstd = at::ones({4, 1});
  const auto forward = [&](const Tensor& sum, const Tensor& a, const Tensor& b) {
    return [=] { call("plimsoll::add_rms_norm", {sum, a, b, weight, kNormEps, c10::IValue()}); };
  };
  EXPECT_THAT(forward(at::empty({4, 8}), x, at::randn({8})), ThrowsMessage<UserError>(HasSubstr("operands of shape")));
  EXPECT_THAT(forward(at::empty({4, 8}), x, x.to(at::kDouble)),
              ThrowsMessage<UserError>(HasSubstr("the sum of Float and Double is not Float")));
  EXPECT_THAT(forward(at::empty({4, 8}, at::kBFloat16), x, x), ThrowsMessage<UserError>(HasSubstr("is not BFloat16")));
  EXPECT_THAT(forward(at::empty({4, 8}), x.to(at::kHalf), x.to(at::kHalf)),
              ThrowsMessage<UserError>(HasSubstr("is not Float")));
  EXPECT_THAT(forward(at::empty({8, 4}).t(), x, x), ThrowsMessage<UserError>(HasSubstr("one stride apart")));
  EXPECT_THAT(forward(at::empty({4, 8}, at::kLong), x, x), ThrowsMessage<UserError>(HasSubstr("sum is Long")));
  EXPECT_THAT(
      [&] {
        call("plimsoll::rms_norm_backward_add", {at::empty({4, 8}), x, at::randn({4, 7}), x, weight, rstd});
      },
      ThrowsMessage<UserError>(HasSubstr("grad_y has shape")));
  for (const Tensor& copy : {at::empty({4, 8}), at::empty({4, 7}, at::kHalf), at::empty({8, 4}, at::kHalf).t()})
    EXPECT_THROW(call("plimsoll::rms_norm_backward_add_cast", {at::empty({4, 8}), copy, x, x, x, weight, rstd}),
                 UserError);
}

TEST(AddRmsNormCalls, TurnsFillACacheAndNoMoreThanABlock) {
  EXPECT_EQ(rows_per_pass_of(1024, 448), 9);
  EXPECT_EQ(rows_per_pass_of(1024, 5000), 1);
  EXPECT_EQ(rows_per_pass_of(1024, 1), norm_block_rows(1024));
}

}  // namespace
}  // namespace plimsoll::ops
