#include "files/media.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "files/encoded_video.h"
#include "files/media_files.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<int> steps_of_gray(int count) {
  std::vector<int> brightness;
  for (int i = 0; i < count; ++i) brightness.push_back(i * 240 / count);
  return brightness;
}

// The mean brightness of each picture.
std::vector<double> means(const std::vector<uint8_t>& pixels, size_t count) {
  std::vector<double> means;
  const size_t size = pixels.size() / count;
  for (size_t i = 0; i < count; ++i)
    means.push_back(std::accumulate(pixels.begin() + static_cast<ptrdiff_t>(i * size),
                                    pixels.begin() + static_cast<ptrdiff_t>((i + 1) * size), 0.0) /
                    static_cast<double>(size));
  return means;
}

TEST(Media, DescribesAVideo) {
  TempFolder folder;
  const auto file = put_file(folder / "gray.y4m", gray_video(steps_of_gray(30), 64, 48, 10));
  const VideoInfo info = describe_video(file);
  EXPECT_EQ(info.width, 64);
  EXPECT_EQ(info.height, 48);
  EXPECT_EQ(info.frames, 30);
  EXPECT_NEAR(info.seconds, 3.0, 0.05);
  EXPECT_NEAR(info.frame_rate, 10, 1e-9);
  EXPECT_FALSE(info.audio);
}

// Each time gets the picture that is shown then, with the exact gray.
TEST(Media, ReadsThePicturesThatAreShown) {
  TempFolder folder;
  const std::vector<int> brightness = steps_of_gray(30);
  const auto file = put_file(folder / "gray.y4m", gray_video(brightness, 64, 48, 10));
  const std::vector<double> seconds = {0.0, 0.05, 0.1, 1.25, 1.25, 2.95};
  const std::vector<uint8_t> pixels = read_frames(file, seconds, 32, 24);
  ASSERT_EQ(pixels.size(), seconds.size() * 32 * 24 * 3);
  const std::vector<double> mean = means(pixels, seconds.size());
  const std::vector<size_t> shown = {0, 0, 1, 12, 12, 29};
  for (size_t i = 0; i < shown.size(); ++i) EXPECT_NEAR(mean[i], brightness[shown[i]], 1.5) << seconds[i];
}

TEST(Media, SpacesEvenly) {
  EXPECT_THAT(evenly_spaced(1, 3, 2), ::testing::ElementsAre(1.5, 2.5));
  EXPECT_TRUE(evenly_spaced(1, 3, 0).empty());
}

// Key frames are 1.2 s apart and others refer to later ones: a seek must return the same picture as decoding.
TEST(Media, SeeksToTheSamePictures) {
  TempFolder folder;
  std::vector<int> brightness;
  for (int i = 0; i < 80; ++i) brightness.push_back(i * 37 % 240);
  for (const char* name : {"film.avi", "film.mp4", "film.mkv"}) {
    const auto file = folder / name;
    encode_video(file, brightness);
    EXPECT_NEAR(describe_video(file).seconds, 8, 0.11) << name;
    SplitMix64 random(7);
    for (int round = 0; round < 20; ++round) {
      const double at = static_cast<double>(random.below(79)) / 10 + 0.05;
      const std::vector<double> mean = means(read_frames(file, {at, at}, 32, 24), 2);
      EXPECT_NEAR(mean[0], brightness[static_cast<size_t>(at * 10)], 8) << name << " at " << at;
      EXPECT_EQ(mean[0], mean[1]);
    }
  }
}

TEST(Media, ReadsFromManyThreads) {
  TempFolder folder;
  const auto file = folder / "film.avi";
  encode_video(file, steps_of_gray(40));
  const std::vector<uint8_t> alone = read_frames(file, evenly_spaced(0, 4, 9), 20, 20);
  std::vector<std::vector<uint8_t>> together(4);
  std::vector<std::thread> threads;
  for (auto& pixels : together)
    threads.emplace_back([&] { pixels = read_frames(file, evenly_spaced(0, 4, 9), 20, 20); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& pixels : together) EXPECT_EQ(pixels, alone);
}

// A tone keeps its pitch and loudness through the mixing and another rate.
TEST(Media, ReadsSound) {
  TempFolder folder;
  std::vector<int16_t> samples;
  for (int i = 0; i < 16000; ++i) {
    const auto tone = static_cast<int16_t>(16000 * std::sin(2 * std::numbers::pi * 100 * i / 16000));
    samples.push_back(tone);
    samples.push_back(tone);
  }
  const auto file = put_file(folder / "tone.wav", wav(samples, 2, 16000));
  const std::vector<float> sound = read_audio(file, 8000);
  ASSERT_NEAR(static_cast<double>(sound.size()), 8000, 32);
  double square = 0;
  int crossings = 0;
  for (size_t i = 1; i < sound.size(); ++i) {
    square += static_cast<double>(sound[i]) * static_cast<double>(sound[i]);
    crossings += sound[i - 1] < 0 && sound[i] >= 0;
  }
  EXPECT_NEAR(crossings, 100, 1);
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(sound.size())), 16000.0 / 32768 / std::sqrt(2), 0.01);
  EXPECT_THAT(user_error_of([&] { describe_video(file); }), AllOf(HasSubstr("tone.wav"), HasSubstr("no video stream")));
}

TEST(Media, NamesWhatCannotBeRead) {
  TempFolder folder;
  const auto text = put_file(folder / "notes.mp4", std::string(5000, 'x'));
  EXPECT_THAT(user_error_of([&] { describe_video(text); }), AllOf(HasSubstr("notes.mp4"), HasSubstr("not a video")));
  const auto empty = put_file(folder / "empty.mp4", "");
  EXPECT_THAT(user_error_of([&] { read_frames(empty, {0}, 8, 8); }), HasSubstr("empty.mp4"));
  EXPECT_THAT(user_error_of([&] { describe_video(folder / "gone.mp4"); }), HasSubstr("does not exist"));
  EXPECT_THAT(user_error_of([&] { describe_video(folder.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(user_error_of([&] { describe_video("http://127.0.0.1/a.mp4"); }), HasSubstr("does not exist"));
  const auto video = put_file(folder / "gray.y4m", gray_video({1, 2, 3}, 64, 48, 10));
  EXPECT_THAT(user_error_of([&] { read_audio(video, 16000); }), HasSubstr("no audio stream"));
  EXPECT_THAT(user_error_of([&] { read_audio(video, 0); }), HasSubstr("samples a second"));
}

// A playlist names another file; only the file that was named is opened. The names are looked for in the folder that
// the program runs in: there the other file is.
TEST(Media, FollowsNoReferences) {
  TempFolder folder;
  encode_video(folder / "film.avi", steps_of_gray(10));
  const auto list = put_file(folder / "list.ffconcat", "ffconcat version 1.0\nfile film.avi\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(describe_video("film.avi").width, 64);
  EXPECT_THAT(user_error_of([&] { describe_video(list); }), HasSubstr("list.ffconcat"));
  EXPECT_THAT(user_error_of([&] { describe_video("list.ffconcat"); }), HasSubstr("list.ffconcat"));
  EXPECT_THAT(user_error_of([&] { read_frames("list.ffconcat", {0}, 8, 8); }), HasSubstr("list.ffconcat"));
  std::filesystem::current_path(before);
  const auto playlist = put_file(folder / "list.m3u8",
                                 "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\nhttp://127.0.0.1:9/film.ts\n"
                                 "#EXT-X-ENDLIST\n");
  EXPECT_THAT(user_error_of([&] { describe_video(playlist); }), HasSubstr("list.m3u8"));
}

TEST(Media, BoundsWhatIsAskedFor) {
  TempFolder folder;
  const auto file = put_file(folder / "gray.y4m", gray_video({1, 2, 3}, 64, 48, 10));
  EXPECT_THAT(user_error_of([&] { read_frames(file, {0}, kMaxPictureSide + 1, 8); }), HasSubstr("at most"));
  EXPECT_THAT(user_error_of([&] { read_frames(file, {0}, 8, 0); }), HasSubstr("at most"));
  EXPECT_THAT(user_error_of([&] { read_frames(file, std::vector<double>(60000), 8192, 8192); }), HasSubstr("at most"));
  EXPECT_TRUE(read_frames(file, {}, 8, 8).empty());
  // A header that claims a picture larger than any camera's.
  const auto huge = put_file(folder / "huge.y4m", "YUV4MPEG2 W2000000000 H2000000000 F1:1 C420jpeg\nFRAME\n");
  EXPECT_THAT(user_error_of([&] { read_frames(huge, {0}, 8, 8); }), HasSubstr("huge.y4m"));
  const auto large = put_file(folder / "large.y4m", "YUV4MPEG2 W60000 H60000 F1:1 C420jpeg\nFRAME\n");
  EXPECT_THAT(user_error_of([&] { read_frames(large, {0}, 8, 8); }), HasSubstr("large.y4m"));
}

/// Returns an AVI of `frames` pictures of `width` x `height` in 24 bits, with the codec `four`, whose packets are all
/// `packet`.
std::string avi_of(const std::string& four, uint32_t width, uint32_t height, uint32_t frames,
                   const std::string& packet) {
  const auto little = [](std::initializer_list<uint32_t> numbers) {
    std::string text;
    for (const uint32_t number : numbers)
      for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(number >> shift & 0xff);
    return text;
  };
  const auto chunk = [&](const std::string& name, const std::string& body) {
    return name + little({static_cast<uint32_t>(body.size())}) + body + std::string(body.size() % 2, '\0');
  };
  const std::string stream = "vids" + four + little({0, 0, 0, 1, 25, 0, frames, 0, 0xffffffff, 0, 0, 0});
  const std::string format = little({40, width, height, 1 | 24 << 16}) + four + little({0, 0, 0, 0, 0});
  const std::string header = "hdrl" +
                             chunk("avih", little({40000, 0, 0, 16, frames, 0, 1, 0, width, height, 0, 0, 0, 0})) +
                             chunk("LIST", "strl" + chunk("strh", stream) + chunk("strf", format));
  std::string body = "movi", index;
  for (uint32_t i = 0; i < frames; ++i) {
    index += "00dc" + little({16, static_cast<uint32_t>(body.size()), static_cast<uint32_t>(packet.size())});
    body += chunk("00dc", packet);
  }
  return chunk("RIFF", "AVI " + chunk("LIST", header) + chunk("LIST", body) + chunk("idx1", index));
}

// The file has 96 kB: each packet of 8 bytes means "the picture before", of 67 million pixels. Decoding it took
// minutes.
TEST(Media, RefusesCodecsThatAreNotListed) {
  TempFolder folder;
  const std::string same = {0, 0, 0, 8, 0, 0, 0, 0};
  const auto endless = put_file(folder / "endless.avi", avi_of("rle ", 8192, 8190, 3000, same));
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { describe_video(endless); }, [&] { read_frames(endless, {100}, 8, 8); }})
    EXPECT_THAT(user_error_of(read), AllOf(HasSubstr("endless.avi has a video stream of the codec qtrle, which is not "
                                                     "read; read are: h264, hevc"),
                                           Not(HasSubstr("\n"))));
  EXPECT_THAT(user_error_of([&] { read_audio(endless, 16000); }), HasSubstr("no audio stream"));
}

// 16 x 16 pixels: a frame with one strip, a codebook of one even block of brightness 200, and 16 blocks that use it.
// examples/video-llm has a published video of this codec.
TEST(Media, ReadsCinepak) {
  const auto big = [](std::initializer_list<int> numbers) {
    std::string text;
    for (const int number : numbers) (text += static_cast<char>(number >> 8)) += static_cast<char>(number & 0xff);
    return text;
  };
  const std::string codebook = big({0x2200, 10}) + std::string(4, '\xc8') + std::string(2, '\0');
  const std::string blocks = big({0x3200, 20}) + std::string(16, '\0');
  const std::string strip = big({0x1000, 12 + 30, 0, 0, 16, 16}) + codebook + blocks;
  const std::string frame = big({0, 10 + 42, 16, 16, 1}) + strip;
  TempFolder folder;
  const auto film = put_file(folder / "film.avi", avi_of("cvid", 16, 16, 25, frame));
  const std::vector<uint8_t> pixels = read_frames(film, {0.5}, 8, 8);
  ASSERT_EQ(pixels.size(), 8u * 8 * 3);
  for (const uint8_t each : pixels) ASSERT_NEAR(each, 200, 2);
}

TEST(Media, BoundsPixelsBeforeTheyAreDecoded) {
  TempFolder folder;
  // Uncompressed pictures of 67 million pixels; 8K has 33 million.
  const auto large = put_file(folder / "large.avi", avi_of(std::string(4, '\0'), 8192, 8190, 3000, "0123456789"));
  EXPECT_THAT(user_error_of([&] { read_frames(large, {100}, 8, 8); }), HasSubstr("large.avi"));
  const auto jpeg = put_file(folder / "jpeg.avi", avi_of("MJPG", 8192, 8190, 3000, "0123456789"));
  EXPECT_THAT(user_error_of([&] { read_frames(jpeg, {100}, 8, 8); }), HasSubstr("jpeg.avi"));
}

/// An MP4 of a stream of 64 x 64 pixels whose index has chunks x samples packets of a byte each: every chunk is the
/// same bytes of the file. A packet lasts `ticks` / 1000 seconds.
std::string mp4_of_the_same_bytes(uint32_t chunks, uint32_t samples, uint32_t ticks) {
  const auto big = [](uint32_t number, int bytes) {
    std::string text;
    for (int shift = 8 * bytes - 8; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xff);
    return text;
  };
  const auto box = [&](const std::string& name, const std::string& body) {
    return big(static_cast<uint32_t>(body.size()) + 8, 4) + name + body;
  };
  const auto full = [&](const std::string& name, const std::string& body) { return box(name, big(0, 4) + body); };
  const std::string unity = big(0x10000, 4) + big(0, 12) + big(0x10000, 4) + big(0, 12) + big(0x40000000, 4);
  const std::string start = box("ftyp", "isom" + big(512, 4) + "isom") + box("mdat", std::string(samples, 'x'));
  const uint32_t first = static_cast<uint32_t>(start.size()) - samples, count = chunks * samples;
  std::string offsets;
  for (uint32_t i = 0; i < chunks; ++i) offsets += big(first, 4);
  const std::string picture =
      box("jpeg", big(0, 6) + big(1, 2) + big(0, 16) + big(64, 2) + big(64, 2) + big(0x480000, 4) + big(0x480000, 4) +
                      big(0, 4) + big(1, 2) + std::string(32, '\0') + big(24, 2) + big(0xffff, 2));
  const std::string table = full("stsd", big(1, 4) + picture) +
                            full("stts", big(1, 4) + big(count, 4) + big(ticks, 4)) +
                            full("stsc", big(1, 4) + big(1, 4) + big(samples, 4) + big(1, 4)) +
                            full("stsz", big(1, 4) + big(count, 4)) + full("stco", big(chunks, 4) + offsets);
  const std::string media = full("mdhd", big(0, 8) + big(1000, 4) + big(count * ticks, 4) + big(0, 4)) +
                            full("hdlr", big(0, 4) + "vide" + big(0, 12) + std::string(1, '\0')) +
                            box("minf", full("vmhd", big(0, 8)) + box("stbl", table));
  const std::string track =
      full("tkhd", big(0, 8) + big(1, 4) + big(0, 8) + big(0, 16) + unity + big(64 << 16, 4) + big(64 << 16, 4)) +
      box("mdia", media);
  return start + box("moov", full("mvhd", big(0, 8) + big(1000, 4) + big(count * ticks, 4) + big(0x10000, 4) +
                                              big(0x1000000, 4) + big(0, 8) + unity + big(0, 24) + big(2, 4)) +
                                 box("trak", track));
}

// An index that leads to the same bytes again and again has more packets than the file has bytes.
TEST(Media, BoundsThePacketsOfAFile) {
  TempFolder folder;
  const auto endless = put_file(folder / "endless.mp4", mp4_of_the_same_bytes(200, 1000, 40));
  EXPECT_THAT(user_error_of([&] { read_frames(endless, {7000}, 8, 8); }),
              AllOf(HasSubstr("endless.mp4 has more packets than its "), HasSubstr(" bytes can hold")));
}

// Packets without a length in time or bytes worth the name: FFmpeg reads them to tell the stream.
TEST(Media, BoundsThePacketsThatTellTheStreams) {
  TempFolder folder;
  const auto probed = put_file(folder / "probed.mp4", mp4_of_the_same_bytes(400, 1000, 0));
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { describe_video(probed); }, [&] { read_frames(probed, {1}, 8, 8); }})
    EXPECT_THAT(user_error_of(read),
                HasSubstr("probed.mp4 has more than 100000 packets before its streams are known; it is damaged"));
}

TEST(Media, SaysWhereAVideoIsCutShort) {
  TempFolder folder;
  encode_video(folder / "film.avi", steps_of_gray(80));
  const std::string whole = get_file(folder / "film.avi");
  const auto half = put_file(folder / "half.avi", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(user_error_of([&] {
                read_frames(half, {0, 7.5}, 8, 8);
              }),
              AllOf(HasSubstr("half.avi"), HasSubstr("cut short")));
  const auto gray = gray_video(steps_of_gray(30), 64, 48, 10);
  const auto short_gray = put_file(folder / "half.y4m", gray.substr(0, gray.size() / 2));
  EXPECT_THAT(user_error_of([&] { read_frames(short_gray, {0, 2.9}, 8, 8); }), HasSubstr("half.y4m"));
}

// Matroska says how long the longest stream is: pictures that end before the sound are whole.
TEST(Media, PicturesMayEndBeforeTheSound) {
  TempFolder folder;
  for (const char* name : {"film.mkv", "film.avi", "film.mov"}) {
    const auto file = folder / name;
    encode_video(file, steps_of_gray(40), 6);
    EXPECT_NEAR(describe_video(file).seconds, 4, 0.11) << name;
    EXPECT_TRUE(describe_video(file).audio);
    EXPECT_NO_THROW(read_frames(file, evenly_spaced(0, describe_video(file).seconds, 20), 8, 8)) << name;
    EXPECT_NEAR(static_cast<double>(read_audio(file, 8000).size()), 48000, 400) << name;
    encode_video(file, steps_of_gray(40), 3);  // and the other way round
    EXPECT_NEAR(describe_video(file).seconds, 4, 0.11) << name;
    EXPECT_NEAR(static_cast<double>(read_audio(file, 8000).size()), 24000, 400) << name;
  }
  // Both streams end with a file that is cut short: its length stays what it says, so that what is missing is missed.
  encode_video(folder / "film.mkv", steps_of_gray(80), 9);
  const std::string whole = get_file(folder / "film.mkv");
  const auto half = put_file(folder / "half.mkv", whole.substr(0, whole.size() / 2));
  const double seconds = describe_video(half).seconds;
  EXPECT_GT(seconds, 7.5);
  EXPECT_THAT(user_error_of([&] {
                read_frames(half, {0, seconds - 0.05}, 8, 8);
              }),
              AllOf(HasSubstr("half.mkv"), HasSubstr("cut short")));
  EXPECT_THAT(user_error_of([&] { read_audio(half, 8000); }), AllOf(HasSubstr("half.mkv"), HasSubstr("cut short")));
}

TEST(Media, SaysWhereSoundIsDamaged) {
  TempFolder folder;
  const std::string tone = wav(std::vector<int16_t>(16000, 1000), 1, 16000);
  for (const char* name : {"tone.m4a", "tone.mkv", "tone.aac"}) {
    const auto file = folder / name;
    encode_sound(file, 3);
    EXPECT_NEAR(static_cast<double>(read_audio(file, 16000).size()), 48000, 3000) << name;
  }
  std::string damaged = get_file(folder / "tone.m4a");
  std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(damaged.size() / 2), 2000, '\xff');
  put_file(folder / "damaged.m4a", damaged);
  EXPECT_THAT(user_error_of([&] { read_audio(folder / "damaged.m4a", 16000); }),
              AllOf(HasSubstr("damaged.m4a"), HasSubstr("in its middle")));
  put_file(folder / "damaged.m4a", damaged.substr(0, damaged.size() / 2));
  EXPECT_THAT(user_error_of([&] { read_audio(folder / "damaged.m4a", 16000); }),
              AllOf(HasSubstr("damaged.m4a"), HasSubstr("cut short")));
}

// For any bytes, the result is pictures, or an error that names the file.
TEST(Media, SurvivesDamage) {
  TempFolder folder;
  encode_video(folder / "film.mp4", steps_of_gray(24));
  const std::string whole = get_file(folder / "film.mp4");
  SplitMix64 random(3);
  int readable = 0;
  for (int round = 0; round < 120; ++round) {
    std::string bytes = whole.substr(0, round % 3 == 0 ? random.below(whole.size()) : whole.size());
    for (int i = 0; i < 10 && !bytes.empty(); ++i)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    const auto file = put_file(folder / "damaged.mp4", bytes);
    try {
      read_frames(file, evenly_spaced(0, describe_video(file).seconds, 5), 16, 16);
      ++readable;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.mp4"));
    }
  }
  EXPECT_GT(readable, 0);
}

TEST(Media, NamesTheMissingLibrary) {
  EXPECT_THAT(user_error_of([] { load_media_library({"/nowhere/libplimsoll_media.so.0"}); }),
              AllOf(HasSubstr("the libraries of FFmpeg "), HasSubstr("the Debian packages libavformat"),
                    HasSubstr("these major versions"), HasSubstr("/nowhere/libplimsoll_media.so.0")));
  EXPECT_THAT(user_error_of([] { load_media_library({"libm.so.6"}); }), HasSubstr("another build"));
}

// The sum as it is defined, with exact angles: n k is taken modulo the size first.
std::complex<double> term_of(const std::vector<std::complex<double>>& values, size_t k) {
  std::complex<double> sum = 0;
  for (size_t n = 0; n < values.size(); ++n)
    sum += values[n] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(n * k % values.size()) /
                                           static_cast<double>(values.size()));
  return sum;
}

TEST(FourierTransform, IsTheSumThatDefinesIt) {
  SplitMix64 random(11);
  const auto number = [&] { return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1; };  // in [-1, 1)
  for (const size_t size : {1u, 2u, 16u, 512u, 2048u}) {
    const std::unique_ptr<FourierTransform> transform = make_fourier_transform(static_cast<int64_t>(size));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::complex<double>> values;
      for (size_t i = 0; i < size; ++i) values.emplace_back(number(), number());
      const std::vector<std::complex<double>> given = values;
      const auto spectrum = transform->of(values);
      ASSERT_EQ(spectrum.size(), size);
      for (size_t k = 0; k < size; ++k) EXPECT_LT(std::abs(spectrum[k] - term_of(given, k)), 1e-11) << size << " " << k;
    }
  }
}

TEST(FourierTransform, HasAPowerOfTwoOfValues) {
  EXPECT_THROW(make_fourier_transform(0), InternalError);
  EXPECT_THROW(make_fourier_transform(12), InternalError);
}

}  // namespace
}  // namespace plimsoll
