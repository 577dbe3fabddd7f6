// Tests what a job file leaves out: the tokenizer of jobs that start from weights, and types that follow from other
// keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "files/gguf_file.h"
#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DefaultTokenizer : public ::testing::Test {
 protected:
  DefaultTokenizer() {
    std::filesystem::create_directory(folder_ / "model");
    put("config.json",
        R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 4})");
  }
  void put(const std::string& name, const std::string& text) { put_file(folder_ / "model" / name, text); }
  Job job(const std::string& data, const std::string& model = "weights: model") {
    return parse_job("model: {" + model + "}\ndata: {" + data + "}\n", "job.yaml", folder_.path());
  }

  TempFolder folder_;
};

TEST_F(DefaultTokenizer, ItIsThatOfTheWeights) {
  EXPECT_EQ(job("files: [a.txt]").data.tokenizer, "bytes");
  EXPECT_THAT(job("files: [a.txt]").notes, IsEmpty());
  put("tokenizer.model", "x");
  EXPECT_EQ(job("files: [a.txt]").data.tokenizer, "sentencepiece");
  put("tokenizer.json", "{}");
  const Job read = job("files: [a.txt]");
  EXPECT_EQ(read.data.tokenizer, "huggingface");
  EXPECT_EQ(read.data.tokenizer_file, folder_ / "model" / "tokenizer.json");
  EXPECT_THAT(read.notes, ElementsAre(HasSubstr("data.tokenizer is that of the weights, huggingface: " +
                                                (folder_ / "model" / "tokenizer.json").string())));
  // A file of the folder, and a configuration of another place.
  put("model.safetensors", "x");
  EXPECT_EQ(job("files: [a.txt]", "weights: model/model.safetensors, config: model").data.tokenizer, "huggingface");
  EXPECT_EQ(job("files: [a.txt]", "weights: model/model.safetensors").data.tokenizer, "bytes");
}

TEST_F(DefaultTokenizer, TheJobDecides) {
  put("tokenizer.json", "{}");
  EXPECT_EQ(job("files: [a.txt], tokenizer: bytes").data.tokenizer, "bytes");
  EXPECT_THAT(job("files: [a.txt], tokenizer: bytes").notes, IsEmpty());
  put("other.json", "{}");
  EXPECT_EQ(job("files: [a.txt], tokenizer: huggingface, tokenizer_file: other.json").data.tokenizer_file,
            folder_ / "other.json");
  // Data without tokens, and a model without weights.
  EXPECT_EQ(job("type: synthetic").data.tokenizer, "bytes");
  EXPECT_EQ(job("files: [a.txt]", "config: model").data.tokenizer, "bytes");
}

TEST_F(DefaultTokenizer, FilesThatAreNotReadAreNamed) {
  put("vocab.json", "{}");
  const Job read = job("files: [a.txt]");
  EXPECT_EQ(read.data.tokenizer, "bytes");
  EXPECT_THAT(read.notes, Contains(HasSubstr("vocab.json is not read, and bytes are the tokens")));
}

TEST_F(DefaultTokenizer, AGgufFileHasItsOwn) {
  GgufText text;
  text.word("general.architecture", "llama");
  text.whole("llama.embedding_length", 8).whole("llama.block_count", 1).whole("llama.feed_forward_length", 8);
  text.whole("llama.attention.head_count", 2).tensor("token_embd.weight", {32, 8}, 0, std::string(32 * 8 * 4, '\0'));
  put("plain.gguf", text.text());
  EXPECT_EQ(job("files: [a.txt]", "weights: model/plain.gguf").data.tokenizer, "bytes");
  put("whole.gguf", text.word("tokenizer.ggml.model", "gpt2").text());
  const Job read = job("files: [a.txt]", "weights: model/whole.gguf");
  EXPECT_EQ(read.data.tokenizer, "gguf");
  EXPECT_EQ(read.data.tokenizer_file, folder_ / "model" / "whole.gguf");
  EXPECT_THAT(read.notes, Not(IsEmpty()));
}

TEST_F(DefaultTokenizer, ItIsThatOfTheLanguageModelOfAnother) {
  put("tokenizer.json", "{}");
  const Job read = job("type: clips, list: clips.txt", "type: video_llm, llm: {weights: model}");
  EXPECT_EQ(read.data.tokenizer, "huggingface");
}

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
