// Ops whose results are computed element by element, and programs of them: what passes/fuse_pointwise makes one op of.
//
//     t = mul(x, s)              values   0 x   1 s   2 mul(0, 1)   3 add(y = 4 …)
//     u = add(t, y)      -->     inputs   x, s, y;  steps  mul(0, 1), add(3, 2);  outputs  4
//
// A value is an input, a constant or the result of a step, numbered in this order. Arithmetic is done in float32; each
// result is rounded to the type that was recorded for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/trace.h"
#include "trace/update_group.h"

namespace plimsoll {

enum class Opcode : uint8_t {
  cast,
  add,
  sub,
  mul,
  div,
  neg,
  abs,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  cube,
  clamp_min,  ///< (x, least); a NaN stays one
  clamp_max,
  threshold_backward,  ///< (gradient, x, threshold): 0 where x <= threshold
  sigmoid_backward,    ///< (gradient, sigmoid(x))
  tanh_backward,       ///< (gradient, tanh(x))
  exp,
  log,
  sigmoid,
  tanh,
  silu,
  silu_backward,  ///< (gradient, x)
  gelu,
  gelu_backward,  ///< (gradient, x)
  gelu_tanh,
  gelu_tanh_backward,
  softplus,           ///< (x, beta, threshold)
  softplus_backward,  ///< (gradient, x, beta, threshold)
};
constexpr int kOpcodes = static_cast<int>(Opcode::softplus_backward) + 1;
constexpr int kMostOperands = 4;

std::string_view name_of(Opcode opcode);
/// How many operands it has, constants included.
int operands_of(Opcode opcode);
/// libtorch computes it by series: the last elements of a piece otherwise than those before.
bool is_series(Opcode opcode);

/// An op as one opcode on whole operands.
struct PointwiseOp {
  struct Operand {
    View view;            ///< of no buffer: a constant
    double constant = 0;  ///< rounded to float32 where it is used
  };
  Opcode opcode = Opcode::cast;
  std::vector<Operand> operands;  ///< their sizes broadcast to the result's
  View result;                    ///< what it writes, in its type
};

/// What a fused op computes for each element.
struct FusedProgram {
  struct Step {
    Opcode opcode = Opcode::cast;
    DType dtype = DType::float32;                   ///< its result is rounded to this
    std::array<int32_t, kMostOperands> operands{};  ///< values; those beyond operands_of(opcode) are 0
    bool operator==(const Step&) const = default;
  };
  int32_t inputs = 0;
  std::vector<double> constants;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;  ///< values that are stored
  bool operator==(const FusedProgram&) const = default;

  int32_t first_step() const { return inputs + static_cast<int32_t>(constants.size()); }
  int32_t values() const { return first_step() + static_cast<int32_t>(steps.size()); }
  /// "mul, add, gelu"
  std::string text() const;
  /// As whole numbers: what a call carries, beside the constants.
  std::vector<int64_t> code() const;
};

/// The program that was written as `code`. Throws UserError (failure) where it is none: a value that is not there yet,
/// an unknown opcode, numbers missing or left over.
FusedProgram fused_program(const std::vector<int64_t>& code, std::vector<double> constants);

/// What the name of a fused op begins with: "fused: mul, add".
constexpr std::string_view kFusedPrefix = "fused: ";
inline bool is_fused(const Op& op) {
  return op.name.starts_with(kFusedPrefix);
}

/// Limits of a fused op: a kernel keeps its values in registers, or in a block's worth of cache.
constexpr int32_t kMostFusedInputs = 12;
constexpr int32_t kMostFusedOutputs = 6;
constexpr int32_t kMostFusedSteps = 24;
constexpr int32_t kMostFusedDimensions = 6;

/// What the device can fuse. Knows libtorch, which the planner does not.
struct Fusing {
  /// Every legal chain, whether that gains anything or not.
  bool all = false;
  /// The op as one opcode; nullopt: it is none, or the device's kernel would not give the same bits.
  std::function<std::optional<PointwiseOp>(const Op&)> translate;
  /// What replay needs of a fused op.
  std::function<std::shared_ptr<const OpCall>(const FusedProgram&)> call;
  /// Two ops, of which the second reads what the first writes, as one op that no program can say: its name, which
  /// is_fused(), arguments, results and call. nullopt: there is no such op. Empty: there is none at all.
  std::function<std::optional<Op>(const Op& first, const Op& second)> pair = nullptr;
  /// Updates of small parameters as one op; nullopt: each by itself.
  std::optional<UpdateGrouping> updates = {};
};

}  // namespace plimsoll
