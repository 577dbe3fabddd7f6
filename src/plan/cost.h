// What an op costs, in seconds, on the device that is planned for: a roofline with a few kinds of op.
//
//     seconds = overhead + max(flops / flop rate, bytes moved / bandwidth)
//
// Williams, Waterman and Patterson, "Roofline", CACM 2009. Rates are those that kernels reach, not those of data
// sheets.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// The kind that an op's operator belongs to. Views and other ops that move nothing are `streaming`.
OpKind kind_of(const Op& op);

/// The type that an op computes in: of its first floating-point operand.
DType compute_type_of(const Op& op);

/// Predicted seconds of one run of `op`.
double seconds_of(const CostModel& model, const Op& op);

/// Predicted seconds of a segment's ops, one after the other. 0 without the segment.
double segment_seconds(const CostModel& model, const Trace& trace, std::string_view segment);

}  // namespace plimsoll
