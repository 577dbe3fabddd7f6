// Declares the request to stop a run. request_stop() makes it (plimsoll/train_job.h).
#pragma once

namespace plimsoll {

/// The exception of a run that is asked to stop before its first step: while it is planned or its data are opened. No
/// half-written token file is left.
struct StoppedEarly {};

/// Returns true if the run is asked to stop.
bool is_stop_requested() noexcept;

/// The scope of a run. The destructor clears the request to stop.
struct StopRequest {
  ~StopRequest();
};

}  // namespace plimsoll
