// Declares the recorded step of a decoder that runs in milliseconds.
#pragma once

#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline Trace small_trace() {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  config.norm = "layernorm";
  return record_step(decoder_step(config, 2, 16), {});
}

}  // namespace plimsoll
