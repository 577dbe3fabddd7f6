// Declares checks between keys. Ranges of single values are in the table of keys.
#pragma once

#include "job/values/key_locations.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Splits "adamw_8bit" into the optimizer and its state_dtype. Throws UserError if optimizer.state_dtype is given and
/// differs.
void resolve_optimizer_name(Job& job, const KeyLocations& locations);

/// Throws UserError for keys of another type of model or data than the job's, heads that do not divide the width, a
/// rotary head of odd width, a tokenizer without its file, checkpoints without a directory, no data, or a job whose
/// bytes or tokens could not be counted in 63 bits. Runs after resolve_batch_sizes: it bounds products with the batch
/// size.
void check_keys_together(const Job& job, const KeyLocations& locations);

/// Adds a note for each given key of another optimizer than the job's: a run would ignore it.
void note_unused_optimizer_keys(Job& job, const KeyLocations& locations);

}  // namespace plimsoll::job
