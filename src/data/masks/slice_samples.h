// Declares the samples of `data.type: slices`: a slice of a volume, a structure's name, its mask; and the tokens by
// which a language model is prompted for a structure's mask.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/sample_source.h"
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
/// (data/masks/slice_split.h) hold out some of the slices between the first and the last with any structure. Notes
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

}  // namespace plimsoll
