#include "data/sample_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

class SyntheticSamples final : public SampleSource {
 public:
  SyntheticSamples(const DataConfig& config, uint64_t seed, std::vector<SyntheticField> fields)
      : fields_(std::move(fields)), seed_(seed) {
    const auto held_out = static_cast<int64_t>(static_cast<double>(config.samples) * config.validation_fraction);
    validation_ = std::clamp<int64_t>(held_out, 0, config.samples - 1);
    train_ = config.samples - validation_;
  }
  int64_t samples(Split split) const override { return split == Split::train ? train_ : validation_; }
  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count; ++i)
      indices.push_back(order.index(first + i) + (split == Split::train ? 0 : train_));
    return make_synthetic_batch(fields_, seed_, first, indices);
  }

 private:
  std::vector<SyntheticField> fields_;
  uint64_t seed_;
  int64_t train_ = 0, validation_ = 0;
};

}  // namespace

std::vector<Baseline> SampleSource::all_baselines() const {
  std::vector<int64_t> all(static_cast<size_t>(samples(Split::validation)));
  std::iota(all.begin(), all.end(), 0);
  return baselines(all);
}

std::unique_ptr<SampleSource> synthetic_samples(const DataConfig& config, uint64_t seed,
                                                std::vector<SyntheticField> fields) {
  return std::make_unique<SyntheticSamples>(config, seed, std::move(fields));
}

}  // namespace plimsoll
