#include "data/part_labels.h"

#include <gmock/gmock.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"a", "b", "c", "d"};

TEST(PartLabels, NamesWhatEachPartLacks) {
  PartLabels parts({.samples = "series", .label = "class"});
  for (const int32_t label : {0, 1, 2}) parts.add(DataPart::train, label);
  for (const int32_t label : {3, 3, 0}) parts.add(DataPart::validation, label);
  EXPECT_EQ(parts.never_trained(DataPart::validation, kNames),
            "2 of 3 validation series show what is never trained on: class d");
  EXPECT_EQ(parts.never_trained(DataPart::test, kNames), "");
  EXPECT_THAT(parts.notes(kNames),
              ElementsAre("the training part has no series of the class d",
                          "the validation part has no series of 2 classes b, c; its loss and metrics do not cover them",
                          "2 of 3 validation series show what is never trained on: class d"));
  EXPECT_EQ(parts.lacking(), (PartLabels::Lacking{1, 3}));
}

TEST(PartLabels, SaysNothingIfEveryPartHasEveryLabel) {
  PartLabels parts({.samples = "slices", .label = "structure"});
  const int32_t both[] = {0, 2};
  for (const DataPart part : {DataPart::train, DataPart::test}) parts.add(part, both);
  EXPECT_THAT(parts.notes(kNames), IsEmpty());
  EXPECT_EQ(parts.never_trained(DataPart::test, kNames), "");
  EXPECT_EQ(parts.lacking(), PartLabels::Lacking());
  parts.expect(1);
  EXPECT_THAT(parts.notes(kNames), ElementsAre("the training part has no slices of the structure b",
                                               "the test part has no slices of the structure b; its loss and metrics "
                                               "do not cover them"));
}

}  // namespace
}  // namespace plimsoll
