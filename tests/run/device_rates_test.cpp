// Tests measured rates of a device, on the CPU in the place of a GPU, and plans that use them.
#include "run/device_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/backend.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_training.h"
#include "run/fake_device.h"
#include "run/watched_backend.h"
#include "stated_machine.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kShort = 1e-9;  // seconds of a kernel: the smallest sizes

TEST(DeviceRates, ReplaceThoseThatWereKnown) {
  CostModel known = generic_cost_model();
  known.device = "a GPU";
  const CostModel measured = measure_device_rates(cpu_backend(), known, kShort).model;
  EXPECT_EQ(measured.source, "measured");
  EXPECT_EQ(measured.device, "a GPU");
  for (const OpKind kind : {OpKind::product, OpKind::attention, OpKind::loss_head}) {
    EXPECT_GT(measured.rate(kind, DType::float32).flops, 0.1 * StatedMachine::kFlops) << name_of(kind);
    // The stated time of the loss head is that of its matmuls alone; the time of its staged logits is deducted from it.
    EXPECT_LE(measured.rate(kind, DType::float32).flops, (kind == OpKind::loss_head ? 2 : 1) * StatedMachine::kFlops)
        << name_of(kind);
  }
  for (const OpKind kind : {OpKind::streaming, OpKind::reduction, OpKind::random, OpKind::update}) {
    EXPECT_GT(measured.rate(kind, DType::float32).bytes, 0.1 * StatedMachine::kBytes) << name_of(kind);
    EXPECT_LE(measured.rate(kind, DType::float32).bytes, StatedMachine::kBytes) << name_of(kind);
  }
  EXPECT_NEAR(measured.overhead_seconds, StatedMachine::kOverhead / 2000, 1e-12);  // 2000 calls in one
  // Kernels that were not measured keep their rates, and so does a link that the device does not have.
  EXPECT_EQ(measured.rate(OpKind::convolution, DType::float32).flops,
            known.rate(OpKind::convolution, DType::float32).flops);
  EXPECT_EQ(measured.host_link, known.host_link);
}

// The update needs float64: its rate stays, and the others are measured.
TEST(DeviceRates, OfADeviceWithoutFloat64) {
  testing::add_fake_device();
  const testing::FakeDeviceWithoutFloat64 without;
  const CostModel known = generic_cost_model();
  const DeviceRates rates = measure_device_rates(backend_for("made_up"), known, kShort);
  const auto& [measured, refused, short_of_memory] = rates;
  EXPECT_FALSE(short_of_memory);
  ASSERT_FALSE(refused.empty());
  for (const std::string& each : refused)
    EXPECT_THAT(each, AllOf(StartsWith("update "), HasSubstr(": "), Not(HasSubstr("\n"))));
  EXPECT_EQ(measured.rate(OpKind::update, DType::float32).bytes, known.rate(OpKind::update, DType::float32).bytes);
  EXPECT_NE(measured.rate(OpKind::streaming, DType::float32).bytes,
            known.rate(OpKind::streaming, DType::float32).bytes);
  EXPECT_NE(measured.rate(OpKind::product, DType::float32).flops, known.rate(OpKind::product, DType::float32).flops);
}

// After a fault of a kernel no other one runs: they are not lacking, and nothing was measured.
TEST(DeviceRates, AFaultNamesTheKernelThatWasMeasured) {
  testing::WatchedBackend watched(cpu_backend());
  watched.faults_after = 40;
  try {
    measure_device_rates(watched, generic_cost_model(), kShort);
    FAIL() << "the device has a fault";
  } catch (const UserError& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
    EXPECT_THAT(error.what(), AllOf(StartsWith("measuring "), HasSubstr("float32: a kernel failed")));
  }
}

TEST(DeviceRates, AreKeptByTheNameOfTheDevice) {
  CostModel model = generic_cost_model();
  model.rate(OpKind::product, DType::bfloat16).flops = 123e12;
  model.overhead_seconds = 7e-6;
  EXPECT_FALSE(stored_device_rates("NVIDIA Made Up 9", generic_cost_model()));
  ASSERT_TRUE(store_device_rates("NVIDIA Made Up 9", {model, {"matmul float16: no kernel"}}));
  const auto stored = stored_device_rates("NVIDIA Made Up 9", generic_cost_model());
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->model.source, "measured");
  EXPECT_EQ(stored->model.rate(OpKind::product, DType::bfloat16).flops, 123e12);
  EXPECT_EQ(stored->model.overhead_seconds, 7e-6);
  EXPECT_THAT(stored->refused, ElementsAre("matmul float16: no kernel"));
  EXPECT_FALSE(stored_device_rates("NVIDIA Made Up 8", generic_cost_model()));
  // Another device whose name gives the same file name.
  EXPECT_FALSE(stored_device_rates("NVIDIA Made-Up 9", generic_cost_model()));
}

// Copies both ways are slower than one way by the same share on a slower link.
TEST(DeviceRates, AMeasuredHostLinkScalesThatOfBothDirections) {
  CostModel known = generic_cost_model(), model = known;
  known.host_link = 32e9;
  known.host_link_duplex = 16e9;
  model.host_link = 8e9;
  ASSERT_TRUE(store_device_rates("NVIDIA Made Up 9", {model, {}}));
  const auto stored = stored_device_rates("NVIDIA Made Up 9", known);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->model.host_link, 8e9);
  EXPECT_EQ(stored->model.host_link_duplex, 4e9);
}

// Each machine stores its own measurements, and all ranks must predict the same times.
TEST(DeviceRates, SeveralRanksHaveThoseOfTheCatalogue) {
  PlanTarget target = target_of(require_device("h100-sxm"));
  const double known = target.cost.rate(OpKind::product, DType::bfloat16).flops;
  target.cost.source = "measured";
  target.cost.rate(OpKind::product, DType::bfloat16).flops = 1.5 * known;
  const PlanTarget one = with_ranks(target, {.ranks = 1});
  EXPECT_EQ(one.cost.source, "measured");
  EXPECT_EQ(one.cost.rate(OpKind::product, DType::bfloat16).flops, 1.5 * known);
  const PlanTarget eight = with_ranks(target, {.ranks = 8});
  EXPECT_EQ(eight.cost.source, "catalogue");
  EXPECT_EQ(eight.cost.rate(OpKind::product, DType::bfloat16).flops, known);
  EXPECT_GT(eight.cost.peer_link, 0);
  target.cost.device = "a GPU that the catalogue does not have";
  EXPECT_EQ(with_ranks(target, {.ranks = 8}).cost.source, "generic");
  target.device = "cpu";
  EXPECT_EQ(with_ranks(target, {.ranks = 8}).cost.source, "measured");
}

TEST(DeviceRates, ADamagedFileIsNotRead) {
  const std::filesystem::path file = device_rates_file("NVIDIA Made Up 9");
  ASSERT_TRUE(store_device_rates("NVIDIA Made Up 9", {generic_cost_model(), {}}));
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(file) << changed;
    return stored_device_rates("NVIDIA Made Up 9", generic_cost_model()).has_value();
  };
  EXPECT_TRUE(with("\"method\"", "\"method\""));
  EXPECT_FALSE(with("\"method\": 2", "\"method\": 1"));
  EXPECT_FALSE(with("\"rates\": [", "\"rates\": [[],"));
  EXPECT_FALSE(with("\"overhead_seconds\": ", "\"overhead_seconds\": -"));
  EXPECT_FALSE(with("{", "["));
}

TEST(DeviceRates, ASmallTrainingTellsHowOpsRun) {
  const DeviceWork work = try_device("cpu");
  EXPECT_FALSE(work.captures);
  EXPECT_GT(work.single_ops, 10);
  EXPECT_TRUE(work.copied_results.empty());
}

TEST(DeviceRates, AMachineWithoutDevicesHasNoReports) {
  if (find_backend("cuda") || find_backend("rocm") || find_backend("mps")) GTEST_SKIP() << "there is a device";
  EXPECT_TRUE(inspect_devices(false, /*nvidia_driver=*/false).empty());
}

}  // namespace
}  // namespace plimsoll
