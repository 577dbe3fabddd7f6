// Models that a job file can name, as steps.
#pragma once

#include "plimsoll/training.h"

namespace plimsoll {

/// A decoder-only transformer with the loss of next-token prediction. Inputs: "tokens" and "targets", int64
/// [micro_batch_size, sequence_length]; targets of -100 are ignored. `config.vocab_size` must be set.
/// Throws UserError for a configuration that does not divide.
Step decoder_step(const DecoderConfig& config, int64_t micro_batch_size, int64_t sequence_length);

}  // namespace plimsoll
