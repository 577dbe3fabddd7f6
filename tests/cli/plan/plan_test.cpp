#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::set<std::string> kParts = {"parameters", "gradients", "optimizer_state", "activations",
                                      "inputs",     "workspace", "context",         "fragmentation"};

// Text that was folded to a screen on one line: every run of spaces and line ends as one space.
std::string unfolded(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const char put = c == '\n' ? ' ' : c;
    if (put != ' ' || !line.ends_with(' ')) line += put;
  }
  return line;
}

class PlanCommand : public CliTest {
 protected:
  PlanCommand() { put_tiny_job(); }

  json plan_json(Arguments overrides, int exit_code = 0) const {
    Arguments words = {"plan", "job.yaml", "--json", "-"};
    words.insert(words.end(), overrides.begin(), overrides.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return json::parse(outcome.out);  // and nothing else there
  }
};

TEST_F(PlanCommand, SaysWhichDataIsMissing) {
  EXPECT_THAT(run({"plan", "job.yaml"}).err, Not(HasSubstr("data.files")));
  const Outcome outcome = run({"plan", "job.yaml", "data.files=[corpus.txt, absent.txt, gone.txt]"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("absent.txt does not exist (2 files are missing)"), Not(HasSubstr("corpus.txt"))));
  std::filesystem::remove(folder() / "corpus.txt");
  EXPECT_THAT(run({"plan", "job.yaml"}).err, HasSubstr("corpus.txt"));
  EXPECT_EQ(run({"plan", "job.yaml", "data.type=synthetic"}).err, "");
}

TEST_F(PlanCommand, JsonHasTheAgreedKeysAndAddsUp) {
  const json plan = plan_json({"memory_budget=1GiB"});
  EXPECT_EQ(keys_of(plan), (std::set<std::string>{"fits",
                                                  "budget_bytes",
                                                  "peak_bytes",
                                                  "minimum_budget_bytes",
                                                  "plan_hash",
                                                  "breakdown",
                                                  "step_seconds",
                                                  "units_per_second",
                                                  "uncertainty",
                                                  "unit",
                                                  "norms_seconds",
                                                  "parameters",
                                                  "model_parameters",
                                                  "rank_parameters",
                                                  "model_bytes",
                                                  "recompute_seconds",
                                                  "recompute_bound_seconds",
                                                  "offload_seconds",
                                                  "update_offload_seconds",
                                                  "host_bytes",
                                                  "batches_ahead_bytes",
                                                  "disk_bytes",
                                                  "disk_budget_bytes",
                                                  "process",
                                                  "elsewhere",
                                                  "host_budget_bytes",
                                                  "cost_model",
                                                  "choices",
                                                  "reasons",
                                                  "plan_seconds",
                                                  "record_seconds",
                                                  "run_length",
                                                  "effective_batch_size",
                                                  "arena_bytes",
                                                  "live_bytes",
                                                  "arena_waste",
                                                  "residents",
                                                  "headroom_bytes",
                                                  "budget_share",
                                                  "device_bytes",
                                                  "device_share",
                                                  "devices",
                                                  "strategy",
                                                  "link",
                                                  "link_bytes_per_step",
                                                  "exchange_seconds_per_step",
                                                  "exchange_wait_seconds_per_step",
                                                  "units_per_second_all_devices"}));
  EXPECT_EQ(keys_of(plan["breakdown"]), kParts);
  EXPECT_EQ(keys_of(plan["choices"]),
            (std::set<std::string>{"micro_batch_size", "last_micro_batch", "gradient_accumulation_steps",
                                   "gradient_checkpointing", "offload_saved_bytes", "offload_state_bytes",
                                   "offload_gradient_bytes", "offload_parameter_bytes", "host_updates", "fused_ops",
                                   "precision", "update_in_backward", "state_dtype", "weight_update",
                                   "gradient_accumulation_dtype"}));
  EXPECT_EQ(sum_of(plan["breakdown"]), plan["peak_bytes"].get<int64_t>());
  EXPECT_EQ(plan["budget_bytes"], int64_t{1} << 30);
  EXPECT_EQ(plan["fits"], true);
  EXPECT_LE(plan["minimum_budget_bytes"], plan["peak_bytes"]);
  EXPECT_GE(plan["arena_bytes"], plan["live_bytes"]);
  EXPECT_GT(plan["step_seconds"], 0);
  EXPECT_EQ(plan["choices"]["micro_batch_size"], 2);
  EXPECT_EQ(plan["choices"]["gradient_accumulation_steps"], 2);
  EXPECT_EQ(plan["choices"]["precision"], "32-true");
  ASSERT_FALSE(plan["reasons"].empty());
  for (const json& reason : plan["reasons"]) EXPECT_EQ(keys_of(reason), (std::set<std::string>{"decision", "why"}));
}

TEST_F(PlanCommand, SaysHowMuchIsLeftAndHowMuchOfTheCardItTakes) {
  const json fits = plan_json({"memory_budget=1GiB"});
  EXPECT_EQ(fits["headroom_bytes"].get<int64_t>() + fits["peak_bytes"].get<int64_t>(), int64_t{1} << 30);
  EXPECT_EQ(fits["budget_share"], fits["peak_bytes"].get<double>() / (int64_t{1} << 30));
  EXPECT_EQ(fits["device_share"], nullptr);  // the catalogue has nothing about this machine
  const json card = plan_json({"memory_budget=1GiB", "--gpu", "rtx3070"});
  EXPECT_EQ(card["device_bytes"], int64_t{8} << 30);
  EXPECT_EQ(card["device_share"], card["peak_bytes"].get<double>() / (int64_t{8} << 30));
  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=1GiB", "--gpu", "rtx3070"});
  EXPECT_THAT(unfolded(outcome.out),
              AllOf(ContainsRegex(R"([0-9.]+ % of the budget, [0-9.]+ % of the 8.00 GiB of NVIDIA GeForce RTX 3070)"),
                    HasSubstr(std::to_string(card["headroom_bytes"].get<int64_t>()) + " bytes)")));
  const json none = plan_json({"memory_budget=64KiB", "--advice", "none"}, 3);
  EXPECT_LT(none["headroom_bytes"], 0);
  EXPECT_GT(none["budget_share"], 1);
  EXPECT_THAT(run({"plan", "job.yaml", "memory_budget=64KiB", "--advice", "none"}).out,
              HasSubstr(" bytes) over the budget"));
}

TEST_F(PlanCommand, DumpPassesWritesTheTraceAfterEachPass) {
  const Outcome outcome = run({"plan", "job.yaml", "gradient_checkpointing=on", "update_in_backward=off",
                               "--dump-passes", "new/passes", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Passes"), HasSubstr("00-recorded.txt"), HasSubstr("unchanged"),
                                 ContainsRegex("update_in_backward .* not run")));
  const json plan = json::parse(get("plan.json"));
  std::vector<std::string> names;
  std::set<std::string> files{"passes.txt"};
  for (const json& pass : plan["passes"]) {
    names.push_back(pass["pass"]);
    EXPECT_EQ(pass["changed"].get<bool>(), pass["file"].is_string()) << pass;
    EXPECT_THAT(get("new/passes/passes.txt"), HasSubstr(pass["pass"].get<std::string>()));
    if (pass["file"].is_string()) files.insert(pass["file"]);
  }
  EXPECT_THAT(names,
              ElementsAre("recorded", "slice_rows", "apply_workspace_model", "fold_casts", "update_in_backward",
                          "add_products", "gather_late", "remove_dead_ops", "sink_initialization", "assign_memories",
                          "recompute", "sink_updates", "offload", "fuse_norms", "fuse_pointwise", "group_updates",
                          "overlap_exchanges", "grow_scratch", "placement", "validation"));
  EXPECT_TRUE(files.contains("00-recorded.txt"));
  EXPECT_TRUE(files.contains("10-recompute.txt"));
  EXPECT_EQ(plan["passes"].back()["live_bytes"], plan["live_bytes"]);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "new/passes"))
    found.insert(entry.path().filename().string());
  EXPECT_EQ(found, files);
  // The listings are those of plimsoll trace.
  EXPECT_EQ(get("new/passes/00-recorded.txt").substr(0, 8), "Segments");
  EXPECT_THAT(get("new/passes/00-recorded.txt"), Not(HasSubstr(", recomputed")));
  EXPECT_THAT(get("new/passes/10-recompute.txt"), HasSubstr(", recomputed"));
  EXPECT_FALSE(plan_json({}).contains("passes"));

  // The file of a pass that changes nothing now is removed; other files of the folder stay.
  put("new/passes/notes.txt", "mine");
  ASSERT_EQ(run({"plan", "job.yaml", "gradient_checkpointing=off", "--dump-passes", "new/passes"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder() / "new/passes/10-recompute.txt"));
  EXPECT_EQ(get("new/passes/notes.txt"), "mine");
}

TEST_F(PlanCommand, DumpPassesOverwritesNoOtherFile) {
  const auto refusal = [&](std::vector<std::string> arguments) {
    const Outcome outcome = run(std::move(arguments));
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  std::filesystem::create_directory(folder() / "passes");
  put("passes/00-recorded.txt", get("corpus.txt"));
  EXPECT_THAT(refusal({"plan", "job.yaml", "data.files=[passes/00-recorded.txt]", "--dump-passes", "passes"}),
              AllOf(HasSubstr("--dump-passes passes writes "), HasSubstr("one of data.files; name another folder")));
  put("03-notes.txt", get("job.yaml"));
  EXPECT_THAT(refusal({"plan", "03-notes.txt", "--dump-passes", "."}), HasSubstr("which is the job file"));
  EXPECT_THAT(refusal({"plan", "job.yaml", "--json", "new/passes.txt", "--dump-passes", "./new"}),
              HasSubstr("the file of --json"));
  EXPECT_THAT(refusal({"plan", "job.yaml", "--html", "10-recompute.txt", "--dump-passes", "."}),
              HasSubstr("the file of --html"));
  EXPECT_EQ(get("passes/00-recorded.txt"), get("corpus.txt"));
  // A link to an input.
  std::filesystem::remove(folder() / "passes/00-recorded.txt");
  std::filesystem::create_symlink(folder() / "corpus.txt", folder() / "passes/00-recorded.txt");
  EXPECT_THAT(refusal({"plan", "job.yaml", "--dump-passes", "passes"}), HasSubstr("one of data.files"));
  // With them, it is written.
  std::filesystem::create_directory(folder() / "new");
  EXPECT_EQ(run({"plan", "job.yaml", "--json", "new/plan.json", "--dump-passes", "new"}).exit_code, 0);
}

TEST_F(PlanCommand, DumpPassesRemovesAnEarlierDumpAndSaysWhatItCannotRemove) {
  std::filesystem::create_directory(folder() / "passes");
  put("passes/03-recompute.txt", "of an earlier version");
  put("passes/31-nothing.txt", "mine");
  ASSERT_EQ(run({"plan", "job.yaml", "--dump-passes", "passes"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder() / "passes/03-recompute.txt"));
  EXPECT_EQ(get("passes/31-nothing.txt"), "mine");
  std::filesystem::create_directories(folder() / "passes/03-recompute.txt/not-empty");
  const Outcome outcome = run({"plan", "job.yaml", "--dump-passes", "passes"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--dump-passes: cannot remove passes/03-recompute.txt: Directory not empty"));
}

TEST_F(PlanCommand, DumpPassesNeedsAFolderAndOneDevice) {
  const Outcome file = run({"plan", "job.yaml", "--dump-passes", "corpus.txt"});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err,
              HasSubstr("--dump-passes: cannot make the folder corpus.txt: corpus.txt is a file; name a folder"));
  const Outcome several = run({"plan", "job.yaml", "--gpu", "l40s,rtx4090", "--dump-passes", "passes"});
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_THAT(several.err, HasSubstr("--dump-passes"));
  EXPECT_FALSE(std::filesystem::exists(folder() / "passes"));
}

TEST_F(PlanCommand, ByModuleEachPartOfTheModelHasItsBytes) {
  const Outcome outcome = run({"plan", "job.yaml", "--by", "module", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("Memory at the peak by module"), HasSubstr("layers"), HasSubstr("no module")));
  const json plan = json::parse(get("plan.json"));
  std::set<std::string> names;
  std::map<std::string, int64_t> sums;
  int64_t bytes = 0;
  for (const json& part : plan["by_module"]) {
    if (!part["module"].is_null()) names.insert(part["module"]);
    EXPECT_EQ(sum_of(part["breakdown"]), part["bytes"].get<int64_t>());
    bytes += part["bytes"].get<int64_t>();
    for (const auto& [kind, of_it] : part["breakdown"].items()) sums[kind] += of_it.get<int64_t>();
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"layers", "embedding"}));
  EXPECT_EQ(bytes, plan["peak_bytes"].get<int64_t>());
  for (const auto& [kind, sum] : sums) EXPECT_EQ(sum, plan["breakdown"][kind].get<int64_t>()) << kind;
  EXPECT_FALSE(plan_json({}).contains("by_module"));
  EXPECT_EQ(run({"plan", "job.yaml", "--by", "layer"}).exit_code, 2);
}

TEST_F(PlanCommand, ResidentsComeLargestFirst) {
  const json residents = plan_json({})["residents"];
  ASSERT_FALSE(residents.empty());
  EXPECT_LE(residents.size(), 8u);
  for (size_t i = 0; i < residents.size(); ++i) {
    EXPECT_EQ(keys_of(residents[i]), (std::set<std::string>{"label", "role", "bytes"}));
    if (i == 0) continue;
    EXPECT_LE(residents[i]["bytes"], residents[i - 1]["bytes"]);
  }
}

TEST_F(PlanCommand, AScheduleOfAccumulationKeepsItsEpochs) {
  const json plan = plan_json({"batch_size=8", "micro_batch_size=2", "gradient_accumulation_steps={0: 4, 3: 2}"});
  EXPECT_EQ(plan["choices"]["gradient_accumulation_steps"], (json{{"0", 4}, {"3", 2}}));
}

TEST_F(PlanCommand, ALastMicroBatchThatIsSmallerIsSaid) {
  const json plan = plan_json({"batch_size=10", "micro_batch_size=4"});
  EXPECT_EQ(plan["choices"]["gradient_accumulation_steps"], 3);
  EXPECT_EQ(plan["choices"]["last_micro_batch"], 2);
  EXPECT_NEAR(plan["units_per_second"].get<double>() * plan["step_seconds"].get<double>(), 160, 1e-6);
  EXPECT_EQ(plan_json({})["choices"]["last_micro_batch"], 2);
  const Outcome outcome = run({"plan", "job.yaml", "batch_size=10", "micro_batch_size=4"});
  EXPECT_THAT(outcome.out,
              AllOf(ContainsRegex("last micro batch *2 x 16 tokens"), ContainsRegex("effective batch *10")));
}

TEST_F(PlanCommand, TheTableSaysWhatTheJsonSays) {
  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=1GiB", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 0);
  const json plan = json::parse(get("plan.json"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("fits: "), HasSubstr("1.00 GiB"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(outcome.out, HasSubstr(std::to_string(plan["peak_bytes"].get<int64_t>())));
  for (const auto& part : plan["breakdown"]) EXPECT_THAT(outcome.out, HasSubstr(std::to_string(part.get<int64_t>())));
  EXPECT_THAT(outcome.out, HasSubstr("effective batch"));
  for (const json& reason : plan["reasons"])
    EXPECT_THAT(unfolded(outcome.out), HasSubstr(reason["why"].get<std::string>()));
}

TEST_F(PlanCommand, TooSmallABudgetIsAnAnswer) {
  const json plan = plan_json({"memory_budget=64KiB", "--advice", "none"}, 3);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["budget_bytes"], 64 << 10);
  EXPECT_GT(plan["minimum_budget_bytes"], 64 << 10);

  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=64KiB", "--advice", "none"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("does not fit"), HasSubstr(std::to_string(plan["minimum_budget_bytes"].get<int64_t>())),
            HasSubstr("Largest buffers at the peak"), HasSubstr(plan["residents"][0]["label"].get<std::string>())));
}

TEST_F(PlanCommand, TheLeastBudgetFitsAndOneByteLessDoesNot) {
  const auto least = plan_json({"memory_budget=64KiB", "--advice", "none"}, 3)["minimum_budget_bytes"].get<int64_t>();
  EXPECT_EQ(plan_json({"memory_budget=" + std::to_string(least)})["fits"], true);
  EXPECT_EQ(plan_json({"memory_budget=" + std::to_string(least - 1), "--advice", "none"}, 3)["fits"], false);
}

TEST_F(PlanCommand, ReadsNoDataAndLeavesNoFiles) {
  std::filesystem::remove(folder() / "corpus.txt");
  const auto added = new_files([&] { EXPECT_EQ(run({"plan", "job.yaml"}).exit_code, 0); });
  EXPECT_TRUE(added.empty());
}

// 8.7 billion parameters on any machine: planning takes no more memory than a small program.
TEST_F(PlanCommand, ALargeModelIsPlannedInLittleMemory) {
  put("large.yaml",
      "model: {type: decoder, vocab_size: 32000, hidden_size: 4096, num_layers: 44, num_heads: 32, activation: gelu,\n"
      "  positions: learned, tie_embeddings: false, intermediate_size: 15300}\n"
      "data: {files: tiny.txt, sequence_length: 1024}\n"
      "batch_size: 4\nmicro_batch_size: 4\nmemory_budget: 1000GiB\n");
  const Outcome outcome = run({"plan", "large.yaml", "device=cuda", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json plan = json::parse(outcome.out);
  EXPECT_GT(plan["breakdown"]["parameters"], int64_t{32} << 30);
  EXPECT_LE(plan["arena_waste"], 0.02);
  EXPECT_GT(outcome.resident_bytes, int64_t{10} << 20);
  EXPECT_LT(outcome.resident_bytes, int64_t{500} << 20);
}

TEST_F(PlanCommand, TheSameJobOnSeveralDevices) {
  // Matmuls that fill both: smaller ones take a launch on either.
  const Outcome outcome = run({"plan", "job.yaml", "model.hidden_size=2048", "data.sequence_length=512", "--gpu",
                               "a6000,rtx3060-12gb", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("NVIDIA RTX A6000"), HasSubstr("NVIDIA GeForce RTX"), HasSubstr("tokens/s"),
                                 HasSubstr("±")));
  const json gpus = json::parse(get("plan.json"))["gpus"];
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0]["gpu"], "a6000");
  EXPECT_EQ(gpus[0]["fits"], true);
  EXPECT_GT(gpus[0]["breakdown"]["context"], 0);
  EXPECT_GT(gpus[0]["breakdown"]["workspace"], 0);
  EXPECT_LT(gpus[0]["step_seconds"], gpus[1]["step_seconds"]);
}

TEST_F(PlanCommand, AnOpenPrecisionIsChosenForEachDevice) {
  const Outcome outcome = run({"plan", "job.yaml", "precision=auto", "model.hidden_size=256",
                               "data.sequence_length=256", "--gpu", "a6000,v100-sxm2-16gb", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json gpus = json::parse(get("plan.json"))["gpus"];
  for (const json& gpu : gpus)
    EXPECT_THAT((std::vector<std::string>{"32-true", gpu["gpu"] == "a6000" ? "bf16-mixed" : "16-mixed"}),
                ::testing::Contains(gpu["choices"]["precision"].get<std::string>()));
  EXPECT_THAT(outcome.out, HasSubstr(gpus[0]["choices"]["precision"].get<std::string>()));

  const Outcome one = run({"plan", "job.yaml", "precision=auto", "--frontier", "--html", "plan.html", "--json", "-"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const json plan = json::parse(one.out);
  const std::string chosen = plan["choices"]["precision"];
  EXPECT_THAT(get("plan.html"), HasSubstr(chosen));
  EXPECT_THAT(plan["reasons"].dump(), HasSubstr("precision: " + chosen));
  EXPECT_THAT(plan["frontier"].back()["choices"].get<std::string>(), HasSubstr(chosen + ", micro batch"));
  EXPECT_EQ(run({"train", "job.yaml", "precision=auto", "max_steps=2"}).exit_code, 0);
}

TEST_F(PlanCommand, AnUnknownDeviceIsRefusedWithTheNearest) {
  const Outcome outcome = run({"plan", "job.yaml", "--gpu", "a600"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("a600"), HasSubstr("a6000")));
}

TEST_F(PlanCommand, MemoryIsABudgetForTheDevice) {
  EXPECT_EQ(run({"plan", "job.yaml", "--gpu", "a6000", "--memory", "1MiB"}).exit_code, 3);
  EXPECT_EQ(run({"plan", "job.yaml", "--memory", "twelve"}).exit_code, 2);
}

// The printed minimum budget is one that fits, in spite of rounding.
TEST_F(PlanCommand, TheLeastBudgetIsTypedBack) {
  for (const char* width : {"32", "48", "64"}) {
    const std::string hidden = std::string("model.hidden_size=") + width;
    const std::string out = unfolded(run({"plan", "job.yaml", "memory_budget=64KiB", "--advice", "none", hidden}).out);
    const std::string before = "the minimum budget is ";
    const size_t at = out.find(before);
    ASSERT_NE(at, std::string::npos) << out;
    const size_t begin = at + before.size();
    const std::string least = out.substr(begin, out.find(" (", begin) - begin);
    EXPECT_EQ(plan_json({"memory_budget=" + least, hidden})["fits"], true) << least;
  }
}

// A plan that would not run has no time; the minimum budget may even take less.
TEST_F(PlanCommand, WhatDoesNotFitHasNoPredictedTime) {
  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=64KiB", "--advice", "none", "--html", "plan.html"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("The step"), Not(HasSubstr("predicted"))));
  EXPECT_THAT(get("plan.html"), Not(HasSubstr("<dt>predicted step</dt>")));
  EXPECT_THAT(run({"plan", "job.yaml"}).out, HasSubstr("predicted step"));
}

// The job's own budget, on a device that has more: leaving it out changes nothing else.
TEST_F(PlanCommand, ABudgetThatTheDeviceExceedsIsTheFirstToGo) {
  const Arguments small = {"plan", "job.yaml", "memory_budget=1MiB", "--gpu", "a6000"};
  const Outcome outcome = run({small[0], small[1], small[2], small[3], small[4], "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Changes that would fit\n\nmemory_budget=auto\n"));
  const json advice = json::parse(get("plan.json"))["would_fit"];
  EXPECT_EQ(advice[0]["change"], "memory_budget=auto");
  const json open = plan_json({"memory_budget=auto", "--gpu", "a6000"});
  EXPECT_EQ(open["peak_bytes"], advice[0]["peak_bytes"]);
  // A device that has too little itself, and --memory, which has precedence over the job: no such advice.
  EXPECT_THAT(run({"plan", "job.yaml", "memory_budget=1MiB", "--gpu", "a6000", "--memory", "1MiB"}).out,
              Not(HasSubstr("memory_budget=auto")));
  EXPECT_THAT(run({"plan", "job.yaml", "memory_budget=1MiB", "--gpu", "a6000,l40s"}).out,
              HasSubstr("memory_budget of 1.00 MiB"));
}

// If a job does not fit, changes are listed, and each of them fits.
TEST_F(PlanCommand, SaysWhatWouldFit) {
  const int64_t least = plan_json({})["minimum_budget_bytes"];
  const Arguments budget = {"memory_budget=" + std::to_string(least * 2 / 3)};
  const json plan = plan_json(budget, 3);
  ASSERT_FALSE(plan["would_fit"].empty());
  for (const json& advice : plan["would_fit"]) {
    Arguments changed = budget;
    for (const json& change : advice["overrides"]) changed.push_back(change);
    // The search for advice ends with the first plan that fits; this one may be faster.
    const json planned = plan_json(changed);
    EXPECT_TRUE(planned["fits"]) << advice;
    EXPECT_LE(planned["step_seconds"].get<double>(), advice["step_seconds"].get<double>() * 1.01) << advice;
    EXPECT_LE(advice["peak_bytes"], plan["budget_bytes"]) << advice;
  }
  EXPECT_THAT(run({"plan", "job.yaml", budget[0]}).out, HasSubstr("Changes that would fit"));
}

// The more memory, the less time; every point within its budget.
TEST_F(PlanCommand, TheFrontierFallsWithTheBudget) {
  const Outcome outcome = run({"plan", "job.yaml", "--frontier", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Memory against predicted step time"));
  const json frontier = json::parse(get("plan.json"))["frontier"];
  ASSERT_GE(frontier.size(), 12u);
  for (size_t i = 0; i < frontier.size(); ++i) {
    EXPECT_EQ(frontier[i]["fits"], true);
    EXPECT_LE(frontier[i]["peak_bytes"], frontier[i]["budget_bytes"]);
    if (i > 0) {
      EXPECT_LE(frontier[i]["step_seconds"], frontier[i - 1]["step_seconds"]);
    }
  }
}

// Copies of gradients for updates on the host do not count as offloaded.
TEST_F(PlanCommand, ElsewhereAreTheGradientsThatAreSaidToBe) {
  const Arguments host = {"host_memory_budget=1GiB"};
  const int64_t least = plan_json({"memory_budget=64KiB", host[0]}, 3)["minimum_budget_bytes"].get<int64_t>();
  int64_t elsewhere = 0;
  for (const int64_t more : {0, 1 << 12, 1 << 14, 1 << 16}) {
    const json plan = plan_json({"memory_budget=" + std::to_string(least + more), host[0]});
    int64_t gradients = 0;
    for (const json& each : plan["elsewhere"])
      if (each["role"] == "gradient") gradients += each["bytes"].get<int64_t>();
    EXPECT_LE(gradients, plan["choices"]["offload_gradient_bytes"].get<int64_t>()) << more;
    elsewhere += static_cast<int64_t>(plan["elsewhere"].size());
  }
  EXPECT_GT(elsewhere, 0);
}

// The error is reported under ulimit -f too, and the program is not ended by the signal.
TEST_F(PlanCommand, AFileOverTheLimitIsToldAsAFailure) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const pid_t child = start({"plan", "job.yaml", "--html", "plan.html"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("plan.html"));
}

TEST_F(PlanCommand, ThePageStandsAlone) {
  const Outcome outcome = run({"plan", "job.yaml", "--html", "plan.html"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string page = get("plan.html");
  EXPECT_THAT(page, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("<title>job.yaml"), Not(HasSubstr("src=\"http"))));
}

}  // namespace
}  // namespace plimsoll::cli_testing
