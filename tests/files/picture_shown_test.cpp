#include <gmock/gmock.h>

#include "data/masks/picture_plane.h"
#include "files/picture.h"
#include "files/picture_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PictureShown : public ::testing::Test {
 protected:
  Picture read(const std::string& bytes) { return read_picture(put_file(folder_ / "a.png", bytes)); }
  PictureSides validate(const std::string& bytes) { return validate_picture(put_file(folder_ / "a.png", bytes)); }
  std::string refusal(const std::string& bytes) {
    const std::string message = user_error_of([&] { validate(bytes); });
    EXPECT_EQ(user_error_of([&] { read(bytes); }), message);
    return message;
  }
  std::vector<float> shown(const std::string& bytes, int64_t channels) {
    return read_plane(put_file(folder_ / "a.png", bytes), 64, channels, "imagenet").values;
  }
  std::string mask_refusal(const std::string& bytes) {
    return user_error_of([&] { read_mask(put_file(folder_ / "m.png", bytes), 64); });
  }

  TempFolder folder_;
};

std::string rising_png(const std::vector<std::string>& chunks = {}) {
  std::vector<uint16_t> numbers;
  for (int i = 0; i < 15; ++i) numbers.push_back(static_cast<uint16_t>(7 * i));
  return with_chunks(png(5, 3, 8, kPngGray, numbers), chunks);
}

TEST_F(PictureShown, IsTurnedAsExifSays) {
  const std::string plain = jpeg(24, 16, 40, 200);
  const Picture stored = read(plain), rising = read(rising_png());
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool little : {true, false}) {
      const std::string exif = exif_of(orientation, little);
      const PictureSides sides = validate(with_segment(plain, 0xe1, std::string("Exif\0\0", 6) + exif));
      EXPECT_EQ(sides.orientation, orientation);
      EXPECT_EQ(sides.width, orientation >= 5 ? 16 : 24);
      const Picture picture = read(with_segment(plain, 0xe1, std::string("Exif\0\0", 6) + exif));
      EXPECT_EQ(picture.describe_sizes(), orientation >= 5 ? "16 x 24" : "24 x 16");
      EXPECT_EQ(picture.numbers, as_seen(orientation, stored.numbers, 24, 16, 3)) << orientation;
      const std::string raw = raw_profile(std::string("Exif\0\0", 6) + exif);
      for (const std::string& chunk :
           {png_chunk("eXIf", exif), png_chunk("tEXt", std::string("Raw profile type exif\0", 22) + raw),
            png_chunk("zTXt", std::string("Raw profile type APP1\0\0", 23) + deflated(raw)),
            png_chunk("iTXt", std::string("Raw profile type exif\0\0\0\0\0", 26) + raw)}) {
        const Picture turned = read(rising_png({chunk}));
        EXPECT_EQ(turned.orientation, orientation);
        EXPECT_EQ(turned.numbers, as_seen(orientation, rising.numbers, 5, 3, 1)) << chunk;
      }
    }
}

TEST_F(PictureShown, IsUprightWithoutAnOrientation) {
  const std::string plain = jpeg(24, 16, 40, 200);
  const std::vector<uint16_t> numbers = read(plain).numbers;
  const std::string exif = std::string("Exif\0\0", 6) + exif_of(6, true);
  for (const std::string& segment :
       {std::string("Exif\0\0", 6) + exif_of(0, true), std::string("Exif\0\0", 6) + exif_of(9, false),
        exif.substr(0, 20), exif.substr(0, 9), std::string("Exif\0\0II*\0\xff\xff\xff\xff", 14),
        std::string("Other\0", 6) + exif}) {
    const Picture picture = read(with_segment(plain, 0xe1, segment));
    EXPECT_EQ(picture.orientation, 1);
    EXPECT_EQ(picture.numbers, numbers);
  }
}

// Pillow applies an orientation that XMP data alone state, and browsers do not.
TEST_F(PictureShown, IsRefusedIfXmpAloneTurnsIt) {
  const std::string plain = jpeg(24, 16, 40, 200), begin("http://ns.adobe.com/xap/1.0/\0", 29);
  const std::string attribute = "<rdf:Description tiff:Orientation=\"6\"/>",
                    element = "<tiff:Orientation>6</tiff:Orientation>";
  for (const std::string& xmp : {attribute, element}) {
    const std::string turned = with_segment(plain, 0xe1, begin + xmp);
    EXPECT_THAT(refusal(turned), AllOf(HasSubstr("has the orientation 6 in XMP data, and none in EXIF data"),
                                       HasSubstr("exiftool -Orientation#=6 FILE")));
    EXPECT_EQ(read(with_segment(turned, 0xe1, std::string("Exif\0\0", 6) + exif_of(1, true))).orientation, 1);
    EXPECT_THAT(refusal(rising_png({png_chunk("iTXt", std::string("XML:com.adobe.xmp\0\0\0\0\0", 22) + xmp)})),
                HasSubstr("has the orientation 6 in XMP data"));
  }
  EXPECT_EQ(read(with_segment(plain, 0xe1, begin + "<tiff:Orientation>1</tiff:Orientation>")).orientation, 1);
}

// 16 bits are divided by 65535, as smaller ones are by their largest value.
TEST_F(PictureShown, HasTheRangeOfItsBits) {
  const std::vector<float> narrow = shown(png(3, 1, 8, kPngGray, {0, 51, 255}), 1);
  EXPECT_EQ(shown(png(3, 1, 16, kPngGray, {0, 51 * 257, 65535}), 1), narrow);
  EXPECT_EQ(shown(png(3, 1, 4, kPngGray, {0, 3, 15}), 1), narrow);
  EXPECT_EQ(shown(png(3, 1, 16, kPngColors, {0, 0, 0, 51 * 257, 51 * 257, 51 * 257, 65535, 65535, 65535}), 3),
            shown(png(3, 1, 8, kPngColors, {0, 0, 0, 51, 51, 51, 255, 255, 255}), 3));
}

TEST_F(PictureShown, IsOnWhite) {
  const Picture mixed = on_white(read(png(4, 1, 8, kPngGrayAlpha, {10, 255, 10, 0, 10, 128, 200, 1})));
  EXPECT_THAT(mixed.numbers, ElementsAre(10, 255, 132, 255));
  EXPECT_THAT(on_white(read(png(1, 1, 16, kPngColorsAlpha, {0, 1000, 65535, 0x8000}))).numbers,
              ElementsAre(32767, 33267, 65535));
  // A picture without transparent pixels keeps its values.
  const Picture opaque = read(png(2, 1, 8, kPngColorsAlpha, {1, 2, 3, 255, 4, 5, 6, 255}));
  EXPECT_THAT(opaque.alpha, IsEmpty());
  EXPECT_THAT(on_white(opaque).numbers, ElementsAre(1, 2, 3, 4, 5, 6));
  // One transparent color, and alphas of a palette.
  const std::string keyed =
      with_chunks(png(3, 1, 8, kPngGray, {7, 8, 9}), {png_chunk("tRNS", std::string("\0\x08", 2))});
  EXPECT_THAT(on_white(read(keyed)).numbers, ElementsAre(7, 255, 9));
  const std::string palette =
      with_chunks(png(3, 1, 2, kPngPalette, {0, 1, 2}), {png_chunk("tRNS", std::string("\0\x80", 2))});
  EXPECT_THAT(on_white(read(palette)).numbers, ElementsAre(255, 255, 255, 129, 130, 131, 6, 10, 14));
  EXPECT_THAT(validate(palette).notes, ElementsAre(HasSubstr("transparent pixels are shown on white")));
}

TEST_F(PictureShown, TransparencyOfAMaskAddsNothing) {
  const auto mask = [&](const std::string& bytes) { return read_mask(put_file(folder_ / "m.png", bytes), 64).numbers; };
  EXPECT_THAT(mask(png(2, 1, 8, kPngGrayAlpha, {0, 0, 9, 255})), ElementsAre(0, 9));
  EXPECT_THAT(mask(png(2, 1, 8, kPngColorsAlpha, {0, 0, 0, 0, 9, 9, 9, 255})), ElementsAre(0, 9));
  EXPECT_THAT(mask(with_chunks(png(2, 1, 2, kPngPalette, {0, 3}), {png_chunk("tRNS", std::string("\0", 1))})),
              ElementsAre(0, 3));
  // White with its shape in the transparency, black on transparent, half transparent, a transparent label.
  EXPECT_THAT(
      mask_refusal(png(2, 1, 8, kPngGrayAlpha, {255, 255, 255, 0})),
      AllOf(HasSubstr("m.png: is a mask with transparent pixels that are not those of number 0 (column 1, row 0: "
                      "number 255, alpha 0 of 255)"),
            HasSubstr("save it without transparency")));
  EXPECT_THAT(mask_refusal(png(2, 1, 8, kPngColorsAlpha, {0, 0, 0, 0, 0, 0, 0, 255})),
              HasSubstr("number 0, alpha 255"));
  EXPECT_THAT(mask_refusal(png(2, 1, 16, kPngGrayAlpha, {0, 0, 9, 0x8000})), HasSubstr("alpha 32768 of 65535"));
  EXPECT_THAT(mask_refusal(with_chunks(png(2, 1, 2, kPngPalette, {0, 1}), {png_chunk("tRNS", std::string("\0\0", 2))})),
              HasSubstr("number 1, alpha 0"));
}

TEST_F(PictureShown, MasksAreTurnedAsWell) {
  const MaskPlane mask = read_mask(put_file(folder_ / "m.png", rising_png({png_chunk("eXIf", exif_of(8, true))})), 64);
  EXPECT_EQ(mask.full_width, 3);
  EXPECT_EQ(mask.numbers, as_seen(8, read(rising_png()).numbers, 5, 3, 1));
  EXPECT_EQ(mask.orientation, 8);
}

TEST_F(PictureShown, NamesColorsThatViewersConvert) {
  const auto png_notes = [&](const std::vector<std::string>& chunks) { return validate(rising_png(chunks)).notes; };
  const auto gamma = [](uint32_t value) { return png_chunk("gAMA", big_endian(value, 4)); };
  EXPECT_THAT(png_notes({gamma(45455)}), IsEmpty());
  EXPECT_THAT(png_notes({gamma(100000), png_chunk("sRGB", std::string("\0", 1))}), IsEmpty());
  EXPECT_THAT(png_notes({gamma(100000)}), ElementsAre(HasSubstr("the gamma 1 is not applied")));
  for (const bool newer : {false, true}) {
    const auto profile = [&](const std::string& name) {
      return png_chunk("iCCP", std::string("p\0\0", 3) + deflated(icc_profile(name, newer)));
    };
    EXPECT_THAT(png_notes({profile("sRGB IEC61966-2.1")}), IsEmpty());
    EXPECT_THAT(png_notes({profile("Display P3")}),
                ElementsAre(HasSubstr("the color profile Display P3 is not applied")));
    const std::string plain = jpeg(24, 16, 40, 200), begin("ICC_PROFILE\0\1\1", 14);
    EXPECT_THAT(validate(with_segment(plain, 0xe2, begin + icc_profile("sRGB built-in", newer))).notes, IsEmpty());
    EXPECT_THAT(validate(with_segment(plain, 0xe2, begin + icc_profile("Adobe RGB", newer))).notes,
                ElementsAre(HasSubstr("the color profile Adobe RGB is not applied")));
    EXPECT_THAT(validate(with_segment(plain, 0xe2, begin + icc_profile("Adobe RGB", newer).substr(0, 140))).notes,
                ElementsAre(HasSubstr("the color profile is not applied")));
  }
  EXPECT_THAT(refusal(rising_png({png_chunk("cICP", std::string("\x09\x10\0\1", 4))})),
              HasSubstr("is an HDR picture (PQ"));
  EXPECT_THAT(png_notes({png_chunk("cICP", std::string("\x09\x12\0\1", 4))}), ElementsAre(HasSubstr("HDR (HLG)")));
  EXPECT_THAT(png_notes({png_chunk("acTL", std::string(8, '\1'))}), ElementsAre(HasSubstr("the picture is animated")));
  std::string deep = jpeg(24, 16, 40, 200);
  deep[deep.find("\xff\xc0") + 4] = 12;
  EXPECT_THAT(refusal(deep), HasSubstr("has values of 12 bits"));
}

}  // namespace
}  // namespace plimsoll
