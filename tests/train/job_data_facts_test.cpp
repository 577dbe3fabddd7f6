#include "train/job_data.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/series/stimuli_files.h"
#include "files/nifti_files.h"
#include "files/picture_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DataFacts facts_of(const Job& job, const std::string& tokenizer = "") {
  return data_facts_of(job, tokenizer, [](double) {});
}

/// Returns key and name of each file, "data.files text.txt".
std::vector<std::string> named(const DataFacts& facts) {
  std::vector<std::string> all;
  for (const DataFileFact& each : facts.files) all.push_back(each.key + " " + each.name);
  return all;
}

class JobDataFacts : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& text) { return put_file(folder_ / name, text); }

  TempFolder folder_;
  Job job_;
};

TEST_F(JobDataFacts, OfTextAreItsFilesInTheirOrder) {
  job_.data.files = {put("b.txt", "two"), put("a.txt", "one")};
  job_.data.validation_fraction = 0.1;
  const DataFacts facts = facts_of(job_, "bytes (0000000000000007)");
  EXPECT_THAT(named(facts), ElementsAre("data.files b.txt", "data.files a.txt"));
  EXPECT_EQ(facts.files[0].identity, identity_of_file(folder_ / "b.txt"));
  const std::map<std::string, std::string> settings{{"data.shuffle", "true"},
                                                    {"data.tokenizer", "bytes (0000000000000007)"},
                                                    {"data.type", "text"},
                                                    {"data.validation_fraction", "0.1"}};
  EXPECT_EQ(facts.settings, settings);
}

TEST_F(JobDataFacts, OfRandomSamplesAreSettingsOnly) {
  job_.data.type = "synthetic";
  job_.data.files = {"missing.txt"};
  EXPECT_THAT(facts_of(job_).files, IsEmpty());
  EXPECT_EQ(facts_of(job_).settings.count("data.tokenizer"), 0u);
}

TEST_F(JobDataFacts, OfSeriesAreTheHeldOutFilesAndLabelsToo) {
  job_.data.type = "series";
  job_.data.files = {put("x.npy", "1")};
  job_.data.series.labels = {put("y.npy", "2")};
  job_.data.series.validation_files = {put("vx.npy", "3")};
  job_.data.series.validation_labels = {put("vy.npy", "4")};
  job_.data.series.test_files = {put("tx.npy", "5")};
  job_.data.series.test_labels = {put("ty.npy", "6")};
  EXPECT_THAT(named(facts_of(job_)),
              ElementsAre("data.files x.npy", "data.validation_files vx.npy", "data.test_files tx.npy",
                          "data.labels y.npy", "data.validation_labels vy.npy", "data.test_labels ty.npy"));
}

TEST_F(JobDataFacts, OfSlicesAreVolumesLabelsAndNames) {
  job_.data = box_slices(folder_);
  EXPECT_THAT(named(facts_of(job_)),
              ElementsAre("data.files image.nii", "data.labels labels.nii", "data.label_names names.txt"));
}

TEST_F(JobDataFacts, OfPicturesAreTheirFolders) {
  job_.data = scenes(folder_, 4);
  const DataFacts facts = facts_of(job_);
  ASSERT_EQ(facts.files.size(), 3u);
  EXPECT_EQ(facts.files[0].key, "data.images");
  EXPECT_EQ(facts.files[0].name, job_.data.pictures.images.filename());
  EXPECT_EQ(facts.files[0].identity.files, 4);
  EXPECT_EQ(facts.files[1].key, "data.masks");
  EXPECT_EQ(facts.files[2].key, "data.label_names");
  put_file(job_.data.pictures.images / "readme.md", "no picture is not read");
  EXPECT_EQ(facts_of(job_), facts);
  job_.data.pictures.images /= "";
  EXPECT_EQ(facts_of(job_), facts) << "a slash at the end";
}

TEST_F(JobDataFacts, OfAListOfPicturesAreThePicturesThatItNames) {
  job_.data = scenes(folder_, 2);
  const auto first = std::filesystem::directory_iterator(job_.data.pictures.images)->path();
  const auto mask = std::filesystem::directory_iterator(job_.data.pictures.masks)->path();
  std::string lines = "image,mask,prompt\n";
  for (const char* prompt : {"one", "two"}) lines += first.string() + "," + mask.string() + "," + prompt + "\n";
  job_.data.pictures.list = put("pairs.csv", lines);
  job_.data.pictures.images = job_.data.pictures.masks = "";
  job_.data.slices.label_names = "";
  EXPECT_THAT(named(facts_of(job_)), ElementsAre("data.list pairs.csv", "data.list " + first.filename().string(),
                                                 "data.list " + mask.filename().string()));
}

TEST_F(JobDataFacts, OfClipsAreTheVideosWhoseNamesAreCaptions) {
  job_.data.type = "clips";
  job_.data.files = {put("a dog.mp4", "1"), put("a cat.mp4", "2")};
  DataFacts facts = facts_of(job_);
  EXPECT_THAT(named(facts), ElementsAre("data.files a dog.mp4", "data.files a cat.mp4"));
  EXPECT_TRUE(facts.files[0].is_name_data);
  job_.data.files.clear();
  job_.data.clips.list = put("list.tsv", "a dog.mp4\ta dog barks\na dog.mp4\ta dog barks\t0\t1\na cat.mp4\ta cat\n");
  facts = facts_of(job_);
  EXPECT_THAT(named(facts), ElementsAre("data.list list.tsv", "data.list a dog.mp4", "data.list a cat.mp4"));
  EXPECT_FALSE(facts.files[1].is_name_data);
}

TEST_F(JobDataFacts, OfStimuliAreTheSeriesAndAllStimuli) {
  job_.data = StimuliFiles(folder_, 2, 1, /*clips=*/true).config;
  const DataFacts facts = facts_of(job_);
  EXPECT_THAT(named(facts), ElementsAre("data.fmri bold.nii", "data.fmri_mask mask.nii", "data.texts labels.txt",
                                        "data.text_embeddings vectors.safetensors", "data.videos clips"));
  EXPECT_EQ(facts.files.back().identity.files, 2);
  EXPECT_EQ(facts.settings.at("data.repetition_time"), "0");
}

TEST_F(JobDataFacts, OfManyFilesAreOneFact) {
  for (int i = 0; i < 300; ++i) job_.data.files.push_back(put(std::to_string(i), std::to_string(i)));
  const DataFacts facts = facts_of(job_);
  EXPECT_THAT(named(facts), ElementsAre("data.files all files"));
  EXPECT_EQ(facts.files[0].identity.files, 300);
  std::swap(job_.data.files[7], job_.data.files[8]);
  EXPECT_NE(facts_of(job_), facts) << "their order counts";
}

TEST_F(JobDataFacts, NameAFileThatCannotBeRead) {
  job_.data.files = {put("a.txt", "1"), folder_ / "gone.txt"};
  EXPECT_THAT(user_error_of([&] { facts_of(job_); }),
              AllOf(HasSubstr("data.files: cannot read"), HasSubstr("gone.txt")));
  job_.data.skip_bad = true;
  job_.data.files.push_back(put("empty.txt", ""));
  EXPECT_THAT(named(facts_of(job_)), ElementsAre("data.files a.txt"));
}

TEST_F(JobDataFacts, HaveNamesInUtf8) {
  job_.data.files = {put("a\xff.txt", "1")};
  EXPECT_NO_THROW(json_of(facts_of(job_)).dump());
}

}  // namespace
}  // namespace plimsoll
