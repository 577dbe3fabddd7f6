// Tests that a missing GPU is rejected immediately, and that a name of several devices is rejected with their names.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class MissingDevice : public CliTest {
 protected:
  MissingDevice() { put_tiny_job(); }
};

// A device that no machine of these tests has. The error comes before planning: the missing text is not reported.
TEST_F(MissingDevice, IsRefusedBeforeAnythingIsPlanned) {
  for (const char* command : {"train", "compare"})
    expect_refusal(
        run({command, "job.yaml", "device=mps", "memory_budget=1GiB"}), 1,
        AllOf(HasSubstr("device 'mps' cannot be used"), HasSubstr("plimsoll plan JOB.yaml --gpu NAME"),
              HasSubstr("; 'plimsoll plan JOB.yaml device=cpu' says whether and how fast it trains on the CPU")));
  const Outcome large = run({"train", "job.yaml", "device=mps", "model.num_layers=2000", "model.hidden_size=8192"});
  expect_refusal(large, 1, HasSubstr("device 'mps' cannot be used"));
  EXPECT_THAT(large.err, ::testing::Not(HasSubstr("planning")));
  EXPECT_EQ(run({"train", "job.yaml", "device=cpu", "memory_budget=1GiB"}).exit_code, 0);
}

TEST_F(MissingDevice, ANameOfSeveralDevicesIsAnError) {
  expect_refusal(run({"plan", "job.yaml", "--gpu", "a100"}), 2,
                 AllOf(HasSubstr("a100-40gb-pcie"), HasSubstr("a100-80gb-sxm"), HasSubstr("name one")));
  expect_refusal(run({"plan", "job.yaml", "--gpu", "rtx4090,rtx3080"}), 2, HasSubstr("rtx3080-10gb and rtx3080-12gb"));
  expect_refusal(run({"trace", "job.yaml", "--gpu", "v100", "--hot"}), 2, HasSubstr("v100-sxm2-32gb"));
}

TEST_F(MissingDevice, ACardWithoutBfloat16IsPlannedWithAWarning) {
  const Outcome outcome = run({"plan", "job.yaml", "--gpu", "v100-sxm2-16gb", "precision=bf16-mixed"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              ContainsRegex("^fits: [^\n]*\neffective batch [^\n]*\nprecision: bf16-mixed is set in the job, but "
                            "NVIDIA Tesla V100 SXM2 16GB has no bfloat16:[ \n]+matmul[ \n]+is[ \n]+no[ \n]+faster[ \n]+"
                            "than[ \n]+in[ \n]+float32"));
  EXPECT_THAT(outcome.out, ContainsRegex("precision:[ \n]+auto[ \n]+chooses[ \n]+the[ \n]+fastest"));
  EXPECT_THAT(run({"plan", "job.yaml", "--gpu", "rtx3090,v100-sxm2-16gb", "precision=bf16-mixed"}).out,
              HasSubstr("\nNVIDIA Tesla V100 SXM2 16GB: precision: bf16-mixed is set in the job"));
}

/// The first check of `make train-small-KIND`, on a fake machine.
Outcome what_is_missing(const std::filesystem::path& folder, const std::string& kind, const std::string& environment) {
  const std::string command = environment + " " PLIMSOLL_SOURCE_DIR "/scripts/train-small.sh " + kind + " >" +
                              (folder / "out.txt").string() + " 2>" + (folder / "err.txt").string();
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = get_file(folder / "out.txt");
  outcome.err = get_file(folder / "err.txt");
  return outcome;
}

TEST_F(MissingDevice, TheMakefilesTargetsSayWhatTheyNeed) {
  const std::string none = "PLIMSOLL_DEV=" + folder().string() + " PLIMSOLL_TORCH_DIR=" + folder().string();
  const Outcome rocm = what_is_missing(folder(), "rocm", "PLIMSOLL_SYSTEM=Linux " + none);
  EXPECT_EQ(rocm.exit_code, 1);
  EXPECT_EQ(rocm.out, "");
  EXPECT_THAT(rocm.err, AllOf(HasSubstr("examples/small-lm/amd.yaml"), HasSubstr("/kfd"),
                              HasSubstr("libtorch 2.11.0 built for ROCm"), HasSubstr("make train-small "),
                              HasSubstr("--gpu rx6750xt")));
  const Outcome mps = what_is_missing(folder(), "mps", "PLIMSOLL_SYSTEM=Linux " + none);
  EXPECT_EQ(mps.exit_code, 1);
  EXPECT_THAT(mps.err,
              AllOf(HasSubstr("examples/small-lm/apple.yaml"), HasSubstr("macOS"), HasSubstr("--gpu m1-16gb")));
  EXPECT_EQ(what_is_missing(folder(), "cuda", none).exit_code, 2);
  std::filesystem::create_directory(folder() / "lib");
  for (const char* there : {"kfd", "lib/libtorch_hip.so", "lib/libtorch_cpu.dylib"}) put(there, "");
  EXPECT_EQ(what_is_missing(folder(), "rocm", "PLIMSOLL_SYSTEM=Linux " + none).exit_code, 0);
  EXPECT_EQ(what_is_missing(folder(), "mps", "PLIMSOLL_SYSTEM=Darwin " + none).exit_code, 0);
}

// The two plans that it proposes can be made.
TEST_F(MissingDevice, TheMakefilesProposalsArePlans) {
  for (const auto& [job, gpu] : {std::pair{"amd", "rx6750xt"}, {"apple", "m1-16gb"}})
    EXPECT_EQ(
        run({"plan", std::string(PLIMSOLL_SOURCE_DIR "/examples/small-lm/") + job + ".yaml", "--gpu", gpu}).exit_code,
        0);
}

}  // namespace
}  // namespace plimsoll::cli_testing
