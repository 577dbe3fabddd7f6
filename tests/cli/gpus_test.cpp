#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;

class GpusCommand : public CliTest {
 protected:
  json list(Arguments arguments) const {
    arguments.insert(arguments.begin(), "gpus");
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(keys_of(result), (std::set<std::string>{"gpus"}));
    return result["gpus"];
  }

  std::vector<std::string> ids(const Arguments& arguments) const {
    std::vector<std::string> found;
    for (const json& gpu : list(arguments)) found.push_back(gpu["id"]);
    return found;
  }
};

TEST_F(GpusCommand, ListsThemAll) {
  const Outcome outcome = run({"gpus"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("usable GiB"), HasSubstr("bf16")));
  EXPECT_THAT(outcome.out, ContainsRegex("a6000 +NVIDIA RTX A6000 +47\\.40 +48 +768 +154.8 +154.8 +38.7\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("gtx1080ti .* - +11.3 +11.3\n"));
  EXPECT_THAT(std::ranges::count(outcome.out, '\n'), Gt(60));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

TEST_F(GpusCommand, ShowsOneInFullWithItsSources) {
  for (const char* name : {"a6000", "nvidia-a6000", "RTX A6000"}) {
    const Outcome outcome = run({"gpus", name});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("NVIDIA RTX A6000 (a6000)"), HasSubstr("47.4 GiB"), HasSubstr("48.0 GiB"),
                                   HasSubstr("154.8 TFLOP/s"), HasSubstr("31.5 GB/s")));
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Sources"), HasSubstr("RTX A6000 data sheet, 2020"), HasSubstr("usable: "),
                                   HasSubstr("context: derived: ")));
  }
}

TEST_F(GpusCommand, TakesPatterns) {
  EXPECT_THAT(ids({"h100", "a6000"}), ::testing::ElementsAre("a6000", "h100-pcie", "h100-sxm", "h100-nvl"));
  EXPECT_THAT(ids({"a6000", "A6000"}), ::testing::ElementsAre("a6000"));
  EXPECT_THAT(ids({"Tesla V100-SXM2-16GB"}), ::testing::ElementsAre("v100-sxm2-16gb"));
}

TEST_F(GpusCommand, TakesAVendorAndALeastMemory) {
  const json apple = list({"--vendor", "apple", "--min-memory", "128GiB"});
  ASSERT_FALSE(apple.empty());
  for (const json& gpu : apple) {
    EXPECT_EQ(gpu["vendor"], "apple");
    EXPECT_GE(gpu["memory_bytes"].get<int64_t>(), int64_t{128} << 30);
  }
  // Nominal: a 48 GB card is one although a program gets less.
  EXPECT_THAT(ids({"a6000", "rtx3090", "--min-memory", "48GiB"}), ::testing::ElementsAre("a6000"));
}

TEST_F(GpusCommand, NothingSoIsAnAnswer) {
  EXPECT_TRUE(list({"a6000", "--vendor", "amd"}).empty());
  const Outcome outcome = run({"gpus", "--min-memory", "4TiB"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("no GPU"));
}

TEST_F(GpusCommand, JsonHasEveryFigureInUnitsOfOne) {
  const json gpus = list({"a6000"});
  ASSERT_EQ(gpus.size(), 1u);
  const json& gpu = gpus[0];
  EXPECT_EQ(keys_of(gpu), (std::set<std::string>{"id",
                                                 "name",
                                                 "aliases",
                                                 "vendor",
                                                 "architecture",
                                                 "year",
                                                 "device",
                                                 "memory_bytes",
                                                 "usable_bytes",
                                                 "context_bytes",
                                                 "library_workspace_bytes",
                                                 "unified_memory",
                                                 "memory_bandwidth",
                                                 "rates",
                                                 "host_link",
                                                 "pcie_generation",
                                                 "peer_link",
                                                 "bridge",
                                                 "launch_seconds",
                                                 "sources"}));
  EXPECT_EQ(gpu["memory_bytes"], int64_t{48} << 30);
  EXPECT_EQ(gpu["memory_bandwidth"], 768e9);
  EXPECT_EQ(gpu["rates"]["bf16"], 154.8e12);
  EXPECT_EQ(gpu["rates"]["fp8"], 0);
  EXPECT_EQ(gpu["device"], "cuda");
  EXPECT_EQ(gpu["peer_link"], "pcie4-x16");
  EXPECT_EQ(gpu["bridge"], "nvlink3-bridge");
  EXPECT_EQ(list({"h200"})[0]["bridge"], nullptr);
  EXPECT_GE(gpu["sources"].size(), 6u);
}

TEST_F(GpusCommand, WritesJsonBesideTheTable) {
  const Outcome outcome = run({"gpus", "l40s", "--json", "gpus.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("NVIDIA L40S"));
  EXPECT_EQ(json::parse(get("gpus.json"))["gpus"][0]["id"], "l40s");
}

TEST_F(GpusCommand, ListsLinksWithTheirSources) {
  const Outcome outcome = run({"gpus", "--links", "--json", "links.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("nvlink4"), HasSubstr("InfiniBand NDR"), HasSubstr("Sources")));
  const json links = json::parse(get("links.json"))["links"];
  ASSERT_GT(links.size(), 20u);
  for (const json& link : links) {
    EXPECT_EQ(keys_of(link), (std::set<std::string>{"id", "name", "aliases", "between_machines", "max_devices",
                                                    "bytes_per_second", "reach", "latency_seconds", "sources"}));
    EXPECT_GE(link["sources"].size(), 3u);
  }
  expect_refusal(run({"gpus", "a6000", "--links"}), 2, HasSubstr("--links lists all links"));
}

TEST_F(GpusCommand, RefusesWhatItDoesNotKnow) {
  expect_refusal(run({"gpus", "a60000"}), 2, AllOf(HasSubstr("'a60000'"), HasSubstr("did you mean a6000")));
  expect_refusal(run({"gpus", "a6000", "toaster"}), 2, HasSubstr("'toaster'"));
  expect_refusal(run({"gpus", ""}), 2, HasSubstr("unknown GPU ''"));
  expect_refusal(run({"gpus", "--vendor", "nvidea"}), 2, AllOf(HasSubstr("--vendor"), HasSubstr("'nvidia'")));
  expect_refusal(run({"gpus", "--min-memory", "much"}), 2, HasSubstr("--min-memory"));
  expect_refusal(run({"gpus", "--memory", "1GiB"}), 2, HasSubstr("--memory"));
  expect_refusal(run({"gpus", "--json", "absent/gpus.json"}), 2, HasSubstr("absent"));
}

TEST_F(GpusCommand, HelpHasExamples) {
  const Outcome outcome = run({"gpus", "--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("plimsoll gpus a6000"), HasSubstr("--min-memory"), HasSubstr("PATTERN")));
}

}  // namespace
}  // namespace plimsoll::cli_testing
