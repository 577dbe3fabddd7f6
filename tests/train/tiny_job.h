// Declares a job that trains in milliseconds, and an observer that records.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plimsoll/train_job.h"
#include "test_files.h"
#include "thresholds.h"

namespace plimsoll {

/// Returns `bytes` of text that repeats itself just enough to be learned from; never the same twice in a row.
inline std::string sample_text(size_t bytes) {
  std::string text;
  for (uint32_t i = 0; text.size() < bytes; ++i) text += "line " + std::to_string(i * i % 97) + " of the log\n";
  text.resize(bytes);
  return text;
}

/// Returns a job of a decoder of 2 layers on bytes: windows of 16 tokens, `windows` of them to train on and
/// `validation` held out.
inline Job tiny_job(const TempFolder& folder, int64_t windows = 8, int64_t validation = 0) {
  Job job;
  job.model.decoder.hidden_size = 32;
  job.model.decoder.num_layers = 2;
  job.model.decoder.num_heads = 2;
  job.data.sequence_length = 16;
  // The windows need 16 tokens each, and the token after the last; the end of text is one token.
  const int64_t train = windows * 16 + 1, held_out = validation > 0 ? validation * 16 + 1 : 0;
  job.data.files = {put_file(folder / "text.txt", sample_text(static_cast<size_t>(train + held_out - 1)))};
  job.data.validation_fraction =
      (static_cast<double>(held_out) + 0.5) / static_cast<double>(train + held_out) * (held_out > 0 ? 1 : 0);
  job.data.cache_dir = folder / "cache";
  job.batch_size = 4;
  job.micro_batch_size = 2;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.budget.device = int64_t{1} << 30;
  job.max_steps = 6;
  job.seed = test_seed();
  job.threads = 1;
  return job;
}

/// Returns the largest absolute difference of two lists of losses; infinity if they are not of the same length.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

class Watcher : public TrainObserver {
 public:
  void planned(const PlannedJob&) override { ++plans; }
  void replanned(const std::string& why, const PlannedJob& job) override {
    replans.emplace_back(why, job.plan.budget.device_bytes());
  }
  void resumed(const std::string& checkpoint, int64_t step) override { resumed_from.emplace_back(checkpoint, step); }
  void stepped(const TrainProgress& progress) override {
    steps.push_back(progress);
    if (after_step) after_step(progress);
  }
  void evaluated(int64_t step, double loss) override { evaluations.emplace_back(step, loss); }
  void saved(const std::string&, int64_t step) override { saves.push_back(step); }

  int plans = 0;
  std::vector<std::pair<std::string, int64_t>> replans;  // reasons, and their number of samples
  std::vector<TrainProgress> steps;
  std::vector<std::pair<std::string, int64_t>> resumed_from;
  std::vector<std::pair<int64_t, double>> evaluations;
  std::vector<int64_t> saves;
  std::function<void(const TrainProgress&)> after_step;
};

/// Trains until `last_step`, then requests to stop.
inline TrainReport train_until(const Job& job, int64_t last_step) {
  Watcher watcher;
  watcher.after_step = [&](const TrainProgress& progress) {
    if (progress.step == last_step) request_stop();
  };
  return train_job(job, watcher);
}

inline TrainReport train(const Job& job) {
  Watcher watcher;
  return train_job(job, watcher);
}

}  // namespace plimsoll
