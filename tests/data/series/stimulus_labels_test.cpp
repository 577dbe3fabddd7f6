#include "data/series/stimulus_labels.h"

#include <gmock/gmock.h>

#include "cut_files.h"
#include "files/data_memory.h"
#include "safetensors/safetensors.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StimulusLabels, AreALineAVolume) {
  const TempFolder folder;
  const StimulusLabels labels =
      read_stimulus_labels(put_file(folder / "a.txt", "rest 0\nface\t0\r\nrest 3\nface 3\n\n"));
  EXPECT_THAT(labels.names, ElementsAre("rest", "face"));
  EXPECT_THAT(labels.label, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(labels.run, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(labels.runs, ElementsAre("0", "3"));
  EXPECT_THAT(read_stimulus_labels(put_file(folder / "a.txt", "rest\nface")).run, ElementsAre(0, 0));
}

TEST(StimulusLabels, RefusesWhatIsNoLine) {
  const TempFolder folder;
  const auto refusal = [&](const char* text) {
    return user_error_of([&] { read_stimulus_labels(put_file(folder / "a.txt", text)); });
  };
  EXPECT_THAT(refusal("rest 0\nface\n"), HasSubstr("a.txt: line 2 is 'face'; every line is a label and a run"));
  EXPECT_THAT(refusal("rest 0 1\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("rest 0\nrest 1\nrest 0\n"), HasSubstr("line 3: run '0' goes on after another"));
  EXPECT_THAT(refusal("\n\n"), HasSubstr("no labels"));
  EXPECT_THAT(refusal("face,0\n"),
              HasSubstr("line 1: 'face,0' has a run behind ','; separate the label and the run by a blank"));
  EXPECT_THAT(refusal("face\nhouse;12\n"), HasSubstr("line 2: 'house;12' has a run behind ';'"));
  EXPECT_THAT(user_error_of([&] { read_stimulus_labels(folder / "none.txt"); }), HasSubstr("none.txt"));
}

// If each run were compared with all runs before it, this number of runs would take hours.
TEST(StimulusLabels, ManyRunsAreReadInTimeNearLinear) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 2'000'000; ++i) text += "rest " + std::to_string(i) + "\n";
  EXPECT_EQ(read_stimulus_labels(put_file(folder / "a.txt", text)).runs.size(), 2'000'000u);
}

TEST(LabelVectors, AreErrorsWhereverAndWheneverTheirFileIsCut) {
  const TempFolder folder;
  const auto path = folder / "v.safetensors";
  const std::vector<float> face(3000, 1.0F), rest(3000, 2.0F);
  SafetensorsWriter writer(path, {{"face", DType::float32, {3000}, {}}, {"rest", DType::float32, {3000}, {}}});
  writer.write("face", std::as_bytes(std::span(face)));
  writer.write("rest", std::as_bytes(std::span(rest)));
  writer.commit();
  using Vectors = std::vector<std::vector<float>>;
  expect_no_zeros_when_cut<Vectors>(path, [&]() -> Vectors { return read_label_vectors(path, {"rest", "face"}); });
}

TEST(LabelVectors, KeepToTheBudgetOfData) {
  const TempFolder folder;
  const std::vector<float> face = {1, 2, 3}, rest = {4, 5, 6};
  SafetensorsWriter writer(folder / "v.safetensors",
                           {{"face", DType::float32, {3}, {}}, {"rest", DType::float32, {3}, {}}});
  writer.write("face", std::as_bytes(std::span(face)));
  writer.write("rest", std::as_bytes(std::span(rest)));
  writer.commit();
  const auto read = [&](int64_t budget) {
    DataMemory memory(budget);
    const DataMemory::Scope scope(memory);
    return read_label_vectors(folder / "v.safetensors", {"rest", "face"});
  };
  EXPECT_THAT(read(24), ElementsAre(rest, face));
  EXPECT_THAT(user_error_of([&] { read(23); }), HasSubstr("has vectors of 3 values for 2 labels"));
}

TEST(LabelVectors, AreThoseOfTheNames) {
  const TempFolder folder;
  const auto path = folder / "v.safetensors";
  const std::vector<float> face = {1, 2, 3}, rest = {4, 5, 6}, odd = {7, 8}, infinite = {1, 2, INFINITY};
  SafetensorsWriter writer(path, {{"face", DType::float32, {3}, {}},
                                  {"infinite", DType::float32, {3}, {}},
                                  {"odd", DType::float32, {2}, {}},
                                  {"rest", DType::float32, {3}, {}},
                                  {"square", DType::float32, {1, 1}, {}}});
  writer.write("face", std::as_bytes(std::span(face)));
  writer.write("infinite", std::as_bytes(std::span(infinite)));
  writer.write("odd", std::as_bytes(std::span(odd)));
  writer.write("rest", std::as_bytes(std::span(rest)));
  writer.write("square", std::as_bytes(std::span(face).first(1)));
  writer.commit();
  EXPECT_THAT(read_label_vectors(path, {"rest", "face"}), ElementsAre(rest, face));
  const auto refusal = [&](const std::vector<std::string>& names) {
    return user_error_of([&] { read_label_vectors(path, names); });
  };
  EXPECT_THAT(refusal({"face", "cat"}), HasSubstr("no vector for the label 'cat'; it has: face, infinite, odd"));
  EXPECT_THAT(refusal({"face", "odd"}), HasSubstr("'odd' has 2 values, that of 'face' 3"));
  EXPECT_THAT(refusal({"square"}), HasSubstr("float32 [1, 1]"));
  EXPECT_THAT(refusal({"infinite"}), HasSubstr("not finite"));
}

}  // namespace
}  // namespace plimsoll
