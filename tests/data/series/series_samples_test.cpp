#include "data/series/series_samples.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "files/file_kind.h"
#include "files/npy_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Series of two channels and two classes: channel 0 counts from `first` on, channel 1 is 10 or -10 by class.
std::string series_file(int64_t count, int64_t length, double first = 0) {
  std::string text = "@classLabel true plus minus\n@dimensions 2\n@data\n";
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t t = 0; t < length; ++t) text += (t ? "," : "") + std::to_string(first + double(i) + double(t));
    text += ":";
    for (int64_t t = 0; t < length; ++t) text += std::string(t ? "," : "") + (i % 2 ? "-10" : "10");
    text += i % 2 ? ":minus\n" : ":plus\n";
  }
  return text;
}

struct Fixture {
  TempFolder folder;
  DataConfig config;
  Fixture() {
    config.type = "series";
    config.files = {put_file(folder / "train.ts", series_file(8, 10))};
    config.series.validation_files = {put_file(folder / "test.ts", series_file(4, 10))};
    config.series.length = 10;
  }
  std::unique_ptr<SampleSource> open(uint64_t seed = 1) const { return series_samples(config, {2, 2}, seed); }
};

std::vector<float> vectors_of(const Batch& batch) {
  const auto* values = reinterpret_cast<const float*>(batch.fields.at(0).bytes.data());
  return {values, values + batch.fields[0].bytes.size() / sizeof(float)};
}
std::vector<int64_t> labels_of(const Batch& batch) {
  const auto* values = reinterpret_cast<const int64_t*>(batch.fields.at(1).bytes.data());
  return {values, values + batch.fields[1].bytes.size() / sizeof(int64_t)};
}
Batch batch_of(const SampleSource& source, Split split, int64_t first, int64_t count, bool shuffle = false) {
  return source.batch(WindowOrder(source.samples(split), 3, shuffle), split, first, count);
}
/// The times of the vectors of a batch's only sample, counted from 0.
std::vector<int64_t> times_of(const Batch& batch, int64_t length, int64_t width = 3) {
  std::vector<int64_t> times;
  const std::vector<float> values = vectors_of(batch);
  for (size_t i = static_cast<size_t>(width) - 1; i < values.size(); i += static_cast<size_t>(width))
    times.push_back(std::llround(values[i] * double(length) / std::sqrt(12.0) + double(length - 1) / 2));
  return times;
}

// 20 kB of series of one vector, padded to 2^20 vectors each: 8 GiB.
TEST(SeriesSamples, AreNotFilledUpToMoreThanTheyMay) {
  Fixture fixture;
  fixture.config.files = {put_file(fixture.folder / "short.ts", series_file(1024, 1))};
  fixture.config.series.length = 1 << 20;
  fixture.config.series.pad = true;
  EXPECT_THAT(user_error_of([&] { fixture.open(); }),
              ::testing::AllOf(HasSubstr("short.ts: its 1024 series take 8589934592 bytes"), HasSubstr("allowed: 107"),
                               HasSubstr("data.length")));
}

TEST(SeriesSamples, AreNormalizedByWhatIsTrainedOn) {
  Fixture fixture;
  fixture.config.series.validation_files = {put_file(fixture.folder / "far.ts", series_file(2, 10, 1000))};
  const auto source = fixture.open();
  const std::vector<float> values = vectors_of(batch_of(*source, Split::train, 0, 8));
  double sums[3] = {}, squares[3] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i % 3] += values[i];
    squares[i % 3] += double{values[i]} * values[i];
  }
  for (int channel = 0; channel < 3; ++channel) {
    EXPECT_NEAR(sums[channel] / 80, 0, 1e-5);
    EXPECT_NEAR(squares[channel] / 80, 1, 0.02);  // the time channel: over whole numbers
  }
  EXPECT_GT(vectors_of(batch_of(*source, Split::validation, 0, 1))[0], 100);
}

TEST(SeriesSamples, HaveShapesLabelsAndTimes) {
  const Fixture fixture;
  const auto source = fixture.open();
  EXPECT_EQ(source->samples(Split::train), 8);
  EXPECT_EQ(source->samples(Split::validation), 4);
  const Batch batch = batch_of(*source, Split::train, 6, 3);  // over the end of an epoch
  EXPECT_EQ(batch.fields[0].name, "vectors");
  EXPECT_THAT(batch.fields[0].sizes, ElementsAre(3, 10, 3));
  EXPECT_EQ(batch.fields[1].name, "labels");
  EXPECT_THAT(labels_of(batch), ElementsAre(0, 1, 0));
  EXPECT_THAT(times_of(batch_of(*source, Split::train, 0, 1), 10), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(SeriesSamples, DrawVectorsBySeedEpochAndSeriesAlone) {
  Fixture fixture;
  fixture.config.series.train_ratio_of_vectors = 0.4;
  const auto source = fixture.open(), twin = fixture.open(), other = fixture.open(2);
  std::set<std::vector<int64_t>> drawn;
  for (int64_t position = 0; position < 64; ++position) {
    const Batch batch = batch_of(*source, Split::train, position, 1);
    EXPECT_THAT(batch.fields[0].sizes, ElementsAre(1, 4, 3));
    const std::vector<int64_t> times = times_of(batch, 10);
    EXPECT_TRUE(std::ranges::is_sorted(times));
    EXPECT_EQ(std::set(times.begin(), times.end()).size(), 4u);
    drawn.insert(times);
    EXPECT_EQ(vectors_of(batch), vectors_of(batch_of(*twin, Split::train, position, 1)));
  }
  EXPECT_GT(drawn.size(), 30u);
  // A batch of several samples equals its samples read separately.
  const std::vector<float> both = vectors_of(batch_of(*source, Split::train, 7, 2, true));
  std::vector<float> apart = vectors_of(batch_of(*source, Split::train, 7, 1, true));
  const std::vector<float> second = vectors_of(batch_of(*source, Split::train, 8, 1, true));
  apart.insert(apart.end(), second.begin(), second.end());
  EXPECT_EQ(both, apart);
  EXPECT_NE(vectors_of(batch_of(*source, Split::train, 0, 8)), vectors_of(batch_of(*other, Split::train, 0, 8)));
  // Held out they are evenly spaced.
  EXPECT_THAT(times_of(batch_of(*source, Split::validation, 0, 1), 10), ElementsAre(1, 3, 6, 8));
  EXPECT_THAT(times_of(batch_of(*source, Split::validation, 3, 1), 10), ElementsAre(1, 3, 6, 8));
}

TEST(SeriesSamples, StandAlongAHilbertCurve) {
  Fixture fixture;
  // Channel 0 goes up and down again: by its value the ends of the series belong together.
  std::string text = "@classLabel true a b\n@data\n0,1,2,3,4,4,3,2,1,0:0,0,0,0,0,0,0,0,0,0:a\n";
  fixture.config.files = {put_file(fixture.folder / "hill.ts", text)};
  fixture.config.series.validation_files = fixture.config.files;
  fixture.config.series.order = "hilbert";
  fixture.config.series.hilbert_axes = {0};
  const std::vector<int64_t> times = times_of(batch_of(*fixture.open(), Split::train, 0, 1), 10);
  EXPECT_THAT(times, ElementsAre(0, 9, 1, 8, 2, 7, 3, 6, 4, 5));
  // Along time alone nothing changes; along all coordinates each vector is there once.
  fixture.config.series.hilbert_axes = {-1};
  EXPECT_THAT(times_of(batch_of(*fixture.open(), Split::train, 0, 1), 10), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  fixture.config.series.hilbert_axes = {};
  fixture.config.series.train_ratio_of_vectors = 0.5;
  const std::vector<int64_t> half = times_of(batch_of(*fixture.open(), Split::train, 0, 1), 10);
  EXPECT_EQ(std::set(half.begin(), half.end()).size(), 5u);
}

TEST(SeriesSamples, HoldOutAShareEvenlySpaced) {
  Fixture fixture;
  fixture.config.series.validation_files = {};
  fixture.config.validation_fraction = 0.25;
  const auto source = fixture.open();
  EXPECT_EQ(source->samples(Split::train), 6);
  EXPECT_EQ(source->samples(Split::validation), 2);
  fixture.config.validation_fraction = 0;
  EXPECT_EQ(fixture.open()->samples(Split::validation), 0);
  EXPECT_TRUE(fixture.open()->all_baselines().empty());
}

/// Returns the classes of a part, each once and ascending.
std::set<int64_t> classes_in(const SampleSource& source, Split split) {
  const std::vector<int64_t> labels = labels_of(batch_of(source, split, 0, source.samples(split)));
  return {labels.begin(), labels.end()};
}

/// Writes `count` series with the classes of `class_of` as NAME.ts, NAME.csv and NAME.npz.
std::vector<std::filesystem::path> in_all_formats(const TempFolder& folder, const std::string& name, int64_t count,
                                                  const std::function<int64_t(int64_t)>& class_of) {
  std::string ts = "@classLabel true 0 1 2 3\n@data\n", csv = "series,label,x\n";
  std::vector<double> vectors;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = class_of(i);
    ts += fmt::format("{},{},{}:{}\n", i, label, i + label, label);
    for (const int64_t value : {i, label, i + label}) {
      csv += fmt::format("s{},{},{}\n", i, label, value);
      vectors.push_back(static_cast<double>(value));
    }
    labels.push_back(label);
  }
  return {put_file(folder / (name + ".ts"), ts), put_file(folder / (name + ".csv"), csv),
          put_file(folder / (name + ".npz"), zip({{"vectors.npy", npy("<f8", fmt::format("({}, 3)", count), vectors)},
                                                  {"labels.npy", npy("<i8", fmt::format("({},)", count), labels)}},
                                                 false))};
}

// Classes in turn are the worst case of evenly spaced series: with a fraction of 1/4, every fourth series is held out.
TEST(SeriesSamples, EveryPartHasEveryClassInAnyOrderOfTheFile) {
  const TempFolder folder;
  std::vector<std::pair<std::string, std::function<int64_t(int64_t)>>> orders = {
      {"in_turn", [](int64_t i) { return i % 4; }},
      {"sorted", [](int64_t i) { return i / 10; }},
      {"one_rare", [](int64_t i) { return i < 3 ? 3 : i % 3; }},
      {"rare_at_the_end", [](int64_t i) { return i >= 37 ? 3 : i % 3; }},
  };
  for (const auto& [name, class_of] : orders)
    for (const std::filesystem::path& file : in_all_formats(folder, name, 40, class_of))
      for (const std::string part : {"validation", "test"}) {
        SCOPED_TRACE(file.filename().string() + " " + part);
        DataConfig config;
        config.type = "series";
        config.files = {file};
        config.series.length = 3;
        config.validation_fraction = 0.25;
        config.test_fraction = 0.1;
        config.evaluate_on = part;
        DataNotes notes;
        const DataNotes::Scope scope(notes);
        const auto source = series_samples(config, {1, 4}, 1);
        EXPECT_EQ(source->samples(Split::train), 26);
        EXPECT_EQ(source->samples(Split::validation), part == "test" ? 4 : 10);
        EXPECT_THAT(classes_in(*source, Split::train), ElementsAre(0, 1, 2, 3));
        EXPECT_THAT(classes_in(*source, Split::validation), ElementsAre(0, 1, 2, 3));
        EXPECT_THAT(notes.lines(), IsEmpty());
        EXPECT_EQ(source->never_trained(), "");
      }
}

TEST(SeriesSamples, NameTheClassesThatAPartLacks) {
  const TempFolder folder;
  DataConfig config;
  config.type = "series";
  config.files = {in_all_formats(folder, "three", 9, [](int64_t i) { return i % 3; })[1]};
  config.series.length = 3;
  config.series.validation_files = {in_all_formats(folder, "two", 6, [](int64_t i) { return i % 2 * 3; })[0]};
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto source = series_samples(config, {1, 4}, 1);
  EXPECT_EQ(source->never_trained(), "3 of 6 validation series show what is never trained on: class 3");
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("the training part has no series of the class 3"),
                                         HasSubstr("the validation part has no series of 2 classes 1, 2"),
                                         HasSubstr(source->never_trained())));
}

// A series that is not the only one of its class is held out as before, whatever the seed.
TEST(SeriesSamples, TheSeedMattersOnlyIfAClassWouldBeMissing) {
  const TempFolder folder;
  DataConfig config;
  config.type = "series";
  config.series.length = 3;
  config.validation_fraction = 0.25;
  const auto held_out = [&](uint64_t seed) {
    return vectors_of(batch_of(*series_samples(config, {1, 4}, seed), Split::validation, 0, 10));
  };
  config.files = {in_all_formats(folder, "sorted", 40, [](int64_t i) { return i / 10; })[0]};
  EXPECT_EQ(held_out(1), held_out(2));
  config.files = {in_all_formats(folder, "in_turn", 40, [](int64_t i) { return i % 4; })[0]};
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
}

TEST(SeriesSamples, HoldOutATestApartFromTheValidation) {
  Fixture fixture;
  fixture.config.series.validation_files = {};
  fixture.config.validation_fraction = 0.25;
  fixture.config.test_fraction = 0.25;
  const auto validation = fixture.open();
  fixture.config.evaluate_on = "test";
  const auto test = fixture.open();
  EXPECT_EQ(validation->samples(Split::validation), 2);
  EXPECT_EQ(test->samples(Split::validation), 2);
  EXPECT_EQ(test->samples(Split::train), 4);
  const auto values = [](const SampleSource& source, Split split) {
    return vectors_of(batch_of(source, split, 0, source.samples(split)));
  };
  EXPECT_EQ(values(*validation, Split::train), values(*test, Split::train));
  std::set<float> starts;  // each series begins with another number
  for (const std::vector<float>& part :
       {values(*test, Split::train), values(*test, Split::validation), values(*validation, Split::validation)})
    for (size_t i = 0; i < part.size(); i += 30) starts.insert(part[i]);
  EXPECT_EQ(starts.size(), 8u);
  fixture.config.validation_fraction = fixture.config.test_fraction = 0.5;
  EXPECT_THAT(user_error_of([&] { fixture.open(); }), HasSubstr("no series to train on"));
}

TEST(SeriesSamples, ReadTheFilesOfThePartThatIsEvaluated) {
  Fixture fixture;
  fixture.config.validation_fraction = 0.25;
  fixture.config.series.validation_files = {};
  fixture.config.series.test_files = {put_file(fixture.folder / "three.ts", series_file(3, 10, 500))};
  EXPECT_EQ(fixture.open()->samples(Split::validation), 2);
  fixture.config.evaluate_on = "test";
  const auto source = fixture.open();
  EXPECT_EQ(source->samples(Split::validation), 3);
  EXPECT_EQ(source->samples(Split::train), 6);  // the validation series are not trained on
  EXPECT_GT(vectors_of(batch_of(*source, Split::validation, 0, 1))[0], 50);
  fixture.config.series.validation_files = {fixture.folder / "nowhere.ts"};
  EXPECT_EQ(fixture.open()->samples(Split::train), 8);
}

TEST(SeriesSamples, TheBaselineIsTheMostFrequentClass) {
  Fixture fixture;
  // Five of class plus and four of minus to learn from; one of each held out.
  fixture.config.files = {put_file(fixture.folder / "nine.ts", series_file(9, 10))};
  fixture.config.series.validation_files = {put_file(fixture.folder / "two.ts", series_file(2, 10))};
  const auto baselines = fixture.open()->all_baselines();
  ASSERT_EQ(baselines.size(), 1u);
  EXPECT_EQ(baselines[0].metric, "accuracy");
  EXPECT_EQ(baselines[0].name, "most frequent class");
  EXPECT_EQ(baselines[0].value, 0.5);
}

TEST(SeriesSamples, RefuseOtherShapes) {
  Fixture fixture;
  const auto refusal = [&] { return user_error_of([&] { fixture.open(); }); };
  fixture.config.series.length = 12;
  EXPECT_THAT(refusal(), HasSubstr("train.ts:4: the series has 10 vectors; data.length is 12: set data.pad: true"));
  fixture.config.series.length = 9;
  EXPECT_THAT(refusal(), HasSubstr("data.length is 9: raise it"));
  fixture.config.series.length = 10;
  EXPECT_THAT(user_error_of([&] {
                series_samples(fixture.config, {3, 2}, 1);
              }),
              AllOf(HasSubstr("has series of 2 channels, the first vector is: "),
                    HasSubstr("model.channels is 3: set it to 2 if all of these are values")));
  EXPECT_THAT(user_error_of([&] {
                series_samples(fixture.config, {2, 5}, 1);
              }),
              HasSubstr("train.ts has 2 classes (plus, minus); model.num_classes is 5: set it to 2"));
  fixture.config.series.validation_files = {
      put_file(fixture.folder / "other.ts", "@classLabel true plus zero\n@data\n")};
  EXPECT_THAT(refusal(), HasSubstr("has the class 'zero'"));
  fixture.config.files = {put_file(fixture.folder / "empty.ts", "@classLabel true a b\n@data\n")};
  fixture.config.series.validation_files = {};
  EXPECT_THAT(refusal(), HasSubstr("no series to train on"));
}

TEST(SeriesSamples, FillUpWithTheMean) {
  Fixture fixture;
  fixture.config.series.pad = true;
  fixture.config.series.length = 4;
  fixture.config.files = {put_file(fixture.folder / "short.ts", "@classLabel true a b\n@data\n1,?,3:5,6,7:a\n")};
  fixture.config.series.validation_files = {};
  fixture.config.validation_fraction = 0;
  const std::vector<float> values = vectors_of(batch_of(*fixture.open(), Split::train, 0, 1));
  EXPECT_NEAR(values[0], -1, 1e-6);  // the mean of 1 and 3 is 2
  EXPECT_EQ(values[3], 0);
  EXPECT_EQ(values[9], 0);
  EXPECT_EQ(values[10], 0);
  fixture.config.series.pad = false;
  fixture.config.series.length = 3;
  EXPECT_THAT(user_error_of([&] { fixture.open(); }), HasSubstr("has missing values"));
}

TEST(SeriesSamples, LeaveBadOnesOutWhereTheyMay) {
  Fixture fixture;
  fixture.config.files.push_back(put_file(fixture.folder / "bad.ts", series_file(1, 10) + "nonsense\n" + "1:1:plus\n"));
  fixture.config.files.push_back(fixture.folder / "none.ts");
  EXPECT_THAT(user_error_of([&] { fixture.open(); }), HasSubstr("data.skip_bad: true leaves such series out"));
  fixture.config.skip_bad = true;
  const auto source = fixture.open();
  EXPECT_EQ(source->samples(Split::train), 9);
  EXPECT_THAT(source->skipped(), ElementsAre(HasSubstr("bad.ts:5"), HasSubstr("bad.ts:6"), HasSubstr("none.ts")));
}

// Every point has a place of its own, and from each place to the next one coordinate changes by one.
TEST(Hilbert, PassesThroughEveryPointInSingleSteps) {
  for (const auto& [axes, bits] : {std::pair{1, 5}, {2, 1}, {2, 5}, {3, 4}, {4, 3}, {5, 2}, {7, 2}}) {
    std::map<uint64_t, std::vector<uint32_t>> places;
    const uint64_t points = uint64_t{1} << (axes * bits);
    for (uint64_t number = 0; number < points; ++number) {
      std::vector<uint32_t> point;
      for (int axis = 0; axis < axes; ++axis)
        point.push_back(static_cast<uint32_t>(number >> (axis * bits)) & ((1u << bits) - 1));
      std::vector<uint32_t> used = point;
      EXPECT_TRUE(places.emplace(hilbert_index(used, bits), point).second) << axes << " axes of " << bits << " bits";
    }
    ASSERT_EQ(places.rbegin()->first, points - 1);
    for (uint64_t i = 1; i < points; ++i) {
      int64_t steps = 0;
      for (int axis = 0; axis < axes; ++axis)
        steps += std::abs(static_cast<int64_t>(places.at(i)[axis]) - static_cast<int64_t>(places.at(i - 1)[axis]));
      ASSERT_EQ(steps, 1) << axes << " axes of " << bits << " bits at " << i;
    }
  }
}

TEST(Hilbert, BeginsAtTheOriginAndFillsAllBits) {
  std::vector<uint32_t> origin(16, 0);
  EXPECT_EQ(hilbert_index(origin, 4), 0u);
  // The curve ends at a neighbor of the origin's corner: the last place of 64 bits is taken by one of the corners.
  bool found = false;
  for (uint32_t corner = 0; corner < 4; ++corner) {
    std::vector<uint32_t> point = {corner & 1 ? 0x7fffffffu : 0, corner & 2 ? 0x7fffffffu : 0};
    found |= hilbert_index(point, 31) == (uint64_t{1} << 62) - 1;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace plimsoll
