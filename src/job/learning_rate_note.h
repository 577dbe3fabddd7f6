// What to say where a job's steps have not as many sequences as its learning rate was chosen for.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/job.h"

namespace plimsoll::job {

/// The learning rate that usual rules give for the job's batch_size in place of optimizer.reference_batch_size; nothing
/// where these are the same, or none is given. For optimizers that divide by the size of gradients, or take their sign,
/// the square root of the batches' quotient (Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient
/// Algorithms"); for SGD the quotient (Goyal et al. 2017, "Accurate, Large Minibatch SGD"). batch_size is set.
std::optional<std::string> learning_rate_note(const Job& job);

}  // namespace plimsoll::job
