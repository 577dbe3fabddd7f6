#include "data/series/series_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <random>

#include "data/series/series_samples.h"
#include "files/file_kind.h"
#include "files/npy_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Reading {
  TempFolder folder;
  std::vector<std::string> bad;
  TsFile read(const std::string& name, const std::string& bytes, const std::filesystem::path& labels = {}) {
    return read_series_file(put_file(folder / name, bytes), labels,
                            [&](const std::string& what) { bad.push_back(what); });
  }
  std::string refusal(const std::string& name, const std::string& bytes, const std::filesystem::path& labels = {}) {
    const std::string message = user_error_of([&] { read(name, bytes, labels); });
    EXPECT_THAT(message, HasSubstr(labels.empty() ? name : folder.path().string()));
    return message;
  }
};

TEST(SeriesTable, HasALineAVector) {
  Reading reading;
  const TsFile file = reading.read("a.csv",
                                   "series,label,time,x,\"y, in mm\"\r\n"
                                   "one,swipe,0,1,2\r\n\r\none,swipe,0.5,3,4\r\n"
                                   "\"two\",\"a \"\"big\"\" one\",0, +5e0 ,?\n");
  EXPECT_TRUE(reading.bad.empty());
  EXPECT_FALSE(file.declares_classes);
  EXPECT_THAT(file.classes, ElementsAre("swipe", "a \"big\" one"));
  EXPECT_EQ(file.channels, 2);
  ASSERT_EQ(file.series.size(), 2u);
  EXPECT_THAT(file.series[0].values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(file.series[0].length, 2);
  EXPECT_EQ(file.series[1].label, 1);
  EXPECT_EQ(file.series[1].line, 5);
  EXPECT_EQ(file.series[1].values[0], 5);
  EXPECT_TRUE(std::isnan(file.series[1].values[1]));
}

TEST(SeriesTable, TakesItsFolderForTheLabelOfItsOnlySeries) {
  Reading reading;
  std::filesystem::create_directories(reading.folder / "swipe");
  const TsFile file = reading.read("swipe/take1.csv", "x;y\n1;2\n3;4\n");
  EXPECT_THAT(file.classes, ElementsAre("swipe"));
  ASSERT_EQ(file.series.size(), 1u);
  EXPECT_THAT(file.series[0].values, ElementsAre(1, 2, 3, 4));
}

TEST(SeriesTable, BoundsTheCellsOfALine) {
  Reading reading;
  EXPECT_THAT(reading.refusal("a.csv", "x,y\n" + std::string(1 << 20, ',') + "\n"),
              HasSubstr("a.csv:2: the line has more than 1048576 cells"));
  EXPECT_THAT(reading.refusal("a.csv", "x,y\n" + std::string((1 << 20) - 1, ',') + "\n"),
              HasSubstr("1048576 cells, and"));
}

TEST(SeriesTable, SaysWhatIsWrong) {
  Reading reading;
  const std::string names = "id,class,x\n";
  EXPECT_THAT(reading.refusal("a.csv", ""), HasSubstr("the file is empty"));
  EXPECT_THAT(reading.refusal("a.csv", "1,2,3\n"), HasSubstr("it names the columns"));
  EXPECT_THAT(reading.refusal("a.csv", "series,label\n1,a\n"), HasSubstr("no column is a channel"));
  EXPECT_THAT(reading.refusal("a.csv", "id,series,x\n"), HasSubstr("'id' and 'series' both name"));
  EXPECT_THAT(reading.refusal("a.csv", "x,X\n"), HasSubstr("two columns are called 'x'"));
  EXPECT_THAT(reading.refusal("a.csv", names), HasSubstr("no lines of numbers"));
  EXPECT_THAT(reading.refusal("a.csv", names + "1,a\n"), AllOf(HasSubstr("a.csv:2"), HasSubstr("2 cells")));
  EXPECT_THAT(reading.refusal("a.csv", names + "1,a,1\n2,a,1\n1,a,1\n"), HasSubstr("a.csv:4: the series '1' goes on"));
  EXPECT_THAT(reading.refusal("a.csv", names + "1,\"a,1\n"), HasSubstr("do not close"));
  EXPECT_THAT(reading.refusal("a.csv", "\x89PNG\r\n\x1a\n"), HasSubstr("it is a PNG picture"));
  EXPECT_TRUE(reading.bad.empty());
  reading.read("a.csv", names + "1,a,1\n1,b,1\n2,a,x\n3,,1\n4,a,1e99\n5,a,1\n");
  EXPECT_THAT(reading.bad, ElementsAre(HasSubstr("a.csv:2: the series has the labels 'a' and 'b'"),
                                       HasSubstr("a.csv:4: the series has 'x' in line 4"),
                                       HasSubstr("a.csv:5: the series has no label"), HasSubstr("a.csv:6")));
  reading.bad.clear();
  reading.read("a.csv", "id,class,time,x\n1,a,2,1\n1,a,2,1\n");
  EXPECT_THAT(reading.bad, ElementsAre(HasSubstr("has the time '2' in line 3")));
}

// pandas' to_csv() writes an index without a name; read as a channel it tells how far the file has come.
TEST(SeriesTable, LeavesAnIndexOut) {
  Reading reading;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const TsFile plain = reading.read("a.csv", "id,class,x\n1,a,1.5\n1,a,2.5\n2,b,3.5\n");
  EXPECT_THAT(plain.channel_names, ElementsAre("x"));
  const TsFile indexed = reading.read("b.csv", ",id,class,x\n0,1,a,1.5\n1,1,a,2.5\n2,2,b,3.5\n");
  EXPECT_EQ(indexed.channels, 1);
  ASSERT_EQ(indexed.series.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(indexed.series[i].values, plain.series[i].values);
  EXPECT_THAT(notes.lines(),
              ElementsAre(HasSubstr("b.csv: the first column has no name and counts from 0 to 2; it is left out")));
  EXPECT_THAT(
      reading.refusal("a.csv", ",class,x\n0.5,a,1\n"),
      AllOf(HasSubstr("a.csv:2: '0.5' is in the first column, which has no name"), HasSubstr("name the column")));
  EXPECT_THAT(reading.refusal("a.csv", "x,,class\n1,2,a\n"), HasSubstr("a.csv:1: column 2 has no name"));
  EXPECT_THAT(
      reading.refusal("a.csv", "frame,x,class\n0,1,a\n1,2,a\n2,3,a\n"),
      AllOf(HasSubstr("the first column 'frame' counts from 0 to 2, as an index does"), HasSubstr("call it time")));
  EXPECT_EQ(reading.read("a.csv", "frame,x,class\n0.0,1,a\n1.0,2,a\n2.0,3,a\n").channels, 2);
  EXPECT_EQ(reading.read("a.csv", "id,class,x\n0,a,1\n1,a,2\n2,a,3\n").channels, 1);
  EXPECT_EQ(reading.read("a.csv", "time,class,x\n0,a,1\n1,a,2\n2,a,3\n").channels, 1);
  EXPECT_THAT(reading.bad, ::testing::IsEmpty());
}

// Such columns of a table tell the part, the subject or the time instead of a measurement.
TEST(SeriesTable, NotesColumnsThatAreFixedOrRise) {
  Reading reading;
  const auto notes_of = [&](const std::string& columns, const std::function<std::string(int, int)>& cells) {
    std::string text = "series,label," + columns + ",x\n";
    for (int s = 0; s < 3; ++s)
      for (int t = 0; t < 10; ++t) text += fmt::format("s{},a,{},{}\n", s, cells(s, t), (s * 7 + t * t * 3) % 11);
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    reading.read("a.csv", text);
    return notes.lines();
  };
  EXPECT_THAT(
      notes_of("fold,weight", [](int s, int) { return fmt::format("{},{}", s % 2, s * 0.1); }),
      ElementsAre(AllOf(HasSubstr("a.csv: columns with one number in each series are taken as channels: fold, weight"),
                        HasSubstr("remove them if they say which part"))));
  EXPECT_THAT(notes_of("frame", [](int s, int t) { return std::to_string(100 * s + 2 * t); }),
              ElementsAre(HasSubstr("columns that rise by one step in every series are taken as channels: frame")));
  EXPECT_THAT(notes_of("y", [](int s, int t) { return std::to_string(t + (s == 2 && t == 9 ? 1 : 0)); }),
              ElementsAre());
  EXPECT_THAT(notes_of("y", [](int s, int t) { return s == 0 && t == 3 ? "1" : std::to_string(s); }), ElementsAre());
  EXPECT_THAT(notes_of("y", [](int, int) { return "5"; }), ElementsAre());
}

TEST(SeriesTable, NotesLabelsWithFractions) {
  Reading reading;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  reading.read("a.csv", "series,label,x\n1,0.13,1\n2,2,5\n3,2.5,3\n");
  EXPECT_THAT(notes.lines(),
              ElementsAre(HasSubstr("labels are numbers with fractions, and each is a class by itself: 0.13, 2.5")));
  reading.read("b.csv", "series,label,x\n1,1,1\n2,2,5\n3,1,3\n");
  reading.read("b.csv", "series,label,x\n1,0.5,1\n2,left,5\n3,1,3\n");
  EXPECT_EQ(notes.lines().size(), 1u);
}

TEST(SeriesTable, ReadsDecimalCommas) {
  Reading reading;
  EXPECT_THAT(reading.read("a.csv", "class;x;y\na;1,5;\na;-2,25;3\n").series[0].values,
              ElementsAre(1.5, ::testing::IsNan(), -2.25, 3));
  EXPECT_THAT(reading.refusal("a.csv", "class;x\na;1,5\na;2.5\n"),
              HasSubstr("a.csv:3: the table has both '2.5' and '1,5'"));
}

TEST(SeriesTable, SurvivesDamage) {
  Reading reading;
  const std::string whole = "series,label,x,y\n1,a,1,2\n1,a,3,4\n2,\"b\",5,6\n";
  std::mt19937 random(1);
  for (int i = 0; i < 1500; ++i) {
    std::string text = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (uint32_t changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = static_cast<char>(random() % 3 == 0 ? ",\"\n;?1"[random() % 6] : random());
    try {
      const TsFile file = reading.read("b.csv", text);
      for (const TsSeries& series : file.series)
        EXPECT_EQ(static_cast<int64_t>(series.values.size()), series.length * file.channels);
    } catch (const UserError&) {
    }
  }
}

TEST(SeriesArrays, AreVectorsAndLabels) {
  Reading reading;
  const std::string vectors = npy("<f8", "(2, 2, 3)", std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::string labels = npy("<i4", "(2,)", std::vector<int32_t>{7, 3});
  const auto file_of_labels = put_file(reading.folder / "labels.npy", labels);
  for (const TsFile& file : {reading.read("a.npy", vectors, file_of_labels),
                             reading.read("a.npz", zip({{"vectors.npy", vectors}, {"labels.npy", labels}}, true)),
                             reading.read("b.npz", zip({{"X.npy", vectors}, {"y.npy", labels}}, false))}) {
    EXPECT_THAT(file.classes, ElementsAre("3", "7"));
    EXPECT_EQ(file.channels, 3);
    ASSERT_EQ(file.series.size(), 2u);
    EXPECT_THAT(file.series[0].values, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_EQ(file.series[0].label, 1);
    EXPECT_EQ(file.series[1].length, 2);
  }
  const TsFile shorter = reading.read("c.npz", zip({{"vectors.npy", vectors},
                                                    {"labels.npy", labels},
                                                    {"lengths.npy", npy("<i8", "(2,)", std::vector<int64_t>{1, 3})}},
                                                   true));
  ASSERT_EQ(shorter.series.size(), 1u);
  EXPECT_THAT(shorter.series[0].values, ElementsAre(1, 2, 3));
  EXPECT_THAT(reading.bad, ElementsAre(HasSubstr("series 1: its length is 3; the array has room for 1 to 2")));
  EXPECT_EQ(reading.read("d.npy", npy("<f4", "(2, 4)", std::vector<float>(8)), file_of_labels).channels, 1);
}

TEST(SeriesArrays, NoteNegativeLabels) {
  Reading reading;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const std::string vectors = npy("<f4", "(2, 2, 1)", std::vector<float>{1, 2, 3, 4});
  const auto labels = put_file(reading.folder / "labels.npy", npy("<i8", "(2,)", std::vector<int64_t>{-1, 2}));
  EXPECT_THAT(reading.read("a.npy", vectors, labels).classes, ElementsAre("-1", "2"));
  EXPECT_THAT(notes.lines(),
              ElementsAre(HasSubstr("labels.npy: labels are -1 and more; a negative number is a class")));
}

TEST(SeriesArrays, SayWhatIsWrong) {
  Reading reading;
  const std::string vectors = npy("<f4", "(2, 2, 1)", std::vector<float>{1, 2, 3, 4});
  const auto labels = [&](const std::string& bytes) { return put_file(reading.folder / "labels.npy", bytes); };
  EXPECT_THAT(reading.refusal("a.npy", vectors), HasSubstr("data.labels"));
  EXPECT_THAT(reading.refusal("a.npy", vectors, labels(npy("<i8", "(3,)", std::vector<int64_t>{1, 2, 3}))),
              HasSubstr("there are 2 series"));
  EXPECT_THAT(reading.refusal("a.npy", vectors, labels(npy("<f4", "(2,)", std::vector<float>{1, 2}))),
              HasSubstr("whole numbers: save array.astype('int64')"));
  EXPECT_THAT(reading.refusal("a.npy", npy("<f4", "(4,)", std::vector<float>(4)), labels(vectors)),
              HasSubstr("[series, vectors, channels] is wanted"));
  EXPECT_THAT(reading.refusal("a.npz", zip({{"other.npy", vectors}}, true)),
              HasSubstr("no array 'vectors'; it has: other"));
  EXPECT_THAT(reading.refusal("a.csv", "x\n1\n", labels(vectors)), HasSubstr("which has its own"));
}

TEST(SeriesArrays, NoOtherArrayOfAnArchiveIsDroppedInSilence) {
  Reading reading;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const std::string vectors = npy("<f4", "(2, 2, 1)", std::vector<float>{1, 2, 3, 4});
  const std::string labels = npy("<i8", "(2,)", std::vector<int64_t>{1, 2});
  reading.read("a.npz",
               zip({{"x.npy", vectors}, {"y.npy", labels}, {"x_test.npy", vectors}, {"mask.npy", labels}}, true));
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("a.npz: arrays that are not read: mask, x_test")));
  EXPECT_THAT(reading.refusal("a.npz", zip({{"x.npy", vectors}, {"X.npy", vectors}, {"y.npy", labels}}, true)),
              HasSubstr("has the arrays 'x' and 'X', and each may be numbers [series, vectors, channels]"));
  EXPECT_THAT(reading.refusal("a.npz", zip({{"x.npy", vectors}, {"labels.npy", labels}, {"y.npy", labels}}, true)),
              HasSubstr("has the arrays 'labels' and 'y'"));
}

// Text in a .ts file and numbers in an array give the same samples.
TEST(SeriesSamples, AreTheSameFromEveryFormat) {
  Reading reading;
  const std::string ts =
      "@classLabel true 0 1\n@dimensions 2\n@data\n0.1,0.2,0.3:1,2,3:1\n-5e-3,7,8:0.7,1e3,9:0\n1,1,1:2,3,2:1\n";
  const std::vector<double> numbers = {0.1, 1, 0.2, 2, 0.3, 3, -5e-3, 0.7, 7, 1e3, 8, 9, 1, 2, 1, 3, 1, 2};
  std::string csv = "series,label,x,y\n";
  for (size_t i = 0; i < numbers.size(); i += 2)
    csv += fmt::format("{},{},{},{}\n", i / 6, i / 6 == 1 ? 0 : 1, numbers[i], numbers[i + 1]);
  put_file(reading.folder / "a.ts", ts);
  put_file(reading.folder / "a.csv", csv);
  put_file(reading.folder / "a.npz", zip({{"vectors.npy", npy("<f8", "(3, 3, 2)", numbers)},
                                          {"labels.npy", npy("|u1", "(3,)", std::vector<uint8_t>{1, 0, 1})}},
                                         true));
  std::vector<Batch> batches;
  for (const char* name : {"a.ts", "a.csv", "a.npz"}) {
    DataConfig config;
    config.type = "series";
    config.files = {reading.folder / name};
    config.series.length = 3;
    config.validation_fraction = 0;
    const auto source = series_samples(config, {2, 2}, 1);
    batches.push_back(source->batch(WindowOrder(3, 0, false), Split::train, 0, 3));
    EXPECT_EQ(batches.back().fields[0].bytes, batches[0].fields[0].bytes) << name;
    EXPECT_EQ(batches.back().fields[1].bytes, batches[0].fields[1].bytes) << name;
    EXPECT_THAT(user_error_of([&] { series_samples(config, {3, 2}, 1); }), HasSubstr("set it to 2"));
  }
}

// Files of one class each: all of them together define the classes.
TEST(SeriesSamples, LearnClassesFromAllFiles) {
  const TempFolder folder;
  DataConfig config;
  config.type = "series";
  for (const char* label : {"wave", "circle", "swipe"}) {
    std::filesystem::create_directories(folder / label);
    config.files.push_back(put_file(folder / std::string(label).append("/a.csv"), "x\n1\n2\n"));
  }
  config.series.length = 2;
  config.validation_fraction = 0;
  const auto source = series_samples(config, {1, 3}, 1);
  const Batch batch = source->batch(WindowOrder(3, 0, false), Split::train, 0, 3);
  const auto* labels = reinterpret_cast<const int64_t*>(batch.fields[1].bytes.data());
  EXPECT_THAT(std::vector<int64_t>(labels, labels + 3), ElementsAre(2, 0, 1));
  EXPECT_THAT(user_error_of([&] { series_samples(config, {1, 2}, 1); }), HasSubstr("data.files has 3 classes"));
  std::filesystem::create_directories(folder / "other");
  config.series.validation_files = {put_file(folder / "other/a.csv", "x\n1\n2\n")};
  EXPECT_THAT(user_error_of([&] { series_samples(config, {1, 3}, 1); }), HasSubstr("the class 'other'"));
}

}  // namespace
}  // namespace plimsoll
