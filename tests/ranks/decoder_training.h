// Declares a small decoder that one rank or several ranks train, for comparisons bit by bit.
#pragma once

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/exchange.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "ranks/forked_ranks.h"
#include "run/training_runs.h"

namespace plimsoll::testing {

constexpr int64_t kSamples = 2, kTime = 16, kVocabulary = 320;
constexpr int kSteps = 3;

/// Returns a decoder whose matrices of 64 x 320 and 64 x 256 are sliced over up to four ranks; those of 64 x 64 are
/// whole with two ranks or more, and so are norms.
inline Step small_decoder() {
  DecoderConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 64;
  config.intermediate_size = 256;
  config.num_layers = 2;
  config.num_heads = 4;
  config.dropout = 0.1;
  return decoder_step(config, kSamples, kTime);
}

/// A training on `ranks` ranks with `accumulation` micro batches on each. Its reference is one rank with all of them.
struct RankCase {
  std::string name;
  int ranks = 2;
  int64_t accumulation = 1;
  std::function<void(TrainingOptions&)> change = [](TrainingOptions&) {};
};

inline std::ostream& operator<<(std::ostream& out, const RankCase& each) {
  return out << each.name << ", " << each.ranks << " ranks, accumulation " << each.accumulation;
}

inline TrainingOptions options_of(const RankCase& of, int ranks, int rank, Strategy strategy,
                                  std::shared_ptr<Exchange> exchange = nullptr) {
  TrainingOptions options;
  options.threads = 1;
  options.seed = 5;
  options.accumulate = ranks > 1 ? of.accumulation > 1 : of.ranks * of.accumulation > 1;
  options.max_grad_norm = 0.5;
  of.change(options);
  options.ranks = {.count = ranks, .rank = rank, .strategy = strategy};
  options.exchange = std::move(exchange);
  return options;
}

/// Sets costs as for ranks with a slow network between them, so that exchanges overlap with other ops.
inline void overlap_exchanges(TrainingOptions& options) {
  options.cost.exchanges_overlap = true;
  options.cost.peer_link = 1e9;
  options.cost.peer_latency = 1e-5;
}

/// Returns the micro batches of one rank in a step of `all`: rank r has number i if i % ranks is r.
inline std::vector<Batch> batches_of_step(int64_t all, int ranks, int rank) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < all; ++i) {
    Batch batch = token_batch(kSamples, kTime, kVocabulary);
    if (i % ranks == rank) batches.push_back(std::move(batch));
  }
  return batches;
}

/// Returns the name and a hash of each tensor of the state, one a line. A slice is gathered from all ranks first.
inline std::string state_text(Training& training, int ranks, int rank, const std::shared_ptr<Exchange>& exchange) {
  std::string text;
  const auto slices = training.slices();
  for (const auto& [name, tensor] : training.state()) {
    at::Tensor whole = tensor.contiguous().view(-1);
    if (const auto found = slices.find(name); found != slices.end()) {
      at::Tensor padded = at::zeros({whole.numel() * ranks}, whole.options());
      padded.narrow(0, rank * whole.numel(), whole.numel()).copy_(whole);
      exchange->all_gather(padded);
      int64_t elements = 1;
      for (const int64_t size : found->second) elements *= size;
      whole = padded.narrow(0, 0, elements).clone();
    }
    const std::string_view bytes(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
    text += fmt::format("{} {:x}\n", name, std::hash<std::string_view>()(bytes));
  }
  return text;
}

/// Trains `step` for kSteps steps as the rank of `options.ranks`. Returns losses, norms and state_text() as text, and
/// the used bytes if they are not the planned ones. `look` is called with the training after its last step.
inline std::string train_steps(
    const Step& step, const RankCase& of, const TrainingOptions& options,
    const std::function<void(Training&)>& look = [](Training&) {}) {
  const auto ranks = static_cast<int>(options.ranks.count), rank = static_cast<int>(options.ranks.rank);
  Training training(step, options);
  training.start();
  torch::manual_seed(2);
  std::string text;
  for (int i = 0; i < kSteps; ++i) {
    const StepResult result = training.step(batches_of_step(of.ranks * of.accumulation, ranks, rank), 1e-2);
    text += fmt::format("loss {} norm {} skipped {}\n", result.loss, result.gradient_norm, result.skipped);
  }
  text += state_text(training, ranks, rank, options.exchange);
  const MemoryUse used = training.used();
  const Plan& plan = training.plan();
  const auto compare = [&](const char* memory, int64_t planned, int64_t measured) {
    if (planned != measured) text += fmt::format("{}: {} bytes used, {} planned\n", memory, measured, planned);
  };
  compare("device", plan.peak_bytes, used.measured_peak());
  compare("host", plan.host_bytes, used.host);
  compare("disk", plan.disk_bytes, used.disk);
  look(training);
  return text;
}

/// Returns the text of one rank that trains `step` without a limit of memory: the expected text of several ranks.
inline std::string reference_text(const Step& step, const RankCase& of, const std::filesystem::path& folder) {
  return run_ranks(1, folder,
                   [&](int, const auto&) { return train_steps(step, of, options_of(of, 1, 0, Strategy::ddp)); })[0];
}

}  // namespace plimsoll::testing
