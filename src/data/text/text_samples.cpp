#include "data/text/text_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/text/ngram_baseline.h"
#include "data/text/text_baselines.h"
#include "data/text/text_batch.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxNgramBytes = 256 * MiB;

class TextSamples final : public SampleSource {
 public:
  TextSamples(const DataConfig& config, const Tokenizer& tokenizer, const TextDataset::Progress& progress)
      : dataset_(config, tokenizer, progress),
        max_ngram_bytes_(std::min(kMaxNgramBytes, config.memory_budget.value_or(kMaxNgramBytes))) {}
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
  std::vector<Baseline> run_baselines(const std::vector<int64_t>& held_out, const WindowOrder& order,
                                      int64_t trained) const override {
    std::vector<Baseline> all = baselines(held_out);
    if (held_out.empty() || trained < 1) return all;
    const NgramBaseline counted = ngram_baseline(dataset_, held_out, order, trained, max_ngram_bytes_);
    const std::string tokens = counted.tokens == counted.of_tokens
                                   ? "equal tokens"
                                   : fmt::format("{} of {} tokens", counted.tokens, counted.of_tokens);
    all.push_back({kEvaluationLoss, fmt::format("{}-gram, Kneser-Ney, {}", kBaselineOrder, tokens), counted.nats});
    return all;
  }
  std::vector<std::string> skipped() const override { return dataset_.skipped(); }

 private:
  TextDataset dataset_;
  int64_t max_ngram_bytes_;
};

}  // namespace

std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress) {
  return std::make_unique<TextSamples>(config, tokenizer, progress);
}

}  // namespace plimsoll
