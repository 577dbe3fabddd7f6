// Declares which tensors of a file make up which parameter of ours, and the comparison of a head in a file with the
// embedding that it should be.
//
//     layers.0.attention.qkv.weight [64, 16]  <-  model.layers.0.self_attn.q_proj.weight [32, 16]
//                                                 model.layers.0.self_attn.k_proj.weight [16, 16]
//                                                 model.layers.0.self_attn.v_proj.weight [16, 16]
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models.h"
#include "weights/families.h"

namespace plimsoll::weights {

/// A tensor of the file that holds some rows of our parameter.
struct Piece {
  std::string name;
  std::vector<int64_t> sizes;     ///< sizes in the file
  bool transposed = false;        ///< the file has [in, out], as in GPT-2; ours is [out, in]
  int64_t interleaved_heads = 0;  ///< number of heads with rows (i, i + D/2) adjacent in the file (GGUF); 0: as ours

  std::vector<int64_t> here = {};  ///< our sizes of the same values in the same order; empty: `sizes`

  const std::vector<int64_t>& ours() const { return here.empty() ? sizes : here; }  ///< our sizes before `transposed`
  int64_t rows() const { return transposed ? sizes[1] : ours()[0]; }                ///< rows of our parameter
};

/// A parameter of ours: its pieces are concatenated along the rows.
struct Parameter {
  std::string name;
  std::vector<Piece> pieces;
  bool less_one = false;  ///< the file stores our values minus 1 (Gemma's norms)
};

/// The tensors of a model, or of a part of it, in a file.
struct Layout {
  std::vector<Parameter> parameters;
  /// The prefix that files may omit from every name: a model is saved so without its head.
  std::string_view optional_prefix = {};
  /// Returns true for a tensor that is no piece but may be in the file; `name` is without the prefix.
  std::function<bool(std::string_view name)> is_ignored;
  /// Radians per position of the pairs of a head, of rotary positions; empty: the positions are not rotary. A
  /// `rotary_emb.inv_freq` in the file must be the same.
  std::vector<double> rotary_frequencies = {};
};

/// Returns the parameters of a canonical configuration (families.h), in the order of the layers. `family`: a
/// family of families.h, or "gguf" for the names of GGUF files.
std::vector<Parameter> parameters_of(const std::string& family, const DecoderConfig& config);

/// Returns the same parameters and the rule for other tensors of such a file: computed ones, and copies of other
/// tensors.
Layout layout_of(const std::string& family, const DecoderConfig& config);

/// Returns the name of a head in the weights at `path` that differs from the embedding, although their configuration
/// ties the two (`layout` is that of tied weights). transformers uses such a head. Returns "" if there is no such head:
/// none, or a copy of the embedding. Reads both tensors if the file has a head, and nothing but names otherwise. A file
/// that cannot be read has none; the loading of its weights says what is wrong with it.
std::string untied_head(const std::filesystem::path& path, const Layout& layout);

/// Corrects an architecture from a configuration by the weights at `path`, other programs' files. If the configuration
/// ties the head to the embedding, and the weights have another head, it is untied. Adds notes: on such a head, on
/// files of weights in the folder that are not read, and on a configuration of the weights' own that says something
/// else.
void compare_with_weights(const std::filesystem::path& path, Architecture& found);

/// Does this for a Mamba2. `notes`: nullptr if notes are not needed.
void compare_with_weights(const std::filesystem::path& path, MambaConfig& found, std::vector<std::string>* notes);

}  // namespace plimsoll::weights
