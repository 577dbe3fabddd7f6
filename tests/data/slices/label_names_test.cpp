#include "data/slices/label_names.h"

#include <gmock/gmock.h>

#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
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
