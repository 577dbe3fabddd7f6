// Declares attention on packed queries, keys and values, as one linear layer computes them. They are rotated in place,
// and their gradients are written into one packed tensor, so that neither has a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/attention/attention.h"
#include "ops/layers/rope.h"

namespace plimsoll::ops {

/// The heads of a packed tensor [B, T, (queries + 2 keys) width]: those of the queries, then of the keys, then of the
/// values.
struct PackedHeads {
  int64_t queries, keys, width;

  int64_t total() const { return queries + 2 * keys; }
};

/// Computes attention() of the queries, keys and values in `qkv`. With `frequencies`, queries and keys are rotated
/// first (rope()), from position 0 on. Returns [B, T, queries * width].
///
///     qkv        q rotated | k rotated | v       written over the unrotated ones, kept for backward
///     gradient   dq        | dk        | dv      one tensor; dq and dk are rotated back in it
///
/// `qkv` must have no other reader, because it is overwritten: a result of a linear layer has none. Under autocast it
/// is cast to the lower precision. Operators plimsoll::rope_, plimsoll::attention and plimsoll::attention_backward.out.
/// Throws UserError if shapes, dtypes or window do not agree, and if a second derivative is wanted.
at::Tensor packed_attention(const at::Tensor& qkv, const PackedHeads& heads, const AttentionOptions& options,
                            const std::optional<RopeFrequencies>& frequencies = {});

}  // namespace plimsoll::ops
