// Declares the samples of `data.type: pictures`: a picture, a prompt for a structure in it, its mask.
#pragma once

#include <functional>
#include <memory>

#include "data/slices/slice_samples.h"

namespace plimsoll {

/// Returns samples with the same fields as slice_samples(). There is one sample for each of picture_tasks()
/// (data/pictures/picture_list.h) whose mask has at least config.slices.min_pixels; shape.channels is 1 or 3.
///
/// Pictures are held out whole, with all their structures: those that a list marks, and of the rest the fractions
/// config.test_fraction and config.validation_fraction. A fraction above 0 has at least one picture; a hash of the
/// names chooses them, and with_every_label() (data/stratified_split.h) others if a part then lacks a structure that
/// has room there. Notes name the structures that a part lacks. Split::validation is the part that config.evaluate_on
/// names.
///
/// All masks are read in this call to count pixels, and the pictures are validated without decoding. `progress` is
/// called meanwhile and may stop the call by throwing. Pictures are decoded when they are needed; up to 256 MiB of them
/// are cached. Throws UserError for unreadable files, pictures and masks of different sizes, a prompt that is too long,
/// and if nothing is left to train on.
std::unique_ptr<SampleSource> picture_samples(const DataConfig& config, const SliceShape& shape,
                                              const Tokenizer& tokenizer,
                                              const std::function<void(double fraction)>& progress, uint64_t seed);

}  // namespace plimsoll
