// Declares batches of samples, and what sample sources share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/sampler.h"
#include "plimsoll/sample_data.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// One named tensor of a batch, dense and row-major.
struct BatchField {
  std::string name;  ///< name of the trace's input, such as "tokens"
  DType dtype = DType::int64;
  std::vector<int64_t> sizes;    ///< sizes; the first is the number of samples
  std::vector<std::byte> bytes;  ///< element_bytes(dtype) x the product of sizes
};

struct Batch {
  int64_t position = 0;  ///< position of the first sample, counted over all epochs
  int64_t samples = 0;
  std::vector<BatchField> fields;
};

/// Returns a field of zeros with these sizes.
template <typename Number>
BatchField field_of(const char* name, DType dtype, std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return {name, dtype, std::move(sizes), std::vector<std::byte>(static_cast<size_t>(count) * sizeof(Number))};
}

/// Returns row `row` of a field, along its first dimension.
template <typename Number>
std::span<Number> row_of(BatchField& field, int64_t row) {
  const auto numbers = static_cast<int64_t>(field.bytes.size() / sizeof(Number)) / field.sizes.front();
  // operator new aligns the bytes for any type.
  return {reinterpret_cast<Number*>(field.bytes.data()) + row * numbers, static_cast<size_t>(numbers)};
}

/// Converts fields of float32 to bfloat16. Values are rounded to the nearest, ties to even, as a cast on the device
/// rounds them; NaNs stay NaNs. Other fields are not changed.
void cast_to_bfloat16(Batch& batch);

/// One input of a sample.
struct SyntheticField {
  std::string name;
  DType dtype = DType::float32;  ///< float32: from N(0, 1); int64, uint8: uniform in [0, values)
  std::vector<int64_t> sizes;    ///< sizes without the samples
  int64_t values = 0;            ///< upper bound (exclusive) of whole numbers
};

/// Returns samples `indices` of the endless sequence of random samples of `seed`, for measuring a model's memory and
/// speed without data. A sample depends on seed and index alone, not on its batch.
Batch make_synthetic_batch(const std::vector<SyntheticField>& fields, uint64_t seed, int64_t position,
                           const std::vector<int64_t>& indices);

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

  /// Returns the bytes of host memory that reading samples takes at most in addition to what is held now: caches that
  /// fill as samples are read.
  virtual int64_t bytes_later() const { return 0; }

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
