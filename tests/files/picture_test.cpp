#include "files/picture.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "data/masks/picture_plane.h"
#include "files/nifti.h"
#include "files/picture_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Picture picture_of(const std::string& bytes) {
  const TempFolder folder;
  return read_picture(put_file(folder / "a.png", bytes));
}
std::string picture_refusal(const std::string& bytes) {
  const std::string message = user_error_of([&] { picture_of(bytes); });
  EXPECT_THAT(message, HasSubstr("a.png: "));
  return message;
}

TEST(Picture, ReadsEveryNumberOfAPngExactly) {
  std::mt19937 random(1);
  for (const auto& [bits, color, channels] : {std::tuple{1, kPngGray, 1},
                                              {2, kPngGray, 1},
                                              {4, kPngGray, 1},
                                              {8, kPngGray, 1},
                                              {16, kPngGray, 1},
                                              {8, kPngColors, 3},
                                              {16, kPngColors, 3},
                                              {1, kPngPalette, 1},
                                              {2, kPngPalette, 1},
                                              {4, kPngPalette, 1},
                                              {8, kPngPalette, 1},
                                              {8, kPngGrayAlpha, 2},
                                              {16, kPngGrayAlpha, 2},
                                              {8, kPngColorsAlpha, 4},
                                              {16, kPngColorsAlpha, 4}}) {
    const int64_t width = 13, height = 7;
    std::vector<uint16_t> numbers(static_cast<size_t>(width * height * channels)), kept;
    const int wanted = channels > 2 ? 3 : 1;  // without transparency
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<uint16_t>(random() & ((1u << bits) - 1));
      if (static_cast<int>(i) % channels < wanted) kept.push_back(numbers[i]);
    }
    const Picture picture = picture_of(png(width, height, bits, color, numbers));
    EXPECT_EQ(picture.width, width);
    EXPECT_EQ(picture.height, height);
    EXPECT_EQ(picture.channels, wanted);
    EXPECT_EQ(picture.numbers, kept) << bits << " bits of color " << color;
    if (color != kPngPalette) {
      EXPECT_EQ(picture.max_value, (1 << bits) - 1);
    } else {
      const Picture colors = on_white(picture);
      EXPECT_EQ(colors.channels, 3);
      for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(colors.numbers[3 * i + 1], static_cast<uint8_t>(5 * kept[i]));
    }
  }
}

TEST(Picture, ReadsJpegs) {
  const std::string bytes = jpeg(32, 16, 40, 200);
  const Picture picture = picture_of(bytes);
  EXPECT_EQ(picture.describe_sizes(), "32 x 16");
  EXPECT_EQ(picture.channels, 3);
  EXPECT_FALSE(picture.exact);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(picture.numbers[i], 40, 4);
    EXPECT_NEAR(picture.numbers[picture.numbers.size() - 1 - i], 200, 4);
  }
  // Any truncated part of it is rejected, and no pixels are invented.
  for (size_t size = 0; size + 2 <= bytes.size(); size += 7) picture_refusal(bytes.substr(0, size));
  EXPECT_THAT(picture_refusal(bytes.substr(0, bytes.size() - 2)), HasSubstr("ends before its picture does"));
  std::string claims = bytes;
  const size_t frame = claims.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  claims.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(picture_refusal(claims), HasSubstr("65535 x 65535"));
}

// Each scan of a progressive picture goes over all pixels, and may have a few bytes.
TEST(Picture, BoundsTheScansOfAJpeg) {
  const std::string bytes = jpeg(32, 16, 20, 200);
  const std::string end = bytes.substr(bytes.size() - 2), scan("\xff\xda\0\x02", 4);
  std::string many = bytes.substr(0, bytes.size() - 2);
  for (int i = 0; i < 127; ++i) many += scan;
  const TempFolder folder;
  EXPECT_EQ(validate_picture(put_file(folder / "a.jpg", many + end)).width, 32);
  EXPECT_THAT(picture_refusal(many + scan + end), HasSubstr("has more than 128 scans"));
}

TEST(Picture, RefusesDamageAndClaims) {
  const std::string good = png(4, 4, 8, kPngGray, std::vector<uint16_t>(16, 7));
  const std::string signature = good.substr(0, 8);
  const auto claims = [&](int64_t width, int64_t height) {
    return picture_refusal(signature + png_header(width, height, 8, kPngGray) + png_chunk("IDAT", deflated("x")) +
                           png_chunk("IEND", ""));
  };
  EXPECT_THAT(claims(0x7fffffff, 0x7fffffff), HasSubstr("2147483647 x 2147483647"));
  EXPECT_THAT(claims(0, 4), HasSubstr("0 x 4 pixels"));
  EXPECT_THAT(claims(32768, 32768), HasSubstr("are read"));
  EXPECT_THAT(picture_refusal(signature + png_header(11000, 11000, 16, kPngColorsAlpha) + png_chunk("IEND", "")),
              HasSubstr("11000 x 11000 pixels of 4 x 16 bits, 968000000 bytes; allowed: 536870912"));
  EXPECT_THAT(claims(8192, 8192), HasSubstr("holds 1 of their 67117056 bytes"));
  EXPECT_THAT(picture_refusal(good.substr(0, good.size() - 5)), HasSubstr("truncated"));
  EXPECT_THAT(picture_refusal(good.substr(0, 20)), HasSubstr("truncated"));
  std::string flipped = good;
  flipped[45] = static_cast<char>(flipped[45] ^ 1);
  EXPECT_THAT(picture_refusal(flipped), HasSubstr("checksum"));
  EXPECT_THAT(picture_refusal(signature + png_header(4, 4, 3, kPngGray) + png_chunk("IEND", "")),
              HasSubstr("in 3 bits"));
  EXPECT_THAT(picture_refusal(signature + png_header(4, 4, 8, kPngGray) +
                              png_chunk("IDAT", deflated(std::string(100, '\0'))) + png_chunk("IEND", "")),
              HasSubstr("holds more of their 20 bytes"));
  EXPECT_THAT(picture_refusal(""), HasSubstr("is no PNG or JPEG picture"));
  EXPECT_THAT(picture_refusal("GIF89a and so on"), HasSubstr("it is a GIF picture"));
  EXPECT_THAT(picture_refusal("\xff\xd8\xff\xe0"), HasSubstr("truncated"));
}

// Every chunk has a checksum, so every change is detected, except in bytes that belong to no chunk.
TEST(Picture, SurvivesDamage) {
  const TempFolder folder;
  std::vector<uint16_t> numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(static_cast<uint16_t>(i));
  const std::string whole = png(8, 8, 8, kPngGray, numbers);
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (uint32_t changes = random() % 3; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      EXPECT_EQ(read_picture(put_file(folder / "a.png", bytes)).numbers, numbers);
    } catch (const UserError&) {
    }
  }
}

TEST(Picture, IsCalledWhatItIsWhereAnotherFileIsWanted) {
  const TempFolder folder;
  const auto file = put_file(folder / "brain.nii", png(4, 4, 8, kPngGray, std::vector<uint16_t>(16, 7)));
  EXPECT_THAT(
      user_error_of([&] { read_nifti(file); }),
      AllOf(HasSubstr("brain.nii"), HasSubstr("is not a NIfTI file; it is a PNG picture: data.type: pictures")));
  EXPECT_THAT(user_error_of([&] { NiftiSeries series(file); }), HasSubstr("it is a PNG picture"));
  put_file(file, "\x93NUMPY and more");
  EXPECT_THAT(user_error_of([&] { read_nifti(file); }), HasSubstr("it is a NumPy array (.npy)"));
}

TEST(PicturePlane, AveragesWhatIsTooFineAndKeepsProportions) {
  const TempFolder folder;
  // 8 x 4: columns of 0 and 100 in turn, so that all squares of 2 x 2 have the mean 50; one column of 200.
  std::vector<uint16_t> numbers;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x) numbers.push_back(static_cast<uint16_t>(x >= 6 ? 200 : x % 2 * 100));
  const auto file = put_file(folder / "a.png", png(8, 4, 8, kPngGray, numbers));
  const PicturePlane plane = read_plane(file, 4, 1, "imagenet");
  EXPECT_EQ(plane.reduced, 2);
  EXPECT_EQ(plane.width, 4);
  EXPECT_EQ(plane.height, 2);
  std::vector<float> shown(16);
  show(plane, 4, {}, shown);
  for (int x = 0; x < 4; ++x) EXPECT_EQ(shown[static_cast<size_t>(x)], 0) << "outside";
  for (int x = 0; x < 3; ++x) EXPECT_NEAR(shown[4 + static_cast<size_t>(x)], (50 / 255.0 - 0.449) / 0.224, 2e-3);
  EXPECT_NEAR(shown[7], (200 / 255.0 - 0.449) / 0.224, 2e-3);

  const PicturePlane standard = read_plane(file, 4, 3, "picture");
  double sum = 0, squares = 0;
  for (const float value : standard.values) sum += value, squares += double{value} * value;
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_NEAR(squares / double(standard.values.size()), 1, 1e-5);
  EXPECT_EQ(standard.values.size(), 24u);
}

TEST(PicturePlane, MasksTakeTheNearestNumber) {
  const TempFolder folder;
  const auto file = put_file(folder / "m.png", png(2, 2, 16, kPngGray, {1, 700, 40000, 0}));
  const MaskPlane mask = read_mask(file, 4);
  std::vector<uint16_t> shown(16);
  each_number(mask, 4, {}, [&](int64_t pixel, uint16_t number) { shown[static_cast<size_t>(pixel)] = number; });
  EXPECT_THAT(shown, ElementsAreArray({1, 1, 700, 700, 1, 1, 700, 700, 40000, 40000, 0, 0, 40000, 40000, 0, 0}));
  EXPECT_EQ(mask.threshold, 0);
  put_file(file, png(1, 1, 8, kPngColors, {1, 2, 3}));
  EXPECT_THAT(user_error_of([&] { read_mask(file, 4); }), AllOf(HasSubstr("m.png"), HasSubstr("mask in colors")));
  put_file(file, png(1, 1, 8, kPngColors, {9, 9, 9}));
  EXPECT_THAT(read_mask(file, 4).numbers, ElementsAre(9));
}

}  // namespace
}  // namespace plimsoll
