// Tests process_budget: the kernel's count of the process beside the budget and the plan, in training, evaluation,
// saving and resuming, and the refusal of a budget that is too small.
#include <fmt/format.h>

#include <regex>

#include "cli/cli_testing.h"
#include "files/picture_files.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

class ProcessBudget : public CliTest {
 protected:
  ProcessBudget() {
    put_tiny_job();
    // Far above what the plan is: then a process that exceeds its plan is seen.
    arguments_ = {"train",        "job.yaml",           "model.hidden_size=192", "model.num_layers=4",
                  "batch_size=8", "memory_budget=auto", "max_steps=4",           "eval_every_n_steps=2",
                  "--json",       "report.json"};
  }

  Outcome train(const std::string& budget, const Arguments& more = {}) {
    Arguments all = arguments_;
    all.insert(all.end(), {"--process-budget", budget});
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  /// Expects that a training with the least budget, and a little more, takes what was planned, or at most `unused`
  /// less. `train` gets the budget.
  template <typename Train>
  void expect_planned(const Train& train, int64_t unused = 8 * kMiB) {
    const Outcome free = train("4GiB");
    ASSERT_EQ(free.exit_code, 0) << free.err;
    const std::string budget = std::to_string(process().at("minimum_bytes").get<int64_t>() + 6 * kMiB);
    const Outcome outcome = train(budget);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const auto planned = process().at("planned_bytes").get<int64_t>();
    EXPECT_LE(planned, std::stoll(budget));
    EXPECT_LE(outcome.resident_bytes, std::stoll(budget) * 102 / 100);
    EXPECT_LE(outcome.resident_bytes, planned + std::max(8 * kMiB, planned * 3 / 100));
    EXPECT_GE(outcome.resident_bytes, planned - unused);
  }
  json process() const { return json::parse(get("report.json")).at("process"); }

  Arguments arguments_;
};

TEST_F(ProcessBudget, TheProcessTakesWhatWasPlanned) {
  ASSERT_EQ(train("4GiB").exit_code, 0);
  const int64_t least = process().at("minimum_bytes");
  const std::string budget = std::to_string(least + 6 * kMiB);
  for (const Arguments& more :
       {Arguments{"checkpoint.directory=run"}, Arguments{"checkpoint.directory=run", "max_steps=6"}}) {
    const Outcome outcome = train(budget, more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Resident memory of the process"), HasSubstr("process budget")));
    const auto planned = process().at("planned_bytes").get<int64_t>();
    EXPECT_LE(planned, std::stoll(budget));
    EXPECT_LE(outcome.resident_bytes, std::stoll(budget) * 102 / 100);
    EXPECT_NEAR(static_cast<double>(outcome.resident_bytes), static_cast<double>(planned),
                std::max(8.0 * kMiB, 0.03 * static_cast<double>(planned)));
  }
}

// 2 million weights of a matrix become NF4 by way of float32: 32 MiB, beside which the rest of this training is small.
TEST_F(ProcessBudget, WeightsThatAreQuantizedWhenTheyAreReadArePlanned) {
  const Arguments model = {"model.hidden_size=256",
                           "model.intermediate_size=8192",
                           "model.num_layers=1",
                           "max_steps=1",
                           "memory_budget=auto",
                           "optimizer.name=sgd",
                           "--json",
                           "report.json"};
  const auto with = [&](const Arguments& first, const Arguments& more) {
    Arguments all = first;
    all.insert(all.end(), model.begin(), model.end());
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  ASSERT_EQ(with({"train", "job.yaml"}, {"checkpoint.directory=whole"}).exit_code, 0);
  ASSERT_EQ(run({"export", "job.yaml", model[0], model[1], model[2], model[5], "checkpoint.directory=whole", "--out",
                 "weights.safetensors"})
                .exit_code,
            0);
  const Arguments quantized = {"model.weights=weights.safetensors", "lora.modules='*attention*'", "lora.rank=2",
                               "quantize.modules='*mlp*'"};
  expect_planned(
      [&](const std::string& budget) {
        Arguments all = quantized;
        all.insert(all.end(), {"--process-budget", budget});
        return with({"train", "job.yaml"}, all);
      },
      24 * kMiB);  // the arena is not in use as a whole when the weights are read
}

// 4 million weights of 16 bits and their remainder are set by way of float32 values: 77 MiB.
TEST_F(ProcessBudget, WeightsThatAreReadForARemainderArePlanned) {
  put("words.yaml",
      "model: {hidden_size: 64, num_layers: 1, num_heads: 2, vocab_size: 60000}\n"
      "data: {type: synthetic, samples: 8, sequence_length: 8}\n"
      "threads: 1\nbatch_size: 2\nmax_steps: 1\nmemory_budget: auto\n");
  ASSERT_EQ(run({"train", "words.yaml", "checkpoint.directory=words"}).exit_code, 0);
  ASSERT_EQ(run({"export", "words.yaml", "checkpoint.directory=words", "--out", "weights.safetensors"}).exit_code, 0);
  expect_planned(
      [&](const std::string& budget) {
        return run({"train", "words.yaml", "model.weights=weights.safetensors", "precision=bf16-true",
                    "optimizer.weight_update=split", "--process-budget", budget, "--json", "report.json"});
      },
      64 * kMiB);
}

// Pictures are read when they are needed, and kept: 60 of 256 x 256 pixels take 15 MiB.
TEST_F(ProcessBudget, PicturesThatAreKeptArePlanned) {
  const TempFolder pictures;
  const std::vector<uint16_t> gray(size_t{256} * 256, 100);
  std::vector<uint16_t> mask = gray;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 256 < 100 ? 5 : 0;
  const std::string picture_png = png(256, 256, 8, kPngGray, gray), mask_png = png(256, 256, 8, kPngGray, mask);
  for (const char* each : {"images", "masks"}) std::filesystem::create_directories(pictures / each);
  for (int i = 0; i < 60; ++i) {
    put_file(pictures / fmt::format("images/{}.png", i), picture_png);
    put_file(pictures / fmt::format("masks/{}.png", i), mask_png);
  }
  put_file(pictures / "names.txt", "5 half\n");
  put("pictures.yaml",
      fmt::format(
          "model: {{type: prompt_segmentation, image_size: 256, channels: 1, prompt_length: 48,\n"
          "  encoder: {{widths: [8, 12, 16, 16], depths: [1, 1, 1, 1], num_heads: [2, 2, 2], windows: [4, 4, 4]}},\n"
          "  llm: {{hidden_size: 32, num_layers: 1, num_heads: 2, vocab_size: 259}},\n"
          "  decoder: {{width: 16, depth: 1, num_heads: 2, intermediate_size: 32}}}}\n"
          "data: {{type: pictures, images: {0}/images, masks: {0}/masks, label_names: {0}/names.txt,\n"
          "  tokenizer: bytes}}\n"
          "threads: 1\nbatch_size: 1\nmax_steps: 60\nmemory_budget: auto\n",
          pictures.path().string()));
  expect_planned([&](const std::string& budget) {
    return run({"train", "pictures.yaml", "--process-budget", budget, "--json", "report.json"});
  });
}

TEST_F(ProcessBudget, TooSmallABudgetIsRefusedWithOneThatSuffices) {
  const Outcome refused = train("32MiB");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("process_budget is 32.0 MiB"), HasSubstr("set process_budget to at least")));
  std::smatch advised;
  ASSERT_TRUE(std::regex_search(refused.err, advised, std::regex("at least ([0-9.]+) MiB")));
  const Outcome next = train(advised[1].str() + "MiB");
  if (next.exit_code == 3) {  // planning is possible with it, and then the plan names the smallest
    EXPECT_THAT(next.out, HasSubstr("does not fit"));
    EXPECT_EQ(train(std::to_string(process().at("minimum_bytes").get<int64_t>())).exit_code, 0);
  } else {
    EXPECT_EQ(next.exit_code, 0) << next.err;
  }
}

TEST_F(ProcessBudget, WrongValuesAreRefused) {
  for (const char* value : {"process_budget=0", "process_budget=little", "process_budget=[1]"})
    expect_refusal(run({"train", "job.yaml", value}), 2, HasSubstr("process_budget"));
}

TEST_F(ProcessBudget, APlanNamesTheProcess) {
  const Outcome planned = run({"plan", "job.yaml", "process_budget=4GiB", "--json", "plan.json"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("process budget"));
  EXPECT_GT(json::parse(get("plan.json")).at("process").at("planned_bytes").get<int64_t>(), 50 * kMiB);
  const Outcome elsewhere = run({"plan", "job.yaml", "process_budget=1MiB", "--gpu", "h100-sxm"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("process_budget"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
