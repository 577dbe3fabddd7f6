// Tests that a run which resumes with other data than those of its checkpoint is refused, unless the job allows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NoteWatcher : public Watcher {
 public:
  void noted(const std::string& what) override { notes.push_back(what); }

  std::vector<std::string> notes;
};

class OtherDataTest : public ::testing::Test {
 protected:
  OtherDataTest() {
    job_.checkpoint.directory = folder_ / "run";
    job_.data.files.push_back(put_file(folder_ / "more.txt", sample_text(200)));
    job_.scheduler.name = "constant";  // other steps are no other schedule, which is noted, too
    job_.max_steps = 2;
  }

  std::filesystem::path checkpoint(int64_t step) const {
    return folder_ / "run" / ("step-0000000" + std::to_string(step) + ".safetensors");
  }

  /// Returns the error of resuming `job_` after `change`.
  std::string refusal(const std::function<void(Job&)>& change) {
    Job other = job_;
    other.max_steps = 3;
    change(other);
    return user_error_of([&] { train(other); });
  }

  /// Resumes for one more step; returns the notes.
  std::vector<std::string> resume(const std::function<void(Job&)>& change = [](Job&) {}) {
    job_.max_steps = *job_.max_steps + 1;
    change(job_);
    NoteWatcher watcher;
    const TrainReport report = train_job(job_, watcher);
    EXPECT_EQ(report.resumed_step, *job_.max_steps - 1);
    EXPECT_EQ(report.file_notes, watcher.notes);
    return watcher.notes;
  }

  TempFolder folder_;
  Job job_ = tiny_job(folder_, /*windows=*/16, /*validation=*/2);
};

TEST_F(OtherDataTest, MovedDataGoOnWithEqualBits) {
  Job straight = job_;
  straight.checkpoint.directory = folder_ / "straight";
  straight.max_steps = 4;
  job_.max_steps = 4;
  const TrainReport whole = train(straight);
  std::vector<double> losses = train_until(job_, 2).losses;
  std::filesystem::create_directory(folder_ / "moved");
  for (std::filesystem::path& file : job_.data.files) {
    const std::filesystem::path moved = folder_ / "moved" / file.filename();
    std::filesystem::rename(file, moved);
    file = moved;
  }
  NoteWatcher watcher;
  const TrainReport rest = train_job(job_, watcher);
  EXPECT_THAT(watcher.notes, IsEmpty());
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_TRUE(get_file(checkpoint(4)) == get_file(folder_ / "straight" / "step-00000004.safetensors"));
}

TEST_F(OtherDataTest, RenamedDataGoOn) {
  train(job_);
  std::filesystem::rename(job_.data.files[0], folder_ / "renamed.txt");
  EXPECT_THAT(resume([&](Job& job) { job.data.files[0] = folder_ / "renamed.txt"; }), IsEmpty());
}

TEST_F(OtherDataTest, OtherBytesAreRefused) {
  train(job_);
  std::string text = get_file(job_.data.files[0]);
  text[text.size() / 2] ^= 1;
  put_file(job_.data.files[0], text);
  EXPECT_THAT(refusal([](Job&) {}),
              AllOf(HasSubstr("cannot resume from " + checkpoint(2).string()),
                    HasSubstr("data.files: text.txt had " + std::to_string(text.size()) + " bytes (hash "),
                    HasSubstr("), now has "), HasSubstr("checkpoint.allow_other_data: true"),
                    Not(HasSubstr("more.txt")), Not(HasSubstr("validation"))));
}

TEST_F(OtherDataTest, AnotherSplitOrOrderIsRefused) {
  train(job_);
  EXPECT_THAT(refusal([](Job& job) { job.data.validation_fraction = 0.4; }),
              AllOf(HasSubstr("data.validation_fraction was "), HasSubstr(" and is 0.4\n"),
                    HasSubstr("checkpoint.allow_other_data: true")));
  EXPECT_THAT(refusal([](Job& job) { job.data.shuffle = false; }), HasSubstr("data.shuffle was true and is false"));
  EXPECT_THAT(refusal([](Job& job) { job.data.sequence_length = 8; }),
              HasSubstr("data.sequence_length was 16 and is 8"));
  EXPECT_THAT(refusal([](Job& job) { ++job.seed; }), HasSubstr("seed was "));
  EXPECT_THAT(refusal([](Job& job) { std::swap(job.data.files[0], job.data.files[1]); }),
              HasSubstr("data.files: the order was text.txt, more.txt and is more.txt, text.txt"));
  EXPECT_THAT(refusal([](Job& job) { job.data.files.pop_back(); }),
              AllOf(HasSubstr("data.files: more.txt with 200 bytes"), HasSubstr("is not there now")));
}

TEST_F(OtherDataTest, AnotherTokenizerIsRefused) {
  job_.data.tokenizer = "gpt2";
  job_.data.tokenizer_file = put_file(folder_ / "ranks", rank_file({"li", "lin"}));
  train(job_);
  std::filesystem::rename(folder_ / "ranks", folder_ / "moved-ranks");
  EXPECT_THAT(resume([&](Job& job) { job.data.tokenizer_file = folder_ / "moved-ranks"; }), IsEmpty());
  put_file(folder_ / "moved-ranks", rank_file({"lo", "log"}));
  EXPECT_THAT(refusal([](Job& job) { job.max_steps = *job.max_steps + 1; }), HasSubstr("data.tokenizer was gpt2 ("));
  EXPECT_THAT(resume([](Job& job) { job.checkpoint.allow_other_data = true; }),
              ElementsAre(HasSubstr("data.tokenizer was gpt2 (")));
}

TEST_F(OtherDataTest, OneRefusalNamesAllThatChanged) {
  train(job_);
  for (const std::filesystem::path& file : job_.data.files) put_file(file, get_file(file) + "\n");
  EXPECT_THAT(refusal([](Job& job) {
                job.data.validation_fraction = 0.4;
                job.data.sequence_length = 8;
                job.optimizer.name = "sgd";
              }),
              AllOf(HasSubstr("other settings and other data"), HasSubstr("optimizer.name is sgd"),
                    HasSubstr("text.txt had"), HasSubstr("more.txt had"), HasSubstr("data.validation_fraction was"),
                    HasSubstr("data.sequence_length was")));
}

TEST_F(OtherDataTest, TheKeyAllowsThemAndOneNoteNamesThem) {
  train(job_);
  put_file(job_.data.files[0], sample_text(500));
  EXPECT_THAT(resume([](Job& job) {
                job.checkpoint.allow_other_data = true;
                job.data.validation_fraction = 0.1;
              }),
              ElementsAre(AllOf(HasSubstr(checkpoint(2).string()), HasSubstr("goes on with other data"),
                                HasSubstr("checkpoint.allow_other_data"), HasSubstr("text.txt had"),
                                HasSubstr("data.validation_fraction was"), Not(HasSubstr("\n")))));
  // The next checkpoint has the facts of the new data.
  EXPECT_THAT(resume(), IsEmpty());
  EXPECT_THAT(resume([](Job& job) { job.checkpoint.allow_other_data = false; }), IsEmpty());
}

TEST_F(OtherDataTest, ACheckpointWithoutFactsGoesOnWithANote) {
  train(job_);
  ASSERT_TRUE(describe_checkpoint(checkpoint(2)).data.has_value());
  const SafetensorsFile file = SafetensorsFile::open(checkpoint(2));
  auto metadata = file.metadata();
  std::string& described = metadata["plimsoll.checkpoint"];
  auto json = nlohmann::json::parse(described);
  json.erase("data");
  described = json.dump();  // as earlier versions wrote it
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("hash:"); });
  std::vector<TensorDeclaration> tensors;
  for (const auto& [name, tensor] : file.tensors())
    tensors.push_back({name, tensor.dtype, tensor.sizes, content_hash(tensor.bytes)});
  SafetensorsWriter writer(folder_ / "earlier", tensors, metadata);
  for (const auto& [name, tensor] : file.tensors()) writer.write(name, tensor.bytes);
  writer.commit();
  std::filesystem::rename(folder_ / "earlier", checkpoint(2));
  put_file(job_.data.files[0], sample_text(500));
  EXPECT_THAT(resume(), ElementsAre(AllOf(HasSubstr(checkpoint(2).string()), HasSubstr("cannot be compared"))));
  EXPECT_THAT(resume(), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
