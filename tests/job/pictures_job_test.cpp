// Keys of pictures, and of what comes out of NumPy files.
#include <gmock/gmock.h>

#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"

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

}  // namespace
}  // namespace plimsoll
