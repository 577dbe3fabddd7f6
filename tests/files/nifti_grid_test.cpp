#include "files/nifti_grid.h"

#include <gmock/gmock.h>

#include <functional>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

NiftiVolume brain(double spacing) {
  NiftiVolume volume;
  volume.sizes = {91, 109, 91};
  volume.spacing = {spacing, spacing, spacing};
  volume.to_world = {-spacing, 0, 0, 90, 0, spacing, 0, -126, 0, 0, spacing, -72};
  return volume;
}

std::string difference(double spacing, const std::function<void(NiftiVolume&)>& change) {
  NiftiVolume other = brain(spacing);
  change(other);
  const std::string forth = grid_difference(brain(spacing), other), back = grid_difference(other, brain(spacing));
  EXPECT_EQ(forth.empty(), back.empty()) << forth << back;
  return forth;
}

TEST(NiftiGrid, IsTheSameAsFarAsRoundingGoes) {
  EXPECT_THAT(difference(2, [](NiftiVolume&) {}), IsEmpty());
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.spacing[0] = 2.0001; }), IsEmpty());
  // Four decimals of a direction, as some programs write; an origin to a hundredth of a millimetre.
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[1] = 5e-5, other.to_world[3] = 90.01; }),
              IsEmpty());
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world = {}; }), IsEmpty());
}

// Measured in voxels: a difference that is negligible for a body scan moves the voxels of a microscope.
TEST(NiftiGrid, ToleranceGoesByTheVoxel) {
  const auto shifted = [](NiftiVolume& other) { other.to_world[3] += 0.05; };
  EXPECT_THAT(difference(2, shifted), IsEmpty());
  EXPECT_THAT(difference(0.1, shifted), HasSubstr("0.05 mm apart"));
}

TEST(NiftiGrid, SaysHowGridsDiffer) {
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.sizes[2] = 90; }),
              HasSubstr("91 x 109 x 91 voxels against 91 x 109 x 90"));
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.spacing[1] = 2.01; }),  // a millimetre at the far end
              HasSubstr("2, 2, 2 mm against 2, 2.01, 2 mm"));
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[7] += 1; }), HasSubstr("1 mm apart"));
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[0] = 2; }), HasSubstr("360 mm apart"));
  // A direction that is off by half a percent: half a voxel at the far end.
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[1] = 0.01; }), HasSubstr("1.08 mm apart"));
}

}  // namespace
}  // namespace plimsoll
