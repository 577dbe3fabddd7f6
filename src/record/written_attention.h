// Declares what a recording knows of attention that is written with matmul, softmax and matmul.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plimsoll/trace.h"
#include "record/autograd_path.h"

namespace plimsoll {

/// The matrices between q k^T and the probabilities of attention in a recording, by buffer. Known is
///
///     softmax(cap tanh(scale q k^T / cap) + mask)
///
/// and the same less the largest score, with sinks (a last column of scores, whose probabilities are left out; without
/// cap), without cap, without mask, with masked_fill() or where() as masks, with casts between floating-point
/// types, and with dropout. The matrices are recorded. If no other op reads them, the planner removes them
/// (remove_dead_ops).
class WrittenAttentions {
 public:
  /// The operands of attention whose probabilities are known.
  struct Call {
    at::Tensor q, k;                  ///< k: [..., S, D]
    double scale = 1;                 ///< factor of q k^T
    double cap = 0;                   ///< 0: none
    std::optional<at::Tensor> added;  ///< is added to the scores
    /// Booleans: scores are replaced by a number where it is `hides`.
    std::optional<at::Tensor> hidden;
    bool hides = true;
    bool finite = false;  ///< the number is no infinity, so a query that sees no key has the mean of all values
    std::optional<at::Tensor> sinks;  ///< [batch, heads, T, 1]
    double dropout = 0;
  };

  /// Forgets the matrices of the segment before.
  void begin_segment();
  /// Notes that the op recorded last computed `scores`, which is q times `keys`: [..., D, S].
  void note_scores(const Trace& trace, const at::Tensor& q, const at::Tensor& keys, const at::Tensor& scores);
  /// Notes the next op of the trace, a call with these arguments and outputs.
  void note_op(const Trace& trace, const Op& op, const std::vector<c10::IValue>& arguments,
               const std::vector<c10::IValue>& outputs);

  /// Returns the attention with these probabilities. Empty if they are others, or if their gradient flows elsewhere
  /// than to q and k, or is seen by a hook.
  std::optional<Call> find(const Trace& trace, const at::Tensor& probabilities) const;
  /// A tensor before its heads were repeated, and the nodes through which the gradient of the repeated tensor flows.
  struct Unrepeated {
    at::Tensor tensor;
    std::vector<NodePointer> path;
  };
  /// Returns a tensor [batch, heads, S, D] before each head was repeated for several query heads: [batch, fewer, S, D],
  /// with the gradient of these. Undefined if it is no such tensor.
  Unrepeated unrepeated(const Trace& trace, const at::Tensor& tensor) const;

  /// Notes that the attention of find() is recorded as plimsoll::attention. Returns false if keep() names it.
  bool replace(const at::Tensor& probabilities);
  /// Notes that the attention replaced last has no gradients at these nodes either.
  void add_path(const std::vector<NodePointer>& path);
  /// Notes that an attention is differentiated, by its number in the order of calls of replace(). If a gradient of its
  /// matrices is requested (torch.autograd.grad), the attention is one of needed_whole(). If a hook sees one, too, and
  /// InternalError is thrown.
  void begin_backward(int64_t number);
  /// States attentions, by the order of calls of replace(), that stay as they are written.
  void keep(std::set<int64_t> attentions) { kept_ = std::move(attentions); }
  /// States that all attentions stay as they are written.
  void turn_off() { is_off_ = true; }
  int64_t replaced() const { return static_cast<int64_t>(replaced_.size()); }
  /// Returns the replaced attentions whose matrices something else in the trace needs, or whose gradients a hook sees.
  std::set<int64_t> needed_whole(const Trace& trace);

 private:
  enum class Stage : uint8_t { scaled, tanh, capped, masked, sunk, probabilities, dropped };
  struct Operand {
    at::Tensor tensor;
    int64_t version = 0;
    size_t first = 0;  // the next op when the operand was noted
    bool is_unchanged(const Trace& trace) const;
  };
  static Operand operand(const Trace& trace, const at::Tensor& tensor);
  struct Cast {
    Operand source;
    std::vector<int64_t> strides;  // of the cast tensor
  };
  struct Matrix {
    Stage stage = Stage::scaled;
    Call call;
    std::vector<Operand> operands;
    std::vector<int64_t> sizes;
    bool has_sinks = false;               // the last column is that of the sinks
    bool shifted = false;                 // the largest score is subtracted
    NodePointer node;                     // of q k^T
    std::vector<NodePointer> product;     // the nodes of q k^T
    std::vector<std::string_view> steps;  // names of nodes that the steps since q k^T have, without their last digit
    std::vector<BufferId> buffers;
    BufferId dropped = kNoBuffer;  // the result of dropout
  };
  struct Replaced {
    std::vector<BufferId> buffers;  // none: kept
    std::vector<NodePointer> path;
    BufferId dropped = kNoBuffer;
  };
  static bool is_whole(const Matrix& matrix, const at::Tensor& tensor);
  static bool is_without_sinks(const Matrix& matrix, const at::Tensor& tensor);
  static bool is_mask(const Matrix& matrix, const at::Tensor& source, const at::Tensor& mask);
  const Matrix* matrix_of(const c10::IValue& value) const;
  std::optional<Matrix> without_sinks(const c10::IValue& value) const;
  std::optional<Matrix> with_sinks(const Trace& trace, const std::vector<c10::IValue>& arguments) const;
  bool is_largest_of(const c10::IValue& value, const c10::IValue& matrix) const;
  std::optional<Matrix> next_of(const Trace& trace, std::string_view name,
                                const std::vector<c10::IValue>& arguments) const;
  std::optional<Matrix> next_of_one(const Trace& trace, std::string_view op,
                                    const std::vector<c10::IValue>& arguments) const;
  std::optional<Matrix> shifted_by(const Trace& trace, const std::vector<c10::IValue>& arguments) const;
  std::optional<Matrix> next_of_two(const Trace& trace, std::string_view op,
                                    const std::vector<c10::IValue>& arguments) const;
  static bool multiply(Matrix& matrix, double factor);
  static bool add(const Trace& trace, Matrix& matrix, const at::Tensor& source, const c10::IValue& mask);
  static bool hide(const Trace& trace, Matrix& matrix, const at::Tensor& source, const c10::IValue& mask, bool hides,
                   std::optional<double> value);
  static std::vector<NodePointer> path_of(const Matrix& matrix, const at::Tensor& probabilities);
  void note_repetition(const Trace& trace, const std::vector<c10::IValue>& copy);
  Unrepeated uncast(const Trace& trace, const at::Tensor& tensor, const Cast& cast) const;
  void note_hooks();

  std::unordered_map<BufferId, Matrix> matrices_;
  std::unordered_map<BufferId, BufferId> largest_;  // of each row of a matrix: its buffer
  std::unordered_map<BufferId, Operand> repeated_;  // contiguous copies of tensors expanded along a new dimension
  std::unordered_map<BufferId, Cast> cast_;         // copies of these in another type
  std::unordered_set<size_t> ops_;                  // that make the matrices from each other
  std::vector<Replaced> replaced_;
  std::set<int64_t> kept_, watched_;
  bool is_off_ = false;
};

}  // namespace plimsoll
