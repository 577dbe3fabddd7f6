// `data.type: slices`: a slice of a volume, a structure's name, its mask.
#pragma once

#include <functional>
#include <memory>

#include "data/sample_source.h"
#include "data/tokenizers/tokenizer.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// What the model's inputs are.
struct SliceShape {
  int64_t image_size = 64;
  int64_t channels = 1;
  int64_t prompt_length = 32;
};

/// Samples of n x n pixels, c channels and L tokens: "image" float32 [B, n, n, c], "tokens", "targets" int64 [B, L],
/// "read_at" float32 [B, L], "mask" uint8 [B, n, n]. Every pair of a slice and a structure of which it shows at least
/// config.slices.min_pixels is one; which are held out, split_slices (data/slices/slice_split.h) says for each volume,
/// of the slices between the first and the last that show any.
///
/// Tokens are the prompt, the answer and the end of text, which fills the rest; targets are the tokens that follow,
/// from the prompt's last one to the end of text, and -100 elsewhere; read_at is their mean up to the
/// end of text.
///
/// Samples trained on are moved, turned, scaled, brightened and darkened as config.slices.augment says, by `seed`, the
/// epoch and the sample's number. Split::validation is the part that config.evaluate_on names.
///
/// Volumes are read at once and held in memory. `progress` hears how far it is and may throw. Throws UserError for
/// files that cannot be read, names that are not there, a prompt that is too long, and where nothing is left to train
/// on.
std::unique_ptr<SampleSource> slice_samples(const DataConfig& config, const SliceShape& shape,
                                            const Tokenizer& tokenizer,
                                            const std::function<void(double fraction)>& progress, uint64_t seed = 0);

}  // namespace plimsoll
