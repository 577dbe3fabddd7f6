// Declares ops that passes merge from several: programs of pointwise ops (passes/fuse_pointwise) and groups of
// optimizer updates (passes/group_updates).
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

namespace plimsoll {

// Groups of optimizer updates and of norms of gradients: several parameters by one op, which passes/group_updates
// makes.
//
//     adamw_(p, none, g, none, m, none, v, none, step, …, seed 3)
//     adamw_(q, none, h, none, n, none, w, none, step, …, seed 5)
//     --> adamw_group_([p, q], [], [g, h], [], [m, n], [], [v, w], [], step, …, seeds [3, 5])

constexpr std::string_view kGroupSuffix = "group_";

/// Returns the name of a group's operator: "plimsoll::adamw_group_" for "plimsoll::adamw_".
inline std::string group_name(std::string_view single) {
  return std::string(single) + std::string(kGroupSuffix);
}
/// The group of norms of gradients: gradient_norm_group_(norms, skipped, [g, h], indices [0, 1]).
constexpr std::string_view kNormGroup = "plimsoll::gradient_norm_group_";

inline bool is_update_group(std::string_view name) {
  return name.starts_with("plimsoll::") && name.ends_with("_group_");
}
/// Returns the operator of a member of the group: "plimsoll::adamw_" for "plimsoll::adamw_group_". Other names are
/// returned unchanged.
inline std::string_view single_name(std::string_view name) {
  return is_update_group(name) ? name.substr(0, name.size() - kGroupSuffix.size()) : name;
}

/// A description of the updates, and of the norms of gradients, that the device can run as one op. It depends on
/// libtorch; the planner does not.
struct UpdateGrouping {
  /// Returns the number of elements that the op updates, or whose norm it takes. nullopt: it is neither, its operator
  /// has no group operator, it is an update that uses scratch, or a norm of a gradient with gaps between its elements.
  std::function<std::optional<int64_t>(const Op&)> elements;
  /// Returns whether two ops may be in one group: updates of one operator with the same constants and scalars, or norms
  /// of gradients of one dtype that write to the same vector.
  std::function<bool(const Op&, const Op&)> alike;
  /// Returns the group's name, arguments and call for `ops` that are alike. The caller sets the other fields.
  std::function<Op(const std::vector<const Op*>&)> group;
  /// Returns true for norms of gradients. Each writes an element of its own and can only set the shared mark, so their
  /// order has no effect. Empty: the device groups no norms.
  std::function<bool(const Op&)> shares_results = nullptr;
};

/// An element-wise operation.
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
  clamp_min,  ///< (x, minimum); a NaN stays NaN
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
constexpr int kMaxOperands = 4;

std::string_view name_of(Opcode opcode);
/// Returns the number of operands, constants included.
int operands_of(Opcode opcode);
/// Returns whether libtorch computes `opcode` by a series. The last elements of a piece then have other bits than those
/// before.
bool is_series(Opcode opcode);

/// A pointwise op as one opcode on whole operands.
struct PointwiseOp {
  struct Operand {
    View view;            ///< view without buffer: a constant
    double constant = 0;  ///< value, rounded to float32 when it is used
  };
  Opcode opcode = Opcode::cast;
  std::vector<Operand> operands;  ///< operands, which broadcast to the result's sizes
  View result;                    ///< view that is written; its dtype is that of the result
};

/// A program of pointwise ops that a fused op runs for each element; passes/fuse_pointwise makes it.
///
///     t = mul(x, s)              values   0 x   1 s   2 mul(0, 1)   3 add(y = 4 …)
///     u = add(t, y)      -->     inputs   x, s, y;  steps  mul(0, 1), add(3, 2);  outputs  4
///
/// A value is an input, a constant or the result of a step, numbered in this order. Arithmetic is done in float32; each
/// result is rounded to its recorded dtype.
struct FusedProgram {
  struct Step {
    Opcode opcode = Opcode::cast;
    DType dtype = DType::float32;                  ///< dtype that the result is rounded to
    std::array<int32_t, kMaxOperands> operands{};  ///< values; entries beyond operands_of(opcode) are 0
    bool operator==(const Step&) const = default;
  };
  int32_t inputs = 0;
  std::vector<double> constants;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;  ///< values that are stored
  bool operator==(const FusedProgram&) const = default;

  int32_t first_step() const { return inputs + static_cast<int32_t>(constants.size()); }
  int32_t values() const { return first_step() + static_cast<int32_t>(steps.size()); }
  /// Returns the opcodes as text: "mul, add, gelu".
  std::string text() const;
  /// Returns the program as integers, without the constants: the arguments of a call.
  std::vector<int64_t> code() const;
};

/// Returns the program that `code` describes. Throws UserError (failure) for an invalid code: a value that is not
/// defined yet, an unknown opcode, missing or additional numbers.
FusedProgram fused_program(const std::vector<int64_t>& code, std::vector<double> constants);

/// Prefix of the name of a fused op: "fused: mul, add".
constexpr std::string_view kFusedPrefix = "fused: ";
inline bool is_fused(const Op& op) {
  return op.name.starts_with(kFusedPrefix);
}

/// Limits of a fused op: a kernel keeps its values in registers, or in the cache for one block of elements.
constexpr int32_t kMaxFusedInputs = 12;
constexpr int32_t kMaxFusedOutputs = 6;
constexpr int32_t kMaxFusedSteps = 24;
constexpr int32_t kMaxFusedDimensions = 6;

/// A description of the fusions that the device supports. It depends on libtorch; the planner does not.
struct FusionRules {
  /// true: fuse every legal chain, even without a gain.
  bool all = false;
  /// Returns the op as one opcode; nullopt: it is not pointwise, or the device's kernel would give other bits.
  std::function<std::optional<PointwiseOp>(const Op&)> translate;
  /// Returns the libtorch part of a fused op, for replay.
  std::function<std::shared_ptr<const OpCall>(const FusedProgram&)> call;
  /// Returns two ops, of which the second reads what the first writes, as one op that is no program. It has a name for
  /// which is_fused() holds, arguments, results and call. nullopt: there is no such op. Empty: the device has none.
  std::function<std::optional<Op>(const Op& first, const Op& second)> pair = nullptr;
  /// Merging of updates of small parameters; nullopt: each update runs by itself.
  std::optional<UpdateGrouping> updates = {};
};

}  // namespace plimsoll
