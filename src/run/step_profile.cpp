#include "run/step_profile.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "collectives/rank_fault.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

int64_t nanoseconds(ProfileClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

ProfiledSpan span_of(const TimeSpan& span) {
  return {nanoseconds(span.begin), nanoseconds(span.end)};
}

}  // namespace

StepProfile::StepProfile(ProfileOptions options, ProfileTitle title, Exchange* exchange)
    : options_(std::move(options)), title_(std::move(title)), exchange_(exchange) {
  if (exchange_ && exchange_->rank() > 0) return;
  const AtomicFile probe(options_.file);  // never committed: leaves no trace
}

bool StepProfile::wants(int64_t number) const {
  return !written_ && number >= options_.first_step && done_ < options_.steps;
}

void StepProfile::begin_step(int64_t number, const Plan& plan) {
  if (!plan_) plan_ = std::make_shared<ProfiledPlan>(plan);
  now_ = {};
  now_.number = number;
  now_.plan = plan_;
  now_.ops.reserve(plan.trace.ops.size());
  now_.copies.reserve(plan.trace.ops.size() / 4);
  now_.span.begin = nanoseconds(ProfileClock::now());
}

void StepProfile::add_part(std::string_view name, const TimeSpan& span) {
  now_.parts.push_back({name, span_of(span)});
}

void StepProfile::ran(int32_t op, const TimeSpan& span) {
  now_.ops.push_back({op, span_of(span)});
}

void StepProfile::copied(int32_t op, const TimeSpan& span) {
  const std::lock_guard lock(copies_mutex_);
  now_.copies.push_back({op, span_of(span)});
}

void StepProfile::end_step() {
  now_.span.end = nanoseconds(ProfileClock::now());
  steps_.push_back(std::exchange(now_, {}));
  ++done_;
}

void StepProfile::drop_step() {
  now_ = {};
}

void StepProfile::write_when_complete() {
  if (done_ != options_.steps || std::exchange(tried_, true)) return;
  try {
    write();
  } catch (const UserError&) {  // tried again when the run ends, which then reports it: steps need not be lost for it
  }
}

int64_t StepProfile::write() {
  if (!written_ && done_ > 0) {
    if (exchange_)
      write_profile_of_ranks(options_.file, title_, steps_, *exchange_);
    else
      write_profile(options_.file, title_, steps_);
    written_ = true;
    steps_ = {};
  }
  return done_;
}

namespace {

// Returns the identity of a clock that counts nanoseconds since the start of a machine: two machines may have the same
// host name.
std::string clock_name(const std::string& host) {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string id;
  return stream >> id ? id : host;
}

struct RankStart {
  std::string clock, host;
  int64_t begin = 0;  ///< begin of the first step, nanoseconds
};

std::vector<RankStart> starts_of_ranks(int64_t own_begin, Exchange& exchange) {
  const std::string host = host_name();
  std::vector<RankStart> starts;
  for (const std::string& text : exchange.gather_text(fmt::format("{} {} {}", own_begin, clock_name(host), host))) {
    std::istringstream words(text);
    RankStart& start = starts.emplace_back();
    words >> start.begin >> start.clock >> start.host;
    check(!words.fail(), "the start of a rank's profile is damaged");
  }
  return starts;
}

int64_t start_of_clock(const std::vector<RankStart>& starts, const std::string& clock) {
  std::optional<int64_t> earliest;
  for (const RankStart& each : starts)
    if (each.clock == clock) earliest = std::min(earliest.value_or(each.begin), each.begin);
  return earliest.value_or(0);
}

// Sends a length, and then that many bytes; length 0: the end.
void send_piece(std::string_view text, int rank, Exchange& exchange) {
  exchange.broadcast(at::full({1}, static_cast<int64_t>(text.size()), at::kLong), rank);
  if (text.empty()) return;
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  exchange.broadcast(bytes, rank);
}

// Returns the next piece of rank `root`; empty: there are no more.
std::string receive_piece(int root, Exchange& exchange) {
  const at::Tensor length = at::zeros({1}, at::kLong);
  exchange.broadcast(length, root);
  const int64_t count = length.item<int64_t>();
  if (count == 0) return {};
  const at::Tensor bytes = at::empty({count}, at::kByte);
  exchange.broadcast(bytes, root);
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(count)};
}

// The file of rank 0. After a failure it receives and drops everything that other ranks still send.
class RankFile {
 public:
  explicit RankFile(const std::filesystem::path& file) {
    attempt([&] { file_.emplace(file); });
  }
  void write(std::string_view text) {
    attempt([&] { file_->write(text); });
  }
  void commit() {
    attempt([&] { file_->commit(); });
  }
  const std::string& failure() const { return failure_; }

 private:
  template <typename Work>
  void attempt(Work&& work) {
    if (!failure_.empty()) return;
    try {
      work();
    } catch (const UserError& error) {
      failure_ = error.what();
      file_.reset();
    }
  }

  std::optional<AtomicFile> file_;
  std::string failure_;
};

}  // namespace

void write_profile_of_ranks(const std::filesystem::path& file, const ProfileTitle& title,
                            const std::vector<ProfiledStep>& steps, Exchange& exchange) {
  check(!steps.empty(), "a rank's profile has no step");
  const std::vector<RankStart> starts = starts_of_ranks(steps.front().span.begin, exchange);
  std::optional<RankFile> out;
  if (exchange.rank() == 0) {
    out.emplace(file);
    out->write(profile_head(title, exchange.size()));
  }
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const RankStart& of = starts[static_cast<size_t>(rank)];
    const bool sends = rank > 0 && rank == exchange.rank();
    if (rank == exchange.rank()) {
      const ProfiledProcess process{rank + 1, fmt::format("rank {} on {}", rank, of.host),
                                    start_of_clock(starts, of.clock)};
      profile_events(process, title.threads, steps, /*follower=*/rank > 0, [&](std::string_view text) {
        if (text.empty()) return;
        sends ? send_piece(text, rank, exchange) : out->write(text);
      });
    }
    if (rank == 0) continue;
    if (sends) {
      send_piece({}, rank, exchange);
      continue;
    }
    for (std::string piece = receive_piece(rank, exchange); !piece.empty(); piece = receive_piece(rank, exchange))
      if (out) out->write(piece);
  }
  if (out) {
    out->write(kProfileEnd);
    out->commit();
  }
  const std::string failure = exchange.gather_text(out ? out->failure() : std::string())[0];
  if (!failure.empty()) throw UserError(failure, UserError::Kind::failure);
}

}  // namespace plimsoll
