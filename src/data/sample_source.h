// Where a job's samples come from, as the training loop asks for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"
#include "data/synthetic_batch.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// The loss itself, where a baseline is of no metric.
inline constexpr const char* kEvaluationLoss = "evaluation_loss";

/// What a metric is without learning: "the most frequent class", "1-nearest neighbour".
struct Baseline {
  std::string metric;  ///< as the step's metrics name it, or kEvaluationLoss
  std::string name;
  double value = 0;
};

/// May be read from any number of threads.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// Samples of that part; for validation there may be none.
  virtual int64_t samples(Split split) const = 0;

  /// Samples [first, first + count) of `order`, whose count is samples(split).
  virtual Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const = 0;

  /// On samples held out, by their numbers, from those trained on; may take seconds. None where none is given.
  virtual std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const { return {}; }
  /// Returns baselines() and those that learn from what a run has read: the training samples order.index(0) to
  /// order.index(trained - 1), counted over all epochs.
  virtual std::vector<Baseline> run_baselines(const std::vector<int64_t>& held_out, const WindowOrder& order,
                                              int64_t trained) const {
    return baselines(held_out);
  }
  /// On all that are held out.
  std::vector<Baseline> all_baselines() const;

  /// What was left out because it cannot be read (`data.skip_bad`), a line each with the file's name.
  virtual std::vector<std::string> skipped() const { return {}; }
};

/// config.samples random ones, of which config.validation_fraction are held out; at least one is trained on.
std::unique_ptr<SampleSource> synthetic_samples(const DataConfig& config, uint64_t seed,
                                                std::vector<SyntheticField> fields);

}  // namespace plimsoll
