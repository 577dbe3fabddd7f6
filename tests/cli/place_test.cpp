#include "cli/cli_testing.h"
#include "cli/placement_csv.h"
#include "plimsoll/placement.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// b is live together with a and c; a and c can have the same bytes: 24 bytes.
constexpr const char* kBuffers = "id,lower,upper,size\na,0,2,16\nb,1,3,8\nc,2,4,16\n";

class PlaceCommand : public CliTest {
 protected:
  PlaceCommand() { put("buffers.csv", kBuffers); }

  // Checks that the offsets in `csv` are valid, and the buffers those of the input. Returns their height in bytes.
  static int64_t height_of(const std::string& csv, int64_t alignment = 1) {
    const PlacementTable before = parse_placement_csv(kBuffers, "before");
    const PlacementTable after = parse_placement_csv(csv, "after");
    EXPECT_EQ(after.columns, (std::vector<std::string>{"id", "lower", "upper", "size", "offset"}));
    EXPECT_EQ(after.rows.size(), before.rows.size());
    Placement placement;
    for (size_t i = 0; i < after.rows.size(); ++i) {
      EXPECT_TRUE(std::equal(before.rows[i].begin(), before.rows[i].end(), after.rows[i].begin()));
      placement.offsets.push_back(std::stoll(after.rows[i].back()));
      placement.height = std::max(placement.height, placement.offsets.back() + after.items[i].size);
    }
    EXPECT_EQ(check_placement(after.items, placement, alignment), "");
    return placement.height;
  }
};

TEST_F(PlaceCommand, WritesTheSameRowsWithOffsets) {
  const Outcome outcome = run({"place", "buffers.csv", "--capacity", "24"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(height_of(outcome.out), 24);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("height 24 "), HasSubstr("lower bound 24 "), HasSubstr("0.00 %"),
                                 HasSubstr("fits the capacity")));
}

TEST_F(PlaceCommand, WritesToAFileInsteadOfStandardOutput) {
  const Outcome outcome = run({"place", "buffers.csv", "--capacity", "1KiB", "--output", "placed.csv"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  height_of(get("placed.csv"));
}

TEST_F(PlaceCommand, PlacesWhatItHasPlaced) {
  ASSERT_EQ(run({"place", "buffers.csv", "--capacity", "24", "--output", "placed.csv"}).exit_code, 0);
  const Outcome again = run({"place", "placed.csv", "--capacity", "24"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, get("placed.csv"));
}

TEST_F(PlaceCommand, AlignsOffsets) {
  const Outcome outcome = run({"place", "buffers.csv", "--capacity", "128", "--alignment", "64"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  height_of(outcome.out, 64);
}

TEST_F(PlaceCommand, TooSmallACapacityIsAnAnswer) {
  const Outcome outcome = run({"place", "buffers.csv", "--capacity", "23"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(height_of(outcome.out), 24);
  EXPECT_THAT(outcome.err, HasSubstr("does not fit the capacity of 23 bytes"));
}

TEST_F(PlaceCommand, JsonIsAloneOnStandardOutput) {
  const Outcome outcome = run({"place", "buffers.csv", "--capacity", "23", "--json", "-"});
  EXPECT_EQ(outcome.exit_code, 3);
  const json result = json::parse(outcome.out);
  EXPECT_EQ(keys_of(result),
            (std::set<std::string>{"fits", "capacity", "height", "lower_bound", "distance", "offsets"}));
  EXPECT_EQ(result["fits"], false);
  EXPECT_EQ(result["capacity"], 23);
  EXPECT_EQ(result["height"], 24);
  EXPECT_EQ(result["lower_bound"], 24);
  EXPECT_EQ(result["offsets"].size(), 3u);
}

TEST_F(PlaceCommand, RefusesWrongArguments) {
  expect_refusal(run({"place", "buffers.csv"}), 2, HasSubstr("--capacity"));
  expect_refusal(run({"place", "--capacity", "24"}), 2, HasSubstr("FILE.csv"));
  for (const char* wrong : {"0", "-5", "much", "9999999999999GiB", ""})
    expect_refusal(run({"place", "buffers.csv", "--capacity", wrong}), 2, HasSubstr("--capacity"));
  expect_refusal(run({"place", "buffers.csv", "--capacity", "24", "--alignment", "0"}), 2, HasSubstr("--alignment"));
  expect_refusal(run({"place", "buffers.csv", "--capacity", "24", "--effort", "-1"}), 2, HasSubstr("--effort"));
  expect_refusal(run({"place", "buffers.csv", "other.csv", "--capacity", "24"}), 2, HasSubstr("other.csv"));
}

TEST_F(PlaceCommand, RefusesWrongFiles) {
  put("wrong.csv", "id,lower,upper,size\na,0,2,16\nb,3,1,8\n");
  expect_refusal(run({"place", "wrong.csv", "--capacity", "24"}), 2, HasSubstr("wrong.csv:3"));
  put("wrong.csv", "");
  expect_refusal(run({"place", "wrong.csv", "--capacity", "24"}), 2, HasSubstr("wrong.csv:1"));
  expect_refusal(run({"place", "absent.csv", "--capacity", "24"}), 2, HasSubstr("absent.csv"));
}

TEST_F(PlaceCommand, WritesNothingWhereTheOutputIsRefused) {
  const auto added = new_files([&] {
    expect_refusal(run({"place", "buffers.csv", "--capacity", "24", "--output", "absent/placed.csv"}), 2,
                   HasSubstr("absent"));
  });
  EXPECT_TRUE(added.empty());
}

}  // namespace
}  // namespace plimsoll::cli_testing
