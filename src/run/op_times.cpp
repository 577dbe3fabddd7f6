#include "run/op_times.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/measurement.h"
#include "cost/cost.h"
#include "cost/operators.h"
#include "ops/kernel_choice.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/trace.h"
#include "run/executor/single_op.h"
#include "run/operand_caches.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxFileBytes = 64 << 20;

// Runs in a try: it is the better of two runs, after one that touches pages and prepares plans of libraries.
constexpr int kRunsOfTry = 3;
// Upper bound of tries of an op. Two are enough if they agree.
constexpr int kMaxRounds = 12;
// Time between rounds: other work on a busy machine runs for some milliseconds at a time.
constexpr double kSecondsBetweenRounds = 0.02;

// Largest part of a call's seconds that the first try of an op may take by its estimate.
constexpr double kMaxShareOfOp = 0.25;
// Runs that allocating and filling the operands takes the time of, by estimate.
constexpr int kRunsToSetUp = 1;
// Version of the timing method and of the kernels; times of another version are not read. 3: operands at their reuse
// distances, mean of the two shortest tries. 4: within whole steps where one is tried; kernels of ops/lanes.h.
constexpr int kMethod = 4;

// Names of Timing::State, in its order.
constexpr std::array<std::string_view, 3> kStates{"agreed", "single", "contradicted"};

// Throws UserError if the device reports a fault after `op` was tried without success, for this `reason`. Every later
// call of the device reports the same fault, so only here it is known which op has caused it.
void require_no_fault(const Trace& trace, const Op& op, Backend& backend, std::string_view reason) {
  try {
    backend.synchronize_device();
  } catch (const std::exception& error) {
    const std::string& module = trace.modules[op.module];
    throw UserError(fmt::format("operator {}{} failed when it was tried alone: {}; the device has reported since: {}",
                                op.name, module.empty() ? "" : fmt::format(" in module '{}'", module), reason,
                                std::string_view(error.what()).substr(0, std::string_view(error.what()).find('\n'))),
                    UserError::Kind::failure);
  }
}

struct Candidate {
  std::string key;
  const Op* op;
  double expected;
  std::vector<size_t> occurrences = {};  // indices of ops
  StableTiming tries = {};
};

double try_op(const Trace& trace, const Op& op, std::span<const int64_t> distances, OperandCaches& caches) {
  SingleOp single(trace, op);
  const std::vector<std::span<const std::byte>> operands = single.operands();
  double best = 0;
  for (int run = 0; run < kRunsOfTry; ++run) {
    caches.prepare(operands, distances);
    const double seconds =
        measuring_machine().time({op.name, op.flops, static_cast<double>(op.bytes_moved)}, [&] { single.run(); });
    if (run > 0 && (run == 1 || seconds < best)) best = seconds;
  }
  return best;
}

// Returns whether the op takes seconds of its own that a step counts.
bool is_timed(const Op& op) {
  return op.phase != Phase::initialize && op.call && op.link_bytes == 0;
}

}  // namespace

OpTimer machine_op_timer() {
  kernel_choices();  // keys name kernels, and a choice made within a try would be timed
  return [caches = OperandCaches()](const Trace& trace, const Op& op, std::span<const int64_t> distances) mutable {
    return try_op(trace, op, distances, caches);
  };
}

int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string timing_key(const Op& op) {
  std::string key = op.name + "(" + describe_constants(op) + ")";
  if (const OpKind kind = kind_of(op); kind == OpKind::loss_head || kind == OpKind::attention)
    key += ops::kernels_text(name_of(kind));  // sites begin with the kind's name
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", name_of(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

bool OpTimes::is_known(const std::string& key, int64_t since) const {
  const auto known = times_.find(key);
  return known != times_.end() && known->second.state == Timing::State::agreed && known->second.when >= since;
}

bool OpTimes::lacks(const Trace& trace, const StepShape& shape, int64_t since) const {
  return std::ranges::any_of(trace.segments, [&](const Segment& segment) {
    if (runs_in_step(trace, segment.kind, shape.micro_batches, shape.ragged) == 0) return false;
    const std::span<const Op> ops(trace.ops.begin() + segment.begin, trace.ops.begin() + segment.end);
    return std::ranges::any_of(ops, [&](const Op& op) { return is_timed(op) && !is_known(timing_key(op), since); });
  });
}

int OpTimes::record(const Trace& trace, const std::vector<OpInStep>& in_steps, int64_t since) {
  struct Sum {
    double seconds = 0, runs = 0;
  };
  std::map<std::string, Sum> sums;
  for (size_t i = 0; i < in_steps.size(); ++i) {
    const auto& [seconds, runs] = in_steps[i];
    if (runs == 0 || !is_timed(trace.ops[i])) continue;
    const std::string key = timing_key(trace.ops[i]);
    if (is_known(key, since)) continue;
    Sum& sum = sums[key];
    const auto times = static_cast<double>(runs);
    sum.seconds += times * seconds;
    sum.runs += times;
  }
  for (const auto& [key, sum] : sums) times_[key] = {sum.seconds / sum.runs, unix_seconds_now(), Timing::State::agreed};
  return static_cast<int>(sums.size());
}

int OpTimes::measure(const Plan& plan, const CostModel& estimate, double seconds, int64_t bytes, int64_t since) {
  MeasuringMachine& machine = measuring_machine();
  const double start = machine.now();
  const Trace& trace = plan.trace;
  std::map<std::string, Candidate> unknown;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    if (!is_timed(op)) continue;
    std::string key = timing_key(op);
    if (is_known(key, since)) continue;
    const double expected = seconds_of(estimate, op);
    if (expected * (kRunsOfTry + kRunsToSetUp) > seconds * kMaxShareOfOp || operand_bytes(trace, op) > bytes) continue;
    unknown.try_emplace(key, Candidate{key, &op, expected}).first->second.occurrences.push_back(i);
  }
  if (unknown.empty()) return 0;
  const std::vector<std::vector<int64_t>> distances = reuse_distances(plan);
  std::vector<Candidate> order;
  const auto evaluates = [&](size_t i) { return trace.ops[i].phase == Phase::evaluate; };
  // Equal for all operands that are in no cache.
  const auto sum_of = [](const std::vector<int64_t>& of_op) {
    int64_t sum = 0;
    for (const int64_t distance : of_op) sum += std::min(distance, int64_t{1} << 50);
    return sum;
  };
  for (auto& [key, candidate] : unknown) {
    // An op is timed as its median occurrence, and a step does not evaluate.
    if (!std::ranges::all_of(candidate.occurrences, evaluates)) std::erase_if(candidate.occurrences, evaluates);
    std::ranges::stable_sort(candidate.occurrences, {}, [&](size_t i) { return sum_of(distances[i]); });
    order.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(order, {}, &Candidate::expected);
  at::set_num_threads(threads_);
  for (int round = 0; round < kMaxRounds && !order.empty(); ++round) {
    const double begin = machine.now();
    for (Candidate& each : order) {
      if (machine.now() - start > seconds) break;
      if (each.tries.converged()) continue;
      try {
        each.tries.add(timer_(trace, *each.op, distances[each.occurrences[each.occurrences.size() / 2]]));
      } catch (const UserError&) {  // refuses zeros: its time stays an estimate
        each.op = nullptr;
      }
    }
    std::erase_if(order, [](const Candidate& each) { return each.op == nullptr; });
    const double left = seconds - (machine.now() - start);
    if (left <= 0 || std::ranges::all_of(order, [](const Candidate& each) { return each.tries.converged(); })) break;
    if (const double pause = kSecondsBetweenRounds - (machine.now() - begin); pause > 0)
      machine.wait(std::min(pause, left));
  }
  int count = 0;
  for (const Candidate& each : order) {
    if (each.tries.count() == 0) continue;
    const bool agreed = each.tries.converged();
    double seconds = agreed ? each.tries.mean_of_shortest() : each.tries.shortest();
    // If tries never agreed, the shortest counts, even if it is from an earlier call.
    if (const auto known = times_.find(each.key);
        !agreed && known != times_.end() && known->second.state == Timing::State::single && known->second.when >= since)
      seconds = std::min(seconds, known->second.seconds);
    times_[each.key] = {seconds, unix_seconds_now(), agreed ? Timing::State::agreed : Timing::State::single};
    ++count;
  }
  return count;
}

std::optional<double> OpTimes::find(const Op& op) const {
  const auto found = times_.find(timing_key(op));
  if (found == times_.end() || found->second.state == Timing::State::stale) return std::nullopt;
  return found->second.seconds;
}

std::set<std::string> OpTimes::keys_of(const Trace& trace, bool stale) const {
  std::set<std::string> keys;
  for (const Op& op : trace.ops) {
    if (op.phase == Phase::initialize || !op.call) continue;
    const auto found = times_.find(timing_key(op));
    if (found != times_.end() && (found->second.state == Timing::State::stale) == stale) keys.insert(found->first);
  }
  return keys;
}

int OpTimes::invalidate(const Trace& trace) {
  const std::set<std::string> keys = keys_of(trace, false);
  for (const std::string& key : keys) times_.at(key).state = Timing::State::stale;
  return static_cast<int>(keys.size());
}

int OpTimes::invalidated(const Trace& trace) const {
  return static_cast<int>(keys_of(trace, true).size());
}

void OpTimes::load(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error || size > kMaxFileBytes) return;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  // Compared as JSON: a field of another type means another machine.
  if (!json.is_object() || json.value("machine", nlohmann::json()) != machine_name() ||
      json.value("threads", nlohmann::json()) != threads_ || json.value("method", nlohmann::json()) != kMethod)
    return;
  if (!json.contains("times") || !json["times"].is_object()) return;
  for (const auto& [key, value] : json["times"].items()) {
    const bool good = value.is_array() && value.size() == 3 && value[0].is_number() && value[1].is_number_integer() &&
                      value[2].is_string();
    const auto* const state = good ? std::ranges::find(kStates, value[2].get<std::string>()) : kStates.end();
    if (state == kStates.end() || !(value[0].get<double>() > 0)) continue;
    times_[key] = {value[0].get<double>(), value[1].get<int64_t>(),
                   static_cast<Timing::State>(state - kStates.begin())};
  }
}

void OpTimes::save(const std::filesystem::path& file) const {
  nlohmann::json json = {
      {"machine", machine_name()}, {"threads", threads_}, {"method", kMethod}, {"times", nlohmann::json::object()}};
  for (const auto& [key, timing] : times_)
    json["times"][key] = {timing.seconds, timing.when, kStates[static_cast<size_t>(timing.state)]};
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, json.dump(1) + "\n");
  } catch (const UserError&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
}

std::string MeasuredWorkspace::key_of(const Op& op) {
  std::string key = op.name + "(" + describe_constants(op) + ")";  // the forms of a loss head differ in a constant
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", static_cast<int>(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

bool MeasuredWorkspace::record(const Op& op, int64_t bytes) {
  int64_t& known = bytes_[key_of(op)];
  if (bytes <= known) return false;
  known = bytes;
  return true;
}

bool MeasuredWorkspace::record_other_thread_bytes(int64_t bytes) {
  bytes = placed_bytes(bytes);
  if (bytes <= other_thread_bytes_) return false;
  other_thread_bytes_ = bytes;
  return true;
}

MeasuredWorkspace::Probed MeasuredWorkspace::probe(const Trace& trace, int64_t bytes, Backend& backend,
                                                   const RunOp& run) {
  bool any = false;
  int64_t refused = 0;
  std::set<std::string> seen;
  for (const Op& op : trace.ops) {
    if (!op.call || op.link_bytes > 0) continue;  // an exchange needs all ranks
    const std::string key = key_of(op);
    if (bytes_.contains(key) || !seen.insert(key).second) continue;
    if (operand_bytes(trace, op) > bytes) {  // a later call may allow more bytes
      refused += !base_ || !base_(op);
      continue;
    }
    Op ruled = op;  // has its scratch by rule; scratch beyond that is recorded
    const auto run_op = [&] {
      SingleOp single(trace, ruled, op.on_host ? cpu_backend() : backend);
      single.run();
      single.synchronize();
      const int64_t unplanned = single.unplanned_bytes();
      bytes_[key] = unplanned;
      any |= unplanned > 0;
      any |= record_other_thread_bytes(single.other_thread_bytes());
    };
    try {
      if (base_) ruled.workspace_bytes = placed_bytes(trace, base_(op).value_or(0));
      if (!run) {
        run_op();
      } else if (!run(op, operand_bytes(trace, ruled), run_op)) {
        ++refused;
        bytes_.erase(key);
        require_no_fault(trace, op, backend, "it did not end, or it took too much memory or time");
      }
    } catch (const UserError& error) {
      // It refuses zeros, or there is no memory to try it: the first step will measure it. The fault of a kernel is
      // another matter.
      require_no_fault(trace, op, backend, error.what());
    }
  }
  return {any, refused};
}

std::string MeasuredWorkspace::text() const {
  std::string text = fmt::format("{}\n", other_thread_bytes_);
  for (const auto& [key, bytes] : bytes_)
    if (bytes > 0) text += fmt::format("{} {}\n", bytes, key);
  return text;
}

bool MeasuredWorkspace::merge(std::string_view text) {
  bool larger = false, first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    check(end != std::string_view::npos, "what another rank learned is cut off");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    int64_t bytes = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), bytes);
    check(error == std::errc() && bytes >= 0, "what another rank learned is damaged");
    if (std::exchange(first, false)) {
      larger |= bytes > other_thread_bytes_;
      other_thread_bytes_ = std::max(other_thread_bytes_, bytes);
      continue;
    }
    check(stop != line.data() + line.size(), "what another rank learned is damaged");
    int64_t& known = bytes_[std::string(stop + 1, line.data() + line.size())];
    larger |= bytes > known;
    known = std::max(known, bytes);
  }
  return larger;
}

WorkspaceModel MeasuredWorkspace::model() const {
  return [*this](const Op& op) -> std::optional<int64_t> {
    const std::optional<int64_t> ruled = base_ ? base_(op) : std::nullopt;
    if (bytes_.empty()) return ruled;
    const auto found = bytes_.find(key_of(op));
    if (found == bytes_.end()) return ruled;
    return std::max(found->second, ruled.value_or(0));
  };
}

}  // namespace plimsoll
