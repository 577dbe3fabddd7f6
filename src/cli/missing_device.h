// Who asks for a GPU that is not here is told what the CPU would do.
#pragma once

#include "plimsoll/job.h"

namespace plimsoll::cli {

/// Throws UserError (failure) where the job's device is not here: what is missing, and how long the job would take on
/// this machine's CPU, as planned, or that it does not fit there. Plans for ten seconds at most.
void require_device_of(const Job& job);

}  // namespace plimsoll::cli
