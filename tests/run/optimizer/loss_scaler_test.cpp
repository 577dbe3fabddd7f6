#include "run/optimizer/optimizer.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

constexpr double kStart = 65536;
constexpr int64_t kGrowth = 2000;  // good steps in a row, as in torch.amp.GradScaler

void good_steps(LossScaler& scaler, int64_t count) {
  for (int64_t i = 0; i < count; ++i) scaler.update(false);
}

TEST(LossScaler, StartsAtTwoToThe16th) {
  const LossScaler scaler(true);
  EXPECT_EQ(scaler.scale(), kStart);
  EXPECT_EQ(scaler.growth_tracker(), 0);
}

TEST(LossScaler, HalvesAfterEverySkippedStep) {
  LossScaler scaler(true);
  for (double scale = kStart / 2; scale >= 0.25; scale /= 2) {
    scaler.update(true);
    EXPECT_EQ(scaler.scale(), scale);
    EXPECT_EQ(scaler.growth_tracker(), 0);
  }
}

TEST(LossScaler, DoublesAfter2000GoodStepsAndCountsFromZeroAgain) {
  LossScaler scaler(true);
  for (double scale : {kStart, 2 * kStart, 4 * kStart}) {
    good_steps(scaler, kGrowth - 1);
    EXPECT_EQ(scaler.scale(), scale);
    EXPECT_EQ(scaler.growth_tracker(), kGrowth - 1);
    scaler.update(false);
    EXPECT_EQ(scaler.scale(), 2 * scale);
    EXPECT_EQ(scaler.growth_tracker(), 0);
  }
}

TEST(LossScaler, ASkippedStepResetsTheCountOfGoodSteps) {
  LossScaler scaler(true);
  good_steps(scaler, kGrowth - 1);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), kStart / 2);
  EXPECT_EQ(scaler.growth_tracker(), 0);
  good_steps(scaler, kGrowth - 1);
  EXPECT_EQ(scaler.scale(), kStart / 2) << "1999 good steps follow the skipped step";
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), kStart);
}

TEST(LossScaler, StaysAt1WhenDisabled) {
  LossScaler scaler(false);
  EXPECT_EQ(scaler.scale(), 1);
  scaler.update(true);
  good_steps(scaler, kGrowth + 1);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.growth_tracker(), 0);
}

TEST(LossScaler, ARestoredScalerContinuesTheCount) {
  LossScaler saved(true), restored(true);
  saved.update(true);
  good_steps(saved, 1500);
  restored.restore(saved.scale(), saved.growth_tracker());
  EXPECT_EQ(restored.scale(), kStart / 2);
  EXPECT_EQ(restored.growth_tracker(), 1500);
  good_steps(restored, kGrowth - 1500 - 1);
  EXPECT_EQ(restored.scale(), kStart / 2);
  restored.update(false);
  EXPECT_EQ(restored.scale(), kStart);
}

}  // namespace
}  // namespace plimsoll
