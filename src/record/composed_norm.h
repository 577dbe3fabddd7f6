// Declares what a recording knows of RMS norms that a model composes: norms of libtorch, and products of a weight and a
// tensor divided by the root of its mean square.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plimsoll/trace.h"
#include "record/autograd_path.h"

namespace plimsoll {

/// The RMS norms of a recording that are recorded as plimsoll::rms_norm, which keeps its operand and one number a row.
/// The ops before the last product are recorded too. If no other op reads their results, the planner removes them
/// (remove_dead_ops).
class ComposedNorms {
 public:
  /// States whether norms are replaced from now on; false at first. After keep_all() none is.
  void replace(bool replaces) { replaces_ = replaces; }
  void keep_all() { keeps_all_ = true; }
  bool replaces() const { return replaces_ && !keeps_all_; }
  /// Returns whether a norm has been replaced.
  bool has_replaced() const { return replaced_ > 0; }

  /// Forgets the ops of the segment before.
  void begin_segment() { operands_.clear(); }
  /// Notes the operand of a call that squares a tensor or casts one to a wider type, if `op` is one.
  void note(const Op& op, const std::vector<c10::IValue>& arguments);

  /// Returns x / sqrt(mean(x^2) + eps) * weight by plimsoll::rms_norm, if the ops recorded last computed `normalized`
  /// as x / sqrt(mean(x^2) + eps), but for casts. Empty if they did not, or if a hook sees a gradient between them.
  std::optional<at::Tensor> scaled(const Trace& trace, const at::Tensor& normalized, const at::Tensor& weight);
  /// Returns the same for an operand that is known; nullopt if the operator cannot compute it.
  std::optional<at::Tensor> norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result);

  /// Returns whether a hook was put on a gradient that the replaced norms do not compute.
  bool is_watched() const;

 private:
  bool replaces_ = false, keeps_all_ = false;
  int64_t replaced_ = 0;
  std::unordered_map<BufferId, at::Tensor> operands_;  // by the buffer of the call's result
  std::vector<NodePointer> passed_over_;               // nodes of the autograd graph between operand and product
};

}  // namespace plimsoll
