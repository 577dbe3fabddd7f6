// Where the time of a training step goes, by what its ops are: time as timed or predicted, beside the least that the
// device's rates allow.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Ops of a step that are alike: operator, and operands' types, sizes and strides. Their constants may differ.
struct HotOp {
  std::string name;      ///< "aten::mm.out"
  std::string operands;  ///< "float32[1024, 448], float32[448, 576] by [1, 448] -> float32[1024, 576]"
  std::string modules;   ///< what their modules have in common: "layers.*.attention"; empty: nothing
  int64_t runs = 0;      ///< in a step
  double seconds = 0;    ///< of all runs
  /// Of all runs: the larger of arithmetic by the rate of their kind and traffic by its bandwidth, nothing else.
  double floor_seconds = 0;
  bool timed = false;  ///< all were; else some are predicted: the floor, and the overhead of an op
};

struct HotOps {
  std::vector<HotOp> ops;    ///< by falling seconds
  double seconds = 0;        ///< of all ops of a step
  double timed_seconds = 0;  ///< of these, of ops that were timed
  double floor_seconds = 0;  ///< of all
  double wait_seconds = 0;   ///< that a step waits for copies beside, as predicted
};

/// How often each segment runs in a step of the first epoch, by name; those that do not are absent.
std::vector<std::pair<std::string, int64_t>> segments_of_a_step(const Trace& trace, const JobSettings& settings);

/// Of a planned job's step, by its schedule: what runs again and what is copied counts. `segment`: one run of that
/// segment alone; empty: a whole step of the first epoch. Times are those of planned.settings.cost. Throws UserError
/// for a segment that the schedule does not have.
HotOps hot_ops(const PlannedJob& planned, const std::string& segment = {});

}  // namespace plimsoll
