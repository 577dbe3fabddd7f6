// Declares the note for a job whose steps have another number of sequences than its learning rate was chosen for.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/job.h"

namespace plimsoll::job {

/// Returns a note with the learning rate that usual rules set for the job's batch_size instead of
/// optimizer.reference_batch_size; nullopt if the two are equal, or no reference is given. The factor is the square
/// root of the batches' quotient for optimizers that divide by the size of gradients, or use their sign (Malladi et al.
/// 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms"). For SGD it is the quotient (Goyal et al.
/// 2017, "Accurate, Large Minibatch SGD"). batch_size must be set.
std::optional<std::string> learning_rate_note(const Job& job);

}  // namespace plimsoll::job
