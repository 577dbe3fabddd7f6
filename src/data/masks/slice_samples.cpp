#include "data/masks/slice_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/hash.h"
#include "base/text.h"
#include "data/batch.h"
#include "data/masks/label_names.h"
#include "data/masks/labeled_volume.h"
#include "data/masks/slice_split.h"
#include "data/parts.h"
#include "files/data_memory.h"
#include "files/file_facts.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct SliceSample {
  int32_t volume, slice, structure;
};

class SliceSamples final : public SampleSource {
 public:
  SliceSamples(const DataConfig& config, const SliceShape& shape, const Tokenizer& tokenizer,
               const std::function<void(double)>& progress, uint64_t seed)
      : shape_(shape), augment_(config.slices.augment), seed_(seed) {
    const SlicesConfig& slices = config.slices;
    const std::vector<LabelName> names =
        matching(read_label_names(slices.label_names), slices.structures, slices.label_names);
    std::unordered_map<int64_t, int64_t> structures;
    for (const LabelName& label : names) {
      structures.emplace(label.number, std::ssize(prompts_));
      names_.push_back(label.name);
      prompts_.push_back(make_slice_prompt(slices.prompt, slices.answer, label.name, shape.prompt_length, tokenizer));
    }
    read_volumes(config, structures, progress);
    find_samples(config);
  }

  int64_t samples(Split split) const override { return std::ssize(split == Split::train ? train_ : held_out_); }

  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    const int64_t size = shape_.image_size, length = shape_.prompt_length;
    Batch batch{first, count, {}};
    batch.fields.push_back(field_of<float>("image", DType::float32, {count, size, size, shape_.channels}));
    batch.fields.push_back(field_of<int64_t>("tokens", DType::int64, {count, length}));
    batch.fields.push_back(field_of<int64_t>("targets", DType::int64, {count, length}));
    batch.fields.push_back(field_of<float>("read_at", DType::float32, {count, length}));
    batch.fields.push_back(field_of<uint8_t>("mask", DType::uint8, {count, size, size}));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = order.index(first + i);
      const SliceSample& sample = (split == Split::train ? train_ : held_out_)[static_cast<size_t>(index)];
      const LabeledVolume& volume = volumes_[static_cast<size_t>(sample.volume)];
      const SlicePrompt& prompt = prompts_[static_cast<size_t>(sample.structure)];
      const auto image = row_of<float>(batch.fields[0], i);
      const auto mask = row_of<uint8_t>(batch.fields[4], i);
      if (split == Split::train && augment_ > 0) {
        const Augmentation drawn = draw(order.epoch(first + i), index);
        volume.image(sample.slice, shape_.channels, size, drawn.view, image);
        volume.mask(sample.slice, sample.structure, size, drawn.view, mask);
        for (float& value : image) value = value * drawn.contrast + drawn.brightness;
      } else {
        volume.image(sample.slice, shape_.channels, size, image);
        volume.mask(sample.slice, sample.structure, size, mask);
      }
      std::ranges::copy(prompt.tokens, row_of<int64_t>(batch.fields[1], i).begin());
      std::ranges::copy(prompt.targets, row_of<int64_t>(batch.fields[2], i).begin());
      std::ranges::copy(prompt.read_at, row_of<float>(batch.fields[3], i).begin());
    }
    return batch;
  }

  std::string name_of(Split split, int64_t index) const override {
    const SliceSample& sample = (split == Split::train ? train_ : held_out_)[static_cast<size_t>(index)];
    return fmt::format("slice {} of {}", sample.slice, volume_names_[static_cast<size_t>(sample.volume)]);
  }
  std::vector<std::string> skipped() const override { return skipped_; }
  std::string never_trained() const override { return never_trained_; }

 private:
  struct Augmentation {
    SliceView view;
    float contrast, brightness;
  };

  Augmentation draw(int64_t epoch, int64_t index) const {
    SplitMix64 stream(
        mix64(mix64(mix64(seed_ + 0x736c6963u) ^ static_cast<uint64_t>(epoch)) + static_cast<uint64_t>(index)));
    const auto within = [&](double most) {  // evenly from -most to most
      return (static_cast<double>(stream.next() >> 11) * 0x1p-52 - 1) * most;
    };
    const double a = augment_;
    return {{.across = within(a), .down = within(a), .turn = within(a), .scale = 1 + within(a)},
            static_cast<float>(1 + within(a)),
            static_cast<float>(within(a))};
  }

  void read_volumes(const DataConfig& config, const std::unordered_map<int64_t, int64_t>& structures,
                    const std::function<void(double)>& progress) {
    const size_t count = config.files.size();
    check(config.slices.labels.size() == count, "each image has labels");
    for (size_t i = 0; i < count; ++i) {
      if (progress) progress(static_cast<double>(i) / static_cast<double>(count));
      try {
        volumes_.emplace_back(config.files[i], config.slices.labels[i], structures, config.slices.axis.front() - 'x');
        volume_names_.push_back(config.files[i].filename().string());
        keep_data_memory(static_cast<double>(volumes_.back().bytes()));
        note_orientation(config.files[i]);
      } catch (const UserError& error) {
        if (!config.skip_bad) throw;
        skipped_.emplace_back(error.what());
      }
    }
    if (volumes_.empty())
      throw UserError(fmt::format("none of data.files can be read; the first: {}", skipped_.front()),
                      UserError::Kind::failure);
  }

  /// Slices are not reoriented, so left and right of two volumes can be exchanged.
  void note_orientation(const std::filesystem::path& file) {
    const std::string orientation = volumes_.back().orientation();
    if (orientation.empty()) return;
    if (first_oriented_.empty()) {
      first_oriented_ = file.string();
      first_orientation_ = orientation;
    } else if (orientation != first_orientation_) {
      note_data(file, fmt::format("its voxel axes run to {}, those of {} to {}; slices keep the axes of their file; "
                                  "reorient the files (nibabel: as_closest_canonical) if sides matter",
                                  orientation, first_oriented_, first_orientation_));
    }
  }

  void find_samples(const DataConfig& config) {
    const SlicesConfig& slices = config.slices;
    std::vector<std::vector<SliceSample>> found(volumes_.size());
    std::vector<SplitVolume> split(volumes_.size());  // slices between the first and the last with a structure
    for (size_t v = 0; v < volumes_.size(); ++v) {
      for (int64_t slice = 0; slice < volumes_[v].slices(); ++slice) {
        const auto pixels = volumes_[v].pixels_of_each(slice, std::ssize(prompts_), shape_.image_size);
        for (size_t s = 0; s < pixels.size(); ++s)
          if (pixels[s] >= slices.min_pixels)
            found[v].push_back({static_cast<int32_t>(v), static_cast<int32_t>(slice), static_cast<int32_t>(s)});
      }
      if (found[v].empty()) continue;
      const int32_t first = found[v].front().slice;
      split[v].structures.resize(static_cast<size_t>(found[v].back().slice - first + 1));
      for (const SliceSample& sample : found[v])
        split[v].structures[static_cast<size_t>(sample.slice - first)].push_back(sample.structure);
      split[v].blocks = spread_blocks(
          std::ssize(split[v].structures),
          {config.validation_fraction, config.test_fraction, slices.validation_block, slices.validation_gap});
    }
    cover_structures(split, slices.validation_gap);
    const bool test = config.evaluate_on == "test";
    const SliceUse evaluated = test ? SliceUse::test : SliceUse::validation;
    PartLabels structures({.samples = "slices", .label = "structure"}),
        volumes({.samples = "slices", .label = "volume"});
    for (size_t v = 0; v < volumes_.size(); ++v) {
      const std::vector<SliceUse> use =
          uses_of_slices(std::ssize(split[v].structures), split[v].blocks, slices.validation_gap);
      for (const SliceSample& sample : found[v]) {
        const SliceUse one = use[static_cast<size_t>(sample.slice - found[v].front().slice)];
        if (one == SliceUse::train) train_.push_back(sample);
        if (one == evaluated) held_out_.push_back(sample);
        structures.expect(sample.structure);
        volumes.expect(sample.volume);
        if (one == SliceUse::unused) continue;
        const DataPart part = one == SliceUse::train  ? DataPart::train
                              : one == SliceUse::test ? DataPart::test
                                                      : DataPart::validation;
        structures.add(part, sample.structure);
        volumes.add(part, sample.volume);
      }
    }
    note_parts(structures, names_, slices.label_names);
    note_parts(volumes, volume_names_, config.files.front());
    never_trained_ = structures.never_trained(test ? DataPart::test : DataPart::validation, names_);
    if (train_.empty() && held_out_.empty())
      throw UserError(
          fmt::format("no slice shows {} pixels of any of data.structures at model.image_size {}; lower "
                      "data.min_pixels",
                      slices.min_pixels, shape_.image_size));
    if (train_.empty())
      throw UserError(
          "held-out slices and the gaps beside them leave none to train on; lower data.validation_fraction, "
          "data.test_fraction, data.validation_block or data.validation_gap");
    // An evaluation of only the first few samples covers all volumes.
    std::ranges::sort(held_out_, {}, [](const SliceSample& sample) {
      return mix64(mix64(mix64(static_cast<uint64_t>(sample.volume)) + static_cast<uint64_t>(sample.slice)) +
                   static_cast<uint64_t>(sample.structure));
    });
  }

  SliceShape shape_;
  double augment_;
  uint64_t seed_;
  std::vector<SlicePrompt> prompts_;  // one for each structure
  std::vector<std::string> names_;    // one for each structure
  std::vector<LabeledVolume> volumes_;
  std::vector<std::string> volume_names_;
  std::string first_oriented_, first_orientation_;  // of the first volume with a position
  std::vector<SliceSample> train_, held_out_;
  std::vector<std::string> skipped_;
  std::string never_trained_;
};

}  // namespace

std::unique_ptr<SampleSource> slice_samples(const DataConfig& config, const SliceShape& shape,
                                            const Tokenizer& tokenizer, const std::function<void(double)>& progress,
                                            uint64_t seed) {
  return std::make_unique<SliceSamples>(config, shape, tokenizer, progress, seed);
}

namespace {

constexpr int64_t kIgnoredTarget = -100;

std::string with_name(std::string text, const std::string& name) {
  const size_t at = text.find("{}");
  return at == std::string::npos ? text : text.replace(at, 2, name);
}

}  // namespace

SlicePrompt make_slice_prompt(const std::string& prompt, const std::string& answer, const std::string& name,
                              int64_t length, const Tokenizer& tokenizer) {
  const std::string question = with_name(prompt, name), reply = with_name(answer, name);
  // Encoded separately, so that the answer begins with its own token.
  std::vector<int32_t> tokens = tokenizer.encode(question);
  const auto requested = std::ssize(tokens);
  const std::vector<int32_t> replied = tokenizer.encode(reply);
  tokens.insert(tokens.end(), replied.begin(), replied.end());
  const auto end = std::ssize(tokens);
  if (end + 1 > length)
    throw UserError(
        fmt::format("data.prompt and data.answer for {} have {} tokens with the end of text; "
                    "model.prompt_length is {}: raise it to that, or shorten them",
                    in_quotes(name), end + 1, length));
  SlicePrompt made;
  made.tokens.assign(static_cast<size_t>(length), tokenizer.end_of_text());
  made.targets.assign(static_cast<size_t>(length), kIgnoredTarget);
  made.read_at.assign(static_cast<size_t>(length), 0.0f);
  std::copy(tokens.begin(), tokens.end(), made.tokens.begin());
  for (int64_t i = std::max<int64_t>(0, requested - 1); i < end; ++i)
    made.targets[static_cast<size_t>(i)] = made.tokens[static_cast<size_t>(i) + 1];
  std::fill_n(made.read_at.begin(), end + 1, 1 / static_cast<float>(end + 1));
  return made;
}

}  // namespace plimsoll
