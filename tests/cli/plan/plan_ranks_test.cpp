// Tests rows and fields of a plan for several devices, and the options that request it.
#include "cli/plan/plan_ranks.h"

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A plan for one of 4 devices: 2 micro batches with an exchange of 1 MB each, an update with one of 3 MB; the link
// carries 1 GB/s after 1 ms.
PlannedJob exchanging() {
  PlannedJob planned;
  planned.settings.ranks.count = 4;
  planned.settings.link = "a link";
  planned.settings.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  planned.settings.cost = {};  // an op has no overhead
  planned.settings.cost.peer_link = 1e9;
  planned.settings.cost.peer_latency = 1e-3;
  planned.step_seconds = 0.1;
  planned.tokens_per_second = 1000;
  planned.plan.fits = true;
  for (const auto& [segment, bytes] : std::vector<std::pair<SegmentKind, int64_t>>{
           {SegmentKind::micro, 1'000'000}, {SegmentKind::accumulate, 1'000'000}, {SegmentKind::update, 3'000'000}}) {
    Op op;
    op.name = "plimsoll::reduce_scatter_";
    op.link_bytes = bytes;
    planned.plan.trace.ops.push_back(op);
    const auto end = static_cast<int32_t>(planned.plan.trace.ops.size());
    planned.plan.trace.segments.push_back({segment, end - 1, end});
  }
  return planned;
}

std::string text_of_rows(const PlannedJob& planned) {
  std::string text;
  for (const auto& [name, value] : cli::rank_rows(Job(), planned)) text += name + ": " + value + "\n";
  return text;
}

TEST(PlanRanks, SaysWhatIsSentAndHowLongThatTakes) {
  EXPECT_THAT(
      text_of_rows(exchanging()),
      AllOf(HasSubstr("devices: 4; "), HasSubstr("link: a link; 1.0 GB/s per device"),
            HasSubstr("(5000000 bytes) per device, in 3 exchanges"),
            HasSubstr("exchanges: 8.00 ms on the links, of which ops wait 8.00 ms; the step takes 92.0 ms without the "
                      "links"),
            HasSubstr("all devices: 4.00 k ")));
}

TEST(PlanRanks, OfWhatDoesNotFitHasNoTimes) {
  PlannedJob planned = exchanging();
  planned.plan.fits = false;
  EXPECT_THAT(text_of_rows(planned),
              AllOf(HasSubstr("5000000 bytes"), Not(HasSubstr("on the links")), Not(HasSubstr("all devices"))));
}

TEST(PlanRanks, OfOneDeviceHasNone) {
  PlannedJob planned = exchanging();
  planned.settings.ranks.count = 1;
  EXPECT_EQ(text_of_rows(planned), "");
  EXPECT_EQ(cli::strategy_of(Job(), planned), "");
}

TEST(PlanRanks, TakeTheStrategyOfThePlanner) {
  PlannedJob planned = exchanging();
  Job job;
  EXPECT_EQ(cli::strategy_of(job, planned), "auto");
  job.ranks.strategy = Strategy::zero3;
  EXPECT_EQ(cli::strategy_of(job, planned), "zero3");
  planned.plan.reasons = {{"precision: 32-true", "set"}, {"strategy: zero2", "the fastest that fits"}};
  EXPECT_EQ(cli::strategy_of(job, planned), "zero2");
}

TEST(PlanRanks, WithoutExchangesAreNotKnown) {
  PlannedJob planned = exchanging();
  planned.plan.trace = {};
  EXPECT_THAT(text_of_rows(planned), AllOf(HasSubstr("not known: no exchanges"), Not(HasSubstr("all devices"))));
  cli::Json json;
  cli::add_ranks(json, Job(), planned);
  for (const char* key : {"link_bytes_per_step", "exchange_seconds_per_step", "units_per_second_all_devices"})
    EXPECT_EQ(json[key], nullptr) << key;
}

TEST(PlanRanks, StandInTheJson) {
  cli::Json json;
  cli::add_ranks(json, Job(), exchanging());
  EXPECT_EQ(json["devices"], 4);
  EXPECT_EQ(json["strategy"], "auto");
  EXPECT_EQ(json["link"], "a link");
  EXPECT_EQ(json["link_bytes_per_step"], 5'000'000);
  EXPECT_NEAR(json["exchange_seconds_per_step"].get<double>(), 8e-3, 1e-9);
  EXPECT_NEAR(json["exchange_wait_seconds_per_step"].get<double>(), 8e-3, 1e-9);
  EXPECT_EQ(json["units_per_second_all_devices"], 4000);
}

class PlanForDevices : public CliTest {
 protected:
  PlanForDevices() { put_tiny_job(); }

  json planned(Arguments options) const {
    // A batch that devices and micro batches divide.
    Arguments words = {"plan", "job.yaml", "batch_size=32", "--json", "-"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

TEST_F(PlanForDevices, HasTheLinkOfTheDeviceOrTheOneThatIsNamed) {
  const json defaults = planned({"--gpu", "a6000", "--devices", "8"});
  EXPECT_EQ(defaults["devices"], 8);
  EXPECT_EQ(defaults["link"], "PCI Express 4.0 x16");
  EXPECT_THAT(planned({"--gpu", "a6000", "--devices", "2", "--link", "nvlink3"})["link"].get<std::string>(),
              HasSubstr("NVLink 3 bridge"));
  EXPECT_THAT(planned({"--gpu", "h100-sxm", "--devices", "16", "--network", "ndr"})["link"].get<std::string>(),
              AllOf(HasSubstr("NVLink 4"), HasSubstr("between 8 devices"), HasSubstr("InfiniBand NDR")));
  EXPECT_EQ(planned({"--devices", "2"})["link"], "shared memory of one host");
  const json one = planned({"--gpu", "a6000"});
  EXPECT_EQ(one["devices"], 1);
  EXPECT_EQ(one["link"], nullptr);
  EXPECT_EQ(one["strategy"], nullptr);
}

TEST_F(PlanForDevices, TellsTheRowsOfOneDevice) {
  const Outcome outcome =
      run({"plan", "job.yaml", "batch_size=32", "--gpu", "a6000", "--devices", "8", "--html", "plan.html"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PCI Express 4.0 x16"), HasSubstr("sent per step"), HasSubstr("per device")));
  EXPECT_THAT(get("plan.html"), HasSubstr("PCI Express 4.0 x16"));
}

TEST_F(PlanForDevices, ComparesNumbersOfThem) {
  const Outcome outcome = run({"plan", "job.yaml", "--gpu", "a6000", "--devices", "1,2,4", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("Numbers of devices"), HasSubstr("100.0 %"), HasSubstr("compared with 1 device.")));
  const json counts = json::parse(get("plan.json"))["device_counts"];
  ASSERT_EQ(counts.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(counts[i]["devices"], 1 << i);
  EXPECT_EQ(counts[0]["efficiency"], 1);
}

// The bytes that each device sends, and the seconds this takes.
TEST_F(PlanForDevices, CountsExchanges) {
  const json plan = planned({"--gpu", "a6000", "--devices", "4"});
  EXPECT_GT(plan["link_bytes_per_step"], 0);
  EXPECT_GT(plan["exchange_seconds_per_step"], 0);
  EXPECT_LT(plan["exchange_seconds_per_step"], plan["step_seconds"]);
  EXPECT_EQ(plan["units_per_second_all_devices"], 4 * plan["units_per_second"].get<double>());
  EXPECT_LT(planned({"--gpu", "a6000", "--devices", "4", "--link", "nvlink5"})["exchange_seconds_per_step"],
            plan["exchange_seconds_per_step"]);
}

TEST_F(PlanForDevices, RefusesWhatIsNone) {
  const auto refused = [&](Arguments options, const auto& says) {
    Arguments words = {"plan", "job.yaml", "batch_size=32"};
    words.insert(words.end(), options.begin(), options.end());
    expect_refusal(run(words), 2, says);
  };
  refused({"--devices", "0"}, HasSubstr("--devices"));
  refused({"--devices", "many"}, HasSubstr("--devices"));
  refused({"--gpu", "a6000", "--link", "nvlink3"}, HasSubstr("add --devices N"));
  refused({"--gpu", "a6000", "--devices", "8", "--link", "nvlnk3"}, HasSubstr("did you mean nvlink3"));
  refused({"--gpu", "rtx4090", "--devices", "8", "--link", "nvlink"}, HasSubstr("has no NVLink"));
  refused({"--gpu", "a6000,l40s", "--devices", "1,2"}, HasSubstr("compare either"));
  refused({"--devices", "1,2", "--frontier"}, HasSubstr("one number with --devices"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
