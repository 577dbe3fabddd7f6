#include "data/masks/label_names.h"

#include <gmock/gmock.h>

#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelNamesTest : public ::testing::Test {
 protected:
  std::vector<LabelName> read(const std::string& text) {
    return read_label_names(put_file(folder_ / "names.txt", text));
  }
  std::string refusal(const std::string& text) {
    return user_error_of([&] { read(text); });
  }
  TempFolder folder_;
};

TEST_F(LabelNamesTest, AreNumbersAndNames) {
  const auto names = read("# an atlas\n\n37 left hippocampus\r\n-2\tbackground  \n40 amygdala");
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].number, 37);
  EXPECT_EQ(names[0].name, "left hippocampus");
  EXPECT_EQ(names[1].number, -2);
  EXPECT_EQ(names[1].name, "background");
  EXPECT_EQ(names[2].name, "amygdala");
}

TEST_F(LabelNamesTest, RefuseWhatIsNone) {
  EXPECT_THAT(refusal("1 a\nhippocampus"), AllOf(HasSubstr("names.txt:2:"), HasSubstr("'hippocampus' is no label's")));
  EXPECT_THAT(refusal("1"), HasSubstr("'1' is no label's"));
  EXPECT_THAT(refusal("1a"), HasSubstr("'1a' is no label's"));
  EXPECT_THAT(refusal("99999999999999999999 a"), HasSubstr("is no label's"));
  EXPECT_THAT(refusal("1 a\n1 b"), HasSubstr("number 1 was there"));
  EXPECT_THAT(refusal("1 a\n2 a"), HasSubstr("the name 'a' was there"));
  EXPECT_THAT(refusal("\n# nothing\n"), HasSubstr("has no names"));
  EXPECT_THAT(user_error_of([&] { read_label_names(folder_ / "none"); }), HasSubstr("cannot read"));
  EXPECT_THAT(user_error_of([&] { read_label_names(folder_.path()); }), HasSubstr("cannot read"));
}

std::vector<std::string> names_of(const std::vector<LabelName>& labels) {
  std::vector<std::string> names;
  for (const LabelName& label : labels) names.push_back(std::to_string(label.number) + " " + label.name);
  return names;
}

// FreeSurfer writes colors behind names; FSLeyes and ITK-SNAP before them.
TEST_F(LabelNamesTest, EndBeforeColors) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  EXPECT_THAT(names_of(read("#No. Label Name: R G B A\n0   Unknown                     0   0   0   0\n"
                            "1   Left-Lump                 245 245 245   0\n17  Area 4a   0 118  14   0\n")),
              ElementsAre("0 Unknown", "1 Left-Lump", "17 Area 4a"));
  EXPECT_THAT(names_of(read("1 lump 245 245 245\n2 bump 1 2 3\n")), ElementsAre("1 lump", "2 bump"));
  EXPECT_THAT(names_of(read("1 0.1 0.5 1 left lump\n2 0 0.25 1 bump\n")), ElementsAre("1 left lump", "2 bump"));
  EXPECT_THAT(names_of(read("    0     0    0    0        0  0  0    \"Clear Label\"\n"
                            "    1   255    0    0        1  1  1    \"left lump\"\n")),
              ElementsAre("0 Clear Label", "1 left lump"));
  ASSERT_EQ(notes.lines().size(), 4u);
  EXPECT_THAT(notes.lines()[0], AllOf(HasSubstr("names.txt: 4 numbers up to 255 behind every name are colors"),
                                      HasSubstr("is 'Unknown'")));
  EXPECT_THAT(notes.lines()[3], HasSubstr("6 numbers before every name are colors and flags"));
  // Not in every line, or no colors: part of the name.
  EXPECT_THAT(names_of(read("1 area 1 2 3\n2 bump\n")), ElementsAre("1 area 1 2 3", "2 bump"));
  EXPECT_THAT(names_of(read("1 area 1 2 300\n")), ElementsAre("1 area 1 2 300"));
  EXPECT_THAT(names_of(read("1 V1 V2 3 4\n")), ElementsAre("1 V1 V2 3 4"));
  EXPECT_EQ(notes.lines().size(), 4u);
}

TEST_F(LabelNamesTest, AreColumnsOfATable) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  EXPECT_THAT(
      names_of(read("index\tname\tabbreviation\tcolor\n1\tGray Matter\tGM\t#ff53bb\n2\tWhite Matter\tWM\t#2f8bbe\n")),
      ElementsAre("1 Gray Matter", "2 White Matter"));
  EXPECT_THAT(notes.lines(),
              ElementsAre(HasSubstr("the columns index and name are read, and no others: abbreviation, color")));
  EXPECT_THAT(names_of(read("name,index\n\"lump, left\",7\n")), ElementsAre("7 lump, left"));
  EXPECT_EQ(notes.lines().size(), 1u);
  EXPECT_THAT(refusal("index,name\none,lump\n"), AllOf(HasSubstr("names.txt:2: index 'one'")));
  EXPECT_THAT(refusal("index,name\n1\n"), HasSubstr("the line has 1 cells, and the first line names 2"));
  EXPECT_THAT(refusal("label,name\n1,lump\n"), HasSubstr("names.txt:1: 'label,name' is no label's"));
  EXPECT_THAT(refusal("1\tlump\tGM\n"),
              AllOf(HasSubstr("names.txt:1:"), HasSubstr("has further columns behind the name")));
}

TEST_F(LabelNamesTest, MayBeInQuotes) {
  EXPECT_THAT(names_of(read("1 \"left lump\"\n2 the \"bump\"\n")), ElementsAre("1 left lump", "2 the \"bump\""));
}

TEST_F(LabelNamesTest, PatternsTakeSomeInTheFilesOrder) {
  const auto all = read("1 left insula\n2 right insula\n3 left cuneus");
  const auto left = matching(all, {"* cuneus", "left *"}, "names.txt");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].name, "left insula");
  EXPECT_EQ(left[1].name, "left cuneus");
  EXPECT_THAT(user_error_of([&] { matching(all, {"left insular"}, "names.txt"); }),
              AllOf(HasSubstr("'left insular' matches no name"), HasSubstr("left insula")));
}

TEST_F(LabelNamesTest, NamesInAMessageAreOneShortLine) {
  const auto all = read("1 left\x1b[2Jinsula\n2 " + std::string(1000, 'x'));
  const std::string refused = user_error_of([&] { matching(all, {"left insula"}, "names.txt"); });
  EXPECT_THAT(refused, AllOf(HasSubstr("left?[2Jinsula"), HasSubstr("xxx...")));
  EXPECT_LT(refused.size(), 300u);
}

}  // namespace
}  // namespace plimsoll
