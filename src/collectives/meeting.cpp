#include "collectives/meeting.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "collectives/shared_block.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kLook = milliseconds(50);      // interval in which the caller of meet() looks at the meeting
constexpr auto kBeat = milliseconds(250);     // interval of the signs of life
constexpr auto kNotice = milliseconds(1000);  // time in which the thread of a meeting ends after give_up()

std::string beat_key(int rank) {
  return fmt::format("beat/{}", rank);
}

/// Measures the time between calls. A call counts at most twice `interval`: if this process was stopped itself, the
/// others need not have been silent.
class Ticks {
 public:
  explicit Ticks(milliseconds interval) : max_(2 * interval) {}
  milliseconds passed() {
    const auto now = Clock::now();
    return std::min(std::chrono::duration_cast<milliseconds>(now - std::exchange(last_, now)), max_);
  }

 private:
  milliseconds max_;
  Clock::time_point last_ = Clock::now();
};

/// Returns the text that `plimsoll train --devices` writes if a rank ends or is stopped; "": none.
std::string fault_of_launcher(const std::filesystem::path& store) {
  std::ifstream file(store.string() + kStoreFaultSuffix, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

const std::string kMeetingFault = "fault";

MeetingState::MeetingState(const Rendezvous& rendezvous) : rendezvous_(rendezvous) {
  opening_.require_go_on = [this] { require_go_on(); };
}

void MeetingState::finish(std::shared_ptr<Exchange> exchange) {
  const std::lock_guard lock(mutex_);
  exchange_ = std::move(exchange);
  finished_ = true;
  changed_.notify_all();
}

void MeetingState::finish(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  finished_ = true;
  changed_.notify_all();
}

std::shared_ptr<Exchange> MeetingState::wait(bool& finished) {
  std::unique_lock lock(mutex_);
  Ticks ticks(kLook);
  for (milliseconds given_up{0}; !changed_.wait_for(lock, kLook, [&] { return finished_; });) {
    const milliseconds passed = ticks.passed();
    lock.unlock();
    look(passed);
    lock.lock();
    if (!fault_.empty()) given_up += passed;
    // c10d does not come back from the wait for a first answer.
    if (!finished_ && (given_up >= kNotice || (!fault_.empty() && opening_.connecting))) {
      finished = false;
      throw_failure(fault_);
    }
  }
  finished = true;
  if (error_) std::rethrow_exception(error_);
  return std::move(exchange_);
}

// The caller looks at what does not need the store, because the store may not answer.
void MeetingState::look(milliseconds passed) {
  if (rendezvous_.is_stopped && rendezvous_.is_stopped())
    give_up("this rank was asked to stop while it waited for the others");
  if (rendezvous_.address.empty())
    if (std::string text = fault_of_launcher(rendezvous_.file); !text.empty()) give_up(std::move(text));
  waited_ += passed;
  if (opening_.connecting && waited_ >= rendezvous_.patience) give_up(no_rank_0_text(rendezvous_));
  const std::lock_guard lock(mutex_);
  talked_ = talking_ ? talked_ + passed : milliseconds(0);
  if (talked_ < rendezvous_.silence || !fault_.empty()) return;
  fault_ = server_ ? silent_text(*server_, rendezvous_.silence)
                   : fmt::format("{} has not answered for {}; check rank 0, or the launcher that serves the store",
                                 store_name(rendezvous_), seconds_text(rendezvous_.silence));
}

void MeetingState::give_up(std::string why) {
  const std::lock_guard lock(mutex_);
  if (fault_.empty()) fault_ = std::move(why);
}

void MeetingState::require_go_on() {
  if (const std::string why = fault(); !why.empty()) throw_failure(why);
}

std::string MeetingState::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void MeetingState::set_server(const RankPlace& rank) {
  const std::lock_guard lock(mutex_);
  server_ = rank;
}

std::string MeetingState::closed_text(std::string_view problem) {
  const std::lock_guard lock(mutex_);
  if (server_) return ended_text(*server_);
  return fmt::format("{} has closed or does not answer any more: {}", store_name(rendezvous_), problem);
}

void MeetingState::set_talking(bool talking) {
  const std::lock_guard lock(mutex_);
  talking_ = talking;
}

std::string Who::text() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", size, serves ? 1 : 0, pid, host, identity, device);
}

Who Who::parsed(const std::string& text) {
  std::istringstream lines(text);
  Who who;
  lines >> who.size >> who.serves >> who.pid;
  lines.ignore();
  std::getline(lines, who.host);
  std::getline(lines, who.identity);
  std::getline(lines, who.device);
  return who;
}

/// Shared with the thread, which is abandoned if the store does not answer.
struct MeetingWatch::Data {
  struct Life {
    bool known = false, same_host = false;
    int pid = 0;
    std::string host, beat;
    milliseconds silent{0};
  };

  std::shared_ptr<MeetingState> state;
  StorePointer store;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Life> lives;
  bool ending = false, talking = false;
  int64_t beats = 0;

  void run();
  void look(std::unique_lock<std::mutex>& lock, milliseconds passed);
  std::string lost(milliseconds passed, const std::vector<int>& ranks, const std::vector<std::string>& seen);
};

MeetingWatch::MeetingWatch(std::shared_ptr<MeetingState> state, const StorePointer& store)
    : data_(std::make_shared<Data>()) {
  const Rendezvous& rendezvous = state->rendezvous();
  set_text(*store, beat_key(rendezvous.rank), "0");
  data_->store = store->clone();
  data_->lives.resize(static_cast<size_t>(rendezvous.size));
  data_->state = std::move(state);
  sigset_t all, before;  // signals must be handled by the threads of the program
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([data = data_] { data->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MeetingWatch::~MeetingWatch() {
  end();
}

void MeetingWatch::end() {
  if (!thread_.joinable()) return;
  bool answers = true;
  {
    std::unique_lock lock(data_->mutex);
    data_->ending = true;
    data_->changed.notify_all();
    answers = data_->changed.wait_for(lock, kNotice, [&] { return !data_->talking; });
  }
  if (answers)
    thread_.join();
  else
    thread_.detach();
}

void MeetingWatch::watch(int rank, const Who& who) {
  const std::lock_guard lock(data_->mutex);
  Data::Life& life = data_->lives[static_cast<size_t>(rank)];
  life.known = true;
  life.same_host = who.identity == host_identity();
  life.pid = who.pid;
  life.host = who.host;
  const Rendezvous& rendezvous = data_->state->rendezvous();
  if (who.serves && !rendezvous.address.empty() && rank != rendezvous.rank)
    data_->state->set_server({rank, who.host, ""});
}

void MeetingWatch::Data::run() {
  std::unique_lock guard(mutex);
  Ticks ticks(kBeat);
  while (!changed.wait_for(guard, kBeat, [&] { return ending; })) {
    if (!state->fault().empty()) continue;
    try {
      look(guard, ticks.passed());
    } catch (const std::exception&) {  // c10d: the store has closed, which the meeting finds, too
    }
    talking = false;
    state->set_talking(false);
    changed.notify_all();
  }
}

// Reads and writes the store without the lock, because it may block.
void MeetingWatch::Data::look(std::unique_lock<std::mutex>& lock, milliseconds passed) {
  const int own = state->rendezvous().rank;
  std::vector<int> ranks;
  std::vector<std::string> keys, seen;
  for (size_t r = 0; r < lives.size(); ++r) {
    if (!lives[r].known || static_cast<int>(r) == own) continue;
    ranks.push_back(static_cast<int>(r));
    keys.push_back(beat_key(static_cast<int>(r)));
  }
  const std::string beat = std::to_string(++beats);
  talking = true;
  lock.unlock();
  const auto take_fault = [&] {
    if (store->check({kMeetingFault})) state->give_up(get_text(*store, kMeetingFault));
  };
  try {
    state->set_talking(true);
    set_text(*store, beat_key(own), beat);
    take_fault();
    if (!keys.empty())
      for (const std::vector<uint8_t>& each : store->multiGet(keys)) seen.emplace_back(each.begin(), each.end());
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
  const std::string fault = lost(passed, ranks, seen);
  if (fault.empty()) return;
  lock.unlock();
  try {
    take_fault();  // a rank that gives up says why, and then ends
    if (state->fault().empty()) set_text(*store, kMeetingFault, fault);
  } catch (const std::exception&) {  // the rank served the store
  }
  state->give_up(fault);
  lock.lock();
}

std::string MeetingWatch::Data::lost(milliseconds passed, const std::vector<int>& ranks,
                                     const std::vector<std::string>& seen) {
  const milliseconds silence = state->rendezvous().silence;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Life& life = lives[static_cast<size_t>(ranks[i])];
    const RankPlace place{ranks[i], life.host, ""};
    if (seen[i] != life.beat) {
      life.beat = seen[i];
      life.silent = milliseconds(0);
      continue;
    }
    life.silent += passed;
    if (life.same_host && process_is_gone(life.pid)) return ended_text(place);
    if (life.silent >= silence) return silent_text(place, silence);
  }
  return {};
}

}  // namespace plimsoll
