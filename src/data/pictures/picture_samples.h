// `data.type: pictures`: a picture, what is asked for in it, its mask.
#pragma once

#include <functional>
#include <memory>

#include "data/slices/slice_samples.h"

namespace plimsoll {

/// Samples of the same fields as slice_samples() has them, one for each of picture_tasks()
/// (data/pictures/picture_list.h) whose mask shows at least config.slices.min_pixels; shape.channels is 1 or 3.
///
/// Pictures are held out whole, with all that is asked for in them: those that a list says, and of all others the
/// shares config.test_fraction and config.validation_fraction, at least one where a share is above 0, chosen by a hash
/// of their names. Split::validation is the part that config.evaluate_on names.
///
/// Masks are read at once to count pixels, and pictures looked through, which `progress` hears of and may stop by
/// throwing. They are decoded as they are needed; up to 256 MiB of them are kept. Baselines of "dice", over at most 256
/// samples trained on of each structure: its mean mask, and all that is brighter (or darker) than the best threshold.
/// Throws UserError for files that cannot be read, pictures and masks of different sizes, a prompt that is too long,
/// and where nothing is left to train on.
std::unique_ptr<SampleSource> picture_samples(const DataConfig& config, const SliceShape& shape,
                                              const Tokenizer& tokenizer,
                                              const std::function<void(double fraction)>& progress, uint64_t seed = 0);

}  // namespace plimsoll
