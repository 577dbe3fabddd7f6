// Batches of text windows, for a Loader.
#pragma once

#include <cstdint>

#include "data/batch.h"
#include "data/sampler.h"
#include "data/text/text_dataset.h"

namespace plimsoll {

/// Samples [first_sample, first_sample + samples) of `order`, whose count is data.windows(split), as two fields of
/// int64 [samples, sequence_length]: "tokens" and "targets", the token that follows each.
Batch make_text_batch(const TextDataset& data, const WindowOrder& order, Split split, int64_t first_sample,
                      int64_t samples);

}  // namespace plimsoll
