#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

#include "base/measurement.h"
#include "ops/cpu_capability.h"
#include "ops/matmul_throughput.h"
#include "plan/placement/validator.h"
#include "plimsoll/bytes.h"
#include "plimsoll/machine.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanJobTest : public ::testing::Test {
 protected:
  Job open_job(int64_t batch_size) const {
    Job job = tiny_job(folder_);
    job.batch_size = batch_size;
    job.micro_batch_size.reset();
    job.gradient_accumulation_steps.reset();
    return job;
  }

  /// The peak of the job with this micro batch, without a budget.
  int64_t peak_with(Job job, int64_t micro_batch_size) const {
    job.micro_batch_size = micro_batch_size;
    job.gradient_accumulation_steps = AccumulationSchedule{{0, *job.batch_size / micro_batch_size}};
    job.budget.device = int64_t{1} << 40;
    return plan_job(job).plan.peak_bytes;
  }

  TempFolder folder_;
};

TEST_F(PlanJobTest, FillsInTheVocabularyAndCountsWhatIsLearned) {
  const PlannedJob planned = plan_job(tiny_job(folder_));
  EXPECT_EQ(planned.vocab_size, 320);  // 257, rounded up
  // The embedding; in each layer qkv, out, up (two halves of 128), down and two norms; the last norm.
  EXPECT_EQ(planned.settings.parameters, 320 * 32 + 2 * (32 * 96 + 32 * 32 + 32 * 256 + 128 * 32 + 2 * 32) + 32);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.plan.budget.device_bytes(), 1 * GiB);
  EXPECT_FALSE(planned.recorded.ops.empty());
}

TEST_F(PlanJobTest, CompileIsRefusedWhereThereAreNoFusedKernels) {
  Job job = tiny_job(folder_);
  job.device = "mps";
  EXPECT_EQ(plan_job(job).plan.fused_ops, 0);
  job.compile = Choice::on;
  try {
    plan_job(job);
    FAIL() << "planned";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("compile"), HasSubstr("cpu and cuda"), HasSubstr("mps")));
  }
}

TEST_F(PlanJobTest, LeavesWhatIsPinnedAsItIs) {
  Job job = tiny_job(folder_);
  job.micro_batch_size = 3;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}, {4, 1}};
  job.batch_size = 6;
  const ResolvedSettings settings = plan_job(job).settings;
  EXPECT_EQ(settings.micro_batch_size, 3);
  EXPECT_EQ(settings.gradient_accumulation_steps, *job.gradient_accumulation_steps);
}

TEST_F(PlanJobTest, PicksTheLargestDivisorThatFits) {
  Job job = open_job(12);
  job.gradient_checkpointing = Choice::off;
  std::map<int64_t, int64_t> peaks;
  for (int64_t micro : {1, 2, 3, 4, 6, 12}) peaks[micro] = peak_with(job, micro);
  for (const auto& [fitting, peak] : peaks) {
    int64_t expected = 0;
    for (const auto& [micro, bytes] : peaks)
      if (bytes <= peak) expected = micro;
    job.budget.device = peak;
    const PlannedJob planned = plan_job(job);
    EXPECT_TRUE(planned.plan.fits);
    EXPECT_EQ(planned.settings.micro_batch_size, expected);
    EXPECT_EQ(planned.settings.gradient_accumulation_steps, (AccumulationSchedule{{0, 12 / expected}}));
    EXPECT_LE(planned.plan.peak_bytes, peak);
    EXPECT_THAT(planned.plan.reasons,
                Contains(Field(&Reason::decision, "micro_batch_size: " + std::to_string(expected))));
  }
}

TEST_F(PlanJobTest, SaysTheLeastBudgetOverAllMicroBatchesWhereNoneFits) {
  Job job = open_job(6);
  job.gradient_checkpointing = Choice::off;
  int64_t least = peak_with(job, 6);
  for (int64_t micro : {1, 2, 3}) least = std::min(least, peak_with(job, micro));
  job.budget.device = least - 1;
  const PlannedJob planned = plan_job(job);
  EXPECT_FALSE(planned.plan.fits);
  EXPECT_EQ(planned.minimum_budget_bytes, least);
  job.budget.device = least;
  EXPECT_TRUE(plan_job(job).plan.fits);
}

TEST_F(PlanJobTest, TheLeastBudgetIsOverAllMicroBatchesWhereTheLargestFitsToo) {
  Job job = open_job(6);
  EXPECT_EQ(plan_job(job).settings.micro_batch_size, 6);
  EXPECT_LT(plan_job(job).minimum_budget_bytes, plan_job(job).plan.peak_bytes);
}

TEST_F(PlanJobTest, WeighsDivisorsAndWhereTheyLieFarApartPartsWithASmallerLastOne) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(candidate_micro_batches(1), (Sizes{1}));
  EXPECT_EQ(candidate_micro_batches(2), (Sizes{1, 2}));
  EXPECT_EQ(candidate_micro_batches(12), (Sizes{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(candidate_micro_batches(37), (Sizes{1, 2, 3, 5, 10, 19, 37}));
  EXPECT_EQ(candidate_micro_batches(10), (Sizes{1, 2, 3, 5, 10}));
  // The largest prime that a batch may be: quick, and few enough.
  EXPECT_EQ(candidate_micro_batches(1048573).size(), 21u);
  for (int64_t batch : {37, 74, 999, 1048573}) {
    const Sizes sizes = candidate_micro_batches(batch);
    EXPECT_EQ(sizes.front(), 1);
    EXPECT_EQ(sizes.back(), batch);
    for (size_t i = 1; i < sizes.size(); ++i) EXPECT_LE(sizes[i], 2 * sizes[i - 1] + 1);
  }
}

TEST_F(PlanJobTest, APrimeBatchIsCutWithASmallerLastMicroBatch) {
  Job job = open_job(7);
  job.gradient_checkpointing = Choice::off;
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.budget.device = plan_job(job).plan.peak_bytes;
  job.micro_batch_size.reset();
  job.gradient_accumulation_steps.reset();
  const PlannedJob planned = plan_job(job);
  ASSERT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.settings.micro_batch_size, 4);
  EXPECT_EQ(planned.settings.last_micro_batch, 3);
  EXPECT_EQ(planned.settings.gradient_accumulation_steps, (AccumulationSchedule{{0, 2}}));
  EXPECT_EQ(describe_micro_batches(planned.settings), "4 x 1 + 3");
  EXPECT_EQ(resolved_job(job, planned).batch_size, 7);
  EXPECT_EQ(planned.step_seconds, planned.plan.time.step(2, true));
  EXPECT_LT(planned.step_seconds, planned.plan.time.step(2));
  EXPECT_DOUBLE_EQ(planned.tokens_per_second, 7 * 16 / planned.step_seconds);
  EXPECT_THAT(planned.plan.reasons,
              Contains(AllOf(Field(&Reason::decision, "micro_batch_size: 4"),
                             Field(&Reason::why, HasSubstr("the last micro batch of a step has 3")))));
  const TrainReport report = train(job);
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.steps, 6);
  EXPECT_LE(report.measured_peak_bytes, *job.budget.device);
}

// Returns a device whose kernels run at this multiple of float32's speed, and need no scratch.
PlanTarget target_with(double bfloat16, double float16, std::optional<int64_t> budget) {
  PlanTarget target;
  target.device = "mps";  // the scratch of its kernels is unknown
  target.is_local = false;
  target.cost = generic_cost_model();
  target.cost.overhead_seconds = 0;
  for (auto& kind : target.cost.rates)
    for (DType dtype : {DType::float32, DType::bfloat16, DType::float16})
      kind[static_cast<size_t>(speed_type_of(dtype))] = {0, 1e9 * (dtype == DType::bfloat16  ? bfloat16
                                                                   : dtype == DType::float16 ? float16
                                                                                             : 1)};
  target.budget.device = budget;
  return target;
}

std::string reason_of(const PlannedJob& planned, const std::string& decision) {
  for (const Reason& reason : planned.plan.reasons)
    if (reason.decision == decision) return reason.why;
  return "no reason";
}

TEST_F(PlanJobTest, AnOpenPrecisionIsTheFasterOfFullAndMixed) {
  Job job = open_job(4);
  job.precision = Precision::automatic;
  const auto seconds = [&](Precision precision, const PlanTarget& target) {
    Job fixed = job;
    fixed.precision = precision;
    return plan_job(fixed, target).step_seconds;
  };
  const PlanTarget fast = target_with(100, 1, GiB), slow = target_with(0.1, 1, GiB);
  const PlannedJob mixed = plan_job(job, fast), full = plan_job(job, slow);
  EXPECT_EQ(mixed.settings.precision, Precision::bf16_mixed);
  EXPECT_EQ(mixed.step_seconds, seconds(Precision::bf16_mixed, fast));
  EXPECT_LT(mixed.step_seconds, seconds(Precision::fp32_true, fast));
  EXPECT_THAT(reason_of(mixed, "precision: bf16-mixed"),
              ::testing::MatchesRegex("predicted [0-9.]+ times as fast as 32-true"));
  EXPECT_EQ(full.settings.precision, Precision::fp32_true);
  EXPECT_EQ(full.step_seconds, seconds(Precision::fp32_true, slow));
  EXPECT_THAT(reason_of(full, "precision: 32-true"), HasSubstr("times as fast as bf16-mixed"));
  EXPECT_EQ(mixed.minimum_budget_bytes, full.minimum_budget_bytes);  // over every open choice
  EXPECT_EQ(resolved_job(job, mixed).precision, Precision::bf16_mixed);
  EXPECT_EQ(mixed.settings.micro_batch_size, 4);
}

TEST_F(PlanJobTest, MixedIsInFloat16WhereTheDeviceHasNoBfloat16) {
  Job job = tiny_job(folder_);
  job.precision = Precision::automatic;
  PlanTarget target = target_with(100, 100, GiB);
  target.cost.bfloat16 = false;
  EXPECT_EQ(plan_job(job, target).settings.precision, Precision::fp16_mixed);
  EXPECT_FALSE(target_of(require_device("v100-sxm2-16gb")).cost.bfloat16);
  EXPECT_TRUE(target_of(require_device("a6000")).cost.bfloat16);
}

TEST_F(PlanJobTest, AnOpenPrecisionFollowsTheBudgetDownToTheOneThatChangesTheResult) {
  Job job = open_job(4);
  std::map<Precision, int64_t> least;
  for (Precision each : {Precision::fp32_true, Precision::bf16_mixed, Precision::bf16_true}) {
    job.precision = each;
    least[each] = plan_job(job, target_with(100, 1, GiB)).minimum_budget_bytes;
  }
  const auto [lower, higher] = std::minmax(least[Precision::fp32_true], least[Precision::bf16_mixed]);
  ASSERT_LT(least[Precision::bf16_true], lower);
  ASSERT_LT(lower, higher);
  job.precision = Precision::automatic;
  for (double speed : {0.1, 100.0}) {  // either is the faster one
    const auto planned = [&](int64_t budget) { return plan_job(job, target_with(speed, 1, budget)); };
    const bool full_is_lower = lower == least[Precision::fp32_true];
    const PlannedJob one = planned(higher - 1);
    EXPECT_TRUE(one.plan.fits);
    EXPECT_EQ(one.settings.precision, full_is_lower ? Precision::fp32_true : Precision::bf16_mixed);
    EXPECT_THAT(reason_of(one, full_is_lower ? "precision: 32-true" : "precision: bf16-mixed"),
                HasSubstr("does not fit: it needs at least"));
    const PlannedJob last = planned(lower - 1);
    EXPECT_TRUE(last.plan.fits);
    EXPECT_EQ(last.settings.precision, Precision::bf16_true);
    EXPECT_THAT(reason_of(last, "precision: bf16-true"),
                AllOf(HasSubstr("neither 32-true nor bf16-mixed fits"), HasSubstr("changes the result")));
    const PlannedJob none = planned(least[Precision::bf16_true] - 1);
    EXPECT_FALSE(none.plan.fits);
    EXPECT_EQ(none.minimum_budget_bytes, least[Precision::bf16_true]);
    EXPECT_TRUE(planned(none.minimum_budget_bytes).plan.fits);
    EXPECT_EQ(last.minimum_budget_bytes, none.minimum_budget_bytes);
  }
}

TEST_F(PlanJobTest, TakesNineTenthsOfWhatTheMachineHasWhereTheBudgetIsOpen) {
  Job job = tiny_job(folder_);
  job.budget.device.reset();
  const PlannedJob planned = plan_job(job);
  ASSERT_TRUE(planned.settings.budget.device);
  EXPECT_GT(*planned.settings.budget.device, 0);
  EXPECT_EQ(planned.plan.budget.device_bytes(), *planned.settings.budget.device);
  EXPECT_THAT(planned.plan.reasons, Contains(AllOf(Field(&Reason::decision, HasSubstr("memory_budget: ")),
                                                   Field(&Reason::why, HasSubstr("less 10 %")))));
}

TEST_F(PlanJobTest, PlansForADeviceThatIsNotThere) {
  Job job = open_job(4);
  job.device = "cuda";
  job.budget.device.reset();
  const PlannedJob planned = plan_job(job);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.settings.micro_batch_size, 4);
  EXPECT_EQ(planned.settings.budget.device, std::nullopt);
  EXPECT_EQ(planned.plan.budget.device_bytes(), 0);
  EXPECT_THAT(planned.plan.reasons, Contains(Field(&Reason::decision, "memory_budget: none")));
}

// cuBLASLt chooses kernels by alignment: all places are alike, so that results do not depend on the plan.
TEST_F(PlanJobTest, PlacesOnCudaAreAlignedAsItsAllocatorHasThem) {
  Job job = open_job(4);
  job.device = "cuda";
  for (const bool tight : {false, true}) {
    if (tight) job.budget.device = plan_job(job).minimum_budget_bytes;
    const Plan plan = plan_job(job).plan;
    ASSERT_TRUE(plan.fits);
    for (const int64_t offset : plan.offsets) EXPECT_TRUE(offset < 0 || offset % 256 == 0) << offset;
    for (const int64_t offset : plan.workspace_offsets) EXPECT_TRUE(offset < 0 || offset % 256 == 0) << offset;
    EXPECT_EQ(find_fault(plan), "");
  }
}

TEST_F(PlanJobTest, NeedsTheTokenizersFileOnlyForAnOpenVocabulary) {
  Job job = tiny_job(folder_);
  job.data.tokenizer = "gpt2";
  job.data.tokenizer_file = folder_ / "missing.tiktoken";
  EXPECT_THAT(user_error_of([&] { plan_job(job); }), HasSubstr("missing.tiktoken"));
  job.model.decoder.vocab_size = 1000;
  EXPECT_EQ(plan_job(job).vocab_size, 1000);
}

TEST_F(PlanJobTest, RefusesFewerRowsThanTheTokenizerHasTokens) {
  Job job = tiny_job(folder_);
  job.model.decoder.vocab_size = 256;
  EXPECT_THAT(user_error_of([&] { plan_job(job); }),
              AllOf(HasSubstr("model.vocab_size is 256"), HasSubstr("257"), HasSubstr("auto")));
}

TEST_F(PlanJobTest, ThePinnedJobPlansTheSame) {
  const Job job = open_job(4);
  const PlannedJob planned = plan_job(job);
  const Job fixed = resolved_job(job, planned);
  EXPECT_EQ(fixed.micro_batch_size, planned.settings.micro_batch_size);
  EXPECT_EQ(fixed.model.decoder.vocab_size, 320);
  EXPECT_EQ(plan_job(fixed).plan.peak_bytes, planned.plan.peak_bytes);
  Training training(step_of(fixed, planned.settings.micro_batch()), options_of(fixed));
  EXPECT_EQ(training.plan().peak_bytes, planned.plan.peak_bytes);
}

TEST_F(PlanJobTest, UpdatesInBackwardThatWaitForTheNormTakeASingleMicroBatch) {
  Job job = open_job(4);
  job.update_in_backward = Choice::on;
  const PlannedJob planned = plan_job(job);  // max_grad_norm is 1
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_TRUE(planned.plan.update_in_backward);
  EXPECT_EQ(planned.settings.micro_batch_size, 4);
  EXPECT_GT(planned.plan.time.norms, 0);
  job.max_grad_norm = 0;
  EXPECT_TRUE(plan_job(job).plan.update_in_backward);
}

TEST_F(PlanJobTest, AccumulatesWhereAStepMayHaveMoreThanOneMicroBatch) {
  Job job = tiny_job(folder_);
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}, {3, 2}};
  EXPECT_TRUE(options_of(job).accumulate);
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  EXPECT_FALSE(options_of(job).accumulate);
  EXPECT_TRUE(options_of(open_job(4)).accumulate);
  EXPECT_FALSE(options_of(open_job(1)).accumulate);
}

int64_t most_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * KiB;
  return 0;
}

std::string reasons_of(const PlannedJob& planned) {
  std::string text;
  for (const Reason& reason : planned.plan.reasons) text += reason.decision + ": " + reason.why + "\n";
  return text;
}

// A thread count that no other test plans for: what was measured there holds for the process.
TEST_F(PlanJobTest, SaysWhichScratchIsAnEstimate) {
  Job job = tiny_job(folder_);
  job.precision = Precision::fp32_true;
  job.threads = 3;
  PlanTarget target = target_of(job);
  ASSERT_TRUE(target.measuring);
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.bytes = 1});
  const PlannedJob estimated = plan_job(job, target);
  EXPECT_THAT(reasons_of(estimated), HasSubstr("not measured: scratch of "));
  EXPECT_THAT(reasons_of(estimated), HasSubstr(" and 1 B; train measures"));
  EXPECT_THAT(estimated.settings.reasons, Contains(Field(&Reason::decision, "not measured")));

  target.measuring = nullptr;  // the settings of a run
  const PlannedJob measured = plan_job(job, target);
  EXPECT_THAT(reasons_of(measured), Not(HasSubstr("not measured")));
  // The plan has the measured figure from here on.
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 1e3});
  const PlannedJob planned = plan_job(job, target);
  EXPECT_THAT(reasons_of(planned), Not(HasSubstr("not measured")));
  EXPECT_EQ(planned.plan.peak_bytes, measured.plan.peak_bytes);
}

TEST_F(PlanJobTest, WithoutTimeNoOpIsTried) {
  Job job = tiny_job(folder_);
  job.threads = 5;  // same as above: its estimates are used by no other test
  PlanTarget target = target_of(job);
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 0});
  const PlannedJob planned = plan_job(job, target);
  EXPECT_THAT(reasons_of(planned),
              AllOf(HasSubstr(" ops were not run: their scratch is the amount of their rule, or 0"),
                    HasSubstr("planning measures for at most 0 s and 256 MiB")));
  // An estimate holds for its allowance only.
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 1e3});
  EXPECT_THAT(reasons_of(plan_job(job, target)), Not(HasSubstr("not measured")));
}

// Its three matmuls take 1.1 GiB each, and libtorch computes them.
TEST_F(PlanJobTest, ALargeHeadIsPlannedWithinTheLimitOfMemory) {
  const CpuCapabilityScope no_blocks(CpuCapability::avx2);
  const ops::ProductsScope products(/*through_float32=*/false);
  Job job = tiny_job(folder_);
  job.precision = Precision::bf16_mixed;
  job.model.decoder.vocab_size = 150'000;
  job.model.decoder.hidden_size = 4096;
  job.budget.device = 64 * GiB;
  PlanTarget target = target_of(job);
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 1e3});
  Job small = tiny_job(folder_);
  small.precision = Precision::bf16_mixed;
  plan_job(small, target);  // allocated once by libraries
  const int64_t before = most_resident_bytes();
  const PlannedJob planned = plan_job(job, target);
  EXPECT_LE(most_resident_bytes() - before, 256 * MiB);
  EXPECT_GT(planned.plan.breakdown.parameters, 2 * GiB);
}

TEST(MeasureMachine, CountsTheOpsThatItTimes) {
  const CacheFolder folder;
  Job job = tiny_job(folder);
  job.precision = Precision::fp32_true;
  const int timed = measure_machine(job, 60);
  EXPECT_GT(timed, 0);
  EXPECT_EQ(static_cast<size_t>(timed), inspect_machine(static_cast<int>(job.threads)).ops_timed);
  EXPECT_EQ(measure_machine(job, 60), 0) << "all have a time";
}

// Rates of kinds of ops can be too good for a job's ops. A micro batch whose ops were not timed is then predicted to be
// faster than the one whose ops were.
TEST(MeasureMachine, TimesTheMicroBatchThatIsChosenByItsTimes) {
  const CacheFolder folder;
  Job job = tiny_job(folder, 64);
  job.precision = Precision::fp32_true;
  job.batch_size = 16;
  job.micro_batch_size.reset();
  job.gradient_accumulation_steps.reset();
  inspect_machine(static_cast<int>(job.threads));
  // The name of the file depends on the instruction masks.
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "plimsoll"))
    if (entry.path().filename().string().starts_with("rates-1-threads")) file = entry.path();
  ASSERT_FALSE(file.empty());
  nlohmann::json rates = nlohmann::json::parse(get_file(file));
  rates["overhead_seconds"] = 1e-12;
  for (nlohmann::json& kind : rates["rates"])
    for (nlohmann::json& type : kind) type = {1e18, 1e18};
  put_file(file, rates.dump());

  // A smaller micro batch is considered if the largest one fits only with recomputation.
  const PlannedJob unlimited = plan_job(job);
  job.budget.device = (unlimited.plan.peak_bytes + unlimited.minimum_budget_bytes) / 2;
  const HotOps ops = hot_ops(plan_by_timed_ops(job, 60));
  EXPECT_GT(ops.seconds, 0);
  EXPECT_DOUBLE_EQ(ops.timed_seconds, ops.seconds);
}

}  // namespace
}  // namespace plimsoll
