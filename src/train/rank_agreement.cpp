#include "train/rank_agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <type_traits>

#include "collectives/rank_fault.h"
#include "job/shared_keys.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "run/rank_consistency.h"

namespace plimsoll {
namespace {

// Bytes of text in one exchange.
constexpr size_t kPiece = 2048;

// Returns the choices of a plan that decide which tensors are exchanged, as words without spaces.
std::string choices_text(const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {}", static_cast<int>(settings.ranks.strategy), settings.ranks.whole_part,
                  static_cast<int>(settings.precision), static_cast<int>(settings.optimizer.state_dtype),
                  static_cast<int>(settings.optimizer.weight_update), static_cast<int>(settings.accumulator_dtype),
                  settings.micro_batch(), planned.plan.update_in_backward ? 1 : 0, settings.accumulation().size());
  for (const auto& [epoch, count] : settings.accumulation()) text += fmt::format(" {} {}", epoch, count);
  return text;
}

}  // namespace

std::vector<std::string> RankAgreement::gather(std::string_view text) const {
  if (!exchange_) return {std::string(text)};
  return exchange_->gather_text(text);
}

template <typename Values>
std::vector<Values> RankAgreement::gather_values(const Values& own) const {
  static_assert(std::is_trivially_copyable_v<Values> && sizeof own <= kPiece);
  std::vector<Values> all;
  for (const std::string& bytes : gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    check(bytes.size() == sizeof own, "the values of a rank are damaged");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof own);
  }
  return all;
}

void RankAgreement::require_same_job(const Job& job) const {
  if (exchange_) job::require_same_keys(gather(job::shared_keys_text(job)));
}

void RankAgreement::agree_on_min_budget(PlanTarget& target, bool stated) const {
  if (!exchange_) return;
  int64_t most = 0;
  for (const Budget& budget : gather_values(target.budget)) {
    if (budget.device && target.budget.device) {
      target.budget.device = std::min(*target.budget.device, *budget.device);
      most = std::max(most, *budget.device);
    }
    target.budget.host = std::min(target.budget.host, budget.host);
    target.budget.disk = std::min(target.budget.disk, budget.disk);
  }
  // Available memory differs between ranks of one machine, so only different stated budgets are reported.
  if (stated && target.budget.device && *target.budget.device != most)
    target.budget_reason = fmt::format("ranks have budgets from {} to {}; the least counts for all",
                                       format_bytes(*target.budget.device), format_bytes(most));
}

bool RankAgreement::same_choices(const PlannedJob& planned) const {
  const std::vector<std::string> all = gather(choices_text(planned) + " " + exchange_order(planned.plan.trace));
  return std::ranges::all_of(all, [&](const std::string& each) { return each == all[0]; });
}

Job RankAgreement::first_rank_choices(const Job& job, const PlannedJob& planned) const {
  std::istringstream words(gather(choices_text(planned))[0]);
  int strategy = 0, precision = 0, state = 0, update = 0, accumulator = 0, in_backward = 0;
  size_t epochs = 0;
  Job chosen = job;
  chosen.micro_batch_size.emplace();
  words >> strategy >> chosen.ranks.whole_part >> precision >> state >> update >> accumulator >>
      *chosen.micro_batch_size >> in_backward >> epochs;
  AccumulationSchedule accumulation;
  for (size_t i = 0; i < epochs && words; ++i) {
    int64_t epoch = 0, count = 0;
    words >> epoch >> count;
    accumulation[epoch] = count;
  }
  check(!words.fail() && !accumulation.empty(), "the choices of the first rank are damaged");
  chosen.ranks.strategy = static_cast<Strategy>(strategy);
  chosen.precision = static_cast<Precision>(precision);
  chosen.optimizer.state_dtype = static_cast<StateDtype>(state);
  chosen.optimizer.weight_update = static_cast<WeightUpdate>(update);
  chosen.accumulator_dtype = static_cast<AccumulatorDtype>(accumulator);
  chosen.gradient_accumulation_steps = accumulation;
  chosen.update_in_backward = in_backward != 0 ? Choice::on : Choice::off;
  return chosen;
}

std::optional<ProfileOptions> RankAgreement::first_rank_profile(const ProfileOptions& own) const {
  std::istringstream words(gather(fmt::format("{} {} {}", own.file.empty() ? 0 : 1, own.first_step, own.steps))[0]);
  ProfileOptions all;
  bool wanted = false;
  words >> wanted >> all.first_step >> all.steps;
  check(!words.fail(), "the profile of the first rank is damaged");
  if (!wanted) return std::nullopt;
  if (leads()) all.file = own.file;
  return all;
}

std::string RankAgreement::of_first_rank(const std::string& own) const {
  if (!exchange_) return own;
  const auto mine = [&](std::string_view text) { return gather(leads() ? text : std::string_view())[0]; };
  std::string all;
  const size_t size = std::stoull(mine(std::to_string(own.size())));
  while (all.size() < size) {
    all += mine(std::string_view(own).substr(std::min(all.size(), own.size()), kPiece));
    check(all.size() <= size, "the text of the first rank is damaged");
  }
  return all;
}

bool RankAgreement::any(bool own) const {
  if (!exchange_) return own;
  return std::ranges::any_of(gather(own ? "1" : "0"), [](const std::string& each) { return each == "1"; });
}

RankAgreement::BetweenSteps RankAgreement::between_steps(bool stop, const RankProgress& own) const {
  BetweenSteps all{stop, {}};
  if (!exchange_) return all;
  for (const std::string& text :
       gather(fmt::format("{} {} {} {} {} {} {}", stop ? 1 : 0, ::getpid(), own.memory_used, own.memory_planned,
                          own.exchange_seconds, own.train_seconds, host_name()))) {
    std::istringstream words(text);
    RankProgress& of = all.ranks.emplace_back();
    int stops = 0;
    words >> stops >> of.pid >> of.memory_used >> of.memory_planned >> of.exchange_seconds >> of.train_seconds;
    check(!words.fail(), "the figures of a rank are damaged");
    words >> of.host;
    all.stop |= stops != 0;
  }
  return all;
}

std::vector<double> RankAgreement::in_turn(const std::vector<double>& own, int64_t count) const {
  if (!exchange_) return own;
  std::vector<double> all(static_cast<size_t>(count));
  const size_t of_rank = static_cast<size_t>((count + ranks() - 1) / ranks()), at_a_time = kPiece / sizeof(double);
  for (size_t begin = 0; begin < of_rank; begin += at_a_time) {
    const size_t end = std::min(own.size(), begin + at_a_time), mine = end > begin ? end - begin : 0;
    const std::vector<std::string> pieces =
        gather({reinterpret_cast<const char*>(own.data() + std::min(begin, own.size())), mine * sizeof(double)});
    for (size_t r = 0; r < pieces.size(); ++r)
      for (size_t i = 0; i < pieces[r].size() / sizeof(double); ++i) {
        const size_t index = (begin + i) * pieces.size() + r;
        check(index < all.size(), "a rank has more numbers than its turn");
        std::memcpy(&all[index], pieces[r].data() + i * sizeof(double), sizeof(double));
      }
  }
  return all;
}

std::vector<TrainReport::RankUse> RankAgreement::uses(const TrainReport::RankUse& own) const {
  std::vector<TrainReport::RankUse> all;
  if (!exchange_) return all;
  for (const std::string& text :
       gather(fmt::format("{} {} {} {} {} {} {} {}", own.planned, own.used, own.planned_host, own.used_host,
                          own.resident, exchange_->bytes_sent(), exchange_seconds(), host_name()))) {
    std::istringstream words(text);
    TrainReport::RankUse& of = all.emplace_back();
    words >> of.planned >> of.used >> of.planned_host >> of.used_host >> of.resident >> of.bytes_sent >>
        of.exchange_seconds;
    check(!words.fail(), "what a rank used is damaged");
    words >> of.host;
  }
  return all;
}

void RankAgreement::add_up(std::map<std::string, at::Tensor>& sums) const {
  if (!exchange_) return;
  // Names and sizes are exchanged first: a rank that evaluated nothing has no sums.
  std::string told;
  for (const auto& [name, sum] : sums) {
    check(name.find('\n') == std::string::npos, "the name of a sum has a line break");
    told += fmt::format("{} {} {}\n", fmt::join(sum.sizes(), ","), sum.dim(), name);
  }
  std::string longest;
  for (const std::string& each : gather(told))
    if (each.size() > longest.size()) longest = each;
  std::istringstream lines(longest);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    check(first != std::string::npos && second != std::string::npos, "the sums of a rank are damaged");
    std::vector<int64_t> sizes;
    std::istringstream numbers(line.substr(0, first));
    for (std::string number; std::getline(numbers, number, ',');) sizes.push_back(std::stoll(number));
    at::Tensor& sum = sums[line.substr(second + 1)];
    const at::Tensor own = sum.defined() ? sum.contiguous() : at::zeros(sizes, at::kDouble);
    sum = at::empty(sizes, at::kDouble);
    exchange_->all_reduce(sum.view(-1), own.view(-1), /*first=*/true);
  }
}

}  // namespace plimsoll
