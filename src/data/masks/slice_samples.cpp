#include "data/masks/slice_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "data/masks/label_names.h"
#include "data/masks/labeled_volume.h"
#include "data/masks/mask_source.h"
#include "data/parts.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct SliceSample {
  int32_t volume, slice, structure;
};

class SliceSamples final : public MaskSource<SliceSample> {
 public:
  SliceSamples(const DataConfig& config, const SliceShape& shape, const Tokenizer& tokenizer,
               const std::function<void(double)>& progress, uint64_t seed)
      : MaskSource(shape, config.slices.augment, seed, 0x736c6963u) {
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

  std::string name_of(Split split, int64_t index) const override {
    const SliceSample& sample = of(split)[static_cast<size_t>(index)];
    return fmt::format("slice {} of {}", sample.slice, volume_names_[static_cast<size_t>(sample.volume)]);
  }

 private:
  void put(const SliceSample& sample, const SliceView* view, std::span<float> image,
           std::span<uint8_t> mask) const override {
    const LabeledVolume& volume = volumes_[static_cast<size_t>(sample.volume)];
    if (view != nullptr) {
      volume.image(sample.slice, shape_.channels, shape_.image_size, *view, image);
      volume.mask(sample.slice, sample.structure, shape_.image_size, *view, mask);
    } else {
      volume.image(sample.slice, shape_.channels, shape_.image_size, image);
      volume.mask(sample.slice, sample.structure, shape_.image_size, mask);
    }
  }
  const SlicePrompt& prompt_of(const SliceSample& sample) const override {
    return prompts_[static_cast<size_t>(sample.structure)];
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

  std::vector<std::string> names_;  // one for each structure, as prompts_
  std::vector<LabeledVolume> volumes_;
  std::vector<std::string> volume_names_;
  std::string first_oriented_, first_orientation_;  // of the first volume with a position
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

namespace {

constexpr size_t kUses = 4;                                       // of SliceUse
constexpr size_t kSampled = kUses - 1;                            // all but unused
using StructureCounts = std::vector<std::array<int64_t, kUses>>;  // slices of each structure in each use

/// Structures that parts lack: those that no training slice shows, then those of all parts.
using Lacking = std::pair<int64_t, int64_t>;

void count(const SplitVolume& volume, int64_t gap, int64_t sign, StructureCounts& counts) {
  const std::vector<SliceUse> uses = uses_of_slices(std::ssize(volume.structures), volume.blocks, gap);
  for (size_t slice = 0; slice < uses.size(); ++slice)
    for (const int32_t structure : volume.structures[slice])
      counts[static_cast<size_t>(structure)][static_cast<size_t>(uses[slice])] += sign;
}

Lacking lacking(const StructureCounts& counts, const std::array<bool, kUses>& used) {
  Lacking result;
  for (const auto& structure : counts) {
    if (std::ranges::count(structure, 0) == kUses) continue;
    result.first += structure[static_cast<size_t>(SliceUse::train)] == 0;
    for (size_t use = 0; use < kSampled; ++use) result.second += used[use] && structure[use] == 0;
  }
  return result;
}

/// Returns true if a block of `volume` may begin at `begin`.
bool is_free(const SplitVolume& volume, size_t block, int64_t begin, int64_t gap) {
  const int64_t end = begin + volume.blocks[block].end - volume.blocks[block].begin;
  for (size_t other = 0; other < volume.blocks.size(); ++other)
    if (other != block && begin < volume.blocks[other].end + gap && volume.blocks[other].begin < end + gap)
      return false;
  return true;
}

/// Returns true if the volume shows a structure that a part lacks.
bool shows_lacking(const SplitVolume& volume, const StructureCounts& counts, const std::array<bool, kUses>& used) {
  return std::ranges::any_of(volume.structures, [&](const std::vector<int32_t>& slice) {
    return std::ranges::any_of(slice, [&](int32_t structure) {
      for (size_t use = 0; use < kSampled; ++use)
        if (used[use] && counts[static_cast<size_t>(structure)][use] == 0) return true;
      return false;
    });
  });
}

}  // namespace

std::vector<SliceBlock> spread_blocks(int64_t count, const SliceParts& parts) {
  const auto slices = static_cast<double>(count);
  const auto blocks_of = [&](double share) {
    if (share <= 0 || count == 0) return int64_t{0};
    return std::max<int64_t>(1, std::llround(share * slices / static_cast<double>(parts.block)));
  };
  const int64_t tests = blocks_of(parts.test), blocks = blocks_of(parts.validation) + tests;
  std::vector<SliceBlock> spread;
  for (int64_t i = 0; i < blocks; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * slices / static_cast<double>(blocks);
    const int64_t begin =
        std::clamp<int64_t>(static_cast<int64_t>(std::floor(middle - static_cast<double>(parts.block) / 2)), 0,
                            std::max<int64_t>(0, count - parts.block));
    // The first i blocks have as many test blocks as the test share, rounded down.
    const bool test = (i + 1) * tests / blocks > i * tests / blocks;
    spread.push_back({begin, std::min(count, begin + parts.block), test ? SliceUse::test : SliceUse::validation});
  }
  return spread;
}

std::vector<SliceUse> uses_of_slices(int64_t count, const std::vector<SliceBlock>& blocks, int64_t gap) {
  std::vector<SliceUse> uses(static_cast<size_t>(count), SliceUse::train);
  for (const SliceBlock& block : blocks)
    for (int64_t at = std::max<int64_t>(0, block.begin - gap); at < std::min(count, block.end + gap); ++at)
      uses[static_cast<size_t>(at)] = SliceUse::unused;
  for (const SliceBlock& block : blocks)
    for (int64_t at = block.begin; at < block.end; ++at) uses[static_cast<size_t>(at)] = block.use;
  return uses;
}

void cover_structures(std::vector<SplitVolume>& volumes, int64_t gap) {
  StructureCounts counts;
  std::array<bool, kUses> used = {true};
  for (const SplitVolume& volume : volumes) {
    for (const SliceBlock& block : volume.blocks) used[static_cast<size_t>(block.use)] = true;
    for (const std::vector<int32_t>& slice : volume.structures)
      for (const int32_t structure : slice) counts.resize(std::max(counts.size(), static_cast<size_t>(structure) + 1));
  }
  for (const SplitVolume& volume : volumes) count(volume, gap, 1, counts);
  Lacking least = lacking(counts, used);
  for (bool moved = true; moved && least != Lacking{};) {
    moved = false;
    for (SplitVolume& volume : volumes) {
      if (!shows_lacking(volume, counts, used)) continue;
      for (size_t b = 0; b < volume.blocks.size(); ++b) {
        const SliceBlock before = volume.blocks[b];
        SliceBlock best = before;
        count(volume, gap, -1, counts);
        for (int64_t begin = 0; begin + before.end - before.begin <= std::ssize(volume.structures); ++begin) {
          if (!is_free(volume, b, begin, gap)) continue;
          volume.blocks[b] = {begin, begin + before.end - before.begin, before.use};
          count(volume, gap, 1, counts);
          const Lacking now = lacking(counts, used);
          count(volume, gap, -1, counts);
          const bool nearer = std::abs(begin - before.begin) < std::abs(best.begin - before.begin);
          if (now < least || (now == least && best.begin != before.begin && nearer)) {
            least = now;
            best = volume.blocks[b];
          }
        }
        volume.blocks[b] = best;
        count(volume, gap, 1, counts);
        moved |= best.begin != before.begin;
      }
    }
  }
}

}  // namespace plimsoll
