#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TraceCommand : public CliTest {
 protected:
  TraceCommand() { put_tiny_job(); }

  json trace_json(Arguments options = {}) const {
    Arguments words = {"trace", "job.yaml", "--json", "-"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

TEST_F(TraceCommand, JsonHoldsOperatorsThatPointAtBuffers) {
  const json trace = trace_json();
  EXPECT_EQ(keys_of(trace), (std::set<std::string>{"buffers", "ops", "segments", "inputs", "outputs", "state"}));
  const size_t buffers = trace["buffers"].size(), ops = trace["ops"].size();
  ASSERT_GT(ops, 0u);
  for (const json& op : trace["ops"]) {
    json views = op["results"];
    for (const json& argument : op["arguments"])
      for (const json& view : argument.value("views", json::array())) views.push_back(view);
    for (const json& view : views) {
      if (view.is_null()) continue;
      ASSERT_LT(view["buffer"].get<size_t>(), buffers);
      const json& buffer = trace["buffers"][view["buffer"].get<size_t>()];
      EXPECT_LE(buffer["birth"], op["index"]);
      EXPECT_GT(buffer["death"], op["index"]);
    }
    const std::string name = op["name"];
    const int64_t staged = op["staged_bytes"];
    EXPECT_TRUE(staged == 0 || !name.starts_with("aten::mm")) << name;
    EXPECT_TRUE(staged > 0 || !name.starts_with("plimsoll::linear_cross_entropy")) << "its logits";
  }
  size_t at = 0;
  for (const json& segment : trace["segments"]) {
    EXPECT_EQ(segment["begin"], at);
    at = segment["end"];
  }
  EXPECT_EQ(at, ops);
}

TEST_F(TraceCommand, JsonNamesInputsOutputsAndState) {
  const json trace = trace_json();
  const auto names = [](const json& list) {
    std::set<std::string> found;
    for (const json& each : list) found.insert(each["name"]);
    return found;
  };
  EXPECT_TRUE(names(trace["inputs"]).contains("tokens"));
  EXPECT_TRUE(names(trace["outputs"]).contains("loss"));
  EXPECT_GE(trace["state"].size(), 3u);
}

TEST_F(TraceCommand, TheScheduleHasPlaces) {
  const json recorded = trace_json(), scheduled = trace_json({"--scheduled"});
  EXPECT_FALSE(recorded["buffers"][0].contains("offset"));
  size_t placed = 0;
  for (const json& buffer : scheduled["buffers"]) placed += !buffer["offset"].is_null();
  EXPECT_GT(placed, 0u);
  EXPECT_THAT(run({"trace", "job.yaml", "--scheduled"}).out, HasSubstr("offset"));
}

TEST_F(TraceCommand, TheListingShowsOperatorsBuffersAndTotals) {
  const Outcome outcome = run({"trace", "job.yaml"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Segments"), HasSubstr("\nOperators\n"), HasSubstr("\nBuffers\n"),
                                 HasSubstr("Totals by operator")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("aten::"), HasSubstr("float32["), HasSubstr(" -> "), HasSubstr("forward"),
                                 HasSubstr("backward"), HasSubstr(" flops")));
}

TEST_F(TraceCommand, SummaryLeavesTheListsOut) {
  const std::string out = run({"trace", "job.yaml", "--summary"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("Segments"), HasSubstr("Totals by operator"), Not(HasSubstr("\nOperators\n")),
                         Not(HasSubstr("\nBuffers\n"))));
}

TEST_F(TraceCommand, OneSegmentCanBeAskedFor) {
  const std::string out = run({"trace", "job.yaml", "--segment", "update"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("update"), Not(HasSubstr("initialize")), Not(HasSubstr("  forward  "))));
  const Outcome wrong = run({"trace", "job.yaml", "--segment", "updaet"});
  expect_refusal(wrong, 2, AllOf(HasSubstr("updaet"), HasSubstr("did you mean 'update'?"), HasSubstr("micro")));
}

TEST_F(TraceCommand, TheLimitCutsTheListsAndSaysSo) {
  const json trace = trace_json();
  const std::string out = run({"trace", "job.yaml", "--limit", "3"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("and " + std::to_string(trace["ops"].size() - 3) + " more operators"),
                         HasSubstr("and " + std::to_string(trace["buffers"].size() - 3) + " more buffers")));
  for (const char* wrong : {"0", "-1", "many", "1.5", "99999999999999999999"})
    expect_refusal(run({"trace", "job.yaml", "--limit", wrong}), 2, HasSubstr("--limit"));
}

class HotOps : public CliTest {
 protected:
  HotOps() {
    put_tiny_job();
    ::setenv("XDG_CACHE_HOME", folder().c_str(), 1);
  }
  ~HotOps() override { ::unsetenv("XDG_CACHE_HOME"); }
};

TEST_F(HotOps, AreTimedAndAddUp) {
  const Outcome outcome = run({"trace", "job.yaml", "--hot", "--json", "hot.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Ops of a step by time"), HasSubstr("all ops"), HasSubstr("1 thread"),
                                 HasSubstr("from ops that were timed")));
  const json hot = json::parse(get("hot.json"));
  const json trace = json::parse(run({"trace", "job.yaml", "--scheduled", "--json", "-"}).out);
  int64_t runs = 0, expected = 0;
  double seconds = 0, floor = 0, share = 0, before = 1e9;
  for (const json& op : hot["ops"]) {
    EXPECT_EQ(op["timed"], true) << op["name"];
    EXPECT_GT(op["seconds"], 0);
    EXPECT_LE(op["seconds"], before);
    before = op["seconds"];
    runs += op["runs"].get<int64_t>();
    seconds += op["seconds"].get<double>();
    floor += op["floor_seconds"].get<double>();
    share += op["share"].get<double>();
  }
  for (const json& segment : trace["segments"])  // a step of two micro batches
    if (const std::string name = segment["name"]; name == "micro" || name == "accumulate" || name == "update")
      expected += segment["end"].get<int64_t>() - segment["begin"].get<int64_t>();
  EXPECT_EQ(runs, expected);
  EXPECT_NEAR(seconds, hot["step_seconds"].get<double>(), 1e-9);
  EXPECT_NEAR(seconds, hot["timed_seconds"].get<double>(), 1e-9);
  EXPECT_NEAR(floor, hot["floor_seconds"].get<double>(), 1e-9);
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_GT(floor, 0);
}

TEST_F(HotOps, OfADeviceOfTheCatalogueArePredicted) {
  const Outcome outcome =
      run({"trace", "job.yaml", "--gpu", "a6000", "--json", "hot.json", "--segment", "update", "--hot", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("A6000"), HasSubstr("No op was timed"), HasSubstr("predicted"),
                                 HasSubstr("more kinds"), HasSubstr("Ops of segment update by time")));
  const json hot = json::parse(get("hot.json"));
  EXPECT_EQ(hot["timed_seconds"], 0);
  for (const json& op : hot["ops"]) EXPECT_EQ(op["timed"], false);
}

TEST_F(HotOps, WrongArgumentsAreRefused) {
  expect_refusal(run({"trace", "job.yaml", "--hot", "max_stpes=8"}), 2, HasSubstr("max_stpes"));  // an override
  expect_refusal(run({"trace", "job.yaml", "--hot", "many"}), 2, AllOf(HasSubstr("--hot"), HasSubstr("many")));
  expect_refusal(run({"trace", "job.yaml", "--hot=0"}), 2, HasSubstr("--hot"));
  expect_refusal(run({"trace", "job.yaml", "--measure", "3"}), 2, HasSubstr("--hot"));
  expect_refusal(run({"trace", "job.yaml", "--gpu", "a6000"}), 2, HasSubstr("--hot"));
  expect_refusal(run({"trace", "job.yaml", "--summary", "--hot"}), 2, HasSubstr("--summary"));
  expect_refusal(run({"trace", "job.yaml", "--gpu", "a6001", "--hot"}), 2, HasSubstr("a6001"));
  expect_refusal(run({"trace", "job.yaml", "--gpu", "a6000", "--segment", "updaet", "--hot"}), 2, HasSubstr("updaet"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
