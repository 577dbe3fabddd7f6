// Declares the request to stop a run. request_stop() makes it (plimsoll/train_job.h).
#pragma once

namespace plimsoll {

/// Thrown out of planning and out of the tokenization of a text; leaves no half-written token file.
struct StoppedEarly {};

/// Returns true if the run is asked to stop.
bool is_stop_requested() noexcept;

/// A scope of a stop request: it holds for one run, however that ends.
struct StopRequest {
  ~StopRequest();
};

}  // namespace plimsoll
