// Tests the table of keys against itself, the reference page and the reader. Tests the message about ranks whose jobs
// differ.
#include "job/shared_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"

namespace plimsoll {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

TEST(JobKeys, HaveHelpAndUniqueNames) {
  std::set<std::string> names;
  for (const KeyHelp& key : job_keys()) {
    EXPECT_TRUE(names.insert(key.key).second) << key.key;
    EXPECT_FALSE(key.type.empty() || key.default_value.empty() || key.meaning.empty()) << key.key;
    EXPECT_EQ(key.meaning.find('\n'), std::string::npos) << key.key;
  }
  EXPECT_GT(names.size(), 50u);
}

// Not every key is of every type of model and of data.
constexpr std::array kBases = {
    "data.files: a.txt",
    "{data.files: a.txt, lora.modules: layers, quantize.modules: layers}",
    "data.type: synthetic",
    "{data.type: synthetic, model.type: mamba}",
    "{data.type: synthetic, model.type: fmri_autoencoder}",
    "{data: {type: stimuli, fmri: a.nii}, model.type: fmri_autoencoder}",
    "{data.type: synthetic, model.type: gesture_ssm}",
    "{data.type: series, data.files: a.ts, model.type: gesture_ssm}",
    "{data.type: synthetic, model.type: prompt_segmentation}",
    "{data.type: slices, data.files: a.nii, data.labels: b.nii, data.label_names: n.txt, "
    "model.type: prompt_segmentation}",
    "{data: {type: pictures, images: a, masks: b}, model.type: prompt_segmentation}",
    "{data.type: synthetic, model.type: video_llm}",
    "{data.type: clips, data.files: a.mp4, model.type: video_llm}",
};

TEST(JobKeys, AcceptTheirOwnDefault) {
  for (const KeyHelp& key : job_keys()) {
    // Types that share a name may differ in the default, which is no value then.
    if (key.default_value.starts_with("(") || key.default_value.find(": ") != std::string::npos) continue;
    const auto accepts = [&](const char* base) {
      try {
        parse_job(base, "job.yaml", "", {key.key + "=" + key.default_value});
        return true;
      } catch (const UserError&) {
        return false;
      }
    };
    EXPECT_TRUE(std::ranges::any_of(kBases, accepts)) << key.key;
  }
}

// Other programs write none; our value is 0.
TEST(JobKeys, NoneIsZeroWhereZeroMeansNone) {
  int count = 0;
  for (const KeyHelp& key : job_keys()) {
    if (key.type.find("or none") == std::string::npos) continue;
    ++count;
    const auto accepts = [&](const std::string& value) {
      return std::ranges::any_of(kBases, [&](const char* base) {
        try {
          parse_job(base, "job.yaml", "", {key.key + "=" + value});
          return true;
        } catch (const UserError&) {
          return false;
        }
      });
    };
    EXPECT_TRUE(accepts("0")) << key.key;
    EXPECT_TRUE(accepts("none")) << key.key;
    EXPECT_TRUE(accepts("None")) << key.key;
    EXPECT_FALSE(accepts("nothing")) << key.key;
  }
  EXPECT_GE(count, 15);
  const Job job = parse_job(
      "data.files: a.txt\nmax_grad_norm: none\nhost_memory_budget: none\noptimizer.weight_decay: none", "job.yaml", "");
  EXPECT_EQ(job.max_grad_norm, 0);
  EXPECT_EQ(job.budget.host, 0);
  EXPECT_EQ(job.optimizer.weight_decay, 0);
}

TEST(JobKeys, AreTheRowsOfTheReferencePage) {
  std::ifstream page(PLIMSOLL_SOURCE_DIR "/docs/job-file.md");
  ASSERT_TRUE(page);
  std::set<std::string> rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `") && std::count(line.begin(), line.end(), '|') > 4) {
      EXPECT_TRUE(rows.insert(line).second) << "twice: " << line;
    }
  const auto cells = [](const KeyHelp& key) {
    return " | " + replaced(key.type, "|", "\\|") + " | `" + key.default_value + "` | " + key.meaning + " |";
  };
  std::set<std::string> expected;
  for (const KeyHelp& key : job_keys()) expected.insert("| `" + key.key + "`" + cells(key));
  // The page has a sentence for the keys of these sections that equal those of another.
  for (const auto& [section, other] :
       {std::pair{"model.llm.", "model."}, {"model.audio.", "model.video."}, {"model.text.", "model.video."}})
    for (const KeyHelp& key : job_keys())
      if (key.key.starts_with(section) &&
          expected.contains("| `" + replaced(key.key, section, other) + "`" + cells(key)))
        expected.erase("| `" + key.key + "`" + cells(key));
  for (const std::string& row : expected) EXPECT_TRUE(rows.contains(row)) << "docs/job-file.md lacks the row\n" << row;
  for (const std::string& row : rows)
    EXPECT_TRUE(expected.contains(row)) << "docs/job-file.md has a row too many\n" << row;
}

TEST(JobKeys, TheExampleOfTheReferencePageIsAJob) {
  std::ifstream page(PLIMSOLL_SOURCE_DIR "/docs/job-file.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  const std::string fence = "```yaml\n";
  const size_t begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const size_t end = text.find("```", begin + fence.size());
  EXPECT_NO_THROW(parse_job(text.substr(begin + fence.size(), end - begin - fence.size()), "job-file.md", ""));
}

// A checkpoint continues with the same vision encoder only. Checkpoints from before these keys have the defaults.
TEST(SharedKeys, OfAVisionEncoderAreThoseThatAreNotTheDefault) {
  const auto vision_keys = [](const VisionConfig& vision) {
    Job job = parse_job("{data.type: synthetic, model.type: video_llm}", "job.yaml", "");
    job.model.video_llm.vision = vision;
    std::set<std::string> keys;
    for (const auto& [key, value] : job::origin_of(job, nullptr))
      if (key.starts_with("model.vision.")) keys.insert(key + " " + value);
    return keys;
  };
  EXPECT_EQ(vision_keys({}), (std::set<std::string>{"model.vision.num_heads 4", "model.vision.patch 16"}));
  EXPECT_EQ(
      vision_keys({.norm = "layernorm",
                   .norm_eps = 1e-5,
                   .activation = "quick_gelu",
                   .image_mean = {0.25, 0.5, 0.75},
                   .image_std = {1, 1, 1}}),
      (std::set<std::string>{"model.vision.activation quick_gelu", "model.vision.image_mean 0.25 0.5 0.75",
                             "model.vision.image_std 1 1 1", "model.vision.norm layernorm",
                             "model.vision.norm_eps 1e-05", "model.vision.num_heads 4", "model.vision.patch 16"}));
}

TEST(SharedKeys, DifferencesAreNamedUpToFour) {
  EXPECT_NO_THROW(job::require_same_keys({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 2\n"}));
  EXPECT_EQ(refusal_of([] {
              job::require_same_keys({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 3\n"});
            }),
            "b is 3 on rank 2 and 2 on rank 0; start all ranks with the same job file and the same settings");
  EXPECT_EQ(
      refusal_of([] {
        job::require_same_keys({"a 1\nb 1\nc 1\nd 1\ne 1\n", "a 2\nb 2\nc 2\nd 2\nf 2\n"});
      }),
      "a is 2 on rank 1 and 1 on rank 0, b is 2 on rank 1 and 1 on rank 0, c is 2 on rank 1 and 1 on rank 0, d is 2 "
      "on rank 1 and 1 on rank 0; start all ranks with the same job file and the same settings");
  EXPECT_EQ(
      refusal_of([] {
        job::require_same_keys({"a 1\n", "f 2\n"});
      }),
      "a is not set on rank 1 and 1 on rank 0, f is 2 on rank 1 and not set on rank 0; start all ranks with the same "
      "job file and the same settings");
}

}  // namespace
}  // namespace plimsoll
