// Tests keys of pictures and of NumPy files, and the architecture that comes with weights.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

std::string refusal_of_parts(const std::string& model, const std::string& data) {
  return refusal_of([&] { parse_job("{model: " + model + ", data: " + data + "}", "job.yaml", ""); });
}

TEST(PicturesJob, KeysAreChecked) {
  const auto pictures = [](const std::string& more, const std::string& model = "{type: prompt_segmentation}") {
    return refusal_of_parts(model, "{type: pictures" + more + "}");
  };
  EXPECT_EQ(pictures(", images: a, masks: b"), "accepted");
  EXPECT_EQ(pictures(", list: a.csv, prompt: Segment it."), "accepted");
  EXPECT_THAT(pictures(""), HasSubstr("data.images is missing"));
  EXPECT_THAT(pictures(", images: a"), HasSubstr("data.masks is missing"));
  EXPECT_THAT(pictures(", images: a, masks: b, list: c.csv"), HasSubstr("remove data.list, or "));
  EXPECT_THAT(pictures(", images: a, masks: b, prompt: '{} {}'"), HasSubstr("may have {} once"));
  EXPECT_THAT(pictures(", images: a, masks: b, axis: y"), HasSubstr("data.axis"));
  EXPECT_THAT(pictures(", images: a, masks: b, evaluate_on: test"), HasSubstr("data.test_fraction is 0"));
  EXPECT_THAT(pictures(", images: a, masks: b", "{type: prompt_segmentation, channels: 2}"),
              HasSubstr("1 (gray) or 3"));
  const Job job = parse_job("{model.type: prompt_segmentation, data: {type: pictures, root: r, images: a, masks: b}}",
                            "job.yaml", "jobs");
  EXPECT_EQ(job.data.pictures.masks, "jobs/r/b");
}

TEST(SeriesJob, LabelsGoWithFiles) {
  const auto series = [](const std::string& more) {
    return refusal_of_parts("{type: gesture_ssm}", "{type: series" + more + "}");
  };
  EXPECT_EQ(series(", files: a.npy, labels: b.npy"), "accepted");
  EXPECT_THAT(series(", files: [a.npy, b.npy], labels: c.npy"),
              HasSubstr("data.labels names 1 files and data.files 2"));
  EXPECT_THAT(series(", files: a.npz, validation_labels: c.npy"), HasSubstr("data.validation_files 0"));
}

TEST(StimuliJob, FeaturesTakeThePlaceOfOthers) {
  const auto stimuli = [](const std::string& more) {
    return refusal_of_parts("{type: fmri_autoencoder}", "{type: stimuli, fmri: a.npy" + more + "}");
  };
  EXPECT_EQ(stimuli(", text_features: b.npy, texts: runs.txt, audio_features: c.npy, pictures: d.npy"), "accepted");
  EXPECT_THAT(stimuli(", text_features: b.npy, texts: runs.txt, text_embeddings: v.safetensors"),
              HasSubstr("data.text_features and data.text_embeddings are both given"));
  EXPECT_THAT(stimuli(", videos: a.mp4, pictures: d.npy"), HasSubstr("remove one of them"));
}

// config.json says that the head is the embedding, and the weights have a head of their own.
TEST(MambaJob, IsThatOfItsWeights) {
  const TempFolder folder;
  const std::filesystem::path published = PLIMSOLL_SOURCE_DIR "/tests/weights/families/mamba2";
  std::filesystem::copy_file(published / "model.safetensors", folder / "model.safetensors");
  nlohmann::json config = nlohmann::json::parse(get_file(published / "config.json"));
  config["tie_word_embeddings"] = true;
  put_file(folder / "config.json", config.dump());
  const auto job = [&](const std::string& architecture) {
    return parse_job("{data.files: a.txt, model: {type: mamba, " + architecture + "}}", "job.yaml", folder.path());
  };
  const Job with_weights = job("weights: .");
  EXPECT_EQ(with_weights.model.mamba.hidden_size, 16);
  EXPECT_FALSE(with_weights.model.mamba.tie_embeddings);
  EXPECT_THAT(with_weights.notes, ::testing::Contains(HasSubstr("lm_head.weight differs from the embedding")));
  const Job without = job("config: config.json");
  EXPECT_EQ(without.model.mamba.hidden_size, 16);
  EXPECT_TRUE(without.model.mamba.tie_embeddings);
  EXPECT_THAT(without.notes, ::testing::IsEmpty());
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kBase =
    "model: {type: gesture_ssm}\ndata: {type: series, files: a.ts, validation_files: [b.ts]}\n";

Job gesture_job(const std::vector<std::string>& overrides, const std::string& more = "") {
  return parse_job(kBase + more, "job.yaml", "folder", overrides);
}

std::string gesture_refusal(const std::vector<std::string>& overrides, const std::string& more = "") {
  return refusal_of([&] { gesture_job(overrides, more); });
}

TEST(GestureJob, ReadsFilesScalesAndAxes) {
  const Job job = gesture_job({"model.pooling_scales=[3, 2]", "data.order=hilbert", "data.hilbert_axes=[time, 0, 4]",
                               "model.share_weights=true", "data.train_ratio_of_vectors=0.15"});
  EXPECT_THAT(job.data.files, ElementsAre("folder/a.ts"));
  EXPECT_THAT(job.data.series.validation_files, ElementsAre("folder/b.ts"));
  EXPECT_THAT(job.model.gesture.pooling_scales, ElementsAre(3, 2));
  EXPECT_EQ(job.model.gesture.share_weights, "true");
  EXPECT_THAT(job.data.series.hilbert_axes, ElementsAre(-1, 0, 4));
  EXPECT_EQ(job.data.series.vectors(), 15);
  EXPECT_THAT(gesture_job({"model.pooling_scales=3"}).model.gesture.pooling_scales, ElementsAre(2, 2));
  EXPECT_THAT(gesture_job({"model.pooling_scales=1"}).model.gesture.pooling_scales, IsEmpty());
  EXPECT_THAT(gesture_job({"data.hilbert_axes=all"}).data.series.hilbert_axes, IsEmpty());
}

TEST(GestureJob, ReadsTheFilesOfTheTest) {
  const Job job =
      gesture_job({"data.test_files=[c.npy, d.npy]", "data.test_labels=[e.npy, f.npy]", "data.evaluate_on=test"});
  EXPECT_THAT(job.data.series.test_files, ElementsAre("folder/c.npy", "folder/d.npy"));
  EXPECT_THAT(job.data.series.test_labels, ElementsAre("folder/e.npy", "folder/f.npy"));
  EXPECT_TRUE(job.data.is_evaluated());
  EXPECT_TRUE(gesture_job({"data.test_fraction=0.1", "data.evaluate_on=test"}).data.is_evaluated());
  EXPECT_TRUE(gesture_job({"data.validation_fraction=0"}).data.is_evaluated());  // by data.validation_files
  EXPECT_THAT(gesture_refusal({"data.evaluate_on=test"}), HasSubstr("nothing is held out for it"));
  EXPECT_THAT(gesture_refusal({"data.evaluate_on=test"}), HasSubstr("or name data.test_files"));
  EXPECT_THAT(gesture_refusal({"data.test_files=c.ts", "data.test_fraction=0.1"}),
              HasSubstr("data.test_fraction is 0.1 and data.test_files names 1 files; remove one"));
  EXPECT_THAT(gesture_refusal({"data.test_files=c.npy", "data.test_labels=[d.npy, e.npy]"}),
              HasSubstr("data.test_labels names 2 files and data.test_files 1"));
}

TEST(GestureJob, ReadsWhatItsUsersWrite) {
  for (const char* yes : {"True", "true", "TRUE", "yes", "On"})
    EXPECT_EQ(gesture_job({std::string("model.share_weights=") + yes}).model.gesture.share_weights, "true") << yes;
  EXPECT_EQ(gesture_job({"model.share_weights=False"}).model.gesture.share_weights, "false");
  const auto scales = [](const char* list) {
    return gesture_job({std::string("model.pooling_scales=") + list}).model.gesture.pooling_scales;
  };
  EXPECT_THAT(scales("[1, 2]"), ElementsAre(2));
  EXPECT_THAT(scales("[1, 2, 4]"), ElementsAre(2, 2));
  EXPECT_THAT(scales("[1, 3, 6]"), ElementsAre(3, 2)) << "as [3, 2]";
  EXPECT_THAT(scales("[1]"), IsEmpty());
  EXPECT_THAT(gesture_job({"model.pooling_scales=[1, 2]"}).notes,
              ElementsAre(HasSubstr("model.pooling_scales [1, 2] begins with 1, which is all tokens: it is [2] here")));
  EXPECT_THAT(gesture_job({"model.pooling_scales=[2]"}).notes, IsEmpty());
}

TEST(GestureJob, SizesAreThereWithoutData) {
  const Job job = parse_job(
      "{model.type: gesture_ssm, data.type: synthetic, data.length: 1000, "
      "data.train_ratio_of_vectors: 0.2}",
      "job.yaml", "");
  EXPECT_EQ(job.data.series.vectors(), 200);
}

TEST(GestureJob, UseCheckpointIsAnotherName) {
  EXPECT_EQ(gesture_job({"model.use_checkpoint=true"}).gradient_checkpointing, Choice::on);
  EXPECT_EQ(gesture_job({"model.use_checkpoint=false"}).gradient_checkpointing, Choice::off);
  EXPECT_EQ(gesture_job({"model.use_checkpoint=auto"}).gradient_checkpointing, Choice::automatic);
  EXPECT_EQ(gesture_job({"model.use_checkpoint=true", "gradient_checkpointing=true"}).gradient_checkpointing,
            Choice::on);
  EXPECT_THAT(gesture_refusal({"model.use_checkpoint=true", "gradient_checkpointing=false"}),
              HasSubstr("both set the same choice"));
  // The command line's value replaces the file's value under the other name.
  const auto replaced = parse_job("model: {type: gesture_ssm, use_checkpoint: true}\ndata.type: synthetic\n",
                                  "job.yaml", "", {"gradient_checkpointing=false"});
  EXPECT_EQ(replaced.gradient_checkpointing, Choice::off);
}

TEST(GestureJob, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(gesture_refusal({"model.head_dim=100"}), HasSubstr("must divide model.expand x model.hidden_dim, 512"));
  EXPECT_THAT(gesture_refusal({"model.pooling_scales=7"}), HasSubstr("makes 7 scales; model.num_layers is 6"));
  EXPECT_EQ(gesture_refusal({"model.pooling_scales=[]", "model.num_layers=1"}), "accepted");
  EXPECT_THAT(gesture_refusal({"model.pooling_scales=[0]"}), HasSubstr("model.pooling_scales"));
  EXPECT_THAT(gesture_refusal({"model.pooling_scales=[2, 1]"}), HasSubstr("model.pooling_scales"));
  EXPECT_THAT(gesture_refusal({"model.pooling_scales=[1, 2, 3]"}),
              HasSubstr("has 3 behind 2; a list that begins with 1"));
  EXPECT_THAT(gesture_refusal({"model.pooling_scales=[1, 4, 2]"}), HasSubstr("has 2 behind 4"));
  EXPECT_THAT(gesture_refusal({"model.share_weights=both"}), HasSubstr("allowed: false, true, bidirectional"));
  EXPECT_THAT(gesture_refusal({"data.order=hilbert", "data.hilbert_bits=10"}),
              HasSubstr("7 axes of 10 bits; together they may have 64"));
  EXPECT_THAT(gesture_refusal({"data.order=hilbert", "data.hilbert_axes=[6]"}), HasSubstr("the last is 5"));
  EXPECT_THAT(gesture_refusal({"data.hilbert_axes=[1, 1]"}), HasSubstr("names an axis twice"));
  EXPECT_THAT(gesture_refusal({"data.hilbert_axes=[-1]"}), HasSubstr("data.hilbert_axes"));
  EXPECT_THAT(gesture_refusal({"data.train_ratio_of_vectors=0"}), HasSubstr("data.train_ratio_of_vectors"));
  EXPECT_THAT(gesture_refusal({"data.train_ratio_of_vectors=1.5"}), HasSubstr("data.train_ratio_of_vectors"));
  EXPECT_THAT(gesture_refusal({"data.type=text"}), HasSubstr("takes data.type: series | synthetic"));
  EXPECT_THAT(
      gesture_refusal({"model.hidden_dim=65536", "data.length=1048576", "batch_size=1048576", "model.num_layers=1024"}),
      HasSubstr("more than can be counted"));
}

}  // namespace
}  // namespace plimsoll
