// Tests that autocast on the plan device casts as libtorch's own does.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "record/autocast.h"
#include "record/recording.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// The lists are libtorch's: every operator that it registers for autocast has a policy of ours, and no other has.
void expect_same_operators(AutocastTarget target, c10::DispatchKey key, const std::set<std::string>& left_out) {
  std::set<std::string> expected;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (op && op->hasKernelForDispatchKey(key))
      expected.insert(name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name));
  }
  for (const std::string& name : left_out) expected.erase(name);
  const auto list = autocast_operators(target);
  EXPECT_EQ(std::set<std::string>(list.begin(), list.end()), expected);
}

TEST(Autocast, TheCpuListIsLibtorchs) {
  expect_same_operators(AutocastTarget::cpu, c10::DispatchKey::AutocastCPU, {});
}

// binary_cross_entropy is banned there with an error of libtorch's.
TEST(Autocast, TheCudaListIsLibtorchs) {
  expect_same_operators(AutocastTarget::cuda, c10::DispatchKey::AutocastCUDA, {"binary_cross_entropy"});
}

std::vector<torch::Tensor> mixed_operations() {
  const auto x = torch::rand({4, 8}).requires_grad_(true), w = torch::rand({8, 8}).requires_grad_(true);
  const auto h = torch::linear(x, w);
  return {h,
          torch::matmul(h, w),
          torch::mm(x, w),
          h.softmax(-1),
          h + x,
          torch::layer_norm(h, {8}),
          torch::mse_loss(h, x),
          torch::cat({h, x}),
          torch::gelu(h),
          torch::cross_entropy_loss(h, torch::zeros({4}, torch::kLong)),
          h.sum(),
          torch::conv1d(x.view({1, 4, 8}), torch::rand({2, 4, 3}))};
}

// Operators of libtorch that consist of others. One target casts them and the other does not; then it casts the inner
// ones.
std::vector<torch::Tensor> composites() {
  const auto x = torch::rand({8, 8}).requires_grad_(true), picture = torch::rand({1, 2, 8, 8});
  const auto labels = torch::zeros({8}, torch::kLong);
  return {torch::einsum("ij,jk->ik", {x, x}),
          torch::tensordot(x, x, {1}, {0}),
          torch::linalg_multi_dot({x, x, x}),
          torch::chain_matmul({x, x}),
          torch::conv2d(picture, torch::rand({2, 2, 3, 3}), {}, {1, 1}, "same"),
          torch::cross_entropy_loss(torch::mm(x, x), labels),
          torch::nll_loss_nd(torch::log_softmax(torch::mm(x, x), -1), labels),
          torch::bilinear(x, x, torch::rand({2, 8, 8})),
          torch::cosine_similarity(torch::mm(x, x), x),
          torch::layer_norm(torch::mm(x, x), {8}),
          torch::softplus(torch::mm(x, x)),
          torch::group_norm(torch::mm(x, x), 2)};
}

TEST(Autocast, DtypesAreThoseOfEagerOnTheCpu) {
  for (auto dtype : {torch::kBFloat16, torch::kHalf}) {
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    auto eager = mixed_operations();
    for (const torch::Tensor& result : composites()) eager.push_back(result);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    std::vector<torch::Tensor> planned;
    testing::record([&](Recorder&) {
      const AutocastScope autocast(AutocastTarget::cpu, dtype);
      planned = mixed_operations();
      for (const torch::Tensor& result : composites()) planned.push_back(result);
    });
    for (size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(planned[i].scalar_type(), eager[i].scalar_type()) << i;
  }
}

TEST(Autocast, TheCudaRulesDiffer) {
  std::vector<torch::Tensor> planned;
  testing::record([&](Recorder&) {
    const AutocastScope autocast(AutocastTarget::cuda, torch::kHalf);
    planned = mixed_operations();
  });
  EXPECT_EQ(planned[0].scalar_type(), torch::kHalf);
  EXPECT_EQ(planned[3].scalar_type(), torch::kFloat);   // softmax
  EXPECT_EQ(planned[5].scalar_type(), torch::kFloat);   // layer_norm
  EXPECT_EQ(planned[10].scalar_type(), torch::kFloat);  // sum
}

// The dtypes are those of libtorch 2.11 on an NVIDIA device.
TEST(Autocast, CompositesAreCastAsOnCuda) {
  testing::record([&](Recorder&) {
    const AutocastScope autocast(AutocastTarget::cuda, torch::kBFloat16);
    std::vector<torch::ScalarType> dtypes;
    for (const torch::Tensor& result : composites()) dtypes.push_back(result.scalar_type());
    const auto narrow = torch::kBFloat16, wide = torch::kFloat;
    // tensordot() and bilinear() compute in the widest type of their operands, which are cast before the others.
    EXPECT_THAT(dtypes, ElementsAre(narrow, wide, narrow, narrow, narrow, wide, wide, wide, wide, wide, wide, wide));
  });
}

TEST(Autocast, OperandsOfSeveralTypesAreComputedInTheWidest) {
  testing::record([](Recorder&) {
    const auto narrow = torch::zeros({4}, torch::kHalf), wide = torch::zeros({4});
    const AutocastScope autocast(AutocastTarget::cuda, torch::kHalf);
    EXPECT_EQ(at::addcmul(narrow, wide, narrow).scalar_type(), torch::kFloat);
    EXPECT_EQ(at::addcmul(narrow, narrow, narrow).scalar_type(), torch::kHalf);
  });
}

// Norms without a dtype are computed in float32: another overload is called.
TEST(Autocast, CudaNormsAreOfFloat32) {
  const Trace trace = testing::record([](Recorder&) {
    const auto x = torch::zeros({4, 8}, torch::kHalf);
    const AutocastScope autocast(AutocastTarget::cuda, torch::kHalf);
    EXPECT_EQ(at::norm(x, 2).scalar_type(), torch::kFloat);
    EXPECT_EQ(at::norm(x, 2, {1}).scalar_type(), torch::kFloat);
    EXPECT_EQ(at::norm(x.to(torch::kDouble), 2).scalar_type(), torch::kDouble);
  });
  EXPECT_FALSE(trace.ops.empty());
}

// A weight is cast once, however often it is used.
TEST(Autocast, WeightCastsAreCached) {
  const Trace trace = testing::record([&](Recorder&) {
    const auto w = torch::rand({8, 8}).requires_grad_(true);
    const auto x = torch::rand({4, 8});
    const AutocastScope autocast(AutocastTarget::cpu, torch::kBFloat16);
    torch::linear(x, w);
    torch::linear(x, w);
  });
  int copies = 0;
  for (const Op& op : trace.ops) copies += op.name == "aten::copy_";
  EXPECT_EQ(copies, 3);  // the weight once, x twice
}

// Blocks of the step set the state of the device that is planned for.
TEST(Autocast, BlocksOfTheFollowedDeviceApply) {
  at::autocast::set_autocast_enabled(at::kCPU, true);  // a block around the recording has no effect on it
  at::autocast::set_autocast_dtype(at::kCPU, torch::kHalf);
  at::autocast::increment_nesting();
  testing::record([&](Recorder&) {
    const FollowedAutocast followed(at::kCPU);
    const auto w = torch::rand({8, 8}).requires_grad_(true), planned = torch::rand({4, 8});
    const auto dtype = [&] { return torch::linear(planned, w).scalar_type(); };
    EXPECT_EQ(dtype(), torch::kFloat);
    at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    EXPECT_EQ(dtype(), torch::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(dtype(), torch::kFloat);
    at::autocast::set_autocast_enabled(at::kCUDA, true);  // of another device
    EXPECT_EQ(dtype(), torch::kFloat);
    at::autocast::set_autocast_enabled(at::kCUDA, false);
    {
      const AutocastScope mixed(AutocastTarget::cpu, torch::kBFloat16);
      EXPECT_EQ(dtype(), torch::kBFloat16);
      EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
      at::autocast::set_autocast_enabled(at::kCPU, false);
      EXPECT_EQ(dtype(), torch::kFloat);
    }
    EXPECT_EQ(dtype(), torch::kFloat);
  });
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), torch::kHalf);
  EXPECT_EQ(at::autocast::decrement_nesting(), 0);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

}  // namespace
}  // namespace plimsoll
