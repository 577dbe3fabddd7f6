// Computes the learning rate over the steps of a job.
#pragma once

#include <cstdint>

#include "plimsoll/options.h"

namespace plimsoll {

/// Returns the rate of step `step` of `max_steps`, counted from 1:
///
///     rate |        ____
///          |      /      \           constant | linear | cosine
///          |    /          \ __
///          |  /                      <- min_lr_ratio x learning_rate, exactly, at step max_steps
///          +-------------------
///           1    warmup   max_steps
///
/// It rises linearly to `learning_rate`, which it reaches at step warmup_steps (at step 1 without a warm-up). A
/// constant schedule keeps that rate and ignores min_lr_ratio. After max_steps the rate is that of max_steps.
double learning_rate_at(const SchedulerConfig& config, double learning_rate, int64_t step, int64_t max_steps);

}  // namespace plimsoll
