// Checks between keys. Ranges of single values are in the table of keys.
#pragma once

#include "plimsoll/job.h"
#include "train/job/places.h"

namespace plimsoll::job {

/// Throws UserError for heads that do not divide the width, a rotary head of odd width, a tokenizer without its file,
/// checkpoints without a directory, no data, or a job whose bytes or tokens could
/// not be counted in 63 bits. Runs after complete_batch_sizes: it bounds products with the batch size.
void check_keys_together(const Job& job, const Places& places);

}  // namespace plimsoll::job
