// Resolves batch_size, micro_batch_size and gradient_accumulation_steps: one equation between three keys. Divides a
// batch over devices, and notes the learning rate that usual rules set for another batch.
#pragma once

#include <optional>
#include <string>

#include "job/keys/keys.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Computes missing batch sizes from the given ones and refuses contradictions. Afterwards
///
///     batch_size = micro_batch_size x gradient_accumulation_steps
///
/// or less, by less than a micro batch: then the last micro batch of a step is smaller, and the quotients below are
/// rounded up. The meaning of a file's batch_size depends on the keys given with it
/// (docs/decisions/2026-11-23-batch-size.md):
///
///     given                                   meaning
///     batch_size                              the whole step; the other two stay auto
///     batch_size, micro_batch_size            the whole step; accumulation is the quotient
///     all three                               the whole step: they must agree
///     batch_size, accumulation                the micro batch, as in other programs; the step is the product
///     accumulation                            as the line above, with a batch_size of 8
///     micro_batch_size, accumulation          the step is the product
///     micro_batch_size                        accumulation 1
///     none                                    batch_size 8 is the whole step, the other two stay auto
///
/// An explicit micro_batch_size of `auto` also makes batch_size the whole step, and so does another program's name for
/// the whole (DeepSpeed's train_batch_size). With a schedule all of this holds for the steps of epoch 0.
/// micro_batch_size is the same in all epochs; later epochs have steps of micro_batch_size x their own number, and all
/// micro batches have the same size.
///
/// The command line has priority over the file. Two numbers on the command line determine the third, whatever the file
/// says; one number replaces the file's. If the file sets a micro batch, its accumulation follows a new batch_size or
/// micro_batch_size; a new accumulation must agree.
///
/// With several devices all of this holds for each of them, and the effective batch is batch_size x devices. A
/// batch_size that is the whole step is that of all devices together, if the micro batch is given or the name says so.
/// It is divided (divide_over_devices()), and afterwards batch_size is that of one device. All micro batches then have
/// the same size. A note says when more devices made the effective batch larger.
///
/// Afterwards batch_size is set, and micro_batch_size and accumulation are both set or both auto. The value of `auto`
/// depends on the memory budget; batch_size never does, so neither do the losses. job.notes say where another program,
/// or an earlier Plimsoll, would read the keys differently.
/// Throws UserError if the three disagree, a schedule's quotient is not whole, or a step has more than kMaxBatch
/// sequences.
void resolve_batch_sizes(Job& job, const KeyLocations& locations);

/// Returns true if the reader took batch_size for the micro batch. The job has no field for it; the function reads its
/// notes.
bool batch_size_is_micro_batch(const Job& job);

/// Divides a batch_size that is the whole over all devices by Job::devices, and returns true if it did. It is the whole
/// if micro_batch_size is given too, or if another program's name says so (`whole_word`); otherwise it is that of one
/// device. Every device has the same micro batches of the same size: throws UserError, with near numbers that work, if
/// batch_size is no multiple of devices x micro_batch_size (or x gradient_accumulation_steps, if the micro batch is
/// open). Numbers of the file that the command line replaces are ignored.
bool divide_over_devices(Job& job, const KeyLocations& locations, const std::string& whole_word);

/// Returns the note that several devices make the effective batch larger, and how to keep it. `batch_given`: by its
/// key. Batch sizes are complete, and those of one device.
std::string larger_batch_note(const Job& job, const KeyLocations& locations, bool batch_given);

/// Returns a note with the learning rate that usual rules set for the job's batch_size instead of
/// optimizer.reference_batch_size; nullopt if the two are equal, or no reference is given. The factor is the square
/// root of the batches' quotient for optimizers that divide by the size of gradients, or use their sign (Malladi et al.
/// 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms"). For SGD it is the quotient (Goyal et al.
/// 2017, "Accurate, Large Minibatch SGD"). batch_size must be set.
std::optional<std::string> learning_rate_note(const Job& job);

}  // namespace plimsoll::job
