#include "files/nifti.h"

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
  volume.place = NiftiPlace::sform;
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
  // Four decimals of a direction, as some programs write; an origin to a hundredth of a millimeter.
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[1] = 5e-5, other.to_world[3] = 90.01; }),
              IsEmpty());
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.place = NiftiPlace::qform; }), IsEmpty());
}

void make_unknown(NiftiVolume& volume) {
  volume.place = NiftiPlace::none;
  volume.to_world = {};
}

// In every pair: a volume without sform and qform can lie anywhere.
TEST(NiftiGrid, AnUnknownPositionIsNoKnownOne) {
  EXPECT_THAT(difference(2, make_unknown), HasSubstr("sform against neither sform nor qform"));
  NiftiVolume one = brain(2), other = brain(2);
  make_unknown(other);
  EXPECT_EQ(grid_remedy(one, other, "the image", "the labels"),
            "if the voxels of both lie on each other, save the labels with the affine of the image, in nibabel "
            "Nifti1Image(a.dataobj, b.affine)");
  EXPECT_THAT(grid_remedy(other, one, "the image", "the labels"),
              HasSubstr("save the image with the affine of the labels"));
  make_unknown(one);
  EXPECT_THAT(grid_difference(one, other), IsEmpty());
  other.spacing[2] = 3;
  EXPECT_THAT(grid_difference(one, other), HasSubstr("2, 2, 2 mm against 2, 2, 3 mm"));
  EXPECT_EQ(grid_remedy(one, other, "the image", "the labels"), "resample the labels to the grid of the image");
}

TEST(NiftiGrid, ConvertsUnitsThatAreKnown) {
  const auto in_meters = [](NiftiVolume& volume) {
    volume.unit_millimeters = 1000;
    for (double& length : volume.spacing) length /= 1000;
    for (double& length : volume.to_world) length /= 1000;
  };
  NiftiVolume one = brain(2), other = brain(2);
  in_meters(other);
  EXPECT_THAT(grid_difference(one, other), HasSubstr("2, 2, 2 m against 0.002, 0.002, 0.002 m"));
  one.unit_millimeters = 1;
  EXPECT_THAT(grid_difference(one, other), IsEmpty());
  EXPECT_THAT(grid_difference(other, one), IsEmpty());
  other.to_world[3] += 0.001;
  EXPECT_THAT(grid_difference(one, other), HasSubstr("1 mm apart"));
  EXPECT_THAT(grid_difference(other, one), HasSubstr("0.001 m apart"));
}

TEST(NiftiGrid, NamesDirectionsOfAxes) {
  NiftiVolume volume = brain(2);
  EXPECT_EQ(orientation_of(volume), "LAS");
  volume.to_world = {0, 0.3, -2, 0, 2, 0, 0, 0, 0, -1.98, -0.1, 0};
  EXPECT_EQ(orientation_of(volume), "AIL");
  make_unknown(volume);
  EXPECT_EQ(orientation_of(volume), "");
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
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.spacing[1] = 2.01; }),  // a millimeter at the far end
              HasSubstr("2, 2, 2 mm against 2, 2.01, 2 mm"));
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[7] += 1; }), HasSubstr("1 mm apart"));
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[0] = 2; }), HasSubstr("360 mm apart"));
  // A direction that is off by half a percent: half a voxel at the far end.
  EXPECT_THAT(difference(2, [](NiftiVolume& other) { other.to_world[1] = 0.01; }), HasSubstr("1.08 mm apart"));
}

}  // namespace
}  // namespace plimsoll
