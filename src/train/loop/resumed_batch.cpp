#include "train/loop/resumed_batch.h"

#include <fmt/format.h>

#include <iterator>

#include "job/batch_sizes.h"
#include "job/keys/keys.h"
#include "plimsoll/error.h"

namespace plimsoll {

void require_same_batch_meaning(const Job& requested, const ResolvedSettings& settings, int64_t steps, int64_t position,
                                const std::function<int64_t(int64_t position)>& epoch_of,
                                const std::string& checkpoint) {
  // A file may have any number of steps; no job has more than kMaxSteps.
  if (requested.ranks.count > 1 || !job::batch_size_is_micro_batch(requested) || steps < 1 || steps > job::kMaxSteps) return;
  const AccumulationSchedule& accumulation = settings.accumulation();
  const int64_t micro = settings.micro_batch(), parts = accumulation.at(0);
  if (accumulation.size() > 1 && micro % parts != 0)
    return;  // a schedule's parts were whole numbers, or it was
             // refused
  // Returns the samples of `steps` steps, each of 1 / `share` of the present size; stops after `position`.
  const auto samples = [&](int64_t share) {
    int64_t read = 0;
    for (int64_t step = 0; step < steps && read <= position; ++step)
      read += micro * std::prev(accumulation.upper_bound(epoch_of(read)))->second / share;
    return read;
  };
  if (samples(1) == position || samples(parts) != position) return;
  throw UserError(fmt::format(
      "{} has {} samples in {} steps: an earlier version of Plimsoll took batch_size: {} as the samples of a whole "
      "step. "
      "This version takes it as the micro batch, {} x {} = {} samples in each step; to continue as before, add "
      "micro_batch_size: {}; to continue with {} samples, replace batch_size by micro_batch_size: {}",
      checkpoint, position, steps, micro, micro, parts, micro * parts, (micro + parts - 1) / parts, micro * parts,
      micro));
}

}  // namespace plimsoll
