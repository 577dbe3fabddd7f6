// Infers model.type or data.type from the other keys of a file.
#pragma once

#include <vector>

#include "job/values/values.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Sets the types that `values` name in the job, and those that follow from the other keys: a file with data.max_frames
/// and no model.type is a video_llm's, which learns from clips. job.notes has the conclusions. If nothing determines a
/// type, the default stays. Throws UserError for a type that does not exist. Throws UserError ("name one") if the keys
/// belong to several types of model and not to the default one.
void infer_types(const std::vector<Value>& values, Job& job);

}  // namespace plimsoll::job
