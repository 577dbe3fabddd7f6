#include "run/op_times.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "plan/cost.h"
#include "plimsoll/error.h"
#include "run/single_op.h"

namespace plimsoll {
namespace {

constexpr int kRuns = 3;
constexpr int64_t kMostFileBytes = 64 << 20;

struct Candidate {
  const Op* op;
  double expected;
};

double time_of(const Trace& trace, const Op& op) {
  SingleOp single(trace, op);
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    single.run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run > 0 && (run == 1 || seconds < best)) best = seconds;  // the first takes pages and makes plans of its own
  }
  return best;
}

}  // namespace

int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string timing_key(const Op& op) {
  std::string key = op.name + "(" + describe_constants(op) + ")";
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", name_of(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

int OpTimes::measure(const Trace& trace, const CostModel& estimate, double seconds, int64_t bytes, int64_t since) {
  std::map<std::string, Candidate> unknown;
  for (const Op& op : trace.ops) {
    if (op.phase == Phase::initialize || !op.call) continue;
    std::string key = timing_key(op);
    const auto known = times_.find(key);
    if (known != times_.end() && known->second.when >= since) continue;
    const double expected = seconds_of(estimate, op);
    if (expected * (kRuns + 1) > seconds / 10 || operand_bytes(trace, op) > bytes) continue;
    unknown.try_emplace(std::move(key), Candidate{&op, expected});
  }
  std::vector<std::pair<std::string, Candidate>> order(unknown.begin(), unknown.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.expected < b.second.expected; });
  at::set_num_threads(threads_);
  const auto start = std::chrono::steady_clock::now();
  int count = 0;
  for (const auto& [key, candidate] : order) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    try {
      times_[key] = {time_of(trace, *candidate.op), unix_seconds_now()};
      ++count;
    } catch (const UserError&) {  // refuses zeros: it stays an estimate
    }
  }
  return count;
}

std::optional<double> OpTimes::find(const Op& op) const {
  const auto found = times_.find(timing_key(op));
  return found == times_.end() ? std::nullopt : std::optional(found->second.seconds);
}

void OpTimes::load(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error || size > kMostFileBytes) return;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  // Compared as they stand: a field of another type is another machine's.
  if (!json.is_object() || json.value("machine", nlohmann::json()) != machine_name() ||
      json.value("threads", nlohmann::json()) != threads_)
    return;
  if (!json.contains("times") || !json["times"].is_object()) return;
  for (const auto& [key, value] : json["times"].items()) {
    const bool pair = value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number_integer();
    if (pair && value[0].get<double>() > 0) times_[key] = {value[0].get<double>(), value[1].get<int64_t>()};
  }
}

void OpTimes::save(const std::filesystem::path& file) const {
  nlohmann::json json = {{"machine", machine_name()}, {"threads", threads_}, {"times", nlohmann::json::object()}};
  for (const auto& [key, timing] : times_) json["times"][key] = {timing.seconds, timing.when};
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, json.dump(1) + "\n");
  } catch (const UserError&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace plimsoll
