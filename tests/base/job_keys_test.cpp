// The table of keys against itself, the reference page and the reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "plimsoll/error.h"
#include "plimsoll/job.h"

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

TEST(JobKeys, AcceptTheirOwnDefault) {
  for (const KeyHelp& key : job_keys()) {
    // Types that share a name may differ in the default, which is no value then.
    if (key.default_value.starts_with("(") || key.default_value.find(": ") != std::string::npos) continue;
    // Not every key is of every type of model and of data.
    const auto accepts = [&](const char* base) {
      try {
        parse_job(base, "job.yaml", "", {key.key + "=" + key.default_value});
        return true;
      } catch (const UserError&) {
        return false;
      }
    };
    EXPECT_TRUE(accepts("data.files: a.txt") ||
                accepts("{data.files: a.txt, lora.modules: layers, quantize.modules: layers}") ||
                accepts("data.type: synthetic") || accepts("{data.type: synthetic, model.type: mamba}") ||
                accepts("{data.type: synthetic, model.type: fmri_autoencoder}") ||
                accepts("{data: {type: stimuli, fmri: a.nii}, model.type: fmri_autoencoder}") ||
                accepts("{data.type: synthetic, model.type: gesture_ssm}") ||
                accepts("{data.type: series, data.files: a.ts, model.type: gesture_ssm}") ||
                accepts("{data.type: synthetic, model.type: prompt_segmentation}") ||
                accepts("{data.type: slices, data.files: a.nii, data.labels: b.nii, data.label_names: n.txt, "
                        "model.type: prompt_segmentation}") ||
                accepts("{data.type: synthetic, model.type: video_llm}") ||
                accepts("{data.type: clips, data.files: a.mp4, model.type: video_llm}"))
        << key.key;
  }
}

TEST(JobKeys, AreTheRowsOfTheReferencePage) {
  std::ifstream page(PLIMSOLL_SOURCE_DIR "/docs/job-file.md");
  ASSERT_TRUE(page);
  std::set<std::string> rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `") && std::count(line.begin(), line.end(), '|') > 4) {
      EXPECT_TRUE(rows.insert(line).second) << "twice: " << line;
    }
  std::set<std::string> expected;
  for (const KeyHelp& key : job_keys())
    expected.insert("| `" + key.key + "` | " + replaced(key.type, "|", "\\|") + " | `" + key.default_value + "` | " +
                    key.meaning + " |");
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

}  // namespace
}  // namespace plimsoll
