// Computes the part of batch_size that each of several devices has.
#pragma once

#include <optional>
#include <string>

#include "job/values/key_locations.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Divides a batch_size that is the whole over all devices by Job::devices, and returns true if it did. It is the whole
/// if micro_batch_size is given too, or if another program's name says so (`whole_word`); otherwise it is that of one
/// device. Every device has the same micro batches of the same size: throws UserError, with near numbers that work, if
/// batch_size is no multiple of devices x micro_batch_size (or x gradient_accumulation_steps, if the micro batch is
/// open). Numbers of the file that the command line replaces are ignored.
bool divide_over_devices(Job& job, const KeyLocations& locations, const std::string& whole_word);

/// Returns the note that several devices make the effective batch larger, and how to keep it. `batch_given`: by its
/// key. Batch sizes are complete, and those of one device.
std::string larger_batch_note(const Job& job, const KeyLocations& locations, bool batch_given);

}  // namespace plimsoll::job
