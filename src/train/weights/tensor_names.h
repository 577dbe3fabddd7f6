// Which tensors of a file make up which parameter of our decoder.
//
//     layers.0.attention.qkv.weight [64, 16]  <-  model.layers.0.self_attn.q_proj.weight [32, 16]
//                                                 model.layers.0.self_attn.k_proj.weight [16, 16]
//                                                 model.layers.0.self_attn.v_proj.weight [16, 16]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/decoder_config.h"

namespace plimsoll::weights {

/// A tensor of the file, which is some rows of ours.
struct Piece {
  std::string name;
  std::vector<int64_t> sizes;     ///< in the file
  bool transposed = false;        ///< the file's is [in, out], as GPT-2 has it; ours is [out, in]
  int64_t interleaved_heads = 0;  ///< so many heads whose rows (i, i + D/2) stand side by side (GGUF); 0: as ours

  int64_t rows() const { return transposed ? sizes[1] : sizes[0]; }  ///< of ours
};

/// A parameter of ours: its pieces one below the other.
struct Parameter {
  std::string name;
  std::vector<Piece> pieces;
  bool less_one = false;  ///< the file's numbers are ours less 1 (Gemma's norms)
};

/// Of a canonical configuration (decoder_fields.h), in the order of the layers. `family`: a family of families.h, or
/// "gguf" for the names that GGUF files have.
std::vector<Parameter> parameters_of(const std::string& family, const DecoderConfig& config);

/// What a family's files may leave out in front of every name, head apart: the model without its head is saved so.
std::string_view optional_prefix(const std::string& family);

/// Whether a tensor that is no piece may be there all the same: it is computed, or another one's copy.
bool is_no_parameter(const std::string& name, const DecoderConfig& config);

}  // namespace plimsoll::weights
