// Tests videos into a language model, end to end: two kinds of video, distinguished on held-out videos.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/media_files.h"
#include "plimsoll/compare.h"
#include "thresholds.h"
#include "tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

void expect_as_planned(const TrainReport& report) {
  EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  EXPECT_GE(static_cast<double>(report.measured_peak_bytes), 0.995 * static_cast<double>(report.planned_peak_bytes));
}

/// Dark and bright videos of some seconds, a caption each; 16 clips to learn from, 4 held out.
Job video_job(const TempFolder& folder) {
  std::string list;
  for (const bool bright : {false, true})
    for (int i = 0; i < 2; ++i) {
      std::vector<int> gray;
      for (int t = 0; t < 60; ++t) gray.push_back((bright ? 180 : 20) + 10 * i + t % 20);
      const std::string name = (bright ? "day" : "night") + std::to_string(i) + ".y4m";
      put_file(folder / name, gray_video(gray, 16, 16, 10));
      list += name + "\t" + (bright ? "day" : "night") + "\n";
    }
  Job job;
  job.model.type = "video_llm";
  VideoLlmConfig& model = job.model.video_llm;
  model.image_size = 8;
  model.tokens_per_frame = 1;
  model.vision = {.patch = 4, .width = 16, .depth = 1, .num_heads = 2};
  model.llm.hidden_size = 32;
  model.llm.num_layers = 2;
  model.llm.num_heads = 2;
  job.data.type = "clips";
  job.data.clips.list = put_file(folder / "list.tsv", list);
  job.data.clips.max_frames = 2;
  job.data.clips.clip_seconds = 1;
  job.data.clips.prompt = "It is ";
  job.data.sequence_length = 12;
  job.data.validation_fraction = 0.2;
  job.data.cache_dir = folder / "cache";
  job.optimizer.learning_rate = 5e-3;
  job.batch_size = 4;
  job.micro_batch_size = 2;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.budget.device = int64_t{1} << 28;
  job.max_steps = 60;
  job.seed = test_seed();
  job.threads = 1;
  return job;
}

/// Returns the job with a list that holds the second video of each kind out by its own split, and a fraction of 0.
Job job_with_splits(const TempFolder& folder) {
  Job job = video_job(folder);
  job.data.clips.list = put_file(folder / "splits.tsv",
                                 "night0.y4m\tnight\nnight1.y4m\tnight\tvalidation\n"
                                 "day0.y4m\tday\nday1.y4m\tday\tvalidation\n");
  job.data.validation_fraction = 0;
  job.max_steps = 2;
  return job;
}

double metric(const TrainReport& report, const std::string& name) {
  for (const auto& [key, value] : report.metrics)
    if (key == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

TEST(VideoLlmJob, LearnsToTellVideosApart) {
  TempFolder folder;
  const TrainReport report = train(video_job(folder));
  expect_below("loss, last of first", report.losses.back() / report.losses.front(), 0.25);
  expect_as_planned(report);
  expect_above("captions right", metric(report, "captions_right"), 0.9);
  expect_above("caption tokens right", metric(report, "caption_tokens_right"), 0.9);
  ASSERT_FALSE(report.baselines.empty());
  EXPECT_EQ(report.baselines[0].metric, "captions_right");
  EXPECT_EQ(report.baselines[0].value, 0.5);
}

TEST(VideoLlmJob, AListThatHoldsVideosOutIsEvaluated) {
  TempFolder folder;
  Job job = job_with_splits(folder);
  const TrainReport report = train(job);
  EXPECT_EQ(report.losses.size(), 2u);
  ASSERT_TRUE(report.last_evaluation.has_value());
  EXPECT_FALSE(report.metrics.empty());
  EXPECT_FALSE(report.baselines.empty());
  EXPECT_THAT(report.not_written, IsEmpty());
  // A run that was told not to evaluate ends without an evaluation, although samples are held out.
  job.data.evaluated = false;
  const TrainReport without = train(job);
  EXPECT_EQ(without.losses, report.losses);
  EXPECT_FALSE(without.last_evaluation.has_value());
  EXPECT_THAT(without.baselines, IsEmpty());
}

TEST(VideoLlmJob, OnlyAListWithHeldOutVideosRecordsAnEvaluation) {
  TempFolder folder;
  Job job = job_with_splits(folder);
  const auto evaluates = [&] {
    return plan_job(job, target_of(job)).recorded.segment(SegmentKind::evaluate) != nullptr;
  };
  EXPECT_TRUE(evaluates());
  job.data.clips.list = folder / "list.tsv";
  EXPECT_FALSE(evaluates());
  job.data.clips.list = folder / "gone.tsv";  // a plan needs no data
  EXPECT_FALSE(evaluates());
}

TEST(VideoLlmJob, AListThatHoldsVideosOutIsCompared) {
  TempFolder folder;
  int begun = 0;
  CompareOptions options;
  options.steps = 2;
  options.measure_seconds = 0;
  options.on_row = [&](int, int, const std::string&) { ++begun; };
  options.stop = [&] { return begun == 2; };
  const std::vector<CompareRow> rows = compare_job(job_with_splits(folder), options);
  ASSERT_EQ(rows.size(), 2u);
  for (const CompareRow& row : rows) {
    EXPECT_TRUE(row.fits) << row.name;
    EXPECT_GT(row.final_loss, 0) << row.name;
  }
}

// The language model alone is checkpointed: less memory, the same losses to the bit.
TEST(VideoLlmJob, TheLanguageModelAloneIsCheckpointed) {
  TempFolder folder;
  Job job = video_job(folder);
  job.max_steps = 3;
  job.gradient_checkpointing = Choice::off;
  const TrainReport whole = train(job);
  job.gradient_checkpointing = Choice::automatic;
  job.model.video_llm.llm_checkpointing = true;
  const TrainReport llm = train(job);
  job.gradient_checkpointing = Choice::on;
  const TrainReport all = train(job);
  EXPECT_EQ(llm.losses, whole.losses);
  EXPECT_EQ(all.losses, whole.losses);
  EXPECT_TRUE(llm.job.plan.checkpointed);
  EXPECT_LT(llm.job.plan.time.recompute, all.job.plan.time.recompute);
  EXPECT_GT(llm.job.plan.time.recompute, 0);
  EXPECT_LE(llm.planned_peak_bytes, whole.planned_peak_bytes);
}

// A frozen language model in 16 bits takes half its bytes. The other parts train as next to one of 32 bits.
TEST(VideoLlmJob, AFrozenLanguageModelInBfloat16) {
  TempFolder folder;
  Job job = video_job(folder);
  job.fine_tuning.freeze = {"llm"};
  job.max_steps = 30;
  const TrainReport plain = train(job);
  for (const Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
    job.precision = precision;
    job.model.video_llm.llm_dtype = DType::bfloat16;
    const TrainReport half = train(job);
    EXPECT_LT(half.planned.parameters, 0.7 * static_cast<double>(plain.planned.parameters));
    expect_as_planned(half);
    expect_below(fmt::format("largest difference of losses, {}", name_of(precision)),
                 largest_difference(half.losses, plain.losses), 0.1);
  }
}

TEST(VideoLlmJob, TypesThatDoNotGoTogetherAreRefused) {
  const auto refusal = [](const std::string& keys) {
    return user_error_of(
        [&] { parse_job("{data.type: synthetic, model.type: video_llm, " + keys + "}", "job.yaml", ""); });
  };
  EXPECT_THAT(refusal("model.llm.dtype: float16"), HasSubstr("loss scaling; set precision: 16-mixed"));
  EXPECT_THAT(refusal("model.llm.dtype: bfloat16, precision: auto"), HasSubstr("set precision: bf16-true"));
  EXPECT_THAT(refusal("model.llm.dtype: float32, precision: bf16-true"), HasSubstr("weights are bfloat16"));
  EXPECT_THAT(refusal("model.llm.dtype: float32, model.dtype: bfloat16"), HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal("model.llm.use_gradient_checkpointing: true, gradient_checkpointing: false"),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal("model.tokens_per_frame: 5"), HasSubstr("can be averaged to 1, 4, 49, 196"));
  EXPECT_THAT(refusal("data.max_frames: 4096, model.tokens_per_frame: 196, data.sequence_length: 1000000"),
              HasSubstr("the language model reads at most"));
  EXPECT_THAT(user_error_of([] { parse_job("{data.type: clips, model.type: video_llm}", "job.yaml", ""); }),
              HasSubstr("data.files is missing"));
  const Job job =
      parse_job("{data: {type: clips, list: a.tsv, max_frames: none, clip_seconds: 2.5}, model.type: video_llm}",
                "job.yaml", "/folder");
  EXPECT_EQ(frames_of_clip(job.data.clips), 75);
  EXPECT_EQ(job.data.clips.list, "/folder/a.tsv");
}

}  // namespace
}  // namespace plimsoll
