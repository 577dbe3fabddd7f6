// Refuses a job for a GPU that this machine does not have, and names the command that plans it for the CPU.
#pragma once

#include "plimsoll/job.h"

namespace plimsoll::cli {

/// Throws UserError (failure) if this machine does not have the job's device; the message says what is missing, and how
/// to plan the job for the CPU. Takes milliseconds: nothing is planned.
void require_device_of(const Job& job);

}  // namespace plimsoll::cli
