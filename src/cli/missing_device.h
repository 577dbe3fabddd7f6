// Refuses a job for a GPU that is not here, and names the command that plans it for the CPU.
#pragma once

#include "plimsoll/job.h"

namespace plimsoll::cli {

/// Throws UserError (failure) if the job's device is not here: what is missing, and how to plan the job for the CPU.
/// Takes milliseconds: nothing is planned.
void require_device_of(const Job& job);

}  // namespace plimsoll::cli
