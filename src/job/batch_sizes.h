// batch_size, micro_batch_size and gradient_accumulation_steps: one equation between three keys.
#pragma once

#include "job/values/places.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Fills in what follows from what was given and refuses what cannot hold. After it
///
///     batch_size = micro_batch_size x gradient_accumulation_steps
///
/// or less by less than a micro batch: then the last one of a step is smaller, and the quotients below are rounded up.
/// What a file's batch_size stands for is told by what stands beside it (docs/decisions/2026-11-23-batch-size.md):
///
///     given                                   it means
///     batch_size                              the whole step; the other two stay auto
///     batch_size, micro_batch_size            the whole step; accumulation is the quotient
///     all three                               the whole step: they must agree
///     batch_size, accumulation                the micro batch, as in other programs; the step is the product
///     accumulation                            the same with a batch_size of 8
///     micro_batch_size, accumulation          the step is the product
///     micro_batch_size                        accumulation 1
///     none                                    batch_size 8 is the whole step, the other two stay auto
///
/// A micro_batch_size of `auto` that is written out says that batch_size is the whole step, too, and so does another
/// program's name for the whole (DeepSpeed's train_batch_size). With a schedule all of this holds for the steps of
/// epoch 0; micro_batch_size stays the same throughout, later epochs have steps of micro_batch_size x their own number,
/// and all micro batches are alike.
///
/// What the command line says goes before the file: of two numbers there the third follows, whatever the file says; one
/// number stands in the place of the file's. Where the file names a micro batch, its accumulation follows a new
/// batch_size or micro_batch_size; a new accumulation must agree.
///
/// With several devices all of this holds for each of them, and the effective batch is batch_size x devices. A
/// batch_size that is the whole step is that of all devices together, if the micro batch is given or the name says so:
/// it is divided (batch_over_devices.h), and after it batch_size is that of one device. All micro batches are alike
/// then. A note says when more devices made the effective batch larger.
///
/// After it batch_size is set, and micro_batch_size and accumulation are both set or both auto. What `auto` may become
/// depends on the memory budget; batch_size never does, so neither do the losses. Readings that another program, or an
/// earlier Plimsoll, would not share are said in job.notes.
/// Throws UserError where the three disagree, a schedule's quotient is not whole, or a step has more than kLargestBatch
/// sequences.
void complete_batch_sizes(Job& job, const Places& places);

/// Whether the reader took batch_size for the micro batch. No field of the job says so, its notes do.
bool batch_size_is_micro_batch(const Job& job);

}  // namespace plimsoll::job
