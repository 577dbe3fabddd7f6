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

}  // namespace
}  // namespace plimsoll::cli_testing
