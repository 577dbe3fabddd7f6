// Tests booleans of other programs: true, and false, which means "not that".
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string precision(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const Job job = parsed(yaml, overrides);
  return std::string(name_of(job.precision));
}

std::string usage_error(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { parsed(yaml, overrides); }, UserError::Kind::usage);
}

TEST(JobBooleans, FalseMeansNotThat) {
  const std::vector<std::pair<const char*, const char*>> files = {
      {"bf16: false", "32-true"},
      {"fp16: false", "32-true"},
      {"bf16: false\nfp16: false", "32-true"},
      {"bf16: true\nfp16: false", "bf16-mixed"},
      {"fp16: true\nbf16: false", "16-mixed"},
      {"use_amp: false", "32-true"},
      {"use_mixed_precision: false", "32-true"},
      {"training: {use_mixed_precision: false}", "32-true"},
      {"use_amp: true\nbf16: false", "16-mixed"},
      {"use_amp: true\nfp16: false", "bf16-mixed"},
      {"use_amp: true\nfp16: true", "16-mixed"},
      {"bf16: {enabled: false}\nfp16: {enabled: true}", "16-mixed"},
      {"precision: 16-mixed\nbf16: false", "16-mixed"},
      {"precision: bf16-true\nfp16: false", "bf16-true"},
      {"precision: bf16-true\nbf16: true", "bf16-true"},
      {"precision: bf16-true\nuse_amp: false", "bf16-true"},
      {"use_amp: true\nmodel.dtype: float16", "16-mixed"},
  };
  for (const auto& [file, expected] : files) EXPECT_EQ(precision(file), expected) << file;
}

TEST(JobBooleans, OfTheCommandLineReplaceWhatTheFileSays) {
  const std::vector<std::tuple<const char*, std::vector<std::string>, const char*>> jobs = {
      {"precision: bf16-mixed", {"bf16=false"}, "32-true"},
      {"precision: bf16-true", {"bf16=false"}, "32-true"},
      {"precision: 16-mixed", {"fp16=false"}, "32-true"},
      {"precision: 16-mixed", {"bf16=false"}, "16-mixed"},
      {"precision: bf16-mixed", {"fp16=false"}, "bf16-mixed"},
      {"bf16: true", {"bf16=false"}, "32-true"},
      {"bf16: true", {"fp16=true"}, "16-mixed"},
      {"fp16: true", {"bf16=true"}, "bf16-mixed"},
      {"use_amp: true", {"bf16=false"}, "16-mixed"},
      {"use_amp: true\nfp16: false", {"bf16=false"}, "32-true"},
      {"precision: bf16-mixed", {"use_amp=false"}, "32-true"},
      {"precision: 16-mixed", {"use_amp=true"}, "16-mixed"},
      {"bf16: false", {"precision=auto"}, "auto"},
      {"bf16: true", {"precision=32-true"}, "32-true"},
      {"", {"precision=32-true", "bf16=true"}, "bf16-mixed"},  // the last of several is valid
      {"", {"bf16=true", "precision=32-true"}, "32-true"},
      {"", {"bf16=true", "bf16=false"}, "32-true"},
      {"", {"precision=bf16-mixed", "fp16=true"}, "16-mixed"},  // a recipe's, and the override next to it
  };
  for (const auto& [file, overrides, expected] : jobs)
    EXPECT_EQ(precision(file, overrides), expected) << file << " " << overrides.back();
}

TEST(JobBooleans, BothTrueIsAContradictionThatIsNamed) {
  EXPECT_EQ(usage_error("bf16: true\nfp16: true"),
            "job.yaml:3: fp16: true contradicts bf16: true (job.yaml:2); training is in one of them: leave one out, or "
            "in place of both set precision: bf16-mixed or precision: 16-mixed");
  EXPECT_THAT(usage_error("fp16: {enabled: true}\nbf16: {enabled: true}"),
              StartsWith("job.yaml:3: bf16.enabled: true contradicts fp16.enabled: true (job.yaml:2)"));
  EXPECT_THAT(usage_error("", {"bf16=true", "fp16=true"}), HasSubstr("fp16: true contradicts bf16: true"));
  const std::vector<std::pair<const char*, const char*>> files = {
      {"bf16: true\nuse_amp: false", "use_amp: false contradicts bf16: true"},
      {"use_amp: true\nbf16: false\nfp16: false", "forbid both"},
      {"precision: bf16-mixed\nbf16: false", "bf16: false contradicts precision: bf16-mixed"},
      {"precision: 32-true\nbf16: true", "bf16: true contradicts precision: 32-true"},
      {"precision: bf16-mixed\nfp16: true", "fp16: true contradicts precision: bf16-mixed"},
      {"precision: 32-true\nuse_amp: true", "use_amp: true contradicts precision: 32-true"},
      {"precision: auto\nbf16: false", "auto may choose any precision"},
      {"bf16: true\nbf16.enabled: false", "contradicts"},
  };
  for (const auto& [file, expected] : files) EXPECT_THAT(usage_error(file), HasSubstr(expected)) << file;
  EXPECT_THAT(usage_error("precision: auto", {"bf16=false"}), HasSubstr("precision is auto, which may choose any"));
  // A word of neither is refused for what it is.
  EXPECT_THAT(usage_error("precision: half\nbf16: true"), HasSubstr("precision is 'half'"));
}

TEST(JobBooleans, WhatTheyComeToIsSaid) {
  EXPECT_THAT(parsed("bf16: true\nfp16: false").notes,
              ElementsAre("job.yaml:2: bf16 (Hugging Face's name) is precision: bf16-mixed here"));
  EXPECT_THAT(parsed("precision: bf16-mixed", {"bf16=false"}).notes,
              ElementsAre("command line: bf16=false: bf16 (Hugging Face's name) is precision: 32-true here"));
  EXPECT_THAT(parsed("use_amp: true\nfp16: true").notes,
              ElementsAre("job.yaml:2: use_amp (PyTorch's name) is precision: 16-mixed here",
                          "job.yaml:3: fp16 (Hugging Face's name) is precision: 16-mixed here"));
  EXPECT_THAT(parsed("bf16: false\nfp16: false").notes, IsEmpty());  // neither was requested
}

TEST(JobBooleans, NotTheCpuWantsTheGpuNamed) {
  EXPECT_EQ(parsed("use_cpu: true").device, "cpu");
  EXPECT_THAT(parsed("use_cpu: false").notes, ElementsAre(AllOf(HasSubstr("use_cpu"), HasSubstr("device: cuda"))));
  EXPECT_THAT(parsed("use_cpu: false\ndevice: cuda").notes, IsEmpty());
  EXPECT_THAT(parsed("use_cpu: false", {"device=cpu"}).notes, IsEmpty());
  EXPECT_THAT(usage_error("use_cpu: false\ndevice: cpu"), HasSubstr("use_cpu: false contradicts device: cpu"));
  EXPECT_THAT(usage_error("device: cpu", {"use_cpu=false"}), HasSubstr("use_cpu: false contradicts device: cpu"));
}

TEST(JobBooleans, WhatIsNotHereMayBeDenied) {
  for (const char* denied : {"load_in_4bit: false", "load_in_8bit: False", "enable_activation_offloading: false"})
    EXPECT_THAT(parsed(denied).notes, IsEmpty()) << denied;
  EXPECT_THAT(usage_error("load_in_4bit: true"), HasSubstr("quantize.format: nf4"));
  EXPECT_EQ(parsed("use_checkpoint: false").gradient_checkpointing, Choice::off);
  EXPECT_EQ(parsed("torch_compile: false").compile, Choice::off);
  EXPECT_EQ(parsed("optimizer_in_bwd: false").update_in_backward, Choice::off);
}

}  // namespace
}  // namespace plimsoll
