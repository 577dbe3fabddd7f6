// Declares batches of text windows, for a Loader.
#pragma once

#include <cstdint>

#include "data/batch.h"
#include "data/sampler.h"
#include "data/text/text_dataset.h"

namespace plimsoll {

/// Returns samples [first_sample, first_sample + samples) of `order`, whose count is data.windows(split). The batch has
/// two fields of int64 [samples, sequence_length]: "tokens", and "targets", the token after each.
Batch make_text_batch(const TextDataset& data, const WindowOrder& order, Split split, int64_t first_sample,
                      int64_t samples);

}  // namespace plimsoll
