// Tests the agreement of ranks, which are threads of this process.
#include "train/rank_agreement.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "collectives/ranks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `work` on `size` ranks; returns its results by rank.
template <typename Result>
std::vector<Result> on_ranks(int size, const std::function<Result(const RankAgreement&, int64_t rank)>& work) {
  std::vector<Result> results(static_cast<size_t>(size));
  for (const std::string& error : run_ranks(size, [&](Exchange& exchange) {
         results[static_cast<size_t>(exchange.rank())] = work(RankAgreement(&exchange), exchange.rank());
       }))
    EXPECT_EQ(error, "");
  return results;
}

PlanTarget budget_target(std::optional<int64_t> device, int64_t host, int64_t disk) {
  PlanTarget target;
  target.device = "cuda";
  target.budget.device = device;
  target.budget.host = host;
  target.budget.disk = disk;
  target.budget_reason = "of this device";
  return target;
}

TEST(RankAgreement, OneRankAgreesWithItself) {
  const RankAgreement alone(nullptr);
  EXPECT_EQ(alone.ranks(), 1);
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_TRUE(alone.leads());
  PlanTarget target = budget_target(GiB, 5, 6);
  alone.agree_on_min_budget(target, true);
  EXPECT_EQ(target.budget, budget_target(GiB, 5, 6).budget);
  EXPECT_EQ(target.budget_reason, "of this device");
  PlannedJob planned;
  planned.settings.micro_batch_size = 1;
  planned.settings.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  EXPECT_TRUE(alone.same_choices(planned));
  EXPECT_TRUE(alone.any(true));
  EXPECT_FALSE(alone.any(false));
  EXPECT_TRUE(alone.between_steps(true, {}).stop);
  EXPECT_FALSE(alone.between_steps(false, {}).stop);
  EXPECT_TRUE(alone.between_steps(false, {}).ranks.empty());
  EXPECT_THAT(alone.in_turn({1, 2}, 2), ElementsAre(1, 2));
  std::map<std::string, at::Tensor> sums{{"loss", at::ones({2}, at::kDouble)}};
  alone.add_up(sums);
  EXPECT_EQ(sums.at("loss").sum().item<double>(), 2);
}

std::vector<std::string> refusals_of_jobs(const std::vector<Job>& jobs) {
  return run_ranks(static_cast<int>(jobs.size()), [&](Exchange& exchange) {
    RankAgreement(&exchange).require_same_job(jobs[static_cast<size_t>(exchange.rank())]);
  });
}

TEST(RankAgreement, JobsThatDifferAreNamedByTheirKey) {
  Job job;
  job.batch_size = 4;
  job.data.files = {"a/text.txt"};
  const std::map<std::string, std::function<void(Job&)>> changes = {
      {"max_steps is 7 on rank 1 and 1000 on rank 0", [](Job& o) { o.max_steps = 7; }},
      {"seed is 3 on rank 1 and 0 on rank 0", [](Job& o) { o.seed = 3; }},
      {"batch_size is 8 on rank 1 and 4 on rank 0", [](Job& o) { o.batch_size = 8; }},
      {"gradient_accumulation_steps is 2 on rank 1 and auto",
       [](Job& o) {
         o.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
       }},
      {"optimizer.learning_rate is 0.5 on rank 1", [](Job& o) { o.optimizer.learning_rate = 0.5; }},
      {"model.hidden_size is 96 on rank 1", [](Job& o) { o.model.decoder.hidden_size = 96; }},
      {"data.files is other.txt on rank 1 and text.txt on rank 0", [](Job& o) { o.data.files = {"a/other.txt"}; }},
      {"precision is auto on rank 1 and 32-true on rank 0", [](Job& o) { o.precision = Precision::automatic; }},
      {"lora.rank is 8 on rank 1 and not set", [](Job& o) { o.fine_tuning.lora.modules = {"*.qkv"}; }},
      {"checkpoint.directory is runs on rank 1 and none on rank 0", [](Job& o) { o.checkpoint.directory = "runs"; }},
  };
  for (const auto& [message, change] : changes) {
    Job other = job;
    change(other);
    for (const std::string& error : refusals_of_jobs({job, other, job})) EXPECT_THAT(error, HasSubstr(message));
  }
}

TEST(RankAgreement, JobsMayDifferInWhatIsOfTheHost) {
  Job job, other;
  job.data.files = {"a/text.txt"};
  other.data.files = {"b/text.txt"};
  other.threads = 3;
  other.budget.device = GiB;
  other.log.metrics_file = "metrics.jsonl";
  for (const std::string& error : refusals_of_jobs({job, other})) EXPECT_EQ(error, "");
}

TEST(RankAgreement, TheLeastBudgetOfEachMemoryCounts) {
  for (const bool stated : {true, false}) {
    const auto targets = on_ranks<PlanTarget>(3, [&](const RankAgreement& agreement, int64_t rank) {
      const int64_t device[] = {3 * GiB, 2 * GiB, 4 * GiB}, host[] = {70, 80, 60}, disk[] = {5, 6, 7};
      PlanTarget target = budget_target(device[rank], host[rank], disk[rank]);
      agreement.agree_on_min_budget(target, stated);
      return target;
    });
    for (const PlanTarget& target : targets) {
      EXPECT_EQ(target.budget, budget_target(2 * GiB, 60, 5).budget);
      if (stated)
        EXPECT_THAT(target.budget_reason, AllOf(HasSubstr("from 2.00 GiB to 4.00 GiB"), HasSubstr("least")));
      else
        EXPECT_EQ(target.budget_reason, "of this device");
    }
  }
}

TEST(RankAgreement, BudgetsThatAreAlikeAndNoLimitStay) {
  for (const PlanTarget& target : on_ranks<PlanTarget>(2, [](const RankAgreement&agreement, int64_t) {
         PlanTarget own = budget_target(GiB, 0, 0);
         agreement.agree_on_min_budget(own, true);
         return own;
       })) {
    EXPECT_EQ(target.budget.device, GiB);
    EXPECT_EQ(target.budget_reason, "of this device");
  }
  for (const PlanTarget& target : on_ranks<PlanTarget>(2, [](const RankAgreement&agreement, int64_t) {
         PlanTarget own = budget_target(std::nullopt, 9, 9);
         agreement.agree_on_min_budget(own, false);
         return own;
       }))
    EXPECT_EQ(target.budget.device, std::nullopt);
}

// With one exchange of `elements` elements in segment micro.
PlannedJob planned_with(int64_t elements) {
  PlannedJob planned;
  planned.settings.ranks.strategy = Strategy::zero3;
  planned.settings.precision = Precision::bf16_true;
  planned.settings.optimizer.state_dtype = StateDtype::bits8;
  planned.settings.optimizer.weight_update = WeightUpdate::split;
  planned.settings.accumulator_dtype = AccumulatorDtype::float32;
  planned.settings.micro_batch_size = 6;
  planned.settings.gradient_accumulation_steps = AccumulationSchedule{{0, 2}, {3, 8}};
  planned.plan.update_in_backward = true;
  Op op;
  op.name = "plimsoll::all_gather_";
  op.link_bytes = 100;
  op.arguments = {{Argument::Kind::tensor, true, {View{0, DType::float32, 0, {elements}, {1}}}}};
  planned.plan.trace.ops = {op};
  planned.plan.trace.segments = {{SegmentKind::micro, 0, 1}};
  return planned;
}

// By rank, whether the choices are the same on all if `change` is made on the last of three.
std::vector<int> same_if(const std::function<void(PlannedJob&)>& change) {
  return on_ranks<int>(3, [&](const RankAgreement& agreement, int64_t rank) {
    PlannedJob planned = planned_with(64);
    if (rank == 2) change(planned);
    return agreement.same_choices(planned) ? 1 : 0;
  });
}

TEST(RankAgreement, EveryChoiceThatDecidesWhatIsExchangedMustBeTheSame) {
  EXPECT_THAT(same_if([](PlannedJob&) {}), ElementsAre(1, 1, 1));
  const std::vector<std::function<void(PlannedJob&)>> changes = {
      [](PlannedJob& job) { job.settings.ranks.strategy = Strategy::zero2; },
      [](PlannedJob& job) { job.settings.precision = Precision::fp32_true; },
      [](PlannedJob& job) { job.settings.optimizer.state_dtype = StateDtype::bits4; },
      [](PlannedJob& job) { job.settings.optimizer.weight_update = WeightUpdate::master; },
      [](PlannedJob& job) { job.settings.accumulator_dtype = AccumulatorDtype::as_gradients; },
      [](PlannedJob& job) { job.settings.micro_batch_size = 3; },
      [](PlannedJob& job) { (*job.settings.gradient_accumulation_steps)[3] = 4; },
      [](PlannedJob& job) { job.plan.update_in_backward = false; },
      [](PlannedJob& job) { job.plan.trace = planned_with(65).plan.trace; },
      [](PlannedJob& job) { job.plan.trace.segments[0].kind = SegmentKind::evaluate; },
  };
  for (size_t i = 0; i < changes.size(); ++i) EXPECT_THAT(same_if(changes[i]), ElementsAre(0, 0, 0)) << "change " << i;
}

// Kept values, offload and placement may differ.
TEST(RankAgreement, OtherChoicesMayDiffer) {
  EXPECT_THAT(same_if([](PlannedJob& job) {
                job.settings.budget.device = 5;
                job.plan.choices.offload = true;
                Op op;
                op.name = "aten::mm.out";
                job.plan.trace.ops.push_back(op);
                job.plan.trace.segments[0].end = 2;
              }),
              ElementsAre(1, 1, 1));
}

TEST(RankAgreement, AllTakeTheChoicesOfTheFirst) {
  for (const Job& job : on_ranks<Job>(2, [](const RankAgreement&agreement, int64_t rank) {
         PlannedJob planned;
         planned.settings.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
         planned.settings.micro_batch_size = 1;
         Job requested;
         requested.max_steps = 77;
         return agreement.first_rank_choices(requested, rank == 0 ? planned_with(64) : planned);
       })) {
    EXPECT_EQ(job.ranks.strategy, Strategy::zero3);
    EXPECT_EQ(job.precision, Precision::bf16_true);
    EXPECT_EQ(job.optimizer.state_dtype, StateDtype::bits8);
    EXPECT_EQ(job.optimizer.weight_update, WeightUpdate::split);
    EXPECT_EQ(job.accumulator_dtype, AccumulatorDtype::float32);
    EXPECT_EQ(job.micro_batch_size, 6);
    EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 2}, {3, 8}}));
    EXPECT_EQ(job.update_in_backward, Choice::on);
    EXPECT_EQ(job.max_steps, 77) << "all else is as the job has it";
  }
}

TEST(RankAgreement, WhatOneRankWantsAllHear) {
  for (const int64_t wants : {-1, 0, 1, 2})
    EXPECT_THAT(on_ranks<int>(3, [&](const RankAgreement& agreement,
                                     int64_t rank) { return agreement.any(rank == wants) ? 1 : 0; }),
                ::testing::Each(wants >= 0 ? 1 : 0));
}

TEST(RankAgreement, TheProfileIsThatOfTheFirst) {
  const auto profiles = on_ranks<std::optional<ProfileOptions>>(3, [](const RankAgreement& agreement, int64_t rank) {
    return agreement.first_rank_profile({.file = "profile.json", .first_step = 7 + rank, .steps = 5 + rank});
  });
  for (size_t rank = 0; rank < profiles.size(); ++rank) {
    ASSERT_TRUE(profiles[rank]);
    EXPECT_EQ(profiles[rank]->file, rank == 0 ? "profile.json" : "");
    EXPECT_EQ(profiles[rank]->first_step, 7);
    EXPECT_EQ(profiles[rank]->steps, 5);
  }
  for (const auto& none : on_ranks<std::optional<ProfileOptions>>(2, [](const RankAgreement&agreement, int64_t rank) {
         return agreement.first_rank_profile(rank == 1 ? ProfileOptions{.file = "other.json"} : ProfileOptions{});
       }))
    EXPECT_FALSE(none);
  EXPECT_EQ(RankAgreement(nullptr).first_rank_profile({.file = "a"})->file, "a");
  EXPECT_FALSE(RankAgreement(nullptr).first_rank_profile({}));
}

TEST(RankAgreement, AllHaveTheFiguresOfAllBetweenSteps) {
  for (const int64_t stops : {-1, 0, 2})
    for (const auto& [stop, ranks] :
         on_ranks<RankAgreement::BetweenSteps>(3, [&](const RankAgreement&agreement, int64_t rank) {
           return agreement.between_steps(rank == stops, {.memory_used = 100 + rank,
                                                          .memory_planned = 200 + rank,
                                                          .exchange_seconds = 0.25 * static_cast<double>(rank),
                                                          .train_seconds = 2});
         })) {
      EXPECT_EQ(stop, stops >= 0);
      ASSERT_EQ(ranks.size(), 3u);
      for (int64_t rank = 0; rank < 3; ++rank) {
        const RankProgress& of = ranks[static_cast<size_t>(rank)];
        EXPECT_EQ(of.memory_used, 100 + rank);
        EXPECT_EQ(of.memory_planned, 200 + rank);
        EXPECT_EQ(of.exchange_seconds, 0.25 * static_cast<double>(rank));
        EXPECT_EQ(of.train_seconds, 2);
        EXPECT_EQ(of.pid, ::getpid());
        EXPECT_FALSE(of.host.empty());
      }
    }
}

// More numbers than one text carries; the last ranks may have one less.
TEST(RankAgreement, NumbersOfAllRanksInTurn) {
  for (const int size : {2, 3})
    for (const int64_t count : {0, 1, 4, 5, 256, 2000}) {
      std::vector<double> expected;
      for (int64_t i = 0; i < count; ++i) expected.push_back(static_cast<double>(i) / 7);
      const auto results = on_ranks<std::vector<double>>(size, [&](const RankAgreement& agreement, int64_t rank) {
        std::vector<double> own;
        for (int64_t i = rank; i < count; i += size) own.push_back(expected[static_cast<size_t>(i)]);
        return agreement.in_turn(own, count);
      });
      for (const std::vector<double>& each : results) EXPECT_EQ(each, expected) << count << " on " << size;
    }
}

// 1e16 + 1 - 1e16 is 0 in this order, and 1 in another.
TEST(RankAgreement, SumsAreAddedInRankOrder) {
  for (const auto& sums :
       on_ranks<std::map<std::string, at::Tensor>>(3, [](const RankAgreement&agreement, int64_t rank) {
         const double own[] = {1e16, 1, -1e16};
         std::map<std::string, at::Tensor> parts{{"a sum", at::full({2, 3}, own[rank], at::kDouble)},
                                                 {"count", at::scalar_tensor(rank + 1, at::kDouble)}};
         agreement.add_up(parts);
         return parts;
       })) {
    ASSERT_EQ(sums.size(), 2u);
    EXPECT_TRUE(at::equal(sums.at("a sum"), at::zeros({2, 3}, at::kDouble)));
    EXPECT_EQ(sums.at("count").dim(), 0);
    EXPECT_EQ(sums.at("count").item<double>(), 6);
  }
}

TEST(RankAgreement, ARankWithoutSumsGetsThoseOfOthers) {
  for (const auto& sums :
       on_ranks<std::map<std::string, at::Tensor>>(3, [](const RankAgreement&agreement, int64_t rank) {
         std::map<std::string, at::Tensor> parts;
         if (rank == 1) parts = {{"x", at::full({2}, 5, at::kDouble)}, {"y", at::scalar_tensor(2, at::kDouble)}};
         agreement.add_up(parts);
         return parts;
       })) {
    ASSERT_EQ(sums.size(), 2u);
    EXPECT_TRUE(at::equal(sums.at("x"), at::full({2}, 5, at::kDouble)));
    EXPECT_EQ(sums.at("y").item<double>(), 2);
  }
  for (const auto& sums : on_ranks<std::map<std::string, at::Tensor>>(2, [](const RankAgreement&agreement, int64_t) {
         std::map<std::string, at::Tensor> none;
         agreement.add_up(none);
         return none;
       }))
    EXPECT_TRUE(sums.empty());
}

TEST(RankAgreement, AnErrorOfOneRankEndsTheOthers) {
  const std::vector<std::string> errors = run_ranks(3, [](Exchange& exchange) {
    const RankAgreement agreement(&exchange);
    if (exchange.rank() == 1) throw InternalError("the disk is full");
    agreement.any(false);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("the disk is full"));
}

}  // namespace
}  // namespace plimsoll
