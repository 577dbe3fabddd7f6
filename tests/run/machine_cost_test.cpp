// Tests rates of this machine; rates of a busy machine are not stored, because later plans would predict from them.
#include "run/machine_cost.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/measurement.h"
#include "plimsoll/machine.h"
#include "stated_machine.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A machine on which other programs keep some of its two processors busy.
class BusyMachine final : public StatedMachine {
 public:
  explicit BusyMachine(double busy) : busy_(busy) {}
  std::optional<OtherWork> other_work() override { return OtherWork{.seconds = busy_ * now(), .processors = 2}; }

 private:
  double busy_;
};

TEST(MachineCost, RatesOfABusyMachineAreStoredOnlyIfAskedFor) {
  {
    BusyMachine busy(2);
    const MeasuringMachineScope scope(busy);
    const MachineReport report = inspect_machine(2);
    EXPECT_NEAR(report.shared_processors, 2, 1e-6);
    EXPECT_FALSE(report.stored);
    EXPECT_THAT(report.cost.source, HasSubstr("next to other programs, 2.0 processors busy"));
  }
  {
    BusyMachine quiet(0.1);
    const MeasuringMachineScope scope(quiet);
    const MachineReport report = inspect_machine(2);
    EXPECT_TRUE(report.measured_now) << "the first rates were not stored";
    EXPECT_TRUE(report.stored);
    EXPECT_EQ(report.cost.source, "measured");
    EXPECT_FALSE(inspect_machine(2).measured_now);
  }
  BusyMachine busy(1.5);
  const MeasuringMachineScope scope(busy);
  EXPECT_TRUE(inspect_machine(2, /*again=*/true, /*store_in_any_case=*/true).stored);
  EXPECT_THAT(machine_cost_model(2).source, StartsWith("measured next to other programs, 1.5 processors busy"));
}

TEST(MachineCost, RatesAtTheLimitOfSharedProcessorsAreStored) {
  BusyMachine busy(kMaxSharedProcessors);
  const MeasuringMachineScope scope(busy);
  const MachineReport report = inspect_machine(2);
  EXPECT_EQ(report.shared_processors, kMaxSharedProcessors);
  EXPECT_TRUE(report.stored);
  EXPECT_EQ(report.cost.source, "measured");
}

TEST(MachineCost, TheFileHasARateForEachKindAndDtype) {
  const MachineReport report = inspect_machine(2);
  ASSERT_TRUE(report.stored);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(report.folder)) {
    if (!entry.path().filename().string().starts_with("rates-")) continue;
    ++files;
    std::ifstream stream(entry.path());
    const nlohmann::json stored = nlohmann::json::parse(stream);
    EXPECT_THAT(stored["rates"], SizeIs(kOpKinds));
    EXPECT_THAT(stored["rates"], Each(SizeIs(kSpeedTypes)));
  }
  EXPECT_EQ(files, 1);
}

/// A machine on which every kernel has a rate of its own. The first run of a kernel takes ten times as long, and the
/// runs after it are 0 to 7 times too long, in a fixed order that ends with an undisturbed one.
class RatesByName : public MeasuringMachine {
 public:
  double now() override { return clock_; }
  void wait(double seconds) override { clock_ += seconds; }
  double time(const MeasuredWork& work, const std::function<void()>& run) override {
    Kernel& kernel = kernels[work.name];
    if (kernel.runs == 0) {
      kernel.ops = ops_of(run);  // once: a kernel that refuses its operands fails the test
      kernel.work = work;
      kernel.rate = 1e9 * static_cast<double>(kernels.size());
    }
    const int run_index = kernel.runs++;
    const double undisturbed = work.flops + work.bytes > 0 ? (work.flops + work.bytes) / kernel.rate : 1e-3;
    const double seconds = undisturbed * (run_index == 0 ? 10 : 9 - run_index);
    clock_ += seconds;
    return seconds;
  }

  struct Kernel {
    MeasuredWork work;
    double rate = 0;
    int runs = 0;
    std::map<std::string, int> ops;  ///< calls by the name of the op and its overload
  };
  std::map<std::string, Kernel> kernels;

 private:
  // The ops that `run` calls, also those that an op calls.
  static std::map<std::string, int> ops_of(const std::function<void()>& run) {
    static std::map<std::string, int> ops;
    ops.clear();
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& op) {
                                                     if (const auto name = op.operator_name())
                                                       ++ops[c10::toString(*name)];
                                                     return std::unique_ptr<at::ObserverContext>();
                                                   }).scopes({at::RecordScope::FUNCTION}));
    run();
    at::removeCallback(handle);
    return ops;
  }

  double clock_ = 0;
};

// The rates are measured once for all tests.
class MachineRates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    machine_ = std::make_unique<RatesByName>();
    const MeasuringMachineScope scope(*machine_);
    model_ = measure_rates(1);
  }
  static void TearDownTestSuite() { machine_.reset(); }
  static const RatesByName::Kernel& kernel(const std::string& name) { return machine_->kernels.at(name); }
  static const RatesByName::Kernel& kernel(const std::string& name, DType dtype) {
    return kernel(name + " " + std::string(name_of(dtype)));
  }

  static inline std::unique_ptr<RatesByName> machine_;
  static inline CostModel model_;
};

constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16};

// The sizes of the kernels, multiplied out here by hand: a formula that counts wrongly makes every prediction wrong.
TEST_F(MachineRates, CountTheWorkOfEachKernel) {
  for (const DType dtype : kTypes) {
    const double element = dtype == DType::float32 ? 4 : 2;
    EXPECT_EQ(kernel("matmul", dtype).work.flops, 1'610'612'736);
    EXPECT_EQ(kernel("convolution", dtype).work.flops, 37'748'736);
    EXPECT_EQ(kernel("attention", dtype).work.flops, 335'544'320);
    EXPECT_EQ(kernel("loss head", dtype).work.flops, 11'274'289'152);
    EXPECT_EQ(kernel("add", dtype).work.bytes, 100'663'296);
    EXPECT_EQ(kernel("norm", dtype).work.bytes, 131'072);
    EXPECT_EQ(kernel("random numbers", dtype).work.bytes, 65'536);
    EXPECT_EQ(kernel("update", dtype).work.bytes, 16'777'216 * element);
  }
  EXPECT_EQ(kernel("copy").work.bytes, 268'435'456);
}

TEST_F(MachineRates, RunTheKernelsThatTheyAreNamedAfter) {
  for (const DType dtype : kTypes) {
    for (const auto& [name, op] : std::map<std::string, std::string>{{"matmul", "aten::mm.out"},
                                                                     {"convolution", "aten::conv2d"},
                                                                     {"attention", "plimsoll::attention"},
                                                                     {"add", "aten::add.out"},
                                                                     {"norm", "plimsoll::rms_norm"},
                                                                     {"random numbers", "aten::uniform_"},
                                                                     {"update", "plimsoll::adamw_"}})
      EXPECT_THAT(kernel(name, dtype).ops, Contains(Key(op))) << name << " " << name_of(dtype);
  }
  EXPECT_EQ(kernel("calls").ops.at("aten::add_.Scalar"), 2000);
}

// A rate is that of the shortest run after the first, within kSecondsEach (0.15 s) or 8 runs.
TEST_F(MachineRates, AreThoseOfTheShortestRun) {
  const auto expected = [&](const RatesByName::Kernel& of) {
    EXPECT_GE(of.runs, 2) << of.work.name;
    return of.rate / (9 - (of.runs - 1));
  };
  for (const DType dtype : kTypes) {
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::product, dtype).flops, expected(kernel("matmul", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::convolution, dtype).flops, expected(kernel("convolution", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::attention, dtype).flops, expected(kernel("attention", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::loss_head, dtype).flops, expected(kernel("loss head", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::streaming, dtype).bytes, expected(kernel("add", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::reduction, dtype).bytes, expected(kernel("norm", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::random, dtype).bytes, expected(kernel("random numbers", dtype)));
    EXPECT_DOUBLE_EQ(model_.rate(OpKind::update, dtype).bytes, expected(kernel("update", dtype)));
    for (const OpKind kind : {OpKind::product, OpKind::convolution, OpKind::attention, OpKind::loss_head})
      EXPECT_EQ(model_.rate(kind, dtype).bytes, model_.rate(OpKind::streaming, dtype).bytes);
  }
  EXPECT_DOUBLE_EQ(model_.host_link, expected(kernel("copy")));
  EXPECT_FALSE(model_.copies_overlap);
  // Runs of a millisecond, of which eight are made after the first; 2000 calls each.
  EXPECT_EQ(kernel("calls").runs, 9);
  EXPECT_DOUBLE_EQ(model_.overhead_seconds, 1e-3 / 2000);
}

TEST_F(MachineRates, DoublesTakeTwiceAsLong) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const OpRate single = model_.rate(static_cast<OpKind>(kind), DType::float32),
                 twice = model_.rate(static_cast<OpKind>(kind), DType::float64);
    EXPECT_EQ(twice.flops, single.flops / 2);
    EXPECT_EQ(twice.bytes, single.bytes);
  }
}

}  // namespace
}  // namespace plimsoll
