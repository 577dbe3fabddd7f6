// Tests the types of a job that follow from its other keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(KindsMeant, KeysThatOnlyOneKindHasSayIt) {
  const Job video =
      parsed_file("data: {max_frames: 100, files: a.mp4}\nmodel: {llm: {use_gradient_checkpointing: true}}");
  EXPECT_EQ(video.model.type, "video_llm");
  EXPECT_EQ(video.data.type, "clips");
  EXPECT_THAT(video.notes, ElementsAre("job.yaml:1: data.max_frames says that this is a job of model.type: video_llm"));
  EXPECT_EQ(parsed_file("model.hidden_dim: 64\ndata.type: synthetic").model.type, "gesture_ssm");
  EXPECT_EQ(parsed_file("model.bottleneck_dim: 8\ndata.type: synthetic").model.type, "fmri_autoencoder");
  EXPECT_EQ(parsed_file("data.type: series\ndata.files: a.ts").model.type, "gesture_ssm");
  EXPECT_EQ(parsed_file("data: {files: a.nii, labels: b.nii, label_names: n.txt}\nmodel.image_size: 64").model.type,
            "prompt_segmentation");
  EXPECT_EQ(parsed_file("model.num_groups: 2\ndata.files: a.txt").model.type, "mamba");
}

TEST(KindsMeant, WhatIsMissingIsThatKinds) {
  EXPECT_THAT(file_refusal("data.max_frames: 100"), HasSubstr("name videos"));
  EXPECT_THAT(file_refusal("model.bottleneck_dim: 8"), HasSubstr("data.fmri is missing"));
  EXPECT_THAT(file_refusal("model.type: gesture_ssm"), HasSubstr("name the series to train on"));
}

TEST(KindsMeant, KeysOfSeveralKindsAreAnsweredWithTheirNames) {
  EXPECT_THAT(file_refusal("batch_size: 8\nmodel.image_size: 512"),
              HasSubstr("job.yaml:2: model.type is missing; model.image_size is a key of several: set model.type: "
                        "prompt_segmentation, or model.type: video_llm"));
  EXPECT_EQ(parsed_file("model.image_size: 64\ndata.type: synthetic", {"model.type=video_llm"}).model.type,
            "video_llm");
}

TEST(KindsMeant, WithoutThemTheDefaultStays) {
  EXPECT_EQ(parsed_file("data.files: a.txt").model.type, "decoder");
  EXPECT_EQ(parsed_file("data.files: a.txt\nmodel.num_layers: 2").model.type, "decoder")
      << "of several, of which it is one";
  EXPECT_THAT(parsed_file("data.files: a.txt\nmodel.num_layers: 2").notes, IsEmpty());
  EXPECT_EQ(parsed_file("data.type: synthetic").model.type, "decoder");
  // Keys that do not go together: the one that is out of place is named.
  EXPECT_THAT(file_refusal("data.files: a.txt\nmodel: {num_kv_heads: 1, bottleneck_dim: 8}"),
              HasSubstr("belongs to model.type: fmri_autoencoder, and this job's is decoder"));
}

}  // namespace
}  // namespace plimsoll
