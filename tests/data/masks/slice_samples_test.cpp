#include "data/masks/slice_samples.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "data/masks/labeled_volume.h"
#include "files/file_kind.h"
#include "files/nifti_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SliceSamplesTest : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const SliceShape& shape = {24, 1, 48}) {
    return slice_samples(config_, shape, *tokenizer_, {}, 0);
  }
  std::string refusal() {
    return user_error_of([&] { open(); });
  }
  Batch batch(const SampleSource& source, Split split, int64_t first, int64_t count) {
    return source.batch(WindowOrder(source.samples(split), 0, false), split, first, count);
  }
  template <typename Number>
  static const Number* numbers(const Batch& batch, const char* name) {
    for (const BatchField& field : batch.fields)
      if (field.name == name) return reinterpret_cast<const Number*>(field.bytes.data());
    return nullptr;
  }

  TempFolder folder_;
  DataConfig config_ = box_slices(folder_);
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer("bytes", "");
};

TEST_F(SliceSamplesTest, AreSlicesWithStructuresThatTheyShow) {
  const auto source = open();
  // 28 slices of two boxes: two blocks of 3 held out, gaps of 1 on both sides.
  EXPECT_EQ(source->samples(Split::validation), 2 * 6);
  EXPECT_EQ(source->samples(Split::train), 2 * (28 - 10));
  const Batch one = batch(*source, Split::train, 0, 2);
  ASSERT_THAT(one.fields, SizeIs(5));
  const auto* image = numbers<float>(one, "image");
  const auto* mask = numbers<uint8_t>(one, "mask");
  const auto* tokens = numbers<int64_t>(one, "tokens");
  const auto* targets = numbers<int64_t>(one, "targets");
  const auto* read_at = numbers<float>(one, "read_at");
  // At the volume's own size pixels are voxels: the first slice with boxes is z = 2.
  for (int64_t sample = 0; sample < 2; ++sample)
    for (int64_t y = 0; y < 24; ++y)
      for (int64_t x = 0; x < 24; ++x)
        EXPECT_EQ(mask[(sample * 24 + y) * 24 + x], box_at(x, y, 2) == (sample == 0 ? 5 : 9) ? 1 : 0);
  EXPECT_GT(image[(2 + 2 + 2) * 24 + 4], image[0] + 0.5f);
  for (int64_t i = 0; i < 24 * 24; ++i) EXPECT_EQ(image[i], image[24 * 24 + i]);
  std::string text;
  for (int64_t i = 0; i < 48; ++i)
    if (tokens[i] != 256) text += static_cast<char>(tokens[i]);
  EXPECT_EQ(text, "Segment the left box. It is here:");
  const auto end = std::ssize(text), requested = std::ssize(std::string("Segment the left box."));
  for (int64_t i = 0; i < 48; ++i) {
    EXPECT_FLOAT_EQ(read_at[i], i <= end ? 1.0f / static_cast<float>(end + 1) : 0.0f);
    EXPECT_EQ(targets[i], i >= requested - 1 && i < end ? tokens[i + 1] : -100) << i;
  }
}

TEST_F(SliceSamplesTest, TheTestPartIsApart) {
  config_.validation_fraction = config_.test_fraction = 0.1;
  const auto validation = open();
  config_.evaluate_on = "test";
  const auto test = open();
  EXPECT_EQ(test->samples(Split::train), validation->samples(Split::train));
  EXPECT_EQ(test->samples(Split::validation), 2 * 3);
  EXPECT_EQ(validation->samples(Split::validation), 2 * 3);
  const auto bytes_of = [&](const SampleSource& source, Split split) {
    std::set<std::vector<std::byte>> images;
    for (int64_t i = 0; i < source.samples(split); ++i) images.insert(batch(source, split, i, 1).fields[0].bytes);
    return images;
  };
  const auto trained = bytes_of(*test, Split::train), held_out = bytes_of(*test, Split::validation);
  EXPECT_EQ(trained, bytes_of(*validation, Split::train));
  for (const auto& image : bytes_of(*validation, Split::validation)) EXPECT_FALSE(held_out.contains(image));
  for (const auto& image : trained) EXPECT_FALSE(held_out.contains(image));
}

// The left box is in all slices, the right one only in some: where the evenly spread block is, and where it is not.
TEST_F(SliceSamplesTest, EveryPartShowsEveryStructureThatHasRoom) {
  config_.validation_fraction = 0.1;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{13, 17}, {2, 9}, {21, 29}}) {
    SCOPED_TRACE(first);
    std::vector<uint8_t> labels;
    for (int64_t z = 0; z < kBoxSlices; ++z)
      for (int64_t y = 0; y < kBoxSide; ++y)
        for (int64_t x = 0; x < kBoxSide; ++x) {
          const int label = box_at(x, y, z);
          labels.push_back(static_cast<uint8_t>(label == 9 && (z < first || z > last) ? 0 : label));
        }
    put_file(config_.slices.labels[0], nifti_bytes(NiftiType::uint8, {24, 24, 30}, labels));
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    const auto source = open();
    for (const Split split : {Split::train, Split::validation}) {
      const Batch all = batch(*source, split, 0, source->samples(split));
      const auto* mask = numbers<uint8_t>(all, "mask");
      int64_t right = 0;
      for (int64_t i = 0; i < source->samples(split) * 24 * 24; ++i) right += mask[i] && i % 24 >= 14;
      EXPECT_GT(right, 0);
    }
    EXPECT_THAT(notes.lines(), IsEmpty());
    EXPECT_EQ(source->never_trained(), "");
  }
  // One slice has no room for two parts.
  std::vector<uint8_t> labels(24 * 24 * 30, 5);
  std::fill_n(labels.begin() + 24 * 24 * 15, 24 * 24, uint8_t{9});
  put_file(config_.slices.labels[0], nifti_bytes(NiftiType::uint8, {24, 24, 30}, labels));
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  EXPECT_EQ(open()->never_trained(), "");  // training comes first
  EXPECT_THAT(notes.lines(), ::testing::ElementsAre(
                                 HasSubstr("names.txt: the validation part has no slices of the structure right box")));
}

TEST_F(SliceSamplesTest, AugmentsWhatIsTrainedOnAlone) {
  const auto plain = open();
  config_.slices.augment = 0.1;
  const auto augmented = open();
  const WindowOrder order(plain->samples(Split::train), 0, false);
  const int64_t epoch = order.count();
  const Batch one = augmented->batch(order, Split::train, 0, 8), again = augmented->batch(order, Split::train, 0, 8);
  const Batch later = augmented->batch(order, Split::train, epoch, 8), as_is = plain->batch(order, Split::train, 0, 8);
  for (const size_t f : {size_t{0}, size_t{4}}) {
    EXPECT_EQ(one.fields[f].bytes, again.fields[f].bytes);
    EXPECT_NE(one.fields[f].bytes, later.fields[f].bytes);
    EXPECT_NE(one.fields[f].bytes, as_is.fields[f].bytes);
  }
  EXPECT_EQ(one.fields[1].bytes, as_is.fields[1].bytes);
  EXPECT_EQ(batch(*augmented, Split::validation, 0, 4).fields[0].bytes,
            batch(*plain, Split::validation, 0, 4).fields[0].bytes);
  // The mask goes with its image: boxes are brighter than what is around them.
  const auto* image = numbers<float>(one, "image");
  const auto* mask = numbers<uint8_t>(one, "mask");
  for (int64_t sample = 0; sample < 8; ++sample) {
    double in = 0, out = 0, inside = 0;
    for (int64_t i = sample * 576; i < (sample + 1) * 576; ++i) {
      (mask[i] ? in : out) += image[i];
      inside += mask[i];
    }
    ASSERT_GT(inside, 0);
    EXPECT_GT(in / inside, out / (576 - inside) + 0.5) << sample;
  }
}

TEST_F(SliceSamplesTest, AViewThatMovesNothingIsTheSlice) {
  const LabeledVolume volume(config_.files[0], config_.slices.labels[0], {{5, 0}, {9, 1}}, 2);
  std::vector<float> straight(24 * 24 * 3), viewed(24 * 24 * 3);
  volume.image(9, 3, 24, straight);
  volume.image(9, 3, 24, SliceView(), viewed);
  for (size_t i = 0; i < straight.size(); ++i) EXPECT_NEAR(straight[i], viewed[i], 1e-5);
  std::vector<uint8_t> mask(24 * 24), same(24 * 24), moved(24 * 24);
  volume.mask(9, 0, 24, mask);
  volume.mask(9, 0, 24, SliceView(), same);
  EXPECT_EQ(mask, same);
  volume.mask(9, 0, 24, {.across = 2.0 / 24, .down = -1.0 / 24}, moved);
  for (int64_t y = 0; y < 23; ++y)
    for (int64_t x = 2; x < 24; ++x) EXPECT_EQ(moved[y * 24 + x], mask[(y + 1) * 24 + x - 2]);
}

// Both ways to sample agree for every axis and type of voxels.
TEST_F(SliceSamplesTest, AViewOfAnyAxisAndTypeIsTheSlice) {
  constexpr std::array<int16_t, 3> kSizes = {17, 23, 11};
  const auto check_type = [&]<typename Number>(NiftiType type, Number) {
    std::vector<Number> voxels(17 * 23 * 11);
    std::vector<uint8_t> labels(voxels.size());
    for (size_t i = 0; i < voxels.size(); ++i) {
      voxels[i] = static_cast<Number>(i * 2654435761u >> 7 & 0x7f);
      labels[i] = static_cast<uint8_t>(i * 2246822519u >> 9 & 1);
    }
    put_file(folder_ / "typed.nii", nifti_bytes(type, kSizes, voxels));
    put_file(folder_ / "labels.nii", nifti_bytes(NiftiType::uint8, kSizes, labels));
    for (int axis = 0; axis < 3; ++axis) {
      const LabeledVolume volume(folder_ / "typed.nii", folder_ / "labels.nii", {{1, 0}}, axis);
      std::vector<float> straight(32 * 32 * 3), viewed(32 * 32 * 3);
      std::vector<uint8_t> mask(32 * 32), same(32 * 32);
      for (int64_t slice = 0; slice < volume.slices(); ++slice) {
        volume.image(slice, 3, 32, straight);
        volume.image(slice, 3, 32, SliceView(), viewed);
        for (size_t i = 0; i < straight.size(); ++i) ASSERT_NEAR(straight[i], viewed[i], 1e-5) << axis << " " << slice;
        volume.mask(slice, 0, 32, mask);
        volume.mask(slice, 0, 32, SliceView(), same);
        ASSERT_EQ(mask, same) << axis << " " << slice;
        ASSERT_THAT(mask, Contains(1));
      }
    }
  };
  check_type(NiftiType::uint8, uint8_t{});
  check_type(NiftiType::int8, int8_t{});
  check_type(NiftiType::int16, int16_t{});
  check_type(NiftiType::uint16, uint16_t{});
  check_type(NiftiType::int32, int32_t{});
  check_type(NiftiType::uint32, uint32_t{});
  check_type(NiftiType::int64, int64_t{});
  check_type(NiftiType::uint64, uint64_t{});
  check_type(NiftiType::float32, float{});
  check_type(NiftiType::float64, double{});
}

// Labels of 2^63 and more have no name, because label_names are int64.
TEST_F(SliceSamplesTest, AnUnsignedLabelOf2To63IsNoStructure) {
  constexpr std::array<int16_t, 3> kSizes = {2, 2, 2};
  put_file(folder_ / "image.nii", nifti_bytes(NiftiType::uint8, kSizes, std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  std::vector<uint64_t> labels(8, 1);
  labels[3] = ~uint64_t{0};
  labels[4] = uint64_t{1} << 63;
  put_file(folder_ / "large.nii", nifti_bytes(NiftiType::uint64, kSizes, labels));
  const LabeledVolume volume(folder_ / "image.nii", folder_ / "large.nii",
                             {{1, 0}, {std::numeric_limits<int64_t>::min(), 1}}, 2);
  std::vector<uint8_t> mask(4);
  volume.mask(0, 0, 2, mask);
  EXPECT_EQ(mask, (std::vector<uint8_t>{1, 1, 1, 0}));
  volume.mask(1, 1, 2, mask);
  EXPECT_EQ(mask, (std::vector<uint8_t>{0, 0, 0, 0}));
}

// A narrow volume fills the middle half of the square; its structure reaches every border and not beyond.
TEST_F(SliceSamplesTest, AMaskEndsWhereTheVolumeDoes) {
  constexpr std::array<int16_t, 3> kSizes = {4, 8, 2};
  std::vector<float> image(64);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i);
  put_file(folder_ / "narrow.nii", nifti_bytes(NiftiType::float32, kSizes, image));
  put_file(folder_ / "all.nii", nifti_bytes(NiftiType::uint8, kSizes, std::vector<uint8_t>(64, 5)));
  const LabeledVolume volume(folder_ / "narrow.nii", folder_ / "all.nii", {{5, 0}}, 2);
  std::vector<uint8_t> mask(16 * 16);
  volume.mask(0, 0, 16, mask);
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x) EXPECT_EQ(mask[y * 16 + x], x >= 4 && x < 12) << x << " " << y;
}

TEST_F(SliceSamplesTest, DependOnOrderFirstAndCountAlone) {
  const auto source = open({16, 3, 40});
  const WindowOrder order(source->samples(Split::train), 5, true);
  const Batch whole = source->batch(order, Split::train, 3, 4);
  for (int64_t i = 0; i < 4; ++i) {
    const Batch one = source->batch(order, Split::train, 3 + i, 1);
    for (size_t f = 0; f < one.fields.size(); ++f) {
      const auto& bytes = one.fields[f].bytes;
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), whole.fields[f].bytes.begin() + i * std::ssize(bytes)));
    }
  }
}

TEST_F(SliceSamplesTest, NormalizeWhatIsNotBackground) {
  const auto source = open();
  double sum = 0, squares = 0, count = 0;
  const LabeledVolume volume(config_.files[0], config_.slices.labels[0], {}, 2);
  std::vector<float> image(24 * 24);
  float least = 1e9f;
  for (int64_t z = 0; z < kBoxSlices; ++z) {
    volume.image(z, 1, 24, image);
    for (float each : image) least = std::min(least, each);
  }
  for (int64_t z = 0; z < kBoxSlices; ++z) {
    volume.image(z, 1, 24, image);
    for (float each : image)
      if (each > least) {
        ++count;
        sum += each;
        squares += static_cast<double>(each) * each;
      }
  }
  EXPECT_NEAR(sum / count, 0, 1e-3);
  EXPECT_NEAR(squares / count, 1, 1e-3);
}

TEST_F(SliceSamplesTest, ChannelsAreNeighborsAndEndsRepeat) {
  const LabeledVolume volume(config_.files[0], config_.slices.labels[0], {}, 2);
  std::vector<float> three(24 * 24 * 3), one(24 * 24);
  for (int64_t slice : {int64_t{0}, int64_t{11}, kBoxSlices - 1}) {
    volume.image(slice, 3, 24, three);
    for (int64_t channel = 0; channel < 3; ++channel) {
      volume.image(std::clamp<int64_t>(slice + channel - 1, 0, kBoxSlices - 1), 1, 24, one);
      for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(three[3 * i + channel], one[i]);
    }
  }
}

TEST_F(SliceSamplesTest, KeepProportionsOnEveryAxis) {
  // Across x a slice is 24 x 30: its rows fill the square, and at the sides there is nothing.
  const LabeledVolume volume(config_.files[0], config_.slices.labels[0], {{5, 0}, {9, 1}}, 0);
  EXPECT_EQ(volume.slices(), 24);
  std::vector<uint8_t> mask(30 * 30);
  volume.mask(4, 0, 30, mask);
  for (int64_t z = 0; z < 30; ++z)
    for (int64_t c = 0; c < 30; ++c)
      EXPECT_EQ(mask[z * 30 + c], c >= 3 && c < 27 && box_at(4, c - 3, z) == 5 ? 1 : 0) << z << " " << c;
  const auto pixels = volume.pixels_of_each(4, 2, 30);
  EXPECT_EQ(pixels[0], std::count(mask.begin(), mask.end(), 1));
  EXPECT_EQ(pixels[1], 0);
  volume.mask(4, 0, 60, std::span(mask = std::vector<uint8_t>(60 * 60)));
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1), 4 * pixels[0]);
}

TEST_F(SliceSamplesTest, RefuseGridsThatDiffer) {
  const auto other = nifti_bytes<uint8_t>(NiftiType::uint8, {24, 23, 30}, std::vector<uint8_t>(24 * 23 * 30, 5));
  put_file(config_.slices.labels[0], other);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("image.nii"), HasSubstr("labels.nii"), HasSubstr("24 x 24 x 30"),
                               HasSubstr("24 x 23 x 30")));
  const auto right = nifti_bytes<uint8_t>(NiftiType::uint8, {24, 24, 30}, std::vector<uint8_t>(24 * 24 * 30, 5));
  put_file(config_.slices.labels[0], with_field(right, 84, 2.0f));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1, 1, 1 mm"), HasSubstr("1, 2, 1 mm")));
}

/// Returns the file with a qform (code 1) whose x axis runs to the right, or from 23 mm to the left.
std::string with_qform(std::string bytes, bool to_left) {
  bytes = with_field(bytes, 252, int16_t{1});
  if (!to_left) return bytes;
  // Half a turn about y turns x and z; qfac turns z back.
  return with_field(with_field(with_field(bytes, 76, -1.0f), 260, 1.0f), 268, 23.0f);
}

// Labels that are mirrored by their qform alone are on another grid, and so are labels without any position.
TEST_F(SliceSamplesTest, RefuseLabelsThatLieElsewhere) {
  const std::string image = get_file(config_.files[0]), labels = get_file(config_.slices.labels[0]);
  const auto put = [&](const std::string& one, const std::string& other) {
    put_file(config_.files[0], one);
    put_file(config_.slices.labels[0], other);
  };
  put(with_qform(image, false), with_qform(labels, true));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("image.nii and its labels"), HasSubstr("23 mm apart"), HasSubstr("(qform)"),
                               HasSubstr("resample the labels to the grid of the image")));
  put(with_qform(image, true), with_qform(labels, true));
  EXPECT_GT(open()->samples(Split::train), 0);
  put(with_qform(image, false), labels);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("qform against neither sform nor qform"),
                               HasSubstr("save the labels with the affine of the image")));
  put(image, with_qform(labels, true));
  EXPECT_THAT(refusal(), HasSubstr("save the image with the affine of the labels"));
  // An sform that says the same as the other's qform.
  std::string sform = with_field(image, 254, int16_t{1});
  for (const size_t at : {280, 300, 320}) sform = with_field(sform, at, 1.0f);
  put(sform, with_qform(labels, false));
  EXPECT_GT(open()->samples(Split::train), 0);
  put(sform, with_qform(labels, true));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("(sform)"), HasSubstr("(qform)")));
}

TEST_F(SliceSamplesTest, SayThatAxesOfTwoVolumesRunElsewhere) {
  const std::string image = get_file(config_.files[0]), labels = get_file(config_.slices.labels[0]);
  const auto add = [&](const char* name, bool to_left) {
    config_.files.push_back(put_file(folder_ / (std::string(name) + ".nii"), with_qform(image, to_left)));
    config_.slices.labels.push_back(
        put_file(folder_ / (std::string(name) + "_labels.nii"), with_qform(labels, to_left)));
  };
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  add("right", false);
  add("right_too", false);
  open();  // the first volume has no position
  EXPECT_THAT(notes.lines(), IsEmpty());
  add("left", true);
  open();
  ASSERT_THAT(notes.lines(), SizeIs(1));
  EXPECT_THAT(notes.lines()[0],
              AllOf(HasSubstr("left.nii: its voxel axes run to LAS, those of"), HasSubstr("right.nii to RAS")));
}

TEST_F(SliceSamplesTest, RefuseMoreStructuresThan16BitsTellApart) {
  std::unordered_map<int64_t, int64_t> structures;
  for (int64_t i = 0; i < 65535; ++i) structures.emplace(i, i);
  const auto open_volume = [&] { LabeledVolume(config_.files[0], config_.slices.labels[0], structures, 0); };
  EXPECT_THAT(user_error_of(open_volume), AllOf(HasSubstr("data.structures takes 65535"), HasSubstr("at most 65534")));
  structures.erase(65534);
  EXPECT_NO_THROW(open_volume());
}

TEST_F(SliceSamplesTest, RefuseLabelsThatAreNoWholeNumbers) {
  put_file(config_.slices.labels[0],
           nifti_bytes<float>(NiftiType::float32, {24, 24, 30}, std::vector<float>(24 * 24 * 30, 5)));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("labels.nii"), HasSubstr("float32 voxels; labels are whole numbers")));
  const auto scaled = nifti_bytes<uint8_t>(NiftiType::uint8, {24, 24, 30}, std::vector<uint8_t>(24 * 24 * 30, 5));
  put_file(config_.slices.labels[0], with_field(scaled, 112, 0.5f));
  EXPECT_THAT(refusal(), HasSubstr("scales its numbers"));
}

// The boxes have 6 x 9 pixels in the last five slices, and fewer before.
TEST_F(SliceSamplesTest, MinPixelsIsTheSmallestMaskOfASample) {
  config_.validation_fraction = 0;
  config_.slices.min_pixels = 54;
  EXPECT_EQ(open()->samples(Split::train), 2 * 5);
  config_.slices.min_pixels = 55;
  EXPECT_THAT(refusal(), HasSubstr("lower data.min_pixels"));
}

TEST_F(SliceSamplesTest, RefuseWhatLeavesNothing) {
  config_.slices.min_pixels = 1000;
  EXPECT_THAT(refusal(), HasSubstr("lower data.min_pixels"));
  config_.slices.min_pixels = 4;
  config_.slices.validation_gap = 30;
  EXPECT_THAT(refusal(), HasSubstr("leave none to train on"));
  config_.slices.validation_gap = 1;
  config_.slices.prompt = "Please, if it is not too much to ask, segment the {}.";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model.prompt_length is 48"), HasSubstr("'left box'")));
  put_file(config_.files[0], nifti_bytes<float>(NiftiType::float32, {24, 24, 30}, std::vector<float>(24 * 24 * 30, 3)));
  config_.slices.prompt = "{}";
  EXPECT_THAT(refusal(), HasSubstr("all voxels have the same value"));
}

TEST_F(SliceSamplesTest, SkipsBadFilesWhereAskedTo) {
  config_.files.push_back(put_file(folder_ / "bad.nii", "nothing"));
  config_.slices.labels.push_back(config_.slices.labels[0]);
  EXPECT_THAT(refusal(), HasSubstr("bad.nii"));
  config_.skip_bad = true;
  const auto source = open();
  ASSERT_THAT(source->skipped(), SizeIs(1));
  EXPECT_THAT(source->skipped()[0], HasSubstr("bad.nii"));
  EXPECT_EQ(source->samples(Split::train), 36);
  config_.files = {config_.files[1]};
  config_.slices.labels.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("none of data.files can be read"));
}

}  // namespace
}  // namespace plimsoll
