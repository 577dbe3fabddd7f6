#include "files/csv_file.h"

#include <gmock/gmock.h>

#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Row = std::vector<std::string>;

class CsvFileTest : public ::testing::Test {
 protected:
  std::vector<Row> rows(const std::string& text, bool blanks = false) {
    CsvFile table(put_file(folder_ / "t.csv", text), blanks);
    std::vector<Row> all;
    for (Row cells; table.next(cells);) all.push_back(cells);
    return all;
  }
  std::string refusal(const std::string& text, bool blanks = false) {
    return user_error_of([&] { rows(text, blanks); });
  }
  /// Returns the numbers of all cells; nothing becomes -1.
  std::vector<double> numbers(const std::string& text, bool blanks = false) {
    CsvFile table(put_file(folder_ / "t.csv", text), blanks);
    std::vector<double> all;
    for (Row cells; table.next(cells);)
      for (const std::string& cell : cells) all.push_back(table.number(cell).value_or(-1));
    return all;
  }
  TempFolder folder_;
};

TEST_F(CsvFileTest, CutsAtTheSeparatorOfItsFirstLine) {
  EXPECT_THAT(rows("a,b\n1,2\n"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  EXPECT_THAT(rows("a;b\n1;2\n"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  EXPECT_THAT(rows("a\tb\n1\t\n"), ElementsAre(Row{"a", "b"}, Row{"1", ""}));
  EXPECT_THAT(rows("a b\n1 2\n"), ElementsAre(Row{"a b"}, Row{"1 2"}));
  EXPECT_THAT(rows("a\nb;c\n"), ElementsAre(Row{"a"}, Row{"b;c"}));
  EXPECT_THAT(rows("\n \na,b\n\n1,2"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
}

TEST_F(CsvFileTest, KnowsQuotes) {
  EXPECT_THAT(rows("\"a,b\";c\n\"say \"\"so\"\"\" ; d \n"), ElementsAre(Row{"a,b", "c"}, Row{"say \"so\"", "d"}));
  EXPECT_THAT(rows("\"a;b\tc\",d\n"), ElementsAre(Row{"a;b\tc", "d"}));
  EXPECT_THAT(refusal("a,b\n\"1,2\n"), HasSubstr("t.csv:2: a cell's double quotes do not close"));
  EXPECT_THAT(refusal("a,b\n\"1\"x,2\n"), HasSubstr("t.csv:2: a cell goes on behind its double quotes"));
}

// Of several separators, the one that cuts the lines into equal numbers of cells.
TEST_F(CsvFileTest, FindsTheSeparatorAmongSeveral) {
  EXPECT_THAT(rows("Zeit;Wert, mV\n0,5;1,5\n1,5;2\n"),
              ElementsAre(Row{"Zeit", "Wert, mV"}, Row{"0,5", "1,5"}, Row{"1,5", "2"}));
  EXPECT_THAT(rows("1,5;2,5\n3,5;4,5\n"), ElementsAre(Row{"1,5", "2,5"}, Row{"3,5", "4,5"}));
  EXPECT_THAT(rows("Ort, x;Ort, y\n1,5;2,5\n"), ElementsAre(Row{"Ort, x", "Ort, y"}, Row{"1,5", "2,5"}));
  EXPECT_THAT(rows("name,x;y\nlump,1\n"), ElementsAre(Row{"name", "x;y"}, Row{"lump", "1"}));
  EXPECT_THAT(rows("clip\ta dog, a cat\nclap\ta cow\n"),
              ElementsAre(Row{"clip", "a dog, a cat"}, Row{"clap", "a cow"}));
  EXPECT_THAT(refusal("a,b;c\nd,e;f\n"),
              AllOf(HasSubstr("t.csv:1: the first line has both commas and semicolons"), HasSubstr("double quotes")));
}

TEST_F(CsvFileTest, CutsAtBlanksIfAsked) {
  EXPECT_THAT(rows("  1   -2.5\n30\t4 \n", true), ElementsAre(Row{"1", "-2.5"}, Row{"30", "4"}));
  EXPECT_THAT(rows("1\t\t2\n3\t4\n", true), ElementsAre(Row{"1", "2"}, Row{"3", "4"}));
  EXPECT_THAT(rows("left insula\tright insula\n1\t\n", true),
              ElementsAre(Row{"left insula", "right insula"}, Row{"1", ""}));
  EXPECT_THAT(rows("1 2\t3\n4 5 6\n", true), ElementsAre(Row{"1", "2", "3"}, Row{"4", "5", "6"}));
  EXPECT_THAT(rows("\"a b\" c\n", true), ElementsAre(Row{"a b", "c"}));
  EXPECT_THAT(rows("\ta\tb\n0\t1\t2\n", true), ElementsAre(Row{"", "a", "b"}, Row{"0", "1", "2"}));
}

TEST_F(CsvFileTest, ReadsDecimalCommas) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  EXPECT_THAT(numbers("1.5,-2e3\n+3,x\n"), ElementsAre(1.5, -2000, 3, -1));
  EXPECT_THAT(notes.lines(), IsEmpty());
  EXPECT_THAT(numbers("1,5;-2,25e1\n3;1,234\n"), ElementsAre(1.5, -22.5, 3, 1.234));
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("t.csv: numbers have decimal commas: '1,5' is 1.5")));
  EXPECT_THAT(numbers("1,5\t2\n1,234\t3\n"), ElementsAre(1.5, 2, 1.234, 3));
  EXPECT_THAT(numbers("\"1,5\",\"0,125\"\n"), ElementsAre(1.5, 0.125));
  EXPECT_THAT(numbers("1;2;3;4\n1.234,5;1,2,3;a,b;,\n"), ElementsAre(1, 2, 3, 4, -1, -1, -1, -1));
  const auto refused = [&](const std::string& text) { return user_error_of([&] { numbers(text); }); };
  EXPECT_THAT(refused("1,5;2\n2.5;3\n"), HasSubstr("t.csv:2: the table has both '2.5' and '1,5'"));
  EXPECT_THAT(refused("2.5;3\n1,5;2\n"), HasSubstr("t.csv:2: the table has both '2.5' and '1,5'"));
  EXPECT_THAT(refused("a\tb\n1,234\t2\n"),
              HasSubstr("t.csv:2: '1,234' may be a number of thousands or a decimal fraction; write 1234 or 1.234"));
}

TEST(CountingNames, AreWholeNumbersFromZeroOrOne) {
  EXPECT_TRUE(are_counting_names({"0", "1", "2"}));
  EXPECT_TRUE(are_counting_names({"1", "2"}));
  EXPECT_TRUE(are_counting_names({"", "0", "1"}, 1));
  for (const Row& cells : {Row{"2", "3"}, Row{"0", "2"}, Row{"0.0", "1.0"}, Row{"a", "b"}, Row{"", "0", "1"}, Row{}})
    EXPECT_FALSE(are_counting_names(cells)) << cells.size();
}

TEST(IndexColumn, CountsWithOneStep) {
  const auto judge = [](const std::vector<int64_t>& cells) {
    IndexColumn column;
    bool counts = true;
    for (const int64_t cell : cells) counts = column.add(std::to_string(cell)) && counts;
    return std::pair(counts, column.is_certain());
  };
  EXPECT_EQ(judge({0, 1, 2}), std::pair(true, true));
  EXPECT_EQ(judge({100, 101, 102}), std::pair(true, true));
  EXPECT_EQ(judge({0, 1}), std::pair(true, false));
  EXPECT_EQ(judge({0, 2, 4}), std::pair(true, false));
  EXPECT_EQ(judge({0, 2, 4, 6, 8, 10, 12, 14}), std::pair(true, true));
  EXPECT_EQ(judge({0, 1, 3}), std::pair(false, false));
  EXPECT_EQ(judge({5, 5, 5}), std::pair(false, false));
  IndexColumn column;
  EXPECT_FALSE(column.add("0.0"));
  EXPECT_FALSE(column.add("1"));
  IndexColumn by_two;
  for (const char* cell : {"0", "2", "4"}) by_two.add(cell);
  EXPECT_EQ(by_two.describe(), "counts from 0 to 4 in steps of 2");
}

}  // namespace
}  // namespace plimsoll
