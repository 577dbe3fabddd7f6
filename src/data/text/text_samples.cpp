#include "data/text/text_samples.h"

#include <cmath>
#include <vector>

#include "data/evenly_spread.h"
#include "data/text/text_batch.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxCountedTokens = int64_t{4} << 20;  // a fraction of a second to read

class TextSamples final : public SampleSource {
 public:
  TextSamples(const DataConfig& config, const Tokenizer& tokenizer, const TextDataset::Progress& progress)
      : dataset_(config, tokenizer, progress) {}
  int64_t samples(Split split) const override { return dataset_.windows(split); }
  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    return make_text_batch(dataset_, order, split, first, count);
  }
  /// The loss by each token's frequency in at most 4 Mi training tokens (at least one window), in windows spread evenly
  /// over the text; each token is counted once more.
  std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const override {
    if (held_out.empty()) return {};
    const int64_t length = dataset_.sequence_length();
    const std::vector<int64_t> read = evenly_spread(dataset_.windows(Split::train), kMaxCountedTokens / length);
    const std::vector<int64_t> counts = counts_of_targets(Split::train, read);
    const std::vector<int64_t> predicted = counts_of_targets(Split::validation, held_out);
    const auto counted = static_cast<double>(std::ssize(read) * length + dataset_.vocab_size());
    double nats = 0;
    for (size_t token = 0; token < counts.size(); ++token)
      nats -= static_cast<double>(predicted[token]) * std::log(static_cast<double>(counts[token] + 1) / counted);
    return {{kEvaluationLoss, "by the tokens' frequencies", nats / static_cast<double>(std::ssize(held_out) * length)}};
  }
  std::vector<std::string> skipped() const override { return dataset_.skipped(); }

 private:
  /// Returns how often each token of the vocabulary is a target in these windows.
  std::vector<int64_t> counts_of_targets(Split split, const std::vector<int64_t>& windows) const {
    std::vector<int64_t> counts(static_cast<size_t>(dataset_.vocab_size()));
    std::vector<int64_t> tokens(static_cast<size_t>(dataset_.sequence_length())), targets(tokens.size());
    for (const int64_t window : windows) {
      dataset_.fill(split, window, tokens.data(), targets.data());
      for (const int64_t token : targets) ++counts[static_cast<size_t>(token)];
    }
    return counts;
  }

  TextDataset dataset_;
};

}  // namespace

std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress) {
  return std::make_unique<TextSamples>(config, tokenizer, progress);
}

}  // namespace plimsoll
