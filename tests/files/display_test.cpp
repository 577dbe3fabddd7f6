#include <gmock/gmock.h>

#include <numeric>

#include "files/encoded_video.h"
#include "files/file_kind.h"
#include "files/media.h"
#include "files/media_files.h"
#include "files/picture_files.h"
#include "files/picture_header.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns 6 x 4 pixels of red, green and blue that are all different.
std::vector<uint8_t> pixels() {
  std::vector<uint8_t> values(6 * 4 * 3);
  std::iota(values.begin(), values.end(), uint8_t{3});
  return values;
}
std::string text(const std::vector<uint8_t>& values) {
  return {values.begin(), values.end()};
}

// Pillow's ImageOps.exif_transpose turns 1 2 3 / 4 5 6 into these.
TEST(Orientation, IsThatOfExif) {
  const std::vector<int> stored = {1, 2, 3, 4, 5, 6};
  const std::vector<std::vector<int>> seen = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                              {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                              {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation)
    EXPECT_EQ(as_seen(orientation, stored, 3, 2, 1), seen[static_cast<size_t>(orientation - 1)]) << orientation;
}

TEST(Display, PicturesAreAsPeopleSeeThem) {
  const TempFolder folder;
  const std::vector<uint8_t> stored = pixels();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto file = folder / "phone.mov";
    write_shown_video(file, text(stored), {.matrix = matrix_of_orientation(orientation)});
    const VideoInfo info = describe_video(file);
    EXPECT_EQ(info.orientation, orientation);
    EXPECT_EQ(info.width, orientation >= 5 ? 4 : 6);
    EXPECT_EQ(info.height, orientation >= 5 ? 6 : 4);
    EXPECT_EQ(read_frames(file, {0.5}, info.width, info.height), as_seen(orientation, stored, 6, 4, 3)) << orientation;
    EXPECT_THAT(info.notes, IsEmpty());
  }
}

// A matrix also scales, has rounded cosines, or is of zeros.
TEST(Display, TurnsByTheMatrixAlone) {
  const TempFolder folder;
  const auto file = folder / "phone.mov";
  const auto orientation_with = [&](const DisplayMatrix& matrix) {
    write_shown_video(file, text(pixels()), {.matrix = matrix});
    return describe_video(file).orientation;
  };
  constexpr int32_t one = 1 << 16, unit = 1 << 30;
  EXPECT_EQ(orientation_with({2, 2 * one, 0, -2 * one, -3, 0, 99 * one, 0, unit}), 6);
  EXPECT_EQ(orientation_with({one / 2, 0, 0, 0, one / 2, 0, 0, 0, unit}), 1);
  EXPECT_EQ(orientation_with({0, 0, 0, 0, 0, 0, 0, 0, unit}), 1);
  const auto refusal_of = [&](const DisplayMatrix& matrix) {
    write_shown_video(file, text(pixels()), {.matrix = matrix});
    const std::string message = user_error_of([&] { describe_video(file); });
    EXPECT_EQ(user_error_of([&] { read_frames(file, {0.5}, 8, 8); }), message);
    return message;
  };
  DisplayMatrix turned;
  av_display_rotation_set(turned.data(), 30);
  EXPECT_THAT(refusal_of(turned),
              AllOf(HasSubstr("phone.mov has a display matrix that turns its pictures by 30.00 degrees clockwise"),
                    HasSubstr("allowed: quarter turns and mirrors; write turned pictures with: ffmpeg")));
  EXPECT_THAT(refusal_of({one, one, 0, 0, one, 0, 0, 0, unit}), HasSubstr("has a display matrix that"));
  EXPECT_THAT(refusal_of({one, 0, 1000, 0, one, 0, 0, 0, unit}), HasSubstr("distorts its pictures"));
}

// Bare H.264 has no container: a message of the picture says how it is shown.
TEST(Display, PicturesMayHaveAMatrixOfTheirOwn) {
  const TempFolder folder;
  std::string headers;
  const auto put = [&](std::optional<uint16_t> rotation) {
    return put_file(folder / "a.h264", h264_picture(rotation, headers));
  };
  const auto stored = put({});
  EXPECT_EQ(describe_video(stored).orientation, 1);
  const std::vector<uint8_t> upright = read_frames(stored, {0}, 32, 16);
  EXPECT_GT(upright[2], upright[0]);  // blue
  EXPECT_LT(upright[32 * 16 * 3 - 1], upright[32 * 16 * 3 - 3]);
  for (const auto& [rotation, orientation] : {std::pair{0x4000, 8}, {0x8000, 3}, {0xc000, 6}}) {
    const auto file = put(static_cast<uint16_t>(rotation));
    EXPECT_EQ(describe_video(file).orientation, orientation);
    const bool swaps = swaps_sides(orientation);
    EXPECT_EQ(read_frames(file, {0}, swaps ? 16 : 32, swaps ? 32 : 16), as_seen(orientation, upright, 32, 16, 3));
  }
  EXPECT_THAT(user_error_of([&] { describe_video(put(0x1000)); }),
              HasSubstr("turns its pictures by -22.50 degrees clockwise"));
  // A message of the first picture holds for the pictures behind it.
  std::string film = h264_picture(uint16_t{0x4000}, headers);
  for (int i = 0; i < 20; ++i) film += h264_picture({}, headers);
  put_file(folder / "film.h264", film);
  EXPECT_EQ(read_frames(folder / "film.h264", {0.5}, 16, 32), as_seen(8, upright, 32, 16, 3));
  // One that begins later would depend on where the reading begins.
  std::string later = h264_picture({}, headers);
  for (int i = 0; i < 10; ++i) later += h264_picture(uint16_t{0x4000}, headers);
  put_file(folder / "later.h264", later);
  EXPECT_THAT(user_error_of([&] { read_frames(folder / "later.h264", {0.3}, 16, 32); }),
              HasSubstr("turns its pictures from one picture on"));
  // In a container with a matrix of its own, the two are compared.
  const std::string turned = h264_picture(uint16_t{0x4000}, headers);
  ShownVideo video{.width = 32, .height = 16, .frames = 3, .format = AV_PIX_FMT_YUV420P, .codec = AV_CODEC_ID_H264};
  video.extradata = headers;
  for (const int orientation : {8, 6}) {
    video.matrix = matrix_of_orientation(orientation);
    write_shown_video(folder / "a.mov", turned, video);
    if (orientation == 8) {
      EXPECT_EQ(describe_video(folder / "a.mov").orientation, 8);
    } else {
      EXPECT_THAT(user_error_of([&] { describe_video(folder / "a.mov"); }),
                  HasSubstr("two display matrices that differ: the container's shows orientation 6 (EXIF), and the "
                            "pictures' 8"));
    }
  }
}

// EXIF data of a picture of MJPEG.
TEST(Display, PicturesMayHaveExif) {
  const TempFolder folder;
  const auto file = folder / "camera.mov";
  const std::string plain = jpeg(32, 16, 40, 200);
  const ShownVideo video{
      .width = 32, .height = 16, .frames = 2, .format = AV_PIX_FMT_YUVJ420P, .codec = AV_CODEC_ID_MJPEG};
  write_shown_video(file, plain, video);
  const std::vector<uint8_t> stored = read_frames(file, {0}, 32, 16);
  EXPECT_EQ(describe_video(file).orientation, 1);
  write_shown_video(file, with_segment(plain, 0xe1, std::string("Exif\0\0", 6) + exif_of(6, true)), video);
  EXPECT_EQ(describe_video(file).orientation, 6);
  EXPECT_EQ(read_frames(file, {0}, 16, 32), as_seen(6, stored, 32, 16, 3));
}

TEST(Display, TransparentPixelsAreOnWhite) {
  const TempFolder folder;
  const auto file = folder / "cut.mov";
  const auto put = [&](const std::vector<uint8_t>& alphas) {  // 2 x 2 pixels of the color 40, 80, 120
    std::string pixels;
    for (const uint8_t alpha : alphas) pixels += {static_cast<char>(alpha), 40, 80, 120};
    write_shown_video(file, pixels, {.width = 2, .height = 2, .format = AV_PIX_FMT_ARGB});
    EXPECT_TRUE(describe_video(file).alpha);
    return read_frames(file, {0.5}, 2, 2);
  };
  EXPECT_THAT(put({255, 0, 128, 255}), ElementsAre(40, 80, 120, 255, 255, 255, 147, 167, 187, 40, 80, 120));
  EXPECT_THAT(describe_video(file).notes, ElementsAre("transparent pixels are shown on white"));
  // Without transparent pixels, and with bytes that are no alphas.
  for (const uint8_t alpha : {255, 0}) {
    EXPECT_THAT(put({alpha, alpha, alpha, alpha}), ElementsAre(40, 80, 120, 40, 80, 120, 40, 80, 120, 40, 80, 120));
    EXPECT_THAT(describe_video(file).notes, IsEmpty());
  }
}

// Frames are scaled to the sides that are asked for: the shape of pixels is seen in the description alone.
TEST(Display, SidesAreInSquarePixels) {
  const TempFolder folder;
  const auto file = folder / "wide.mkv";
  write_shown_video(file, std::string(6 * 4 * 3 / 2, 'x'), {.format = AV_PIX_FMT_YUV420P});
  const std::vector<uint8_t> square = read_frames(file, {0.5}, 8, 8);
  EXPECT_EQ(describe_video(file).width, 6);
  write_shown_video(file, std::string(6 * 4 * 3 / 2, 'x'), {.format = AV_PIX_FMT_YUV420P, .pixel = {2, 1}});
  EXPECT_EQ(describe_video(file).width, 12);
  EXPECT_EQ(describe_video(file).height, 4);
  EXPECT_EQ(read_frames(file, {0.5}, 8, 8), square);
  const auto turned = folder / "wide.mov";
  write_shown_video(turned, text(pixels()), {.matrix = matrix_of_orientation(6), .pixel = {2, 1}});
  EXPECT_EQ(describe_video(turned).width, 4);
  EXPECT_EQ(describe_video(turned).height, 12);
}

TEST(Display, NamesPicturesThatPlayersShowOtherwise) {
  const TempFolder folder;
  const std::string gray(6 * 4 * 3 / 2, '\x80');
  const auto notes_of = [&](const std::filesystem::path& file) {
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    describe_video(file);
    return notes.lines();
  };
  std::string interlaced = gray_video({1, 2, 3}, 64, 48, 10);
  EXPECT_THAT(notes_of(put_file(folder / "tv.y4m", interlaced)), IsEmpty());
  interlaced.replace(interlaced.find("Ip"), 2, "It");
  EXPECT_THAT(notes_of(put_file(folder / "tv.y4m", interlaced)),
              ElementsAre(AllOf(HasSubstr("tv.y4m: the video is interlaced"), HasSubstr("bwdif"))));
  const auto file = folder / "hdr.mkv";
  write_shown_video(file, gray, {.format = AV_PIX_FMT_YUV420P, .transfer = AVCOL_TRC_ARIB_STD_B67});
  EXPECT_THAT(notes_of(file), ElementsAre(HasSubstr("hdr.mkv: the video is HDR (HLG)")));
  write_shown_video(file, gray, {.format = AV_PIX_FMT_YUV420P, .rotate = "90"});
  EXPECT_THAT(notes_of(file), ElementsAre(AllOf(HasSubstr("hdr.mkv: the video has a tag that turns it by 90 degrees"),
                                                HasSubstr("are read as they are stored"))));
  EXPECT_EQ(describe_video(file).orientation, 1);
  write_shown_video(file, gray, {.format = AV_PIX_FMT_YUV420P, .transfer = AVCOL_TRC_SMPTE2084});
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { describe_video(file); }, [&] { read_frames(file, {0.5}, 8, 8); }})
    EXPECT_THAT(user_error_of(read), AllOf(HasSubstr("hdr.mkv has HDR pictures (PQ"), HasSubstr("tonemap")));
  write_shown_video(file, gray, {.format = AV_PIX_FMT_YUV420P, .space = AVCOL_SPC_YCGCO});
  EXPECT_THAT(user_error_of([&] { read_frames(file, {0.5}, 8, 8); }), HasSubstr("has colors in the matrix ycgco"));
}

}  // namespace
}  // namespace plimsoll
