#include "device/product_scratch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "ops/dtypes.h"
#include "ops/ops_testing.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

using at::Tensor;
using ops::LibraryProduct;

View unplaced_view(const Tensor& tensor) {
  return {kNoBuffer, dtype_of(tensor.scalar_type()), 0, tensor.sizes().vec(), tensor.strides().vec()};
}

// On zeros as on numbers, whatever the strides, and the second time.
TEST(ProductScratch, IsWhatTheAllocatorSees) {
  const int threads = at::get_num_threads();
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const auto& [m, k, n] : {std::tuple{3, 5, 7}, {64, 300, 130}, {257, 64, 1000}})
      for (const bool turned : {false, true})
        for (const bool adds : {false, true}) {
          const Tensor left = turned ? at::randn({k, m}).to(type).t() : at::randn({m, k}).to(type);
          const Tensor right = turned ? at::randn({n, k}).to(type).t() : at::randn({k, n}).to(type);
          Tensor result = at::zeros({m, n + 3}, at::dtype(type)).narrow(1, 0, n);
          const int64_t seen = ops::testing::measured_workspace(
              [&]() -> std::vector<c10::IValue> {
                if (adds)
                  at::addmm_out(result, result, left, right);
                else
                  at::mm_out(result, left, right);
                return {};
              },
              nullptr);
          const LibraryProduct product{unplaced_view(left), unplaced_view(right), unplaced_view(result), adds};
          for (int time = 0; time < 2; ++time)
            EXPECT_EQ(measured_product_scratch(product, threads), seen)
                << type << " " << m << " " << k << " " << n << (turned ? " turned" : "") << (adds ? " adds" : "");
        }
}

TEST(ProductScratch, OfNothingIsNothing) {
  const View none{kNoBuffer, DType::float32, 0, {0, 4}, {4, 1}}, right{kNoBuffer, DType::float32, 0, {4, 4}, {4, 1}};
  EXPECT_EQ(measured_product_scratch({none, right, none}, 1), 0);
}

int64_t most_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * KiB;
  return 0;
}

// So that what is too large to be tried out with memory of its own can be asked for.
TEST(ProductScratch, OperandsTakeNoMemory) {
  if (!(std::ofstream("/proc/self/clear_refs") << 5 << std::flush))
    GTEST_SKIP() << "the system does not let the most that was resident be forgotten";
  const int64_t before = most_resident_bytes();
  const View left{kNoBuffer, DType::float32, 0, {1 << 17, 1 << 10}, {1 << 10, 1}},
      right{kNoBuffer, DType::float32, 0, {1 << 10, 4}, {4, 1}},
      result{kNoBuffer, DType::float32, 0, {1 << 17, 4}, {4, 1}};
  measured_product_scratch({left, right, result}, 1);
  EXPECT_LT(most_resident_bytes() - before, 128 * MiB);  // of 512
}

}  // namespace
}  // namespace plimsoll
