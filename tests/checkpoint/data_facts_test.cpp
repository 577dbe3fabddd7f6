#include "checkpoint/data_facts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DataFileFact text_fact(const std::string& name, uint64_t hash, int64_t bytes = 10) {
  return {.key = "data.files", .name = name, .identity = {.files = 1, .bytes = bytes, .hash = hash}};
}

std::vector<std::string> file_lines(const std::vector<DataFileFact>& expected, const std::vector<DataFileFact>& ours) {
  const std::map<std::string, std::string> none;
  const DataFacts before{.files = expected}, now{.files = ours};
  return data_differences({none, &before}, {none, &now});
}

TEST(DataFacts, OfMovedAndRenamedFilesAreTheSame) {
  EXPECT_THAT(file_lines({text_fact("a", 1), text_fact("b", 2)}, {text_fact("c", 1), text_fact("d", 2)}), IsEmpty());
}

TEST(DataFacts, NameEachFileThatDiffers) {
  const DataFileFact a = text_fact("a", 1), b = text_fact("b", 2), c = text_fact("c", 3);
  EXPECT_THAT(file_lines({a, b}, {a, text_fact("b", 4, 11)}),
              ElementsAre("data.files: b had 10 bytes (hash 0000000000000002), now has 11 bytes (hash "
                          "0000000000000004)"));
  EXPECT_THAT(file_lines({a, b}, {a, c}), ElementsAre("data.files: b with 10 bytes (hash 0000000000000002) is now c "
                                                      "with 10 bytes (hash 0000000000000003)"));
  EXPECT_THAT(file_lines({a}, {a, c}),
              ElementsAre("data.files: c with 10 bytes (hash 0000000000000003) was not there"));
  EXPECT_THAT(file_lines({a, b, a}, {a, b}),
              ElementsAre("data.files: a with 10 bytes (hash 0000000000000001) is not there now"));
  EXPECT_THAT(file_lines({a, b}, {b, a}), ElementsAre("data.files: the order was a, b and is b, a"));
}

TEST(DataFacts, CountANameThatIsACaption) {
  DataFileFact a = text_fact("a dog.mp4", 1), b = text_fact("a cat.mp4", 1);
  a.is_name_data = b.is_name_data = true;
  EXPECT_THAT(file_lines({a}, {b}),
              ElementsAre("data.files: the name a dog.mp4, which is a caption, is now a cat.mp4"));
}

TEST(DataFacts, ListAFewFilesAndCountTheOthers) {
  std::vector<DataFileFact> expected, ours;
  for (uint64_t i = 0; i < 20; ++i) {
    expected.push_back(text_fact(std::to_string(i), i));
    ours.push_back(text_fact(std::to_string(i), i + 100));
  }
  const auto lines = file_lines(expected, ours);
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_EQ(lines.back(), "data.files: and 12 more files differ");
}

TEST(DataFacts, NameEachSettingThatDiffers) {
  const std::map<std::string, std::string> before{
      {"data.augment", "0.1"}, {"data.fmri", "a.nii"}, {"model.x", "1"}, {"seed", "0"}, {"data.prompt", "x"}};
  const std::map<std::string, std::string> now{
      {"data.test_fraction", "0.2"}, {"data.fmri", "b.nii"}, {"model.x", "2"}, {"seed", "7"}, {"data.prompt", ""}};
  EXPECT_THAT(data_differences({before}, {now}),
              ElementsAre("data.augment was 0.1 and is not set", "data.fmri was a.nii and is b.nii",
                          "data.prompt was x and is (none)", "data.test_fraction was not set and is 0.2",
                          "seed was 0 and is 7"));
  // Facts overrule the origin, which has the name of a file whose bytes are compared.
  const std::vector<DataFileFact> files{{.key = "data.fmri", .name = "a.nii", .identity = {}}};
  const DataFacts expected{.files = files, .settings = {{"data.prompt", "y"}}};
  const DataFacts ours{.files = files, .settings = {{"data.prompt", "y"}, {"data.shuffle", "false"}}};
  EXPECT_THAT(data_differences({before, &expected}, {now, &ours}),
              ElementsAre("data.augment was 0.1 and is not set", "data.shuffle was not set and is false",
                          "data.test_fraction was not set and is 0.2", "seed was 0 and is 7"));
  EXPECT_THAT(data_differences({before, &expected}, {before, nullptr}), IsEmpty());
}

TEST(DataFacts, ShowWhereLongValuesDiffer) {
  const std::string start(100, 'x');
  const std::map<std::string, std::string> before{{"data.prompt", start + "left"}}, now{{"data.prompt", start}};
  EXPECT_THAT(data_differences({before}, {now}),
              ElementsAre("data.prompt was ..." + std::string(20, 'x') + "left and is ..." + std::string(20, 'x')));
}

TEST(DataFacts, ShowNoControlCharactersOfAFile) {
  const std::map<std::string, std::string> before{{"data.\x1b[2J", "a\nb"}}, now;
  EXPECT_THAT(data_differences({before}, {now}), ElementsAre("data.?[2J was a?b and is not set"));
}

TEST(DataFacts, AreReadAsTheyWereWritten) {
  DataFileFact named = text_fact("a dog.mp4", ~uint64_t{0});
  named.is_name_data = true;
  const DataFacts facts{.files = {text_fact("t", 7), named}, .settings = {{"data.shuffle", "true"}}};
  EXPECT_EQ(parse_data_facts(nlohmann::json::parse(json_of(facts).dump())), facts);
}

}  // namespace
}  // namespace plimsoll
