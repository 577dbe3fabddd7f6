#include "cli/missing_device.h"

#include <fmt/format.h>

#include "plimsoll/error.h"
#include "plimsoll/machine.h"

namespace plimsoll::cli {

void require_device_of(const Job& job) {
  if (job.device == "cpu") return;
  try {
    require_usable_device(job.device);
  } catch (const UserError& error) {
    // The job is not planned for the CPU here: that takes seconds for a large job, and the user may not need it.
    throw UserError(
        fmt::format("{}; 'plimsoll plan JOB.yaml device=cpu' says whether and how fast it trains on the CPU",
                    error.what()),
        error.kind());
  }
}

}  // namespace plimsoll::cli
