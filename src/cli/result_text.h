// Formats results as text: the verdict on a plan, the effective batch, the rows of `plimsoll compare`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/screen/terminal.h"
#include "plimsoll/compare.h"
#include "plimsoll/plan_training.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Number of the largest buffers at the peak that text and JSON name.
constexpr size_t kResidentsShown = 8;

/// Returns "fits: 7.42 GiB of 8.00 GiB" or "does not fit: …" with the minimum budget; one line.
std::string verdict_of(const PlannedStep& planned);

/// Returns the verdict that is known before the fastest plan is: "fits: 42.6 GiB of 47.4 GiB are enough; looking for
/// the fastest plan"; one line.
std::string early_verdict_of(int64_t enough_bytes, int64_t budget_bytes);

/// Returns, for a plan that does not fit, the verdict and the memory at the peak, by name and bytes.
std::string peak_report(const PlannedStep& planned, const Screen& screen);

/// Returns "effective batch 32: micro batch 16 x 2". With a schedule it has later epochs too: "effective batch 40:
/// micro batch 10 x 4; from epoch 4 on 20 (x 2), from epoch 8 on 10 (x 1)". With several devices it is "effective batch
/// 256: micro batch 16 x 2 x 8 devices".
std::string describe_effective_batch(const ResolvedSettings& settings);

/// Returns the samples of a step of the first epoch, on all devices together.
int64_t effective_batch_of(const ResolvedSettings& settings);

/// Returns "124.2 M" for a model that is trained whole, "24.6 k of 124.2 M" if a part is, or adapters are, and "70.6 G,
/// 8.8 G on a rank" if ranks store slices.
std::string describe_parameters(const ResolvedSettings& settings);

/// Returns the rows as a table. The header of the losses names the step after which they were taken, `steps`.
std::string compare_table(const std::vector<CompareRow>& rows, int64_t steps, const Screen& screen);

/// Returns a sentence that names the smallest and the fastest of the rows that were trained within `budget`, with their
/// figures. `budget`: bytes of the job's memory_budget; 0: no limit. Empty if there are no rows.
std::string compare_summary(const std::vector<CompareRow>& rows, int64_t budget);

}  // namespace plimsoll::cli
