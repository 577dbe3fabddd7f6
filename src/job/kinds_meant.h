// What a file without model.type or data.type says of them by its other keys.
#pragma once

#include <vector>

#include "job/values/values.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Puts the types that `values` name into the job, and those that follow from the other keys: a file with
/// data.max_frames and no model.type is a video_llm's, which learns from clips. What was concluded is among job.notes.
/// Where neither says it, the defaults stay. Throws UserError for a type that there is not, and where the keys are of
/// several types of model and not of the default one: "name one".
void take_types(const std::vector<Value>& values, Job& job);

}  // namespace plimsoll::job
