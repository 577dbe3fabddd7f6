#include "cli/placement_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plan/placement/placement_traces.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string error_of(std::string_view text) {
  return refusal_of([&] { (void)parse_placement_csv(text, "problem.csv"); });
}

TEST(PlacementCsv, ReadsRowsAndWritesThemWithOffsets) {
  const PlacementTable table = parse_placement_csv("id,lower,upper,size\na,0,2,16\nb,1,3,8\n", "problem.csv");
  ASSERT_EQ(table.items.size(), 2u);
  EXPECT_EQ(table.items[1].lower, 1);
  EXPECT_EQ(table.items[1].upper, 3);
  EXPECT_EQ(table.items[1].size, 8);
  Placement placement;
  placement.offsets = {0, 16};
  EXPECT_EQ(to_csv(table, placement), "id,lower,upper,size,offset\na,0,2,16,0\nb,1,3,8,16\n");
}

TEST(PlacementCsv, KeepsOtherColumnsAndTheirOrder) {
  const PlacementTable table = parse_placement_csv(
      "\xEF\xBB\xBFsize , id,label,upper,lower\r\n\r\n 16,a,first layer,2,-1 \r\n8,b,,3,1", "problem.csv");
  ASSERT_EQ(table.items.size(), 2u);
  EXPECT_EQ(table.items[0].lower, -1);
  EXPECT_EQ(table.items[0].upper, 2);
  EXPECT_EQ(table.items[0].size, 16);
  EXPECT_THAT(table.columns, ElementsAre("size", "id", "label", "upper", "lower"));
  Placement placement;
  placement.offsets = {8, 0};
  EXPECT_EQ(to_csv(table, placement), "size,id,label,upper,lower,offset\n16,a,first layer,2,-1,8\n8,b,,3,1,0\n");
}

TEST(PlacementCsv, FillsAnOffsetColumnInAnew) {
  const PlacementTable table = parse_placement_csv("id,offset,lower,upper,size\na,99,0,2,16\n", "problem.csv");
  Placement placement;
  placement.offsets = {0};
  EXPECT_EQ(to_csv(table, placement), "id,offset,lower,upper,size\na,0,0,2,16\n");
}

TEST(PlacementCsv, AllowsNoRowsAndEmptyLifetimes) {
  EXPECT_TRUE(parse_placement_csv("id,lower,upper,size\n", "problem.csv").items.empty());
  EXPECT_EQ(parse_placement_csv("id,lower,upper,size\na,3,3,0\n", "problem.csv").items.size(), 1u);
}

TEST(PlacementCsv, SaysWhereAndWhatIsWrong) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("problem.csv:1:"), HasSubstr("id,lower,upper,size")));
  EXPECT_THAT(error_of("id,lower,size\n"), AllOf(HasSubstr("problem.csv:1:"), HasSubstr("'upper'")));
  EXPECT_THAT(error_of("id,lower,upper,size,lower\n"), HasSubstr("'lower' stands twice"));
  EXPECT_THAT(error_of(header + "a,0,2\n"), AllOf(HasSubstr("problem.csv:2:"), HasSubstr("3 fields")));
  EXPECT_THAT(error_of(header + "a,0,2,16,7\n"), HasSubstr("5 fields"));
  EXPECT_THAT(error_of(header + "\n\na,0,2,16\nb,0,x,1\n"),
              AllOf(HasSubstr("problem.csv:5:"), HasSubstr("upper is 'x'")));
  EXPECT_THAT(error_of(header + "a,0,2,1.5\n"), HasSubstr("a whole number"));
  EXPECT_THAT(error_of(header + "a,0,2,\n"), HasSubstr("size is ''"));
  EXPECT_THAT(error_of(header + "a,0,2,9223372036854775808\n"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of(header + "a,0,2,-1\n"), HasSubstr("-1 bytes"));
  EXPECT_THAT(error_of(header + "a,3,2,1\n"), AllOf(HasSubstr("upper (2)"), HasSubstr("lower (3)")));
  EXPECT_THAT(error_of(header + "a,0,2,1\nb,0,2,1\na,0,2,1\n"),
              AllOf(HasSubstr("problem.csv:4:"), HasSubstr("'a'"), HasSubstr("line 2")));
  EXPECT_THAT(error_of(header + ",0,2,1\n"), HasSubstr("empty id"));
  EXPECT_THAT(error_of(header + "\"a,b\",0,2,1\n"), HasSubstr("quotes"));
}

TEST(PlacementCsv, ReadsFiles) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "placement_csv_test.csv";
  std::ofstream(path) << "id,lower,upper,size\na,0,2,16\n";
  EXPECT_EQ(read_placement_csv(path).items.size(), 1u);
  std::filesystem::remove(path);
  EXPECT_THAT([&] { (void)read_placement_csv(path); }, ThrowsMessage<UserError>(HasSubstr(path.string())));
  EXPECT_THROW((void)read_placement_csv(std::filesystem::path(::testing::TempDir())), UserError);
}

TEST(PlacementCsv, SurvivesWhatIsWritten) {
  std::mt19937_64 random(11);
  PlacementTable table;
  table.columns = {"id", "lower", "upper", "size"};
  table.items = random_items(random, 200, 50, int64_t{1} << 50);
  for (size_t i = 0; i < table.items.size(); ++i) {
    const PlacementItem& item = table.items[i];
    table.rows.push_back(
        {"b" + std::to_string(i), std::to_string(item.lower), std::to_string(item.upper), std::to_string(item.size)});
  }
  PlacementOptions options;
  options.effort = 1000;
  const Placement placement = place(table.items, options);
  const PlacementTable again = parse_placement_csv(to_csv(table, placement), "again.csv");
  ASSERT_EQ(again.items.size(), table.items.size());
  Placement read;
  read.height = placement.height;
  for (const std::vector<std::string>& row : again.rows) read.offsets.push_back(std::stoll(row.back()));
  EXPECT_EQ(read.offsets, placement.offsets);
  EXPECT_EQ(check_placement(again.items, read), "");
}

TEST(PlacementCsv, NeverCrashesOnNoise) {
  std::mt19937_64 random(12);
  const std::string alphabet = "0123456789,-\n\r \tabid\"\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 == 0 ? "id,lower,upper,size\n" : "";
    for (int64_t k = draw(random, 0, 40); k > 0; --k)
      text += alphabet[static_cast<size_t>(draw(random, 0, 22)) % alphabet.size()];
    try {
      const PlacementTable table = parse_placement_csv(text, "noise.csv");
      EXPECT_EQ(table.rows.size(), table.items.size());
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), ::testing::StartsWith("noise.csv:"));
    }
  }
}

}  // namespace
}  // namespace plimsoll
