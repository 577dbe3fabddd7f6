// Records a function of plan tensors.
#pragma once

#include <torch/types.h>

#include <functional>

#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll::testing {

/// Returns the trace of `function`, called with factory functions on the plan device.
inline Trace record(const std::function<void(Recorder&)>& function) {
  Recorder recorder;
  recorder.begin_segment(SegmentKind::micro);
  recorder.set_phase(Phase::forward);
  {
    const PlanScope scope;
    function(recorder);
  }
  return recorder.finish();
}

inline std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> list;
  for (const Op& op : trace.ops) list.push_back(op.name);
  return list;
}

}  // namespace plimsoll::testing
