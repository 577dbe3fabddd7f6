#include "train/job_data.h"

#include "data/series_samples.h"
#include "plimsoll/error.h"
#include "train/micro_batches.h"

namespace plimsoll {

std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& /*progress*/) {
  const std::string& type = job.data.type;
  if (type == "series")
    return series_samples(job.data, {job.model.gesture.channels, job.model.gesture.num_classes}, job.seed);
  check(type == "synthetic", "unknown data type " + type);
  return synthetic_samples(job.data, job.seed, synthetic_fields(step.inputs));
}

}  // namespace plimsoll
