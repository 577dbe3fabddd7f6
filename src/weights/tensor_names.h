// Which tensors of a file make up which parameter of ours.
//
//     layers.0.attention.qkv.weight [64, 16]  <-  model.layers.0.self_attn.q_proj.weight [32, 16]
//                                                 model.layers.0.self_attn.k_proj.weight [16, 16]
//                                                 model.layers.0.self_attn.v_proj.weight [16, 16]
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models.h"

namespace plimsoll::weights {

/// A tensor of the file, which is some rows of ours.
struct Piece {
  std::string name;
  std::vector<int64_t> sizes;     ///< in the file
  bool transposed = false;        ///< the file's is [in, out], as GPT-2 has it; ours is [out, in]
  int64_t interleaved_heads = 0;  ///< so many heads whose rows (i, i + D/2) stand side by side (GGUF); 0: as ours

  std::vector<int64_t> here = {};  ///< the sizes that the same numbers, in the same order, have here; empty: `sizes`

  const std::vector<int64_t>& ours() const { return here.empty() ? sizes : here; }  ///< but for `transposed`
  int64_t rows() const { return transposed ? sizes[1] : ours()[0]; }                ///< of ours
};

/// A parameter of ours: its pieces one below the other.
struct Parameter {
  std::string name;
  std::vector<Piece> pieces;
  bool less_one = false;  ///< the file's numbers are ours less 1 (Gemma's norms)
};

/// All of a model, or of a part of it, that a file holds.
struct Layout {
  std::vector<Parameter> parameters;
  /// What files may leave out in front of every name: a model without its head is saved so.
  std::string_view optional_prefix = {};
  /// Whether a tensor that is no piece may be there all the same; the name as it stands, less the prefix.
  std::function<bool(std::string_view name)> left_alone;
};

/// Of a canonical configuration (decoder_fields.h), in the order of the layers. `family`: a family of families.h, or
/// "gguf" for the names that GGUF files have.
std::vector<Parameter> parameters_of(const std::string& family, const DecoderConfig& config);

/// The same with what may be in such a file beside them: what is computed, or another tensor's copy.
Layout layout_of(const std::string& family, const DecoderConfig& config);

}  // namespace plimsoll::weights
