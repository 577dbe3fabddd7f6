#include "data/series/fmri_series.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "files/file_kind.h"
#include "files/nifti.h"
#include "files/nifti_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(NiftiSeries, GivesVolumesInTurnPlainAndPacked) {
  const TempFolder folder;
  const std::string bytes = scan({2, 3, 1, 4}, counting(24));
  for (const auto& path : {put_file(folder / "a.nii", bytes), put_packed(folder / "a.nii.gz", bytes)}) {
    NiftiSeries series(path);
    EXPECT_EQ(series.volumes(), 4);
    EXPECT_DOUBLE_EQ(series.time().seconds, 2);
    EXPECT_EQ(series.layout().sizes, (std::array<int64_t, 3>{2, 3, 1}));
    std::vector<float> volume(6);
    series.read(volume);
    EXPECT_THAT(volume, ElementsAre(1, 2, 3, 4, 5, 6));
    series.read(volume);
    EXPECT_THAT(volume, ElementsAre(7, 8, 9, 10, 11, 12));
  }
}

TEST(NiftiSeries, ScalesAndCountsTimeInItsUnit) {
  const TempFolder folder;
  std::string bytes = scan({1, 1, 1, 2}, std::vector<int16_t>{-3, 5});
  const float slope = 0.5, intercept = 10, time = 1500;
  std::memcpy(bytes.data() + 112, &slope, 4);
  std::memcpy(bytes.data() + 116, &intercept, 4);
  std::memcpy(bytes.data() + 92, &time, 4);
  bytes[123] = 16 | 2;  // milliseconds, millimeters
  NiftiSeries series(put_file(folder / "a.nii", bytes));
  EXPECT_DOUBLE_EQ(series.time().seconds, 1.5);
  std::vector<float> volume(1);
  series.read(volume);
  EXPECT_THAT(volume, ElementsAre(8.5));
  series.read(volume);
  EXPECT_THAT(volume, ElementsAre(12.5));
}

// 300 MB of uint8 may be unpacked; as float32 they take four times the memory. Nothing is read.
TEST(FmriSeries, RefusesASeriesThatTakesMoreMemoryThanItMay) {
  const TempFolder folder;
  std::string noise(size_t{400} << 10, '\0');
  uint32_t state = 1;
  for (char& byte : noise) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  const auto file = put_packed(folder / "a.nii.gz", scan_header({64, 64, 64, 1150}, 2, 8) + noise);
  std::string text;
  try {
    read_fmri(file, {});
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_THAT(text, AllOf(HasSubstr("a.nii.gz"), HasSubstr("1150 volumes of 262144 voxels"),
                          HasSubstr("1205862400 bytes as float32; allowed: 54"), HasSubstr("set data.fmri_mask")));
}

TEST(NiftiSeries, ReadsTheOtherByteOrder) {
  const TempFolder folder;
  std::string bytes = scan({1, 2, 1, 2}, std::vector<int16_t>{1, 2, 3, 4});
  const auto turn = [&](size_t at, size_t count) { std::reverse(bytes.begin() + at, bytes.begin() + at + count); };
  turn(0, 4);
  for (size_t at = 40; at < 56; at += 2) turn(at, 2);
  turn(70, 2), turn(72, 2);
  for (size_t at = 76; at < 120; at += 4) turn(at, 4);
  for (size_t at = 352; at < bytes.size(); at += 2) turn(at, 2);
  NiftiSeries series(put_file(folder / "a.nii", bytes));
  std::vector<float> volume(2);
  series.read(volume);
  series.read(volume);
  EXPECT_THAT(volume, ElementsAre(3, 4));
}

// For any claims of a damaged file, the error names the file, and no memory is allocated for the claim.
TEST(NiftiSeries, RefusesDamage) {
  const TempFolder folder;
  const std::string good = scan({2, 3, 1, 4}, counting(24));
  const auto refusal = [&](const std::string& bytes, bool packed = false) {
    const auto path = packed ? put_packed(folder / "a.nii.gz", bytes) : put_file(folder / "a.nii", bytes);
    const std::string message = user_error_of([&] { read_fmri(path, {}); });
    EXPECT_THAT(message, HasSubstr(path.string()));
    return message;
  };
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 40), true), HasSubstr("truncated"));
  EXPECT_THAT(refusal(good.substr(0, 100)), HasSubstr("truncated"));
  EXPECT_THAT(refusal("no scan at all, but long enough to be read" + std::string(400, '.')), HasSubstr("NIfTI"));
  EXPECT_THAT(refusal(scan_header({32767, 32767, 32767, 32767, 32767, 32767, 32767}, 64, 64)),
              HasSubstr("cannot hold"));
  EXPECT_THAT(refusal(scan_header({2000, 2000, 100, 1}, 2, 8), true), HasSubstr("cannot hold"));
  EXPECT_THAT(refusal(scan_header({2, -3, 1, 4}, 16, 32)), HasSubstr("dimension 2"));
  EXPECT_THAT(refusal(scan_header({2, 3, 1, 4}, 32, 64)), HasSubstr("type 32"));
  std::string cut;
  put_packed(folder / "b.nii.gz", good);
  cut = get_file(folder / "b.nii.gz");
  put_file(folder / "b.nii.gz", cut.substr(0, cut.size() / 2));
  EXPECT_THAT(user_error_of([&] { read_fmri(folder / "b.nii.gz", {}); }), HasSubstr("b.nii.gz"));
  EXPECT_THAT(user_error_of([&] { read_fmri(folder / "none.nii", {}); }), HasSubstr("none.nii"));
  EXPECT_THAT(user_error_of([&] { read_fmri(folder.path(), {}); }), HasSubstr(folder.path().string()));
}

TEST(FmriSeries, TakesTheVoxelsOfTheMaskOrThoseThatVary) {
  const TempFolder folder;
  const auto path =
      put_file(folder / "a.nii", scan({2, 2, 1, 3}, std::vector<float>{1, 0, 5, 2, 2, 0, 5, 1, 3, 0, 5, 2}));
  const auto mask = put_file(folder / "mask.nii", scan({2, 2, 1}, std::vector<int16_t>{0, 1, 0, 7}));
  const FmriSeries masked = read_fmri(path, mask);
  EXPECT_EQ(masked.voxels, 2);
  EXPECT_EQ(masked.volumes, 3);
  EXPECT_THAT(masked.values, ElementsAre(0, 2, 0, 1, 0, 2));
  const FmriSeries varying = read_fmri(path, {});
  EXPECT_EQ(varying.voxels, 2);
  EXPECT_THAT(varying.values, ElementsAre(1, 2, 2, 1, 3, 2));
}

// A mask of probabilities takes voxels that hardly belong to it, and an atlas all of its regions.
TEST(FmriSeries, NotesAMaskOfSeveralNumbers) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.nii", scan({2, 2, 1, 3}, counting(12)));
  const auto notes_of = [&](const std::string& mask) {
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    read_fmri(path, put_file(folder / "mask.nii", mask));
    return notes.lines();
  };
  EXPECT_THAT(notes_of(scan({2, 2, 1}, std::vector<float>{0, 0.25F, 0, 0.75F})),
              ::testing::ElementsAre(HasSubstr("mask.nii: the mask has numbers from 0.25 to 0.75 besides 0")));
  EXPECT_THAT(notes_of(scan({2, 2, 1}, std::vector<int16_t>{0, 7, 0, 7})), ::testing::IsEmpty());
}

// SPM writes NaN outside of the head; a NaN in one volume only is an error of this volume.
TEST(FmriSeries, LeavesOutVoxelsThatAreNeverANumber) {
  const TempFolder folder;
  const float none = std::numeric_limits<float>::quiet_NaN();
  const auto path = put_file(folder / "a.nii",
                             scan({2, 2, 1, 3}, std::vector<float>{none, 1, none, 2, none, 3, 7, 4, none, 5, 8, 6}));
  FmriSeries series = read_fmri(path, {});
  EXPECT_EQ(series.voxels, 3);
  ASSERT_EQ(series.values.size(), 9u);
  EXPECT_TRUE(std::isnan(series.values[1]));
  series.values[1] = 0;
  EXPECT_THAT(series.values, ElementsAre(1, 0, 2, 3, 7, 4, 5, 8, 6));
  const auto nothing = put_file(folder / "b.nii", scan({2, 1, 1, 2}, std::vector<float>(4, none)));
  EXPECT_THAT(user_error_of([&] { read_fmri(nothing, {}); }), HasSubstr("no voxel of it varies"));
}

TEST(FmriSeries, RefusesAMaskOfAnotherGrid) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.nii", scan({2, 2, 1, 3}, counting(12)));
  const auto refusal = [&](const std::string& mask) {
    return user_error_of([&] { read_fmri(path, put_file(folder / "mask.nii", mask)); });
  };
  EXPECT_THAT(refusal(scan({2, 1, 2}, std::vector<int16_t>{0, 1, 0, 7})),
              AllOf(HasSubstr("mask.nii"), HasSubstr("2 x 2 x 1 voxels against 2 x 1 x 2")));
  EXPECT_THAT(refusal(scan({2, 2, 1}, std::vector<int16_t>{0, 0, 0, 0})), HasSubstr("0 everywhere"));
  std::string apart = scan({2, 2, 1}, std::vector<int16_t>{0, 1, 0, 7});
  const float spacing = 2;
  std::memcpy(apart.data() + 80, &spacing, 4);
  EXPECT_THAT(refusal(apart), HasSubstr("voxels of 3, 3, 3 mm against 2, 3, 3 mm"));
  const auto constant = put_file(folder / "flat.nii", scan({2, 2, 1, 3}, std::vector<float>(12, 4.0f)));
  EXPECT_THAT(user_error_of([&] { read_fmri(constant, {}); }), HasSubstr("no voxel of it varies"));
}

/// Returns the file with a qform (code 1) without rotation. -1: x runs from right to left, from 3 mm on.
std::string with_qform(std::string bytes, float qfac_and_direction) {
  const auto put = [&](size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(252, int16_t{1});
  if (qfac_and_direction < 0) {  // half a turn about y, and a third axis that is turned back by qfac
    put(76, -1.0f);
    put(260, 1.0f);
    put(268, 3.0f);
  }
  return bytes;
}

TEST(FmriSeries, AMaskLiesWhereItsQformSays) {
  const TempFolder folder;
  const std::string series = scan({2, 2, 1, 3}, std::vector<float>{1, 0, 5, 2, 2, 0, 5, 1, 3, 0, 5, 2});
  const std::string mask = scan({2, 2, 1}, std::vector<int16_t>{0, 1, 0, 7});
  const auto read = [&](const std::string& one, const std::string& other) {
    return read_fmri(put_file(folder / "a.nii", one), put_file(folder / "mask.nii", other)).voxels;
  };
  const auto refusal = [&](const std::string& one, const std::string& other) {
    return user_error_of([&] { read(one, other); });
  };
  EXPECT_EQ(read(series, mask), 2);
  EXPECT_EQ(read(with_qform(series, 1), with_qform(mask, 1)), 2);
  EXPECT_EQ(read(with_qform(series, -1), with_qform(mask, -1)), 2);
  EXPECT_THAT(refusal(with_qform(series, 1), with_qform(mask, -1)),
              AllOf(HasSubstr("mask.nii: this mask does not lie on the grid of"), HasSubstr("3 mm apart"),
                    HasSubstr("resample the mask to the grid of the series")));
  EXPECT_THAT(refusal(with_qform(series, 1), mask), AllOf(HasSubstr("qform against neither sform nor qform"),
                                                          HasSubstr("save the mask with the affine of the series")));
  EXPECT_THAT(refusal(series, with_qform(mask, 1)), AllOf(HasSubstr("neither sform nor qform against qform"),
                                                          HasSubstr("save the series with the affine of the mask")));
}

// Dimension 5 has several values of one moment; their count must not pass for volumes.
TEST(FmriSeries, RefusesDimensionsBehindTime) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.nii", scan({2, 1, 1, 2, 3}, counting(12)));
  EXPECT_THAT(user_error_of([&] { read_fmri(path, {}); }), HasSubstr("3 values along dimension 5"));
  EXPECT_EQ(read_fmri(put_file(folder / "b.nii", scan({2, 1, 1, 4, 1}, counting(8))), {}).volumes, 4);
}

TEST(FmriSeries, NamesAndRemovesVoxelsThatAreSeldomNumbers) {
  const TempFolder folder;
  const float none = std::numeric_limits<float>::quiet_NaN();
  // Voxel (1, 0, 0) is no number in two volumes of four, voxel (1, 1, 0) in one.
  const auto path =
      put_file(folder / "a.nii",
               scan({2, 2, 1, 4}, std::vector<float>{1, none, 3, 4, 5, none, 7, none, 9, 10, 11, 12, 13, 14, 15, 16}));
  const auto mask = put_file(folder / "mask.nii", scan({2, 2, 1}, std::vector<int16_t>{0, 1, 1, 1}));
  FmriSeries series = read_fmri(path, mask);
  EXPECT_THAT(bad_voxels(series), ElementsAre(0));
  EXPECT_EQ(series.name_of_voxel(0), "(1, 0, 0)");
  EXPECT_EQ(series.name_of_voxel(2), "(1, 1, 0)");
  EXPECT_EQ(series.first_values(), "nan, 3, 4");
  remove_voxels(series, {0});
  EXPECT_EQ(series.voxels, 2);
  EXPECT_EQ(series.name_of_voxel(1), "(1, 1, 0)");
  EXPECT_EQ(series.values.size(), 8u);
  EXPECT_EQ(series.values[6], 15);
  EXPECT_EQ(series.values[7], 16);
}

TEST(FmriSeries, ReadsTables) {
  const TempFolder folder;
  for (const char* text : {"\"left\",\"right\"\n1,-2.5\n3e1, 4\n", "1;-2.5\r\n30;4\r\n", "1   -2.5\n30\t4\n\n"}) {
    const FmriSeries series = read_fmri(put_file(folder / "a.csv", text), {});
    EXPECT_EQ(series.volumes, 2) << text;
    EXPECT_EQ(series.voxels, 2) << text;
    EXPECT_THAT(series.values, ElementsAre(1, -2.5, 30, 4)) << text;
  }
  const auto refusal = [&](const char* text) {
    return user_error_of([&] { read_fmri(put_file(folder / "a.csv", text), {}); });
  };
  EXPECT_THAT(refusal("a,b\n1,2\n3\n"), HasSubstr("line 3 has 1 values, those before it 2"));
  EXPECT_THAT(refusal("1,2\n3,x\n"), HasSubstr("line 2, cell 2: 'x' is not a number"));
  EXPECT_THAT(refusal("1,2\n3,\n"), HasSubstr("line 2, cell 2: '' is not a number"));
  EXPECT_THAT(refusal("a,b\n"), HasSubstr("no time points"));
  // Lines of 2^20 cells are read; longer ones are rejected before their cells are read.
  EXPECT_THAT(refusal(("1" + std::string((1 << 20) - 1, ',') + "\n").c_str()), HasSubstr("line 1, cell 2: ''"));
  EXPECT_THAT(refusal(("1" + std::string(1 << 20, ',') + "\n").c_str()),
              HasSubstr("a.csv:1: the line has more than 1048576 cells"));
  EXPECT_THAT(refusal(("1;2\n1" + std::string(1 << 20, ';')).c_str()),
              HasSubstr("a.csv:2: the line has more than 1048576 cells"));
  // A time point, not names: it must not be dropped without an error.
  EXPECT_THAT(refusal("1,n/a,3\n1,2,3\n"), AllOf(HasSubstr("a.csv: line 1, cell 2: 'n/a'"), HasSubstr("names")));
  EXPECT_EQ(read_fmri(put_file(folder / "a.csv",
                               "\xEF\xBB\xBF"
                               "1,2\n3,4\n"),
                      {})
                .volumes,
            2);
  EXPECT_EQ(read_fmri(put_file(folder / "a.csv",
                               "\xEF\xBB\xBF"
                               "a,b\n3,4\n"),
                      {})
                .volumes,
            1);
  EXPECT_THAT(user_error_of([&] { read_fmri(put_file(folder / "a.csv", "1,2\n"), folder / "mask.nii"); }),
              HasSubstr("no grid for a mask"));
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FmriTableTest : public ::testing::Test {
 protected:
  FmriSeries read(const std::string& text) {
    notes_ = DataNotes();
    const DataNotes::Scope scope(notes_);
    return read_fmri_table(put_file(folder_ / "a.csv", text));
  }
  std::string refusal(const std::string& text) {
    return user_error_of([&] { read(text); });
  }
  TempFolder folder_;
  DataNotes notes_;
};

TEST_F(FmriTableTest, SaysThatNamesAreLeftOut) {
  const FmriSeries series = read("left,right\n1.5,2\n3,4.5\n");
  EXPECT_EQ(series.volumes, 2);
  EXPECT_THAT(series.names, ElementsAre("left", "right"));
  EXPECT_EQ(series.first_values(), "left 1.5, right 2");
  EXPECT_EQ(series.name_of_voxel(1), "column 2 'right'");
  EXPECT_THAT(notes_.lines(), ElementsAre(HasSubstr("a.csv: line 1 is taken as names and left out: left, right")));
  EXPECT_EQ(read("1.5,2\n3,4.5\n").first_values(), "1.5, 2");
  EXPECT_THAT(notes_.lines(), IsEmpty());
}

// pandas writes 0,1,2 for columns that have no names.
TEST_F(FmriTableTest, RefusesAFirstLineThatCounts) {
  EXPECT_THAT(refusal("0,1,2\n1.5,2.5,3.5\n"),
              AllOf(HasSubstr("a.csv: the first line counts: 0, 1, 2;"),
                    HasSubstr("remove it (pandas: header=False), or write it as 0.0, 1.0")));
  EXPECT_THAT(refusal("0,1,2\n7,5,3\n"), HasSubstr("the first line counts"));
  EXPECT_THAT(refusal("1;2;3\n7;5;3\n"), HasSubstr("the first line counts"));
  EXPECT_THAT(refusal("0,1\n7,5\n"), HasSubstr("the first line counts"));
  EXPECT_THAT(refusal("1,2\n7.5,5\n"), HasSubstr("the first line counts"));
  EXPECT_THAT(refusal("0\n7.5\n"), HasSubstr("the first line counts: 0;"));
  EXPECT_EQ(read("0.0,1.0,2.0\n1.5,2.5,3.5\n").volumes, 2);
  EXPECT_EQ(read("1,2\n7,5\n").volumes, 2);
  EXPECT_EQ(read("0\n7\n").volumes, 2);
  EXPECT_EQ(read("1\n7.5\n").volumes, 2);
  EXPECT_EQ(read("2,3,4\n7,5,3\n").volumes, 2);
}

// An index has no name in pandas and R; without one it is a region.
TEST_F(FmriTableTest, LeavesAnIndexWithoutANameOut) {
  for (const char* text : {",a,b\n0,1.5,2.5\n1,3.5,4.5\n", "\"\";\"a\";\"b\"\n\"1\";1,5;2,5\n\"2\";3,5;4,5\n",
                           "\ta\tb\n10\t1.5\t2.5\n20\t3.5\t4.5\n"}) {
    const FmriSeries series = read(text);
    EXPECT_EQ(series.voxels, 2) << text;
    EXPECT_THAT(series.values, ElementsAre(1.5, 2.5, 3.5, 4.5)) << text;
    EXPECT_THAT(series.names, ElementsAre("a", "b")) << text;
    EXPECT_THAT(notes_.lines(), ::testing::Contains(HasSubstr("the first column has no name and counts from")));
  }
  const FmriSeries counted = read(",0,1\n0,1.5,2.5\n1,3.5,4.5\n");
  EXPECT_THAT(counted.names, ElementsAre("0", "1"));
  EXPECT_THAT(counted.values, ElementsAre(1.5, 2.5, 3.5, 4.5));
  EXPECT_THAT(
      refusal(",a,b\n0,1.5,2.5\n0.5,3.5,4.5\n"),
      AllOf(HasSubstr("a.csv: line 3, cell 1: '0.5' is in a column without a name"), HasSubstr("name the column")));
  EXPECT_THAT(refusal(",a,b\nsub-01,1.5,2.5\n"), HasSubstr("line 2, cell 1: 'sub-01' is in a column without a name"));
}

TEST_F(FmriTableTest, RefusesAColumnThatCountsTheLines) {
  EXPECT_THAT(
      refusal("volume,a\n0,1.5\n1,2.5\n2,3.5\n"),
      AllOf(HasSubstr("a.csv: column 1 'volume' counts from 0 to 2, as an index does; remove it (pandas: index=False)"),
            HasSubstr("write its numbers as 0.0, 1.0")));
  EXPECT_THAT(refusal("5,1.5\n6,2.5\n7,3.5\n"), HasSubstr("column 1 counts from 5 to 7"));
  EXPECT_EQ(read("volume,a\n0.0,1.5\n1.0,2.5\n2.0,3.5\n").voxels, 2);
  EXPECT_EQ(read("0.5\n1\n2\n3\n4\n").voxels, 1);
  EXPECT_EQ(read("1,1.5\n3,2.5\n5,3.5\n").voxels, 2);
}

TEST_F(FmriTableTest, NotesColumnsThatRiseAsTheTimeDoes) {
  std::string text = "time,a,b\n", uneven = text;
  for (int i = 0; i < 12; ++i) {
    text += std::to_string(0.72 * i) + "," + std::to_string(i * i % 7) + ",3.5\n";
    uneven += std::to_string(0.72 * i + (i == 7 ? 0.01 : 0)) + "," + std::to_string(i * i % 7) + ",3.5\n";
  }
  EXPECT_EQ(read(text).voxels, 3);
  EXPECT_THAT(notes_.lines(), ElementsAre(HasSubstr("line 1 is taken as names"),
                                          AllOf(HasSubstr("a.csv: columns that rise by one step from line to line"),
                                                HasSubstr("column 1 'time'"))));
  read(uneven);
  EXPECT_EQ(notes_.lines().size(), 1u);
}

TEST_F(FmriTableTest, ReadsDecimalCommasAndNamesOfLines) {
  EXPECT_THAT(read("1,5;2,5\n3,5;4,5\n").values, ElementsAre(1.5, 2.5, 3.5, 4.5));
  EXPECT_THAT(notes_.lines(), ElementsAre(HasSubstr("decimal commas")));
  EXPECT_THAT(refusal("\"a\" \"b\"\n\"1\" 1.5 2.5\n"),
              AllOf(HasSubstr("line 2 has 3 values, those before it 2"), HasSubstr("row.names = FALSE")));
  EXPECT_THAT(refusal("1.5,1e300\n"), HasSubstr("line 1, cell 2: '1e300' is not a number"));
}

}  // namespace
}  // namespace plimsoll
