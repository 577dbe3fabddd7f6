#include "files/ts_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeader =
    "# a comment\n@problemName Waves\n@timeStamps false\n@univariate false\n@dimensions 2\n@equalLength true\n"
    "@seriesLength 3\n@classLabel true up down\n@data\n";

TsFile ts_file_of(const std::string& text, std::vector<std::string>* bad = nullptr) {
  const TempFolder folder;
  return read_ts_file(put_file(folder / "waves.ts", text), [&](const std::string& what) {
    if (!bad) throw UserError(what);
    bad->push_back(what);
  });
}

std::string ts_file_refusal(const std::string& text) {
  return user_error_of([&] { ts_file_of(text); });
}

TEST(TsFile, ReadsChannelsAsVectors) {
  const TsFile file = ts_file_of(std::string(kHeader) + "1,2,3:4,5,6:down\n\n -1.5 , 2e1,+3 : 0,0,0 : up \r\n");
  EXPECT_THAT(file.classes, ElementsAre("up", "down"));
  EXPECT_EQ(file.channels, 2);
  ASSERT_EQ(file.series.size(), 2u);
  EXPECT_THAT(file.series[0].values, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(file.series[0].length, 3);
  EXPECT_EQ(file.series[0].label, 1);
  EXPECT_EQ(file.series[0].line, 10);
  EXPECT_THAT(file.series[1].values, ElementsAre(-1.5F, 0, 20, 0, 3, 0));
}

TEST(TsFile, ReadsLengthsOfTheirOwnAndMissingValues) {
  const TsFile file = ts_file_of("@classLabel TRUE a\n@DATA\n1,?:2,NaN:a\n7:8:a\n");
  EXPECT_EQ(file.channels, 2);
  EXPECT_TRUE(std::isnan(file.series[0].values[2]) && std::isnan(file.series[0].values[3]));
  EXPECT_EQ(file.series[1].length, 1);
}

TEST(TsFile, SaysWhatIsWrongWithASeries) {
  const auto wrong = [](const std::string& row) { return ts_file_refusal(kHeader + row + "\n"); };
  EXPECT_THAT(wrong("1,2,3:4,5,6"), HasSubstr("waves.ts:10: the series is of class '4,5,6'"));
  EXPECT_THAT(wrong("1,2,3"), HasSubstr("has no class"));
  EXPECT_THAT(wrong("1,2,3:4,5:up"), HasSubstr("2 values in channel 1 and 3 in channel 0"));
  EXPECT_THAT(wrong("1,2,3:up"), HasSubstr("has 1 channels; the file's series have 2"));
  EXPECT_THAT(wrong("1,2,x:4,5,6:up"), HasSubstr("has 'x', which is no number"));
  EXPECT_THAT(wrong("1,2,1e99:4,5,6:up"), HasSubstr("no number that a float32 can hold"));
  EXPECT_THAT(wrong("1,2,:4,5,6:up"), HasSubstr("no number"));
  EXPECT_THAT(wrong("1,2,3::up"), HasSubstr("no values in channel 1"));
  EXPECT_THAT(wrong("(2007-01-01 00:00:00,241.97):up"), HasSubstr("time stamps"));
  EXPECT_THAT(wrong(std::string("1,2,3:4,5,6:u\0p", 15)), HasSubstr("is of class"));
}

TEST(TsFile, LeavesBadSeriesOutWhereItMay) {
  std::vector<std::string> bad;
  const TsFile file =
      ts_file_of(std::string(kHeader) + "1,2,3:4,5,6:up\nnonsense\n1,2,3:4,5,6:left\n7,8,9:4,5,6:down\n", &bad);
  EXPECT_EQ(file.series.size(), 2u);
  EXPECT_THAT(bad, ElementsAre(HasSubstr("waves.ts:11"), HasSubstr("waves.ts:12")));
}

TEST(TsFile, RefusesHeadersThatItCannotUse) {
  EXPECT_THAT(ts_file_refusal(""), HasSubstr("has no line '@data'"));
  EXPECT_THAT(ts_file_refusal("@classLabel true a b\n"), HasSubstr("has no line '@data'"));
  EXPECT_THAT(ts_file_refusal("\x89PNG\r\n\x1a\n"), HasSubstr("is no series (.ts); it is a PNG picture"));
  EXPECT_THAT(ts_file_refusal("a PNG picture"), HasSubstr("is it a .ts file?"));
  EXPECT_THAT(ts_file_refusal("@data\n1,2:a\n"), HasSubstr("'@data' comes before '@classLabel"));
  EXPECT_THAT(ts_file_refusal("@classLabel false\n@data\n1,2\n"), HasSubstr("without classes"));
  EXPECT_THAT(ts_file_refusal("@classLabel true\n@data\n"), HasSubstr("names no class"));
  EXPECT_THAT(ts_file_refusal("@classLabel true a a\n@data\n"), HasSubstr("names 'a' twice"));
  EXPECT_THAT(ts_file_refusal("@timeStamps true\n"), HasSubstr("time stamps are not supported"));
  for (const char* many : {"0", "-3", "two", "99999999999999999999"})
    EXPECT_THAT(ts_file_refusal(std::string("@dimensions ") + many + "\n"), HasSubstr("whole number above 0"));
  // A declared size makes nothing be allocated.
  EXPECT_THAT(
      ts_file_refusal(
          "@dimensions 4611686018427387904\n@seriesLength 4611686018427387904\n@classLabel true a\n@data\n1:a\n"),
      HasSubstr("has 1 channels; the file's series have 4611686018427387904"));
}

TEST(TsFile, ComparesItsHeaderWithItsSeries) {
  const auto refusal = [](const std::string& header, const std::string& series) {
    return ts_file_refusal(header + "@classLabel true a\n@data\n" + series + "\n");
  };
  EXPECT_THAT(refusal("@equalLength true\n@seriesLength 3\n", "1,2:a"),
              HasSubstr("has 2 values in a channel; @equalLength is true, and the others have 3"));
  EXPECT_THAT(refusal("@equalLength true\n", "1,2:a\n1,2,3:a"), HasSubstr("ts:5: the series has 3 values"));
  EXPECT_THAT(refusal("@missing false\n", "1,?,NaN:a"), HasSubstr("lacks 2 values, and @missing is false"));
  EXPECT_THAT(refusal("@univariate true\n@dimensions 2\n", "1:2:a"), HasSubstr("says 2 channels here, and 1 before"));
  EXPECT_THAT(refusal("@dimensions 2\n@univariate true\n", "1:2:a"), HasSubstr("says 1 channels here, and 2 before"));
  EXPECT_THAT(refusal("@targetLabel true\n", "1:2"), HasSubstr("numbers as targets are not supported"));
  EXPECT_THAT(refusal("@equalLength yes\n", "1:a"), HasSubstr("@equalLength is 'yes'; allowed: true, false"));
  // Without @equalLength true, @seriesLength may be that of the longest series, or unknown.
  for (const char* header : {"@equalLength false\n@seriesLength 5\n", "@seriesLength 0\n", "@missing true\n",
                             "@univariate false\n", "@univariate true\n@dimensions 1\n@equalLength True\n"})
    EXPECT_EQ(ts_file_of(std::string(header) + "@classLabel true a\n@data\n1,2:a\n").series.size(), 1u) << header;
}

TEST(TsFile, NotesHeaderLinesThatItDoesNotKnow) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  ts_file_of("@problemName Waves\n@sampleRate 50\n@classLabel true a\n@data\n1:a\n");
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("waves.ts: the header line @samplerate is not known here")));
}

TEST(TsFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  const BadSeries never = [](const std::string&) { FAIL(); };
  EXPECT_THAT(user_error_of([&] { read_ts_file(folder / "none.ts", never); }), HasSubstr("none.ts"));
  EXPECT_FALSE(user_error_of([&] { read_ts_file(folder.path(), never); }).empty());
}

// For any bytes, a file is read, or rejected with a UserError.
TEST(TsFile, SurvivesDamage) {
  const std::string whole = std::string(kHeader) + "1,2,3:4,5,6:up\n-1.5,2e1,?:0,0,0:down\n";
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (uint32_t changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = static_cast<char>(random() % 3 == 0 ? ",:?@\n#"[random() % 6] : random());
    std::vector<std::string> bad;
    try {
      const TsFile file = ts_file_of(text, &bad);
      for (const TsSeries& series : file.series) {
        EXPECT_EQ(static_cast<int64_t>(series.values.size()), series.length * file.channels);
        EXPECT_LT(series.label, static_cast<int64_t>(file.classes.size()));
      }
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace plimsoll
