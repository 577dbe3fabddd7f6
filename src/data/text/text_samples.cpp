#include "data/text/text_samples.h"

#include <vector>

#include "data/text/text_baselines.h"
#include "data/text/text_batch.h"

namespace plimsoll {
namespace {

class TextSamples final : public SampleSource {
 public:
  TextSamples(const DataConfig& config, const Tokenizer& tokenizer, const TextDataset::Progress& progress)
      : dataset_(config, tokenizer, progress) {}
  int64_t samples(Split split) const override { return dataset_.windows(split); }
  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    return make_text_batch(dataset_, order, split, first, count);
  }
  std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const override {
    if (held_out.empty()) return {};
    const TextBaselines counted = text_baselines(dataset_, held_out);
    std::vector<Baseline> baselines = {{kEvaluationLoss, "by the tokens' frequencies", counted.frequencies}};
    if (counted.pairs >= 0) baselines.push_back({kEvaluationLoss, "by the token before", counted.pairs});
    return baselines;
  }
  std::vector<std::string> skipped() const override { return dataset_.skipped(); }

 private:
  TextDataset dataset_;
};

}  // namespace

std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress) {
  return std::make_unique<TextSamples>(config, tokenizer, progress);
}

}  // namespace plimsoll
