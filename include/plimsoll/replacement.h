// Declares replacements: operators of libtorch that are recorded as operators of Plimsoll with the same mathematics.
#pragma once

namespace plimsoll {

/// The replacements of a recording. With one off, the operators are recorded as libtorch composes them, and have the
/// bits that they have without Plimsoll.
struct Replacements {
  /// aten::scaled_dot_product_attention is recorded as plimsoll::attention, which stores no attention matrix. Calls
  /// that plimsoll::attention does not cover are recorded as composed: masks that get a gradient, values of another
  /// width than keys, and on other devices than the CPU all masks that are tensors, and dropout.
  bool attention = true;
  /// A linear layer without bias and the mean or the sum of the cross entropy of its result are recorded as
  /// plimsoll::linear_cross_entropy, which never holds all logits. Not replaced: layers whose result has less than 4
  /// MiB in float32 or is read elsewhere, weights of classes, label smoothing, a loss for each token.
  bool cross_entropy = true;
};

}  // namespace plimsoll
