#include <cmath>

#include "cli/cli_testing.h"
#include "thresholds.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class DoctorCommand : public CliTest {
 protected:
  DoctorCommand() { ::setenv("XDG_CACHE_HOME", folder().c_str(), 1); }
  ~DoctorCommand() override { ::unsetenv("XDG_CACHE_HOME"); }
};

TEST_F(DoctorCommand, MeasuresOnceAndShowsIt) {
  const Outcome first = run({"doctor", "--force", "--threads", "1", "--json", "first.json"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("processor"), HasSubstr("product"), HasSubstr("FLOP/s"), HasSubstr("measured")));
  const json measured = json::parse(get("first.json"));
  EXPECT_EQ(measured["threads"], 1);
  EXPECT_EQ(measured["measured_now"], true);
  for (const auto& [kind, types] : measured["rates"].items())
    for (const auto& [type, rate] : types.items()) EXPECT_GT(rate["bytes_per_second"], 0) << kind << " " << type;
  const Outcome second = run({"doctor", "--threads", "1", "--json", "-"});
  const json again = json::parse(second.out);
  EXPECT_EQ(again["measured_now"], false);
  EXPECT_EQ(again["rates"], measured["rates"]);
}

// The instruction set of each library and of our kernels; a variable limits ours.
TEST_F(DoctorCommand, ShowsInstructionSets) {
  const Outcome whole = run({"doctor", "--threads", "1", "--json", "doctor.json"});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("own kernels"), HasSubstr("oneDNN"), HasSubstr("MKL"),
                               HasSubstr("bfloat16 matmul kernel")));
  EXPECT_EQ(whole.out.find("onednn_verbose"), std::string::npos);
  const json sets = json::parse(get("doctor.json"))["instruction_sets"];
  EXPECT_NE(sets["onednn"], "");
  EXPECT_NE(sets["libtorch"], "");
  ::setenv("PLIMSOLL_CPU_CAPABILITY", "default", 1);
  const Outcome less = run({"doctor", "--threads", "1", "--json", "-"});
  ::unsetenv("PLIMSOLL_CPU_CAPABILITY");
  const json masked = json::parse(less.out)["instruction_sets"];
  EXPECT_EQ(masked["plimsoll"], "default");
  EXPECT_EQ(masked["plimsoll_greatest"], sets["plimsoll_greatest"]);
  EXPECT_EQ(masked["libtorch"], sets["libtorch"]);
}

/// Sets PLIMSOLL_KERNELS while it lives.
struct Kernels {
  explicit Kernels(const std::string& text) { ::setenv("PLIMSOLL_KERNELS", text.c_str(), 1); }
  ~Kernels() { ::unsetenv("PLIMSOLL_KERNELS"); }
};

// The kernels that were measured are shown, and a variable sets one and changes no other measurement. Processors
// without AVX2 have no choice.
TEST_F(DoctorCommand, ShowsTheKernelsThatWereChosen) {
  const auto doctor = [&] { return json::parse(run({"doctor", "--force", "--threads", "1", "--json", "-"}).out); };
  const json measured = doctor(), chosen = measured["kernels"];
  for (const auto& [op, choice] : chosen.items()) EXPECT_THAT(choice["reason"], HasSubstr(" ms; ")) << op;
  if (!chosen.contains("loss_head.float32")) GTEST_SKIP() << "no choice on this processor";
  const std::string other = chosen["loss_head.float32"]["kernel"] == "blocks" ? "libtorch" : "blocks";
  const Kernels kernels("loss_head.float32=" + other);
  json set = doctor();
  EXPECT_EQ(set["measured_now"], false);
  EXPECT_EQ(set["kernels"]["loss_head.float32"], json({{"kernel", other}, {"reason", "PLIMSOLL_KERNELS"}}));
  set["kernels"]["loss_head.float32"] = chosen["loss_head.float32"];
  EXPECT_EQ(set["kernels"], chosen);
}

TEST_F(DoctorCommand, WrongKernelsAreSaidBeforeTheWork) {
  put_tiny_job();
  for (const char* wrong : {"loss_head", "los_head.float32=blocks", "attention.bfloat16=nonsense"}) {
    const Kernels kernels(wrong);
    for (const Arguments& command : {Arguments{"doctor"}, {"plan", "job.yaml"}, {"train", "job.yaml"}}) {
      const Outcome refused = run(command);
      EXPECT_EQ(refused.exit_code, 2) << command[0] << " with " << wrong;
      EXPECT_THAT(refused.err, AllOf(HasSubstr("PLIMSOLL_KERNELS"), HasSubstr("attention.bfloat16")));
      EXPECT_EQ(refused.out, "");
    }
  }
}

// A run's bits depend on its kernels: a checkpoint names them, and a resumed run keeps them.
TEST_F(DoctorCommand, AResumedRunKeepsItsKernels) {
  const json chosen = json::parse(run({"doctor", "--threads", "1", "--json", "-"}).out)["kernels"];
  if (!chosen.contains("loss_head.float32.small")) GTEST_SKIP() << "no choice on this processor";
  put_tiny_job();
  const auto train = [&](const std::string& steps) {
    const Outcome outcome = run({"train", "job.yaml", "checkpoint.directory=run", "max_steps=" + steps});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  };
  const auto saved = [&](const std::string& step) {
    const std::string file = get("run/step-0000000" + step + ".safetensors");
    const size_t at = file.find("loss_head.float32.small=");
    return at == std::string::npos ? "" : file.substr(at + 24, file.find_first_of(",\\\"", at) - at - 24);
  };
  for (const std::string first : {"blocks", "libtorch"}) {
    std::filesystem::remove_all(folder() / "run");
    {
      const Kernels kernels("loss_head.float32.small=" + first);
      train("1");
    }
    train("2");
    EXPECT_EQ(saved("1"), first);
    EXPECT_EQ(saved("2"), first);
  }
}

TEST_F(DoctorCommand, AWrongCapabilityIsSaidBeforeTheWork) {
  put_tiny_job();
  ::setenv("PLIMSOLL_CPU_CAPABILITY", "AVX2", 1);
  for (const Arguments& command : {Arguments{"doctor"}, {"plan", "job.yaml"}, {"train", "job.yaml"}}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.exit_code, 2) << command[0];
    EXPECT_THAT(refused.err, AllOf(HasSubstr("PLIMSOLL_CPU_CAPABILITY is 'AVX2'"), HasSubstr("default, avx2")));
    EXPECT_EQ(refused.out, "");
  }
  ::unsetenv("PLIMSOLL_CPU_CAPABILITY");
}

TEST_F(DoctorCommand, PlansGoByWhatWasMeasured) {
  put_tiny_job();
  const json before = json::parse(run({"plan", "job.yaml", "--json", "-"}).out);
  EXPECT_EQ(before["cost_model"]["source"], "typical");
  EXPECT_EQ(run({"doctor", "--force", "--threads", "1"}).exit_code, 0);
  const json after = json::parse(run({"plan", "job.yaml", "--json", "-"}).out);
  EXPECT_THAT(after["cost_model"]["source"].get<std::string>(), ::testing::StartsWith("measured"));
  // The name of the file depends on the instruction masks: one file of rates was written.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "plimsoll"))
    if (entry.path().filename().string().starts_with("rates-1-threads")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  put("plimsoll/" + files[0].filename().string(), "{\"machine\": ");
  EXPECT_EQ(json::parse(run({"plan", "job.yaml", "--json", "-"}).out)["cost_model"]["source"], "typical");
}

class CompareCommand : public DoctorCommand {};

TEST_F(CompareCommand, MeasuresEveryRow) {
  put_tiny_job();
  const Outcome outcome = run({"compare", "job.yaml", "--steps", "4", "--json", "compare.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("float32"), HasSubstr("+ mixed precision"), HasSubstr("+ checkpointing"),
                                 HasSubstr("+ accumulation"), HasSubstr("+ offload"), HasSubstr("+ streaming"),
                                 HasSubstr("planner's choice"), HasSubstr("loss, step 4"),
                                 ContainsRegex("\nOf the rows that fit, '.*' is the smallest")));
  const json rows = json::parse(get("compare.json"))["rows"];
  ASSERT_EQ(rows.size(), 11u);
  for (const json& row : rows) {
    EXPECT_EQ(row["fits"], true);
    EXPECT_EQ(row["planned_peak_bytes"], row["measured_peak_bytes"]) << row["name"];
    EXPECT_EQ(row["planned_host_bytes"], row["measured_host_bytes"]) << row["name"];
    EXPECT_EQ(row["planned_disk_bytes"], row["measured_disk_bytes"]) << row["name"];
    EXPECT_GT(row["measured_step_seconds"], 0);
    EXPECT_GT(row["predicted_step_seconds"], 0);
  }
  const auto difference = [&](const std::vector<size_t>& indices) {
    double largest = 0;
    for (const size_t i : indices)
      largest = std::max(largest,
                         std::abs(rows[i]["final_loss"].get<double>() - rows[indices[0]]["final_loss"].get<double>()));
    return largest;
  };
  // Weights of 16 bits start from other random numbers: those rows are compared with one another.
  expect_below("difference of final losses, float32 weights", difference({0, 1, 2, 3, 4, 5, 6, 10}), 0.003);
  expect_below("difference of final losses, bfloat16 weights", difference({7, 8, 9}), 0.003);
  EXPECT_LT(rows[2]["measured_peak_bytes"], rows[1]["measured_peak_bytes"]);
  EXPECT_EQ(rows[1]["final_loss"], rows[2]["final_loss"]);  // checkpointing changes bytes alone
  EXPECT_EQ(rows[3]["final_loss"], rows[4]["final_loss"]);  // and so does offload to host memory
  EXPECT_LT(rows[4]["measured_peak_bytes"], rows[3]["measured_peak_bytes"]);
  EXPECT_GT(rows[4]["measured_host_bytes"], 0);
  EXPECT_LT(rows[5]["measured_peak_bytes"], rows[4]["measured_peak_bytes"]);
  EXPECT_EQ(rows[5]["final_loss"], rows[4]["final_loss"]);
  EXPECT_THAT(rows[5]["settings"].get<std::string>(), HasSubstr("parameters streamed"));
  // State of fewer bits, weights of fewer bits, gradient accumulators of fewer bits, no accumulators at all.
  EXPECT_LT(rows[6]["planned_peak_bytes"], rows[3]["planned_peak_bytes"]);
  EXPECT_LT(rows[7]["planned_peak_bytes"], rows[6]["planned_peak_bytes"]);
  EXPECT_LT(rows[8]["planned_peak_bytes"], rows[7]["planned_peak_bytes"]);
  EXPECT_THAT(rows[9]["settings"].get<std::string>(), HasSubstr("updates in backward"));
}

TEST_F(CompareCommand, RefusesDevicesItCannotTrainOn) {
  put_tiny_job();
  const Outcome outcome = run({"compare", "job.yaml", "device=mps"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("device 'mps' cannot be used"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
