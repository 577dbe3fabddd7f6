// batch_size, micro_batch_size and gradient_accumulation_steps: one equation between three keys.
#pragma once

#include "plimsoll/job.h"
#include "train/job/places.h"

namespace plimsoll::job {

/// Fills in what follows from what was given and refuses what cannot hold:
///
///     batch_size = micro_batch_size x gradient_accumulation_steps
///
/// or less by less than a micro batch: then the last one of a step is smaller, and the quotients below are rounded up.
///
/// With a schedule the equation holds for the steps of epoch 0, so batch_size is that of the first epoch;
/// micro_batch_size stays the same throughout and later epochs have steps of micro_batch_size x their own number. All
/// micro batches of a schedule are alike.
///
///     given                                   filled in
///     all three                               nothing: they must agree
///     micro_batch_size, accumulation          batch_size, the product
///     batch_size, micro_batch_size            accumulation, the quotient
///     batch_size, accumulation                micro_batch_size, the quotient
///     micro_batch_size                        accumulation 1, batch_size = micro_batch_size
///     accumulation                            batch_size 8, then the quotient
///     batch_size                              nothing: the other two stay auto
///     none                                    batch_size 8, the other two stay auto
///
/// After it batch_size is set, and micro_batch_size and accumulation are both set or both auto. What `auto` may become
/// depends on the memory budget; batch_size never does, so neither do the losses.
/// Throws UserError where the three disagree, a schedule's quotient is not whole, or a step has more than kLargestBatch
/// sequences.
void complete_batch_sizes(Job& job, const Places& places);

}  // namespace plimsoll::job
