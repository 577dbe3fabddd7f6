#include "data/masks/picture_samples.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "data/masks/picture_list.h"
#include "data/masks/slice_samples.h"
#include "files/file_kind.h"
#include "files/picture_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PictureSamplesTest : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const SliceShape& shape = {kSceneSide, 1, 48}) {
    return picture_samples(config_, shape, *tokenizer_, {}, 0);
  }
  std::string refusal() {
    return user_error_of([&] { open(); });
  }
  static Batch all(const SampleSource& source, Split split) {
    const int64_t count = source.samples(split);
    return source.batch(WindowOrder(count, 0, false), split, 0, count);
  }
  template <typename Number>
  static std::vector<Number> numbers(const Batch& batch, size_t field) {
    const auto* values = reinterpret_cast<const Number*>(batch.fields[field].bytes.data());
    return {values, values + batch.fields[field].bytes.size() / sizeof(Number)};
  }
  static int64_t ones(const Batch& batch) {
    int64_t sum = 0;
    for (const uint8_t one : numbers<uint8_t>(batch, 4)) sum += one;
    return sum;
  }

  TempFolder folder_;
  DataConfig config_ = scenes(folder_, 8);
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer("bytes", "");
};

TEST_F(PictureSamplesTest, AreAPictureAndAStructureEach) {
  const auto source = open();
  EXPECT_EQ(source->samples(Split::train), 6 * 2);  // whole pictures are held out
  EXPECT_EQ(source->samples(Split::validation), 2 * 2);
  const Batch batch = all(*source, Split::train);
  ASSERT_THAT(batch.fields, SizeIs(5));
  EXPECT_THAT(batch.fields[0].sizes, ElementsAre(12, kSceneSide, kSceneSide, 1));
  // At its own size a mask is as in its file: each one is among the written masks.
  const auto masks = numbers<uint8_t>(batch, 4);
  const auto images = numbers<float>(batch, 0);
  constexpr size_t kPixels = kSceneSide * kSceneSide;
  for (size_t sample = 0; sample < 12; ++sample) {
    bool found = false;
    for (uint32_t i = 0; i < 8 && !found; ++i) {
      const Scene made = scene(i);
      for (const uint16_t label : {5, 9}) {
        bool same = true;
        for (size_t p = 0; p < kPixels; ++p) same &= masks[sample * kPixels + p] == (made.mask[p] == label);
        found |= same;
        if (!same) continue;
        double sum = 0;
        for (size_t p = 0; p < kPixels; ++p) sum += images[sample * kPixels + p];
        EXPECT_NEAR(sum, 0, 1e-2);
      }
    }
    EXPECT_TRUE(found) << sample;
  }
  const SlicePrompt prompt =
      make_slice_prompt(config_.slices.prompt, config_.slices.answer, "bright square", 48, *tokenizer_);
  const auto tokens = numbers<int64_t>(batch, 1);
  EXPECT_EQ(std::vector<int64_t>(tokens.begin(), tokens.begin() + 48), prompt.tokens);
}

TEST_F(PictureSamplesTest, NameTheFilesThatAreNotRead) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  open();
  EXPECT_THAT(notes.lines(), IsEmpty());
  put_file(folder_ / "images/scan.tif", "II*");
  put_file(folder_ / "images/.hidden", "");
  std::filesystem::copy(folder_ / "masks/scene1.png", folder_ / "masks/lost.png");
  open();
  EXPECT_THAT(notes.lines(),
              ElementsAre(HasSubstr("images: files that are not read, which are no .png, .jpg or .jpeg: scan.tif"),
                          HasSubstr("masks: masks without a picture are not read: lost.png")));
}

// A camera on its side: a picture and its mask have one size when they are seen.
TEST_F(PictureSamplesTest, ArePicturesAsPeopleSeeThem) {
  config_.slices.label_names.clear();
  config_.slices.structures = {"square"};
  config_.validation_fraction = 0;
  const auto folders = [&](const char* images, const char* masks) {
    for (const char* name : {images, masks}) {
      std::filesystem::remove_all(folder_ / name);
      std::filesystem::create_directories(folder_ / name);
    }
    config_.pictures.images = folder_ / images;
    config_.pictures.masks = folder_ / masks;
  };
  folders("phone", "drawn");
  // 6 x 4 pixels, bright at the left; seen as 4 x 6, bright above (6: turned by a quarter clockwise).
  std::vector<uint16_t> stored, seen;
  for (int i = 0; i < 24; ++i) stored.push_back(i % 6 < 2 ? 250 : 0), seen.push_back(i / 4 < 2 ? 7 : 0);
  const std::string exif = png_chunk("eXIf", exif_of(6, true));
  put_file(folder_ / "phone/a.png", with_chunks(png(6, 4, 8, kPngGray, stored), {exif}));
  put_file(folder_ / "drawn/a.png", png(4, 6, 8, kPngGray, seen));
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const Batch batch = all(*open({6, 1, 48}), Split::train);
  const std::vector<uint8_t> mask = numbers<uint8_t>(batch, 4);
  const std::vector<float> image = numbers<float>(batch, 0);
  EXPECT_THAT(notes.lines(),
              ElementsAre(AllOf(HasSubstr("a.png: the orientation of the picture (EXIF) is 6, and that of "
                                          "its mask is 1"),
                                HasSubstr("the mask must lie on the picture as it is seen"))));
  for (size_t pixel = 0; pixel < 36; ++pixel) {
    const bool inside = pixel % 6 >= 1 && pixel % 6 <= 4;
    EXPECT_EQ(mask[pixel], inside && pixel < 12 ? 1 : 0) << pixel;
    EXPECT_EQ(image[pixel] > 0, inside && pixel < 12) << pixel;
  }
  // Drawn on the stored pixels: of other sides, unless the mask has the orientation as well.
  for (uint16_t& number : stored) number = number > 0 ? 7 : 0;
  put_file(folder_ / "drawn/a.png", png(6, 4, 8, kPngGray, stored));
  EXPECT_THAT(
      user_error_of([&] {
        open({6, 1, 48});
      }),
      AllOf(HasSubstr("a.png is 4 x 6 pixels, and its mask"), HasSubstr("is 6 x 4; they must be of one size. The "
                                                                        "orientation of the picture (EXIF) is 6, "
                                                                        "and that of the mask is 1: write")));
  put_file(folder_ / "drawn/a.png", with_chunks(png(6, 4, 8, kPngGray, stored), {exif}));
  const Batch both = all(*open({6, 1, 48}), Split::train);
  EXPECT_EQ(numbers<uint8_t>(both, 4), mask);
  EXPECT_EQ(numbers<float>(both, 0), image);
}

TEST_F(PictureSamplesTest, NamePicturesThatViewersShowOtherwise) {
  std::vector<uint16_t> pixels(kSceneSide * kSceneSide * 2);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint16_t>(i % 251);
  for (const char* name : {"images/scene1.png", "images/scene2.png"})
    put_file(folder_ / name, with_chunks(png(kSceneSide, kSceneSide, 8, kPngGrayAlpha, pixels),
                                         {png_chunk("gAMA", big_endian(100000, 4))}));
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  open();
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("scene1.png and 1 more file: transparent pixels are shown on white"),
                                         HasSubstr("scene1.png and 1 more file: the gamma 1 is not applied")));
}

// One folder with pictures and their masks: NAME.png and NAME_mask.png.
TEST_F(PictureSamplesTest, APictureIsNoMaskOfItself) {
  config_.pictures.masks = config_.pictures.images;
  EXPECT_THAT(refusal(), HasSubstr("has no mask of"));
}

TEST_F(PictureSamplesTest, HoldOutPicturesByNameAndNotByOrder) {
  config_.test_fraction = 0.25;
  const auto validation = open();
  config_.evaluate_on = "test";
  const auto test = open();
  EXPECT_EQ(validation->samples(Split::train), 4 * 2);
  EXPECT_EQ(all(*validation, Split::train).fields[4].bytes, all(*test, Split::train).fields[4].bytes);
  EXPECT_NE(all(*validation, Split::validation).fields[4].bytes, all(*test, Split::validation).fields[4].bytes);
  // The position of a picture in the order does not matter, only the picture.
  std::filesystem::rename(folder_ / "images", folder_ / "moved");
  config_.pictures.images = folder_ / "moved";
  EXPECT_EQ(all(*open(), Split::validation).fields[0].bytes, all(*test, Split::validation).fields[0].bytes);
  config_.validation_fraction = config_.test_fraction = 0.5;
  EXPECT_THAT(refusal(), HasSubstr("all pictures are held out"));
}

/// Returns the number of samples of each structure in a part: bright squares, dark squares.
std::pair<int64_t, int64_t> squares_in(const SampleSource& source, Split split, const Tokenizer& tokenizer,
                                       const SlicesConfig& config) {
  const int64_t count = source.samples(split);
  const Batch batch = source.batch(WindowOrder(count, 0, false), split, 0, count);
  const auto* tokens = reinterpret_cast<const int64_t*>(batch.fields[1].bytes.data());
  const SlicePrompt bright = make_slice_prompt(config.prompt, config.answer, "bright square", 48, tokenizer);
  int64_t brights = 0;
  for (int64_t i = 0; i < count; ++i)
    brights += std::equal(bright.tokens.begin(), bright.tokens.end(), tokens + i * 48);
  return {brights, count - brights};
}

// Only two of 12 pictures show the dark square, whichever they are.
TEST_F(PictureSamplesTest, EveryPartShowsEveryStructureThatHasRoom) {
  config_ = scenes(folder_, 12);
  for (uint32_t one = 0; one < 12; one += 3) {
    SCOPED_TRACE(one);
    const uint32_t other = (one + 1) % 12;
    for (uint32_t i = 0; i < 12; ++i) {
      std::vector<uint16_t> mask = scene(i).mask;
      if (i != one && i != other) std::ranges::replace(mask, uint16_t{9}, uint16_t{0});
      put_file(folder_ / ("masks/scene" + std::to_string(i) + ".png"),
               png(kSceneSide, kSceneSide, 4, kPngPalette, mask));
    }
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    const auto source = open();
    EXPECT_EQ(squares_in(*source, Split::train, *tokenizer_, config_.slices), std::pair(int64_t{9}, int64_t{1}));
    EXPECT_EQ(squares_in(*source, Split::validation, *tokenizer_, config_.slices), std::pair(int64_t{3}, int64_t{1}));
    EXPECT_THAT(notes.lines(), IsEmpty());
  }
}

TEST_F(PictureSamplesTest, NameTheStructuresThatAListHoldsOutAlone) {
  config_.pictures.images.clear();
  config_.pictures.masks.clear();
  config_.pictures.list = put_file(folder_ / "list.csv",
                                   "image,mask,structure,value,split\n"
                                   "images/scene0.png,masks/scene0.png,bright square,5,train\n"
                                   "images/scene1.png,masks/scene1.png,dark square,9,validation\n");
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto source = open();
  EXPECT_EQ(source->never_trained(), "1 of 1 validation pictures show what is never trained on: structure dark square");
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("list.csv: the training part has no pictures of the structure dark"),
                                         HasSubstr("the validation part has no pictures of the structure bright"),
                                         HasSubstr(source->never_trained())));
}

TEST_F(PictureSamplesTest, AreMovedWhereTrainedOnAlone) {
  const auto plain = open();
  config_.slices.augment = 0.2;
  const auto moved = open();
  EXPECT_EQ(all(*plain, Split::validation).fields[0].bytes, all(*moved, Split::validation).fields[0].bytes);
  EXPECT_NE(all(*plain, Split::train).fields[4].bytes, all(*moved, Split::train).fields[4].bytes);
  const int64_t count = moved->samples(Split::train);
  const WindowOrder order(count, 0, false);
  EXPECT_NE(moved->batch(order, Split::train, 0, 1).fields[0].bytes,
            moved->batch(order, Split::train, count, 1).fields[0].bytes);  // drawn again
  EXPECT_EQ(moved->batch(order, Split::train, 3, 1).fields[0].bytes,
            open()->batch(order, Split::train, 3, 1).fields[0].bytes);
}

TEST_F(PictureSamplesTest, MayHaveAMaskForEachStructure) {
  const Batch by_number = all(*open(), Split::train);
  std::filesystem::create_directories(folder_ / "apart/bright_square");
  std::filesystem::create_directories(folder_ / "apart/dark_square");
  for (uint32_t i = 0; i < 8; ++i) {
    Scene made = scene(i);
    for (const auto& [label, name] : {std::pair{5, "bright_square"}, {9, "dark_square"}}) {
      std::vector<uint16_t> mask;
      for (const uint16_t number : made.mask) mask.push_back(number == label ? 65535 : 0);
      put_file(folder_ / ("apart/" + std::string(name) + "/scene" + std::to_string(i) + "_mask.png"),
               png(kSceneSide, kSceneSide, 16, kPngGray, mask));
    }
  }
  config_.pictures.masks = folder_ / "apart";
  config_.slices.label_names.clear();
  const auto source = open();
  EXPECT_EQ(source->samples(Split::train), 12);
  EXPECT_EQ(ones(all(*source, Split::train)), ones(by_number));
  config_.slices.structures = {"dark*"};
  EXPECT_EQ(open()->samples(Split::train), 6);
}

TEST_F(PictureSamplesTest, OfOneStructureItsNameIsGiven) {
  config_.slices.label_names.clear();
  EXPECT_THAT(refusal(), HasSubstr("structures: nucleus"));
  config_.slices.structures = {"square"};
  const auto source = open();
  EXPECT_EQ(source->samples(Split::train), 6);
  // JPEG masks: pixels above half.
  for (uint32_t i = 0; i < 8; ++i) {
    const std::string name = "masks/scene" + std::to_string(i);
    std::filesystem::remove(folder_ / (name + ".png"));
    put_file(folder_ / (name + ".jpg"), jpeg(kSceneSide, kSceneSide, 3, 250));
  }
  EXPECT_EQ(ones(all(*open(), Split::train)), 6 * kSceneSide * kSceneSide / 2);
  config_.slices.label_names = folder_ / "names.txt";
  config_.slices.structures = {"*"};
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is a JPEG"), HasSubstr("save masks as PNG")));
}

TEST_F(PictureSamplesTest, MayStandInAListWithPromptsAndParts) {
  const Batch by_folder = all(*open(), Split::train);
  config_.pictures.images.clear();
  config_.pictures.masks.clear();
  config_.pictures.list =
      put_file(folder_ / "list.csv",
               "image,mask,structure,value,prompt,split\n"
               "images/scene0.png,masks/scene0.png,bright square,5,\"Where is it bright, please?\",train\n"
               "images/scene0.png,masks/scene0.png,dark square,9,,train\nimages/scene1.png,masks/scene1.png,bright "
               "square,5,,validation\n");
  const auto table = open();
  EXPECT_EQ(table->samples(Split::train), 2);
  EXPECT_EQ(table->samples(Split::validation), 1);
  const auto tokens = numbers<int64_t>(all(*table, Split::train), 1);
  EXPECT_EQ(
      std::vector<int64_t>(tokens.begin(), tokens.begin() + 48),
      make_slice_prompt("Where is it bright, please?", config_.slices.answer, "bright square", 48, *tokenizer_).tokens);
  config_.pictures.list =
      put_file(folder_ / "list.jsonl",
               "{\"image\": \"images/scene0.png\", \"mask\": \"masks/scene0.png\", \"value\": 5, \"prompt\": \"Where "
               "is it bright, "
               "please?\", \"split\": \"train\"}\n\n"
               "{\"image\": \"images/scene0.png\", \"mask\": \"masks/scene0.png\", \"value\": 9, \"structure\": \"dark "
               "square\"}\n"
               "{\"image\": \"images/scene1.png\", \"mask\": \"masks/scene1.png\", \"split\": \"validation\"}\n");
  EXPECT_THAT(refusal(), HasSubstr("list.jsonl:3"));  // one picture, two parts
  config_.pictures.list =
      put_file(folder_ / "list.jsonl",
               "{\"image\": \"images/scene0.png\", \"mask\": \"masks/scene0.png\", \"value\": 5, \"prompt\": \"Where "
               "is it bright, "
               "please?\", \"split\": \"train\"}\n"
               "{\"image\": \"images/scene1.png\", \"mask\": \"masks/scene1.png\", \"split\": \"validation\"}\n");
  const auto lines = open();
  EXPECT_EQ(lines->samples(Split::train), 1);
  EXPECT_EQ(lines->samples(Split::validation), 2);  // both of label_names
  EXPECT_EQ(all(*lines, Split::train).fields[1].sizes[0], 1);
  EXPECT_GT(ones(by_folder), 0);
}

TEST_F(PictureSamplesTest, SayWhatIsWrongWithAList) {
  config_.pictures.images.clear();
  config_.pictures.masks.clear();
  config_.slices.label_names.clear();
  const auto wrong = [&](const std::string& text) {
    config_.pictures.list = put_file(folder_ / "list.csv", text);
    return refusal();
  };
  EXPECT_THAT(wrong(""), HasSubstr("is empty"));
  EXPECT_THAT(wrong("image,mask,color\n"), HasSubstr("list.csv:1: 'color' is no column"));
  EXPECT_THAT(wrong("image,mask,structure\na.png,,x\n"), HasSubstr("list.csv:2: it has no mask"));
  EXPECT_THAT(wrong("image,mask\na.png,b.png\n"), HasSubstr("neither structure nor prompt"));
  EXPECT_THAT(wrong("image,mask,structure,value\na.png,b.png,x,70000\n"), HasSubstr("from 0 to 65535"));
  EXPECT_THAT(wrong("image,mask,structure,split\na.png,b.png,x,dev\n"), HasSubstr("split is 'dev'"));
  EXPECT_THAT(wrong("image,mask,structure\na.png,b.png\n"), HasSubstr("2 cells"));
  config_.slices.structures = {"y"};
  EXPECT_THAT(wrong("image,mask,structure\na.png,b.png,x\n"), HasSubstr("no line for any of data.structures (y)"));
  config_.pictures.list = put_file(folder_ / "list.jsonl", "{\"image\": [1]}\n");
  EXPECT_THAT(refusal(), HasSubstr("list.jsonl:1: image is neither a text nor a whole number"));
  put_file(folder_ / "list.jsonl", "not json\n");
  EXPECT_THAT(refusal(), HasSubstr("list.jsonl:1"));
}

TEST_F(PictureSamplesTest, LeaveAnIndexOfTheListOut) {
  config_.pictures.images.clear();
  config_.pictures.masks.clear();
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto put = [&](const char* first, const char* second) {
    config_.pictures.list =
        put_file(folder_ / "list.csv", fmt::format(",image,mask,structure,value\n"
                                                   "{},images/scene0.png,masks/scene0.png,bright square,5\n"
                                                   "{},images/scene1.png,masks/scene1.png,bright square,5\n",
                                                   first, second));
  };
  put("0", "1");
  EXPECT_EQ(open()->samples(Split::train) + open()->samples(Split::validation), 2);
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("list.csv: the first column has no name and counts from 0 to 1")));
  put("0", "x");
  EXPECT_THAT(refusal(), HasSubstr("list.csv:3: 'x' is in the first column, which has no name"));
}

TEST_F(PictureSamplesTest, SayWhichFileIsBadAndLeaveItOutWhereTheyMay) {
  put_file(folder_ / "masks/scene3.png", "no picture");
  EXPECT_THAT(refusal(), HasSubstr("scene3.png"));
  put_file(folder_ / "images/scene4.png", png(2, 2, 8, kPngGray, std::vector<uint16_t>(4)));
  std::filesystem::remove(folder_ / "masks/scene5.png");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("has no mask of"), HasSubstr("scene5.png")));
  config_.skip_bad = true;
  const auto source = open();
  EXPECT_EQ(source->samples(Split::train) + source->samples(Split::validation), 5 * 2);
  EXPECT_THAT(source->skipped(),
              ElementsAre(HasSubstr("scene3.png"), AllOf(HasSubstr("2 x 2 pixels"), HasSubstr("24 x 24"))));
  config_.slices.min_pixels = 10000;
  EXPECT_THAT(refusal(), HasSubstr("no mask shows 10000 pixels"));
}

// Half of the budget is for cached pictures, the other half for those that are being read.
TEST_F(PictureSamplesTest, KeepToTheBudgetOfData) {
  config_.memory_budget = int64_t{1} << 20;
  const Batch within = all(*open(), Split::train);
  // Room for two pictures of 14 bytes a pixel, but half is reserved, and a worker and the evaluation share the rest.
  config_.memory_budget = 2 * kSceneSide * kSceneSide * 14 + 4096;
  EXPECT_THAT(refusal(), AllOf(HasSubstr(".png: says "), HasSubstr("which is data.memory_budget "),
                               HasSubstr("for files that are kept or read at the same time")));
  config_.memory_budget.reset();
  EXPECT_EQ(numbers<float>(within, 0), numbers<float>(all(*open(), Split::train), 0));
}

}  // namespace
}  // namespace plimsoll
