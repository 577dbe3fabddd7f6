// Tests the causal convolution and the state-space scan on the emulated GPU, against the CPU's kernels.
#include <gmock/gmock.h>

#include "cuda_on_cpu/operator_testing.h"
#include "ops/optimizer/optimizer_testing.h"
#include "ops/scan/ssd_scan_chunks.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

/// `count` results near those of the CPU, relative to the largest of each.
void expect_near(const std::string& name, const Arguments& arguments, size_t count, double tolerance,
                 const std::string& what) {
  const auto want = call(name, arguments), got = call_on_cuda(name, arguments);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(got[i].toTensor().scalar_type(), want[i].toTensor().scalar_type());
    expect_close(got[i].toTensor(), want[i].toTensor(), tolerance, c10::str(name, " result ", i, ", ", what));
  }
}

void expect_same_in_every_order(const std::string& name, const Arguments& arguments) {
  std::vector<c10::IValue> first;
  in_every_order([&] {
    const auto results = call_on_cuda(name, arguments);
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE(same_bytes(results[i].toTensor(), first[i].toTensor())) << name << " result " << i;
  });
}

struct ConvCase {
  int64_t batch, time, channels, taps;
};

TEST(CudaCausalConv1d, IsTheCpus) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(1);
  for (const ConvCase& c :
       {ConvCase{1, 1, 1, 4}, {2, 3, 5, 4}, {2, 64, 33, 3}, {1, 67, 40, 4}, {3, 130, 7, 1}, {1, 200, 16, 2}})
    for (const at::ScalarType type : kTypes)
      for (const at::ScalarType of_weight : kTypes) {
        if ((type == at::kDouble) != (of_weight == at::kDouble)) continue;
        for (const bool reverse : {false, true})
          for (const bool strided : {false, true}) {
            const auto make = [&] {
              const Tensor wide = at::randn({c.batch, c.time, 2 * c.channels}, at::kDouble).to(type);
              return strided ? wide.narrow(2, c.channels, c.channels) : wide.narrow(2, 0, c.channels).contiguous();
            };
            const Tensor x = make(), grad = make();
            const Tensor weight = at::randn({c.channels, c.taps}, at::kDouble).to(of_weight);
            const Tensor bias = at::randn({c.channels}, at::kDouble).to(of_weight);
            const std::string what = c10::str(x.sizes(), " ", type, ", ", c.taps, " taps of ", of_weight);
            const double most = std::max(tolerance(type), tolerance(of_weight));
            expect_near("plimsoll::causal_conv1d", {x, weight, bias, reverse}, 1, most, what);
            expect_near("plimsoll::causal_conv1d_backward", {grad, x, weight, bias, reverse}, 3, most, what);
          }
      }
}

TEST(CudaCausalConv1d, IsTheSameInEveryOrderAndTakesTheScratchThatItSays) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(2);
  const Tensor x = at::randn({2, 20, 150}).transpose(1, 2), grad = at::randn({2, 150, 20});
  const Tensor weight = at::randn({20, 4}), bias = at::randn({20});
  expect_same_in_every_order("plimsoll::causal_conv1d", {x, weight, bias, false});
  expect_same_in_every_order("plimsoll::causal_conv1d_backward", {grad, x, weight, bias, false});
  expect_cuda_workspace("plimsoll::causal_conv1d", {x, weight, bias, false});
  expect_cuda_workspace("plimsoll::causal_conv1d_backward", {grad, x, weight, bias, false});
}

struct SsdCase {
  int64_t batch, time, heads, width, groups, state, chunk;
  bool reverse = false;
};
std::string name(const SsdCase& c) {
  return c10::str("B=", c.batch, " T=", c.time, " H=", c.heads, " P=", c.width, " G=", c.groups, " N=", c.state,
                  " chunk=", c.chunk, c.reverse ? " reverse" : "");
}

Arguments ssd_arguments(const SsdCase& c, at::ScalarType type) {
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {at::randn({c.batch, c.time, c.heads, c.width}, at::kDouble).to(type),
          (0.02 + 0.5 * at::rand({c.batch, c.time, c.heads}, at::kDouble)).to(wide),
          -(0.3 + at::rand({c.heads}, at::kDouble)).to(wide),
          at::randn({c.batch, c.time, c.groups, c.state}, at::kDouble).to(type),
          at::randn({c.batch, c.time, c.groups, c.state}, at::kDouble).to(type),
          at::randn({c.heads}, at::kDouble).to(wide),
          c.chunk,
          c.reverse};
}
Arguments with_gradient(const Arguments& forward) {
  const Tensor& x = forward[0].toTensor();
  Arguments backward{at::randn(x.sizes(), at::kDouble).to(x.scalar_type())};
  backward.insert(backward.end(), forward.begin(), forward.end());
  return backward;
}

/// Sets panels of this number of bytes for its lifetime.
struct PanelBytes {
  explicit PanelBytes(int64_t bytes) : before(cuda::ssd_panel_bytes) { cuda::ssd_panel_bytes = bytes; }
  ~PanelBytes() { cuda::ssd_panel_bytes = before; }
  int64_t before;
};

const std::vector<SsdCase>& ssd_cases() {
  static const std::vector<SsdCase> all = {
      {1, 1, 1, 1, 1, 1, 4},
      {2, 7, 2, 3, 1, 5, 3},
      {1, 33, 4, 16, 2, 8, 8},
      {2, 40, 3, 20, 3, 17, 16},
      {1, 50, 2, 32, 1, 16, 64},
      {3, 29, 4, 8, 2, 40, 10, true},
      {1, 70, 2, 16, 1, 33, 33},
      {2, 41, 6, 5, 3, 4, 7, true},
      {1, 80, 2, 33, 2, 24, 64, true},
      // More heads of a group than warps of a block, and a state of more columns than a block sums at a time.
      {1, 9, 11, 3, 1, 5, 4},
      {1, 5, 18, 2, 2, 300, 3, true},
  };
  return all;
}

TEST(CudaSsdScan, IsTheCpus) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(3);
  for (size_t i = 0; i < ssd_cases().size(); ++i) {
    const SsdCase& c = ssd_cases()[i];
    for (const at::ScalarType type : {i % 2 == 0 ? at::kFloat : at::kDouble, i % 3 == 0 ? at::kHalf : at::kBFloat16}) {
      const Arguments forward = ssd_arguments(c, type), backward = with_gradient(forward);
      // Factors of products have the operands' type: of 16 bits, weights and states are rounded once more.
      expect_near("plimsoll::ssd_scan", forward, 2, tolerance(type), name(c));
      expect_near("plimsoll::ssd_scan_backward", backward, 7, tolerance(type), name(c));
    }
  }
}

TEST(CudaSsdScan, IsTheSameInPanelsAndInEveryOrder) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(4);
  const SsdCase c{3, 29, 18, 8, 2, 5, 10, true};
  const Arguments forward = ssd_arguments(c, at::kFloat), backward = with_gradient(forward);
  const auto whole = call_on_cuda("plimsoll::ssd_scan", forward);
  const auto gradients = call_on_cuda("plimsoll::ssd_scan_backward", backward);
  const SsdShape shape{c.batch, c.time, c.heads, c.width, c.groups, c.state, c.chunk, c.reverse};
  for (const int64_t tasks : {1, 2, 4}) {
    const PanelBytes of_a_panel(1);
    const int64_t one = cuda::SsdPanels(shape, 4, true).bytes;
    const PanelBytes panel(one * tasks);
    EXPECT_LT(cuda::SsdPanels(shape, 4, true).tasks, 9);
    for (const auto& [op, arguments, want] :
         {std::tuple{"plimsoll::ssd_scan", &forward, &whole}, {"plimsoll::ssd_scan_backward", &backward, &gradients}}) {
      const auto got = call_on_cuda(op, *arguments);
      for (size_t i = 0; i < got.size(); ++i)
        expect_close(got[i].toTensor(), (*want)[i].toTensor(), 1e-6,
                     c10::str(op, " result ", i, ", panels of ", tasks));
      expect_cuda_workspace(op, *arguments);
    }
  }
  expect_same_in_every_order("plimsoll::ssd_scan", forward);
  expect_same_in_every_order("plimsoll::ssd_scan_backward", backward);
}

TEST(CudaSsdScan, TakesOperandsAsTheyLie) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(5);
  for (const SsdCase& c : {SsdCase{2, 21, 4, 6, 2, 5, 8}}) {
    Arguments forward = ssd_arguments(c, at::kFloat);
    const auto turned = [](const c10::IValue& value, int64_t a, int64_t b) {
      return c10::IValue(value.toTensor().transpose(a, b).contiguous().transpose(a, b));
    };
    forward[0] = turned(forward[0], 2, 3);  // copied
    forward[3] = turned(forward[3], 1, 2);  // not
    forward[1] = turned(forward[1], 0, 2);
    expect_near("plimsoll::ssd_scan", forward, 2, 2e-5, name(c));
    const Arguments backward = with_gradient(forward);
    expect_near("plimsoll::ssd_scan_backward", backward, 7, 2e-5, name(c));
    expect_cuda_workspace("plimsoll::ssd_scan", forward);
    expect_cuda_workspace("plimsoll::ssd_scan_backward", backward);
  }
}

}  // namespace
}  // namespace plimsoll::ops
