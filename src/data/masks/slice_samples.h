// Declares samples of slices of volumes, and how slices are split into parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/tokenizer.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// The shape of the model's inputs.
struct SliceShape {
  int64_t image_size = 64;
  int64_t channels = 1;
  int64_t prompt_length = 32;
};

/// Returns samples of n x n pixels, c channels and L tokens: "image" float32 [B, n, n, c], "tokens", "targets" int64
/// [B, L], "read_at" float32 [B, L], "mask" uint8 [B, n, n]. Every pair of a slice and a structure with at least
/// config.slices.min_pixels in the slice is a sample. For each volume, spread_blocks() and cover_structures()
/// (data/masks/slice_samples.h) hold out some of the slices between the first and the last with any structure. Notes
/// name the structures and volumes that a part lacks.
///
/// Tokens are the prompt, the answer and the end of text, which fills the rest. Targets are the following tokens, from
/// the prompt's last token to the end of text, and -100 at all other positions. read_at is the mean over the tokens up
/// to the end of text.
///
/// Training samples are moved, turned, scaled, brightened and darkened as config.slices.augment says, by `seed`, the
/// epoch and the sample's number. Split::validation is the part that config.evaluate_on names.
///
/// All volumes are read in this call and held in memory. `progress` receives the progress and may throw. Throws
/// UserError for unreadable files, names that are not there, a prompt that is too long, and if nothing is left to train
/// on.
std::unique_ptr<SampleSource> slice_samples(const DataConfig& config, const SliceShape& shape,
                                            const Tokenizer& tokenizer,
                                            const std::function<void(double fraction)>& progress, uint64_t seed);

/// The tokens by which a language model is prompted for a structure's mask.
struct SlicePrompt {
  std::vector<int64_t> tokens, targets;
  std::vector<float> read_at;
};

/// Returns prompt and answer with `name` for {}, as slice_samples() describes. Throws
/// UserError if they have more than `length` tokens.
SlicePrompt make_slice_prompt(const std::string& prompt, const std::string& answer, const std::string& name,
                              int64_t length, const Tokenizer& tokenizer);

/// The division of a volume's slices into training, validation and test.
enum class SliceUse : uint8_t { train, validation, test, unused };

/// Fractions of the slices, and the sizes of blocks and gaps.
struct SliceParts {
  double validation = 0;
  double test = 0;
  int64_t block = 6;
  int64_t gap = 2;
};

/// Neighboring slices [begin, end) that are held out together.
struct SliceBlock {
  int64_t begin = 0, end = 0;
  SliceUse use = SliceUse::validation;
};

/// Returns the held-out blocks of `count` neighboring slices. Neighbors look alike, so single held-out slices would
/// measure memorization. Blocks of `block` slices are evenly spread:
///
///     count 16, block 2, gap 1, validation and test 0.125:   t t - v v - t t t t - e e - t t
///
/// There are round(share x count / block) blocks of either kind, at least one if its share is above 0. The kinds are
/// mixed as evenly as their numbers allow, validation first.
std::vector<SliceBlock> spread_blocks(int64_t count, const SliceParts& parts);

/// Returns the use of each of `count` slices. The `gap` slices on either side of each block are not used.
std::vector<SliceUse> uses_of_slices(int64_t count, const std::vector<SliceBlock>& blocks, int64_t gap);

/// A volume's slices for cover_structures().
struct SplitVolume {
  std::vector<std::vector<int32_t>> structures;  ///< structures in each slice, each once
  std::vector<SliceBlock> blocks;
};

/// Moves blocks, if evenly spread blocks leave a part without a structure: one that only held-out slices show, or that
/// no held-out slice shows. A block moves only if the parts then lack fewer structures, first those of training, and by
/// the least distance. Blocks keep their lengths and stay `gap` slices apart. Structures for which no block has a
/// better place stay as they are.
void cover_structures(std::vector<SplitVolume>& volumes, int64_t gap);

}  // namespace plimsoll
