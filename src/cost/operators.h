// Declares the table of operators: one row for each operator of Plimsoll, and for the operators of libtorch that the
// planner knows by name. Recording, planning and fusion read from it what they know about an operator. Scratch is in a
// table of its own (ops/workspace/scratch_row.h), because it depends on how kernels of a device cut their work.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Kind of an exchange between ranks (collectives/exchange_support.h).
enum class ExchangeOp : uint8_t { none, reduce_scatter, all_reduce, all_gather, gather, broadcast };

/// The facts about an operator that hold on every device.
struct OperatorRow {
  std::string_view name;                 ///< without an overload: "plimsoll::swiglu"
  OpKind kind = OpKind::streaming;       ///< kind for the cost model; calls that draw random numbers may be `random`
  double (*flops)(const Op&) = nullptr;  ///< arithmetic of a call; nullptr: an operation for each element of the
                                         ///< largest operand
  std::string_view gradient = {};        ///< operator that its backward calls; empty: it has no backward of its own
  std::string_view after_sum = {};       ///< operator that computes a sum and then this one of the sum; empty: none
  std::string_view before_sum = {};  ///< operator that computes this one and then a sum with its result; empty: none
  std::string_view fused_name = {};  ///< name of the op in plans if passes/fuse_norms makes it
  bool in_place = false;             ///< it reads what it writes; updates do without this mark
  ExchangeOp exchange = ExchangeOp::none;
  int converted_argument = -1;  ///< argument that the kernel converts while it reads it, so that a cast of the argument
                                ///< can be dropped; -1: none
};

/// Returns the row of an op's operator by the op's name: "aten::mm.out" has that of aten::mm, "plimsoll::adamw_group_"
/// that of plimsoll::adamw_, and "fused: add, rms_norm" that of plimsoll::add_rms_norm. nullptr: the table has none.
const OperatorRow* operator_row(std::string_view name);

/// Returns all rows.
std::span<const OperatorRow> operator_rows();

inline ExchangeOp exchange_op_of(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  return row ? row->exchange : ExchangeOp::none;
}
inline bool is_exchange(const Op& op) {
  return exchange_op_of(op) != ExchangeOp::none;
}

/// Returns the kind of an op's operator. Views and other ops that move no data are `streaming`.
OpKind kind_of(const Op& op);

/// Returns the arithmetic operations of `op` by the formula of its operator; a multiply-add counts as two. Operators
/// without a formula count one operation for each element of the largest operand.
double flops_of(const Op& op);

/// The sizes of a matmul: `batch` times [rows, depth] x [depth, columns].
struct Matmul {
  double batch, rows, depth, columns;
};
/// Returns the matmul that the op computes; nullopt if it is none, or if it computes several of different sizes.
std::optional<Matmul> matmul_of(const Op& op);

/// Returns the bytes of scores that an attention with `flops` reads and writes if its matmuls are kernels of their own.
/// Matmuls write float32 scores, the softmax reads them and writes probabilities in the operands' type, and matmuls
/// read these. The backward pass also has the gradients of both.
double score_bytes_of(const Op& op);

/// Returns the bytes read and written: elements times element size, not strides. Each operand counts once; operands
/// that one of Plimsoll's operators changes in place count twice.
int64_t bytes_moved_by(const Op& op);

}  // namespace plimsoll
