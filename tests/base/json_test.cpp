#include "base/json.h"

#include <gmock/gmock.h>

#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(const std::string& text) {
  const TempFolder folder;
  const auto file = put_file(folder / "config.json", text);
  const std::string message = user_error_of([&] { read_json_file(file, 1 << 16); });
  EXPECT_THAT(message, StartsWith(file.string()));
  return message;
}

TEST(JsonFile, IsAnObject) {
  const TempFolder folder;
  EXPECT_EQ(read_json_file(put_file(folder / "config.json", R"({"a": {"b": 1e3}})"), 100)["a"]["b"], 1000);
  EXPECT_THAT(refusal("[1]"), HasSubstr("no JSON object"));
}

TEST(JsonFile, NamesTheFileAndWhatIsTheMatter) {
  EXPECT_THAT(refusal(R"({"a": })"), HasSubstr("not valid JSON at byte 7"));
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal(std::string(1 << 17, ' ')), HasSubstr("more than"));
  std::string deep = "{\"a\": ";
  for (int i = 0; i < 40; ++i) deep += '[';
  EXPECT_THAT(refusal(deep), HasSubstr("nested deeper"));
}

// The parser has a different exception for this than for text that is no JSON.
TEST(JsonFile, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_THAT(refusal(R"({"rope_theta": 1e999})"), AllOf(HasSubstr("can be read"), HasSubstr("overflow")));
}

}  // namespace
}  // namespace plimsoll
