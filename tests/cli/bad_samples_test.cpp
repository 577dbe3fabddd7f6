// Tests damaged files, end to end. Without data.skip_bad there is one message that names the file, and nothing is
// written. With it the file is left out, and counted in the report.
#include <cmath>

#include "cli/cli_testing.h"
#include "data/series/stimuli_files.h"
#include "files/media_files.h"
#include "files/nifti_files.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kShort =
    "threads: 1\n"
    "max_steps: 2\n"
    "batch_size: 2\n"
    "eval_batches: 1\n"
    "log: {metrics_file: metrics.jsonl}\n"
    "checkpoint: {directory: run}\n";

class BadSamples : public CliTest {
 protected:
  /// Trains job.yaml, in which `bad` cannot be read, without data.skip_bad and with it.
  void expect_refused_then_left_out(const std::string& bad, int left_out = 1) const {
    Outcome refused;
    const std::set<std::string> added = new_files([&] {
      refused = run({"train", "job.yaml", "--json", "report.json", "data.skip_bad=false"});
    });
    EXPECT_THAT(refused.exit_code, AnyOf(1, 2)) << refused.err;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr(bad));
    EXPECT_EQ(count_of(refused.err, "plimsoll: "), 1) << refused.err;
    for (const char* name : {"metrics.jsonl", "report.json"}) EXPECT_FALSE(added.contains(name)) << name;
    std::error_code none;
    EXPECT_TRUE(!std::filesystem::exists(folder() / "run", none) || std::filesystem::is_empty(folder() / "run", none));

    const Outcome outcome = run({"train", "job.yaml", "--json", "report.json", "data.skip_bad=true"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("left out: "), HasSubstr(bad)));
    EXPECT_THAT(outcome.out, HasSubstr("samples left out (unreadable)"));
    const json report = json::parse(get("report.json"));
    ASSERT_EQ(report["left_out"].size(), static_cast<size_t>(left_out)) << report["left_out"];
    EXPECT_THAT(report["left_out"][0].get<std::string>(), HasSubstr(bad));
    EXPECT_EQ(report["losses"].size(), 2u);
    for (const json& loss : report["losses"]) EXPECT_TRUE(std::isfinite(loss.get<double>()));
  }

  static int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return count;
  }

  void put_job(const std::string& rest) const { put("job.yaml", kShort + rest); }

  /// TempFolder's helpers write to a given folder; this test's folder is the program's.
  void move_here(const TempFolder& from) const {
    std::filesystem::copy(from.path(), folder(), std::filesystem::copy_options::recursive);
  }
};

TEST_F(BadSamples, TextThatIsNotThere) {
  put_tiny_job();
  put_job(
      "model: {hidden_size: 32, num_layers: 1, num_heads: 2}\n"
      "data: {files: [corpus.txt, empty.txt], sequence_length: 16, validation_fraction: 0.1}\n");
  put("empty.txt", "");
  expect_refused_then_left_out("empty.txt");
  EXPECT_EQ(run({"train", "job.yaml", "data.files=[corpus.txt]"}).exit_code, 0);
  const Outcome whole = run({"train", "job.yaml", "data.files=[corpus.txt]", "--json", "-"});
  EXPECT_THAT(json::parse(whole.out)["left_out"], IsEmpty());
}

// A token file that was cut off, as by a full disk.
TEST_F(BadSamples, TokensThatAreCutOff) {
  put_tiny_job();
  put_job(
      "model: {hidden_size: 32, num_layers: 1, num_heads: 2}\n"
      "data: {files: [corpus.txt, second.txt], sequence_length: 16, validation_fraction: 0.1, cache_dir: cache}\n");
  put("second.txt", get("corpus.txt") + "and more");
  ASSERT_EQ(run({"train", "job.yaml", "log.metrics_file=\"\"", "checkpoint.directory=\"\""}).exit_code, 0);
  std::string cut;
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "cache"))
    if (entry.path().filename().string().starts_with("second.txt")) cut = entry.path().string();
  ASSERT_NE(cut, "");
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  expect_refused_then_left_out("second.txt");
}

TEST_F(BadSamples, ASeriesThatIsCutOff) {
  const std::string good =
      "@problemName waves\n@timeStamps false\n@univariate true\n@classLabel true up down\n@data\n"
      "1,2,3,4,5,6:up\n6,5,4,3,2,1:down\n1,3,5,7,9,11:up\n9,7,5,3,2,1:down\n2,3,4,5,7,8:up\n8,6,4,3,2,1:down\n";
  put("good.ts", good);
  put("cut.ts", good.substr(0, good.size() - 9));
  put_job(
      "model: {type: gesture_ssm, channels: 1, num_classes: 2, hidden_dim: 16, d_state: 8, num_layers: 1, head_dim: 8, "
      "chunk_size: 4}\n"
      "data: {type: series, files: [good.ts, cut.ts], length: 6, validation_fraction: 0.2}\n");
  expect_refused_then_left_out("cut.ts:11");
}

TEST_F(BadSamples, AFileThatTakesMoreThanTheBudgetForData) {
  std::string good = "@problemName waves\n@timeStamps false\n@univariate true\n@classLabel true up down\n@data\n";
  for (int i = 0; i < 3; ++i) good += "1,2,3,4,5,6:up\n6,5,4,3,2,1:down\n";
  put("good.ts", good);
  put("large.ts", good + "1,2,3,4,5,6:up\n");
  // A series takes 124 bytes while its file is read, and 24 afterwards. The six of good.ts leave 856 of 1000 bytes.
  put_job(
      "model: {type: gesture_ssm, channels: 1, num_classes: 2, hidden_dim: 16, d_state: 8, num_layers: 1, head_dim: 8, "
      "chunk_size: 4}\n"
      "data: {type: series, files: [good.ts, large.ts], length: 6, validation_fraction: 0.2, memory_budget: 1000}\n");
  expect_refused_then_left_out(
      "large.ts: has 7 series up to line 12, 868 bytes in memory; allowed: 856 bytes, which is "
      "data.memory_budget 1000 B less 144 bytes of other files");
}

TEST_F(BadSamples, AVolumeThatIsCutOff) {
  const TempFolder made;
  box_slices(made);
  put_file(made / "cut.nii", get_file(made / "image.nii").substr(0, 3000));
  move_here(made);
  put_job(
      "model:\n"
      "  type: prompt_segmentation\n"
      "  image_size: 32\n"
      "  prompt_length: 48\n"
      "  encoder: {widths: [8, 8, 8, 8], depths: [1, 1, 1, 1], num_heads: [1, 1, 1]}\n"
      "  llm: {hidden_size: 16, num_layers: 1, num_heads: 1}\n"
      "  decoder: {width: 16, depth: 1, num_heads: 1, intermediate_size: 16}\n"
      "data: {type: slices, files: [image.nii, cut.nii], labels: [labels.nii, labels.nii], label_names: names.txt,\n"
      "       min_pixels: 4, validation_block: 3, validation_gap: 1, validation_fraction: 0.2}\n");
  expect_refused_then_left_out("cut.nii");
}

TEST_F(BadSamples, AVideoThatIsNone) {
  put("good.y4m", gray_video(std::vector<int>(40, 200), 32, 32, 10));
  put("dark.y4m", gray_video(std::vector<int>(40, 20), 32, 32, 10));
  put("cut.mp4", gray_video({5}, 32, 32, 10).substr(0, 20));
  put("clips.tsv", "good.y4m\tday\ndark.y4m\tnight\ncut.mp4\tdusk\n");
  put_job(
      "model:\n"
      "  type: video_llm\n"
      "  image_size: 16\n"
      "  tokens_per_frame: 1\n"
      "  vision: {patch: 8, width: 16, depth: 1, num_heads: 1}\n"
      "  llm: {hidden_size: 16, num_layers: 1, num_heads: 1}\n"
      "data: {type: clips, list: clips.tsv, clip_seconds: 1, max_frames: 2, sequence_length: 40, cache_dir: cache,\n"
      "       validation_fraction: 0.25}\n");
  expect_refused_then_left_out("cut.mp4");
}

TEST_F(BadSamples, AnFmriVolumeWithoutNumbersAndAClipThatIsNone) {
  const TempFolder made;
  StimuliFiles files(made, 4, 0, true);
  files.values[7 * 6 + 2] = NAN;
  put_file(made / "bold.nii", scan({3, 2, 1, 48}, files.values));
  put_file(files.config.stimuli.videos / "dark.y4m", "no video");
  move_here(made);
  put_job(
      "model:\n"
      "  type: fmri_autoencoder\n"
      "  bottleneck_dim: 4\n"
      "  voxels: 5\n"
      "  video: {frames: 2, size: 8, patch: 4, width: 8, depth: 1, num_heads: 1}\n"
      "  audio: {frames: 4, mels: 5, patch: 2, width: 8, depth: 1, num_heads: 1}\n"
      "  text: {tokens: 3, features: 4, width: 8, depth: 1, num_heads: 1}\n"
      "  fusion: {width: 8, depth: 1}\n"
      "  fmri: {width: 8, depth: 1, decoder_depth: 1}\n"
      "data: {type: stimuli, fmri: bold.nii, fmri_mask: mask.nii, fmri_delay: 0, texts: labels.txt,\n"
      "       text_embeddings: vectors.safetensors, videos: clips, repetition_time: 2, cache_dir: cache,\n"
      "       validation_fraction: 0.25}\n");
  expect_refused_then_left_out("volume 7", /*left_out=*/2);

  // A series that is cut off is one file with everything in it: nothing is left to train on.
  std::filesystem::resize_file(folder() / "bold.nii", 600);
  for (const char* skip : {"data.skip_bad=false", "data.skip_bad=true"}) {
    const Outcome outcome = run({"train", "job.yaml", skip, "log.metrics_file=\"\"", "checkpoint.directory=\"\""});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("bold.nii"), HasSubstr("truncated")));
  }
}

}  // namespace
}  // namespace plimsoll::cli_testing
