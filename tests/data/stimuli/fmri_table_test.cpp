#include "data/stimuli/fmri_table.h"

#include <gmock/gmock.h>

#include "files/data_notes.h"
#include "test_files.h"

namespace plimsoll {
namespace {

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
