#include "data/text/text_baselines.h"

#include <algorithm>
#include <cmath>

#include "data/evenly_spread.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxCountedTokens = int64_t{4} << 20;  // a fraction of a second to read
constexpr int64_t kMaxPairVocabulary = 1024;

/// Calls each(token, next token) for each token of these windows.
template <typename Each>
void for_windows(const TextDataset& dataset, Split split, const std::vector<int64_t>& windows, Each each) {
  const auto length = static_cast<size_t>(dataset.sequence_length());
  std::vector<int64_t> tokens(length), targets(length);
  for (const int64_t window : windows) {
    dataset.fill(split, window, tokens.data(), targets.data());
    for (size_t i = 0; i < length; ++i) each(tokens[i], targets[i]);
  }
}

}  // namespace

TextBaselines text_baselines(const TextDataset& dataset, const std::vector<int64_t>& held_out) {
  check(!held_out.empty(), "there are held-out windows");
  const int64_t vocabulary = dataset.vocab_size();
  const bool with_pairs = vocabulary <= kMaxPairVocabulary;
  std::vector<int64_t> count(static_cast<size_t>(vocabulary), 0);
  std::vector<int32_t> pairs(with_pairs ? static_cast<size_t>(vocabulary * vocabulary) : 0, 0);
  const auto pair = [&](int64_t before, int64_t token) -> int32_t& {
    return pairs[static_cast<size_t>(before * vocabulary + token)];
  };
  int64_t counted = 0;
  for_windows(dataset, Split::train,
              evenly_spread(dataset.windows(Split::train), kMaxCountedTokens / dataset.sequence_length()),
              [&](int64_t before, int64_t token) {
                ++count[static_cast<size_t>(token)];
                ++counted;
                if (with_pairs) ++pair(before, token);
              });
  // For each token, the number of tokens that followed it, and the number of different ones.
  std::vector<int64_t> followed(with_pairs ? static_cast<size_t>(vocabulary) : 0, 0), kinds = followed;
  for (size_t i = 0; i < pairs.size(); ++i) {
    followed[i / static_cast<size_t>(vocabulary)] += pairs[i];
    kinds[i / static_cast<size_t>(vocabulary)] += pairs[i] > 0;
  }

  double by_frequency = 0, by_pairs = 0;
  int64_t targets = 0;
  for_windows(dataset, Split::validation, held_out, [&](int64_t before, int64_t token) {
    const double frequency =
        static_cast<double>(count[static_cast<size_t>(token)] + 1) / static_cast<double>(counted + vocabulary);
    by_frequency -= std::log(frequency);
    ++targets;
    if (!with_pairs) return;
    const auto after = static_cast<double>(followed[static_cast<size_t>(before)]);
    const auto different = static_cast<double>(kinds[static_cast<size_t>(before)]);
    by_pairs -= std::log(after == 0 ? frequency : (pair(before, token) + different * frequency) / (after + different));
  });
  const auto mean = [&](double sum) { return sum / static_cast<double>(targets); };
  return {mean(by_frequency), with_pairs ? mean(by_pairs) : -1};
}

}  // namespace plimsoll
