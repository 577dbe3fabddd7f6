// Tests a run whose checkpoint cannot be written: it ends with its report, which names the whole checkpoint.
#include <sys/resource.h>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FullDisk : public CliTest {
 protected:
  FullDisk() { put_tiny_job(); }

  /// Trains with a limit for each file that a checkpoint does not fit into.
  Outcome train_on_a_full_disk() const {
    return run_with(
        [] {
          const rlimit limit{64 << 10, 64 << 10};
          ::setrlimit(RLIMIT_FSIZE, &limit);
        },
        {"train", "job.yaml", "checkpoint.directory=run", "checkpoint.every_n_steps=2", "--json", "report.json"});
  }
};

TEST_F(FullDisk, TheReportSaysThatNoCheckpointIsWhole) {
  const Outcome outcome = train_on_a_full_disk();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the checkpoint of step 2, with which the run ends"),
                                 HasSubstr("no earlier one was saved"),
                                 HasSubstr("the run ended after step 2, but some outputs could not be written")));
  const json report = json::parse(get("report.json"));
  EXPECT_EQ(report["steps"], 2);
  EXPECT_EQ(report["stopped"], true);
  EXPECT_EQ(report["losses"].size(), 2u);
}

TEST_F(FullDisk, TheReportNamesTheWholeCheckpoint) {
  ASSERT_EQ(run({"train", "job.yaml", "checkpoint.directory=run", "max_steps=2"}).exit_code, 0);
  const Outcome outcome = train_on_a_full_disk();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("the checkpoint of step 4"), HasSubstr("step-00000002.safetensors is whole")));
  EXPECT_EQ(json::parse(get("report.json"))["steps"], 4);
}

}  // namespace
}  // namespace plimsoll::cli_testing
