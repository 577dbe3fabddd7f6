// Declares what a recording knows of loss heads: large linear layers whose results are the logits of cross entropies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "plimsoll/trace.h"
#include "record/autograd_path.h"

namespace plimsoll {

/// Logits of fewer bytes, in float32, save nothing worth another record of their loss.
constexpr int64_t kMinLogitsBytes = 4 << 20;

/// The large linear layers of a recording, and the cross entropies that were recorded as
/// plimsoll::linear_cross_entropy of such a layer's input. The logits are recorded too. If no other op reads them, the
/// planner removes them (remove_dead_ops).
class LossHeads {
 public:
  /// Operands of plimsoll::linear_cross_entropy.
  struct Head {
    int64_t number = 0;  ///< by the order of the calls of find() with a result
    at::Tensor x;        ///< [tokens, width]
    at::Tensor weight;   ///< [classes, width]
  };

  /// Forgets the layers of the segment before.
  void begin_segment();
  /// Notes that the ops recorded last computed `result`, which is x weight^T.
  void note_linear(const Trace& trace, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& result);

  /// Returns the layer whose results are `logits`, but for views, copies and a wider type; `classes` is their dimension
  /// of classes. `log_softmax`: they are the logarithms of the softmax over that dimension. Empty if there is no such
  /// layer, if a hook sees the gradient between them, or if keep() names the head. Each such call is one head.
  std::optional<Head> find(const Trace& trace, const at::Tensor& logits, int64_t classes, bool log_softmax);

  /// States heads, by their numbers, that find() returns no more.
  void keep(std::set<int64_t> heads) { kept_ = std::move(heads); }
  /// Notes that a head's loss is differentiated. If a hook sees the gradient of the logits now, or the gradient of the
  /// logits is asked for (torch.autograd.grad), the head is one of needed_whole().
  void begin_backward(int64_t number);
  /// Returns the heads whose logits, or the gradient of them, something else in the trace needs.
  std::set<int64_t> needed_whole(const Trace& trace) const;

 private:
  struct Layer {
    at::Tensor x, weight;
    NodePointer node;
    size_t first = 0;  // the op behind it
  };
  using Path = std::vector<NodePointer>;
  struct Found {
    std::vector<BufferId> logits;  // the layer's result and its copies
    std::set<size_t> copies;       // ops that make the copies
    Path path;                     // from the loss to the layer
  };
  // Rows of a layer's result, by row of logits.
  struct Rows {
    const Layer* layer = nullptr;
    std::vector<int64_t> rows;
    Found found;
  };
  std::optional<Rows> rows_of(const Trace& trace, const at::Tensor& logits, int64_t classes, bool log_softmax) const;

  std::unordered_map<BufferId, Layer> layers_;
  std::vector<Found> found_;  // empty entries: kept
  std::set<int64_t> kept_, differentiated_whole_;
};

}  // namespace plimsoll
