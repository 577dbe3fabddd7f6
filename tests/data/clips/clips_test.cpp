#include "data/clips/clip_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/hash.h"
#include "data/clips/clip_list.h"
#include "files/encoded_video.h"
#include "files/file_kind.h"
#include "files/media_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> steps_of_gray(int count) {
  std::vector<int> brightness;
  for (int i = 0; i < count; ++i) brightness.push_back(i * 240 / count);
  return brightness;
}

/// Three videos of 4 s and a list of them.
DataConfig three_videos(const TempFolder& folder) {
  DataConfig config;
  config.type = "clips";
  for (const char* name : {"rising", "black", "white"}) {
    std::vector<int> gray = steps_of_gray(40);
    if (name[0] != 'r') gray.assign(40, name[0] == 'b' ? 0 : 255);
    put_file(folder / (std::string(name) + ".y4m"), gray_video(gray, 32, 32, 10));
  }
  config.clips.list =
      put_file(folder / "list.tsv", "# three\nrising.y4m\tit grows\nblack.y4m\tnight\r\n\nwhite.y4m\tday\t1\t3\n");
  config.cache_dir = folder / "cache";
  config.clips.clip_seconds = 1;
  config.clips.prompt = "Say: ";
  config.validation_fraction = 0.25;
  return config;
}

std::unique_ptr<SampleSource> samples_of(const DataConfig& config, const ClipShape& shape) {
  const auto tokenizer = make_tokenizer("bytes", "");
  return clip_samples(config, *tokenizer, shape, {});
}

template <typename Number>
const Number* numbers(const Batch& batch, size_t field) {
  return reinterpret_cast<const Number*>(batch.fields[field].bytes.data());
}

TEST(ClipList, ReadsPartsAndCaptions) {
  TempFolder folder;
  const auto videos = read_clip_list(
      put_file(folder / "list.tsv", "#comment\n\nsub/a.mp4\ta red ball, \"thrown\"\r\nb.mp4\tb\t1.5\t2\n"));
  ASSERT_EQ(videos.size(), 2u);
  EXPECT_EQ(videos[0].file, folder / "sub/a.mp4");
  EXPECT_EQ(videos[0].caption, "a red ball, \"thrown\"");
  EXPECT_LT(videos[0].end, 0);
  EXPECT_EQ(videos[1].start, 1.5);
  EXPECT_EQ(videos[1].end, 2);
  EXPECT_THAT(videos[1].place, HasSubstr("list.tsv:4"));
  EXPECT_EQ(captioned_by_name({"x/white-cat_3.avi"})[0].caption, "white cat 3");
}

// Programs that write tables put quotes around cells with a quote in them.
TEST(ClipList, CellsMayBeInQuotes) {
  TempFolder folder;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto videos = read_clip_list(
      put_file(folder / "list.tsv",
               "\"a.mp4\"\t\"the \"\"red\"\" ball\"\nb.mp4\t\"up\" and \"down\"\nc.mp4\t\"\nd.mp4\t\"a\"b\"\n"));
  EXPECT_EQ(videos[0].file, folder / "a.mp4");
  EXPECT_EQ(videos[0].caption, "the \"red\" ball");
  EXPECT_EQ(videos[1].caption, "\"up\" and \"down\"");
  EXPECT_EQ(videos[2].caption, "\"");
  EXPECT_EQ(videos[3].caption, "\"a\"b\"");
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("list.tsv: double quotes around a whole cell are not part of it")));
}

TEST(ClipList, NamesTheLineThatIsWrong) {
  TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    const auto list = put_file(folder / "list.tsv", text);
    return user_error_of([&] { read_clip_list(list); });
  };
  EXPECT_THAT(refusal("a.mp4\ta\nb.mp4\n"), AllOf(HasSubstr("list.tsv:2"), HasSubstr("1 fields")));
  EXPECT_THAT(refusal("a.mp4\ta\t1\t2\ttrain\tx\n"), HasSubstr("6 fields"));
  EXPECT_THAT(refusal("a.mp4\ta\t1\n"), AllOf(HasSubstr("list.tsv:1"), HasSubstr("the split is '1'; allowed: train")));
  EXPECT_THAT(refusal("a.mp4\ta\t1\t2\ttest\n"), HasSubstr("the split is 'test'"));
  EXPECT_THAT(refusal("a.mp4\t\n"), HasSubstr("list.tsv:1"));
  EXPECT_THAT(refusal("a.mp4\ta\tsoon\t3\n"), HasSubstr("'soon' is no time"));
  EXPECT_THAT(refusal("a.mp4\ta\t-1\t3\n"), HasSubstr("no time"));
  EXPECT_THAT(refusal("a.mp4\ta\t0\tinf\n"), HasSubstr("no time"));
  EXPECT_THAT(refusal("a.mp4\ta\t3\t3\n"), HasSubstr("ends at 3 s, and starts at 3 s"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("names no video"));
  EXPECT_THAT(refusal(std::string(100000, 'x')), HasSubstr("list.tsv:1"));
  EXPECT_THAT(user_error_of([&] { read_clip_list(folder / "gone.tsv"); }), HasSubstr("does not exist"));
}

TEST(ClipList, RefusesPartsThatOverlap) {
  const auto part = [](double start, double end) { return CaptionedVideo{"a.mp4", "x", start, end, "list:1"}; };
  EXPECT_NO_THROW(check_overlaps({part(0, 2), part(2, 4), part(0, 2)}, 0));
  EXPECT_THAT(user_error_of([&] { check_overlaps({part(3, 5), part(0, 4)}, 0); }), HasSubstr("overlaps"));
  EXPECT_THAT(user_error_of([&] { check_overlaps({part(0, -1), part(1, 2)}, 0); }), HasSubstr("overlaps"));
  const CaptionedVideo odd{"a\x1b[2J.mp4", "x", 0, 3, "list:1"};
  EXPECT_THAT(user_error_of([&] {
                check_overlaps({odd, odd, {odd.file, "x", 1, 4, "list:2"}}, 0);
              }),
              HasSubstr("list:2: this part of a?[2J.mp4 overlaps"));
}

TEST(ClipList, GivesWholeVideosASplit) {
  TempFolder folder;
  const auto read = [&](const std::string& text) {
    auto videos = read_clip_list(put_file(folder / "list.tsv", text));
    check_splits(videos);
    return videos;
  };
  const auto videos = read("a.mp4\ta\nb.mp4\tb\tvalidation\nc.mp4\tc\t1\t2\ttrain\nd.mp4\td\t1\t2\tvalidation\n");
  ASSERT_EQ(videos.size(), 4u);
  std::vector<double> fractions;
  for (const CaptionedVideo& each : videos) fractions.push_back(held_out_fraction(each, 0.25));
  EXPECT_THAT(fractions, ElementsAre(0.25, 1, 0, 1));  // a.mp4 has no split
  EXPECT_EQ(videos[3].start, 1);
  EXPECT_EQ(held_out_fraction(read("a.mp4\ta\nb.mp4\tb\n")[1], 0.25), 0.25);
  // Under another name the file is the same.
  put_file(folder / "a.mp4", "");
  std::filesystem::create_symlink(folder / "a.mp4", folder / "link.mp4");
  EXPECT_THAT(user_error_of([&] { read("a.mp4\ta\nlink.mp4\tb\tvalidation\n"); }),
              AllOf(HasSubstr("list.tsv:2"), HasSubstr("another split than at"), HasSubstr("list.tsv:1")));
  EXPECT_NO_THROW(read("a.mp4\ta\t0\t1\tvalidation\nlink.mp4\ta\t3\t4\tvalidation\nb.mp4\tb\n"));
  EXPECT_THAT(user_error_of([&] { read("a.mp4\ta\ttrain\nlink.mp4\tb\n"); }),
              AllOf(HasSubstr("list.tsv:2"), HasSubstr("another split than at")));
  EXPECT_THAT(user_error_of([&] { read("a.mp4\ta\tvalidation\n"); }), HasSubstr("at least one"));
  EXPECT_NO_THROW(read("a.mp4\ta\tvalidation\nb.mp4\tb\n"));
}

// The held-out part of one ends at the start of the other, which is trained on.
TEST(ClipList, PartsOfOneVideoAreAClipApart) {
  TempFolder folder;
  put_file(folder / "a.mp4", "");
  std::filesystem::create_symlink(folder / "a.mp4", folder / "b.mp4");
  const auto part = [&](const char* name, double start, double end) {
    return CaptionedVideo{folder / name, "x", start, end, "list:1"};
  };
  EXPECT_NO_THROW(check_overlaps({part("a.mp4", 0, 2), part("a.mp4", 4, 6)}, 2));
  EXPECT_THAT(user_error_of([&] {
                check_overlaps({part("a.mp4", 0, 2), part("a.mp4", 3, 6)}, 2);
              }),
              HasSubstr("less than a clip"));
  EXPECT_THAT(user_error_of([&] {
                check_overlaps({part("a.mp4", 0, 2), part("b.mp4", 1, 6)}, 0);
              }),
              HasSubstr("overlaps"));
}

// For any lengths, clips are within their part, and the held-out part follows the training part, with a gap.
TEST(CutClips, NeverTouchAcrossTheGap) {
  SplitMix64 random(5);
  for (int round = 0; round < 300; ++round) {
    ClipsConfig config;
    config.clip_seconds = 0.1 + static_cast<double>(random.below(50)) / 10;
    config.clip_stride = static_cast<double>(random.below(3)) * config.clip_seconds / 2;
    const double start = static_cast<double>(random.below(100)) / 7,
                 length = 0.2 + static_cast<double>(random.below(400)) / 9;
    const double fraction = static_cast<double>(random.below(6)) / 10;
    const auto train = cut_clips(start, start + length, config, fraction, Split::train);
    const auto held_out = cut_clips(start, start + length, config, fraction, Split::validation);
    ASSERT_FALSE(train.empty());
    EXPECT_EQ(held_out.empty(), fraction == 0);
    for (const auto* clips : {&train, &held_out})
      for (const ClipTime& clip : *clips) {
        EXPECT_GE(clip.start, start - 1e-9);
        EXPECT_LE(clip.end, start + length + 1e-9);
        EXPECT_GT(clip.end, clip.start);
        EXPECT_LE(clip.end - clip.start, config.clip_seconds + 1e-9);
      }
    if (held_out.empty()) continue;
    const double gap = held_out.front().start - train.back().end;
    EXPECT_GE(gap, std::min(config.clip_seconds, (1 - fraction) * length / 4) - 1e-9);
    for (size_t i = 1; i < held_out.size(); ++i) EXPECT_GE(held_out[i].start, held_out[i - 1].end - 1e-9);
  }
}

TEST(CutClips, CountsItsClips) {
  ClipsConfig config;
  config.clip_seconds = 0.1;
  EXPECT_EQ(cut_clips(0, 1, config, 0, Split::train).size(), 10u);
  config.clip_stride = 0.05;
  EXPECT_EQ(cut_clips(0, 1, config, 0, Split::train).size(), 19u);
  config.clip_stride = 1e-9;
  EXPECT_THAT(user_error_of([&] { cut_clips(0, 1000, config, 0, Split::train); }), HasSubstr("data.clip_stride"));
}

TEST(Captions, TargetsAreTheCaptionAlone) {
  const auto tokenizer = make_tokenizer("bytes", "");
  const CaptionTokens made = caption_tokens(*tokenizer, "ab", "xy", 6, "list:1");
  const int64_t end = tokenizer->end_of_text();
  EXPECT_THAT(made.tokens, ElementsAre('a', 'b', 'x', 'y', end, end));
  EXPECT_THAT(made.targets, ElementsAre(-100, 'x', 'y', end, -100, -100));
  // Without a prompt another token comes before the first token.
  EXPECT_THAT(caption_tokens(*tokenizer, "", "xy", 3, "").targets, ElementsAre('x', 'y', end));
  EXPECT_THAT(user_error_of([&] { caption_tokens(*tokenizer, "ab", "xy", 3, "list:7"); }),
              AllOf(HasSubstr("list:7"), HasSubstr("data.sequence_length is 3")));
}

TEST(ClipSamples, ArePicturesAndTokens) {
  TempFolder folder;
  const DataConfig config = three_videos(folder);
  const auto samples = samples_of(config, {.frames = 2, .size = 8, .tokens = 16});
  // 4 s: 2 s and a gap, 1 s held out, twice; of the 2 s part 1 and 1/2, as long as it is.
  ASSERT_EQ(samples->samples(Split::train), 5);
  ASSERT_EQ(samples->samples(Split::validation), 3);
  const WindowOrder order(5, 0, false);
  const Batch batch = samples->batch(order, Split::train, 0, 5);
  EXPECT_EQ(batch.fields[0].sizes, (std::vector<int64_t>{5, 2, 3, 8, 8}));
  const float* frames = numbers<float>(batch, 0);
  const int64_t picture = 3 * 8 * 8;
  // Clip 0 of the first video: at 0.25 and 0.75 s, its pictures 2 and 7 of brightness 12 and 42.
  EXPECT_NEAR(frames[0], 12 / 127.5 - 1, 0.015);
  EXPECT_NEAR(frames[picture], 42 / 127.5 - 1, 0.015);
  EXPECT_NEAR(frames[2 * picture], (10 + 2) * 6 / 127.5 - 1, 0.015);
  EXPECT_NEAR(frames[4 * picture], -1, 0.015);
  EXPECT_NEAR(frames[8 * picture], 1, 0.015);
  EXPECT_EQ(numbers<int64_t>(batch, 1)[0], 'S');
  EXPECT_EQ(numbers<int64_t>(batch, 2)[4], 'i');  // after "Say: "
  EXPECT_EQ(numbers<int64_t>(batch, 2)[2 * 16 + 4], 'n');
}

// From the cache, in any order and batch.
TEST(ClipSamples, AreTheSameFromTheCache) {
  TempFolder folder;
  const DataConfig config = three_videos(folder);
  const ClipShape shape{.frames = 3, .size = 8, .tokens = 16};
  const Batch first = samples_of(config, shape)->batch(WindowOrder(5, 1, true), Split::train, 3, 4);
  const auto again = samples_of(config, shape);
  const Batch second = again->batch(WindowOrder(5, 1, true), Split::train, 3, 4);
  for (size_t i = 0; i < first.fields.size(); ++i) EXPECT_EQ(first.fields[i].bytes, second.fields[i].bytes);
  const Batch one = again->batch(WindowOrder(5, 1, true), Split::train, 5, 1);
  const size_t bytes = one.fields[0].bytes.size();
  EXPECT_EQ(std::memcmp(one.fields[0].bytes.data(), first.fields[0].bytes.data() + 2 * bytes, bytes), 0);
}

// Each color less its mean, over its deviation, as in image processors.
/// Puts a video of one 16 x 16 picture, red left and blue right, that the display matrix of `orientation` shows.
void put_phone_video(const std::filesystem::path& file, int orientation) {
  std::string pixels;
  for (int i = 0; i < 16 * 16; ++i) pixels += i % 16 < 8 ? std::string("\xc8\0\0", 3) : std::string("\0\0\xc8", 3);
  ShownVideo video{.width = 16, .height = 16, .frames = 20};
  if (orientation != 1) video.matrix = matrix_of_orientation(orientation);
  write_shown_video(file, pixels, video);
}

// 6: turned by a quarter clockwise, so that left is above.
TEST(ClipSamples, ArePicturesAsPeopleSeeThem) {
  TempFolder folder;
  put_phone_video(folder / "phone.mov", 6);
  DataConfig config;
  config.type = "clips";
  config.files = {folder / "phone.mov"};
  config.cache_dir = folder / "cache";
  config.clips.clip_seconds = 1;
  const auto source = samples_of(config, {1, 8, 64});
  const Batch batch = source->batch(WindowOrder(1, 0, false), Split::train, 0, 1);
  const float* red = numbers<float>(batch, 0);
  EXPECT_GT(red[0], 0.5);    // above left
  EXPECT_GT(red[7], 0.5);    // above right
  EXPECT_LT(red[56], -0.5);  // below left
  EXPECT_LT(red[63], -0.5);  // below right
}

// Frames of turned and of transparent videos are stored under other names than those of upright ones.
TEST(FrameCache, AKeyHasTheDisplay) {
  const VideoFile video{"/films/phone.mov", 1000, 5};
  const CachedClip upright = cached_clip("cache", video, {0, 1}, 2, 8);
  EXPECT_EQ(upright.key, media_cache_key(video, "frames:2:0:1:2:8"));
  std::set<uint64_t> keys = {upright.key};
  VideoInfo info;
  EXPECT_EQ(display_key(info), "");
  for (info.orientation = 1; info.orientation <= 8; ++info.orientation)
    for (const bool alpha : {false, true}) {
      info.alpha = alpha;
      keys.insert(cached_clip("cache", video, {0, 1}, 2, 8, display_key(info)).key);
    }
  EXPECT_EQ(keys.size(), 16u);
}

TEST(ClipSamples, AreNormalizedAsTheShapeSays) {
  TempFolder folder;
  const DataConfig config = three_videos(folder);
  const ClipShape plain{.frames = 3, .size = 8, .tokens = 16, .mean = {0, 0, 0}, .std = {1, 1, 1}};
  ClipShape shape = plain;
  shape.mean = {0.25, 0.5, 0.75};
  shape.std = {0.5, 0.25, 2};
  const Batch from = samples_of(config, plain)->batch(WindowOrder(5, 1, true), Split::train, 0, 2);
  const Batch to = samples_of(config, shape)->batch(WindowOrder(5, 1, true), Split::train, 0, 2);
  constexpr size_t area = 8 * 8;
  for (size_t i = 0; i < 2 * 3 * 3 * area; ++i) {
    const size_t color = i / area % 3;
    const float pixel = numbers<float>(from, 0)[i];
    ASSERT_GE(pixel, 0);
    ASSERT_LE(pixel, 1);
    ASSERT_NEAR(numbers<float>(to, 0)[i], (pixel - shape.mean[color]) / shape.std[color], 1e-5);
  }
}

TEST(ClipSamples, NameAVideoThatCannotBeRead) {
  TempFolder folder;
  DataConfig config = three_videos(folder);
  put_file(folder / "bad.mp4", "no video at all");
  put_file(folder / "late.y4m", get_file(folder / "white.y4m"));
  const auto list = get_file(folder / "list.tsv");
  put_file(folder / "list.tsv", list + "bad.mp4\tbad\nlate.y4m\tlate\t3.5\t9\n");
  EXPECT_THAT(user_error_of([&] { samples_of(config, {2, 8, 16}); }), HasSubstr("bad.mp4"));
  config.skip_bad = true;
  const auto samples = samples_of(config, {2, 8, 16});
  EXPECT_EQ(samples->samples(Split::train), 5);
  EXPECT_THAT(samples->skipped(), ElementsAre(HasSubstr("bad.mp4"), HasSubstr("ends at 9 s; the video has 4.00 s")));
  put_file(folder / "list.tsv", "bad.mp4\tbad\n");
  EXPECT_THAT(user_error_of([&] {
                samples_of(config, {2, 8, 16});
              }),
              HasSubstr("none of the 1 videos to train on can be read"));
}

TEST(ClipSamples, ACachedFileThatIsDamagedIsNamed) {
  TempFolder folder;
  const DataConfig config = three_videos(folder);
  const auto samples = samples_of(config, {2, 8, 16});
  for (const auto& entry : std::filesystem::directory_iterator(config.cache_dir)) {
    std::string bytes = get_file(entry.path());
    bytes[bytes.size() / 2] ^= 1;
    put_file(entry.path(), bytes);
  }
  EXPECT_THAT(user_error_of([&] { samples->batch(WindowOrder(5, 0, false), Split::train, 0, 1); }),
              AllOf(HasSubstr(".frames"), HasSubstr("damaged"), HasSubstr("delete the file")));
}

TEST(ClipSamples, HoldWholeVideosOut) {
  TempFolder folder;
  DataConfig config = three_videos(folder);
  put_file(folder / "list.tsv", "rising.y4m\tdark\ttrain\nblack.y4m\tdark\tvalidation\nwhite.y4m\tlight\ttrain\n");
  const auto samples = samples_of(config, {.frames = 2, .size = 8, .tokens = 16});
  EXPECT_EQ(samples->samples(Split::train), 8);
  ASSERT_EQ(samples->samples(Split::validation), 4);
  const Batch held_out = samples->batch(WindowOrder(4, 0, false), Split::validation, 0, 4);
  for (size_t i = 0; i < 4 * 2 * 3 * 8 * 8; ++i) ASSERT_NEAR(numbers<float>(held_out, 0)[i], -1, 0.015);
  // A list without a readable video to train on.
  put_file(folder / "bad.mp4", "no video at all");
  put_file(folder / "list.tsv", "bad.mp4\tdark\nblack.y4m\tdark\tvalidation\n");
  config.skip_bad = true;
  EXPECT_THAT(user_error_of([&] { samples_of(config, {2, 8, 16}); }), HasSubstr("none of the 1 videos to train on"));
}

TEST(ClipSamples, NameTheCaptionsThatAListHoldsOutAlone) {
  TempFolder folder;
  DataConfig config = three_videos(folder);
  put_file(folder / "list.tsv", "rising.y4m\tdark\ttrain\nblack.y4m\tnight\tvalidation\nwhite.y4m\tdark\ttrain\n");
  EXPECT_EQ(samples_of(config, {.frames = 2, .size = 8, .tokens = 16})->never_trained(),
            "4 of 4 validation clips show what is never trained on: caption night");
  put_file(folder / "list.tsv", "rising.y4m\tdark\ttrain\nblack.y4m\tdark\tvalidation\nwhite.y4m\tlight\ttrain\n");
  EXPECT_EQ(samples_of(config, {.frames = 2, .size = 8, .tokens = 16})->never_trained(), "");
}

// The 4 s of white are divided into 2 s, a gap and 1 s that is held out. The list decides for the other two videos.
TEST(ClipSamples, DivideTheVideosWithoutASplit) {
  TempFolder folder;
  DataConfig config = three_videos(folder);
  put_file(folder / "list.tsv", "rising.y4m\tdark\ttrain\nblack.y4m\tdark\tvalidation\nwhite.y4m\tlight\n");
  const ClipShape shape{.frames = 2, .size = 8, .tokens = 16};
  const auto samples = samples_of(config, shape);
  EXPECT_EQ(samples->samples(Split::train), 4 + 2);
  EXPECT_EQ(samples->samples(Split::validation), 4 + 1);
  config.validation_fraction = 0;
  const auto whole = samples_of(config, shape);
  EXPECT_EQ(whole->samples(Split::train), 4 + 4);
  EXPECT_EQ(whole->samples(Split::validation), 4);
  // Parts that overlap are refused where the fraction divides them, and only there.
  config.validation_fraction = 0.25;
  put_file(folder / "list.tsv", "rising.y4m\tdark\t0\t2\ttrain\nrising.y4m\tdark\t1\t3\ttrain\nwhite.y4m\tlight\n");
  EXPECT_EQ(samples_of(config, shape)->samples(Split::train), 2 + 2 + 2);
  put_file(folder / "list.tsv", "white.y4m\tlight\t0\t2\nwhite.y4m\tlight\t1\t3\nrising.y4m\tdark\ttrain\n");
  EXPECT_THAT(user_error_of([&] { samples_of(config, shape); }), HasSubstr("overlaps"));
}

TEST(ClipSamples, TheBaselineIsTheMostFrequentCaption) {
  TempFolder folder;
  const auto baselines = samples_of(three_videos(folder), {2, 8, 16})->all_baselines();
  ASSERT_EQ(baselines.size(), 1u);
  EXPECT_EQ(baselines[0].metric, "captions_right");
  EXPECT_EQ(baselines[0].name, "without the video");
  EXPECT_DOUBLE_EQ(baselines[0].value, 1.0 / 3);
}

}  // namespace
}  // namespace plimsoll
