// Tests the operands that our operators refuse on CUDA because their kernels would read wrong addresses.
#include <gmock/gmock.h>

#include "cuda_on_cpu/operator_testing.h"
#include "refusals.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

TEST(CudaOperands, OnAnotherDeviceAreRefused) {
  const auto other = at::device(at::kMeta);
  const Tensor x = at::ones({4, 8}), rows = at::ones({2, 6, 4});
  const std::vector<std::pair<std::string, Arguments>> calls = {
      {"plimsoll::rms_norm", {x, at::ones({8}, other), 1e-5, c10::IValue()}},
      {"plimsoll::rms_norm_backward", {x, x, at::ones({8}), at::ones({4}, other)}},
      {"plimsoll::add_rms_norm", {at::ones({4, 8}), x, at::ones({4, 8}, other), at::ones({8}), 1e-5, c10::IValue()}},
      {"plimsoll::rms_norm", {at::ones({4, 8}, other), at::ones({8}), 1e-5, c10::IValue()}},
      {"plimsoll::swiglu_backward", {at::ones({4, 4}, other), x}},
      {"plimsoll::geglu_backward", {at::ones({4, 4}, other), x}},
      {"plimsoll::linear_cross_entropy_loss",
       {x, at::ones({9, 8}), at::zeros({4}, other.dtype(at::kLong)), int64_t{-100}, 0.0}},
      {"plimsoll::causal_conv1d", {rows, at::ones({4, 4}, other), at::ones({4}), false}},
      {"plimsoll::gradient_norm_", {at::zeros({2}), at::zeros({}, other), x, int64_t{0}}},
      {"plimsoll::gradient_norm_group_",
       {at::zeros({2}), at::zeros({}), std::vector<Tensor>{x, at::ones({5}, other)}, std::vector<int64_t>{0, 1}}},
      {"plimsoll::accumulate_", {at::zeros({4, 8}), c10::IValue(), at::ones({4, 8}, other), false}},
  };
  for (const auto& [name, arguments] : calls)
    EXPECT_THAT(refusal_of([&] { call_on(c10::DispatchKey::CUDA, name, arguments); }, UserError::Kind::failure),
                AllOf(HasSubstr(name.substr(0, name.find("_loss"))), HasSubstr("an operand is on "),
                      HasSubstr("all must be on one device")))
        << name;
}

// Kernels read four codes at a time.
TEST(CudaOperands, CodesThatBeginWithinAWordAreRefused) {
  const Tensor codes = at::zeros({129}, at::kByte), scales = at::zeros({1}, at::kByte);
  call_on(c10::DispatchKey::CUDA, "plimsoll::block_norm", {codes.narrow(0, 0, 128), scales});
  EXPECT_THAT(refusal_of([&] {
                call_on(c10::DispatchKey::CUDA, "plimsoll::block_norm", {codes.narrow(0, 1, 128), scales});
              }),
              AllOf(HasSubstr("plimsoll::block_norm"), HasSubstr("no multiple of 4")));
}

}  // namespace
}  // namespace plimsoll::ops
