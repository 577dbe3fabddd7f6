#include "data/text/ngram_baseline.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "data/evenly_spread.h"
#include "data/text/ngram_model.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxTokens = int64_t{4} << 20;  // 3 seconds of counting

/// Reads the tokens of a window, then its last target.
void read_piece(const TextDataset& dataset, Split split, int64_t window, std::vector<int64_t>& targets,
                std::vector<int64_t>& piece) {
  const auto length = static_cast<size_t>(dataset.sequence_length());
  targets.resize(length);
  piece.resize(length + 1);
  dataset.fill(split, window, piece.data(), targets.data());
  piece.back() = targets.back();
}

}  // namespace

NgramBaseline ngram_baseline(const TextDataset& dataset, const std::vector<int64_t>& held_out, const WindowOrder& order,
                             int64_t trained, int64_t max_bytes, int64_t max_targets) {
  check(!held_out.empty(), "there are held-out windows");
  check(trained >= 1 && order.count() == dataset.windows(Split::train), "an order of the windows that were read");
  const int64_t length = dataset.sequence_length();
  const int64_t windows = std::min(trained, order.count());  // the first epoch has every window
  NgramModel model(dataset.vocab_size(), static_cast<int>(std::min<int64_t>(kBaselineOrder, length + 1)));
  NgramBaseline baseline{.of_tokens = windows * length};
  std::vector<int64_t> targets, piece;
  for (int64_t i = 0; i < windows; ++i) {
    if (i > 0 && (baseline.tokens + length > kMaxTokens ||
                  model.peak_bytes_with(static_cast<size_t>(length) + 1) > static_cast<size_t>(max_bytes)))
      break;
    read_piece(dataset, Split::train, order.index(i), targets, piece);
    model.count(piece);
    baseline.tokens += length;
  }
  model.finish();
  const std::vector<int64_t> predicted = evenly_spread(std::ssize(held_out), max_targets / length);
  for (const int64_t i : predicted) {
    read_piece(dataset, Split::validation, held_out[static_cast<size_t>(i)], targets, piece);
    for (size_t t = 1; t < piece.size(); ++t)
      baseline.nats -= std::log(model.probability(std::span(piece).first(t), piece[t]));
  }
  baseline.nats /= static_cast<double>(std::ssize(predicted) * length);
  return baseline;
}

}  // namespace plimsoll
