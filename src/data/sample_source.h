// Declares the interface of a job's samples for the training loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// Name of the metric for baselines of the loss itself.
inline constexpr const char* kEvaluationLoss = "evaluation_loss";

/// A metric's value without learning, from counts of the training samples: "most frequent class".
struct Baseline {
  std::string metric;  ///< name as in the step's metrics, or kEvaluationLoss
  std::string name;
  double value = 0;
};

/// A source of samples. Any number of threads may read it.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// Returns the number of samples of a part; validation may have none.
  virtual int64_t samples(Split split) const = 0;

  /// Returns samples [first, first + count) of `order`, whose count is samples(split).
  virtual Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const = 0;

  /// Returns the baselines on the held-out samples with these numbers, from counts alone. Returns none if the source
  /// has none.
  virtual std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const { return {}; }
  /// Computes on all held-out samples.
  std::vector<Baseline> all_baselines() const;

  /// Returns the name of a sample in messages: its file, and its place there; "" if it has none.
  virtual std::string name_of(Split split, int64_t index) const { return ""; }

  /// Returns the files that were left out because they cannot be read (`data.skip_bad`), one line each with the file's
  /// name.
  virtual std::vector<std::string> skipped() const { return {}; }

  /// Returns a warning if evaluations see what no training sample shows: "10 of 10 validation series show what is never
  /// trained on: class d". Returns "" if they do not.
  virtual std::string never_trained() const { return {}; }
};

/// Returns config.samples random samples, of which the fraction config.validation_fraction is held out; at least one is
/// trained on.
std::unique_ptr<SampleSource> synthetic_samples(const DataConfig& config, uint64_t seed,
                                                std::vector<SyntheticField> fields);

}  // namespace plimsoll
