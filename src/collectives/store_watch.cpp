#include "collectives/store_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "collectives/shared_block.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kBeat = milliseconds(500);
constexpr auto kUrgentBeat = milliseconds(100);    // while a rank looks for a fault
constexpr auto kLostSilence = milliseconds(1600);  // three beats: after a broken connection, silence for this time
                                                   // means the end of a rank
constexpr auto kForever = std::chrono::hours(24 * 365);  // the watch aborts the wait earlier if a rank fails

const std::string kFirstFault = "first_fault", kNoFault = "none";

std::string life_key(int rank) {
  return fmt::format("life/{}", rank);
}

}  // namespace

StoreWatch::StoreWatch(const StorePointer& store, const ProcessGroupOptions& options)
    : store_(store->clone()),
      options_(options),
      identity_(host_identity()),
      lives_(static_cast<size_t>(options.size)),
      last_read_(Clock::now()) {
  store_->setTimeout(options.silence);
  if (options.rank == 0) set_text(*store_, kFirstFault, kNoFault);
  set_text(*store_, life_key(options.rank), own_life());
}

void StoreWatch::start() {
  sigset_t all, before;  // signals must be handled by the threads of the program
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
  guard_ = std::thread([this] { guard(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StoreWatch::stop() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  state_ = State::finished;
  urgent_ = true;
  changed_.notify_all();
  if (options_.store_rank == options_.rank) {
    // The others read from this rank's store which rank failed. The store stays until they have ended too, or do not
    // answer.
    changed_.wait_for(lock, options_.silence, [&] {
      const bool failed = !fault_.empty();
      return !store_fault_.empty() || std::ranges::all_of(lives_, [&](const Life& life) {
        return life.state == State::finished || (failed && life.silent >= kLostSilence);
      });
    });
  }
  ending_ = true;
  changed_.notify_all();
  // c10d may wait without limit for an answer of a stopped store: that thread is then abandoned, with the data that it
  // needs.
  const bool ended = changed_.wait_for(lock, options_.silence, [&] { return run_ended_ || !store_fault_.empty(); });
  const bool joins = ended && (run_ended_ || !talking_);
  lock.unlock();
  guard_.join();
  if (joins) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

// Watches for a store whose process is stopped, because c10d has no time limit for its answers.
void StoreWatch::guard() {
  std::unique_lock lock(mutex_);
  auto looked = Clock::now();
  while (!changed_.wait_for(lock, kUrgentBeat, [&] { return ending_; })) {
    const auto now = Clock::now();
    const auto passed = std::chrono::duration_cast<milliseconds>(now - std::exchange(looked, now));
    if (on_loss_) look_for_loss(std::min(passed, 2 * kUrgentBeat));
    if (!talking_ || !store_fault_.empty() || Clock::now() - talks_since_ < options_.silence) continue;
    store_fault_ = store_fault(false);
    find_fault();
    changed_.notify_all();
  }
}

// Calls `talk` without the lock, because the store may block; takes the lock again afterwards, even after an exception.
template <class Talk>
void StoreWatch::talk(std::unique_lock<std::mutex>& lock, const Talk& talk) {
  talking_ = true;
  talks_since_ = Clock::now();
  lock.unlock();
  try {
    talk();
  } catch (...) {
    lock.lock();
    talking_ = false;
    throw;
  }
  lock.lock();
  talking_ = false;
}

void StoreWatch::watch_others(std::function<void()> on_loss) {
  const std::lock_guard lock(mutex_);
  on_loss_ = std::move(on_loss);
}

// A fault that this rank found is a loss. One that it read may be a reason that it finds itself.
void StoreWatch::look_for_loss(milliseconds passed) {
  const bool before = loss_timer_.is_lost();
  loss_timer_.add(passed, !found_.empty() || !store_fault_.empty(), !fault_.empty());
  if (loss_timer_.is_lost() && !before) on_loss_();
  if (!loss_timer_.is_overdue() || !options_.on_lost_rank) return;
  remove_unfinished_files();
  options_.on_lost_rank(fault_.empty() ? found_ : fault_);
}

void StoreWatch::note(std::string_view place) {
  const std::lock_guard lock(mutex_);
  place_ = cut_text(place, kMaxNote);
}

void StoreWatch::fail(std::string_view why) noexcept {
  std::unique_lock lock(mutex_);
  if (!why_.empty()) return;  // the first reason counts
  why_ = failed_text({options_.rank, options_.hosts[static_cast<size_t>(options_.rank)], place_},
                     cut_text(why, kMaxFault));
  urgent_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::seconds(2), [&] { return why_published_ || !store_fault_.empty(); });
}

void StoreWatch::wait(const c10::intrusive_ptr<c10d::Work>& work) {
  std::unique_lock lock(mutex_);
  if (!fault_.empty()) throw_failure(fault_);
  for (Life& life : lives_) life.silent = milliseconds(0);
  current_ = work;
  lock.unlock();
  bool done = false;
  std::string problem = "it was aborted";
  try {
    done = work->wait(std::chrono::duration_cast<milliseconds>(kForever));
  } catch (const std::exception& error) {
    problem = first_line(error.what());
  }
  lock.lock();
  if (done) {
    current_ = nullptr;
    return;
  }
  current_ = nullptr;
  lock.unlock();
  throw_broken(problem);
}

void StoreWatch::throw_broken(const std::string& problem) {
  std::unique_lock lock(mutex_);
  connection_lost_ = urgent_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, options_.silence + std::chrono::seconds(1), [&] { return !fault_.empty(); });
  throw_failure(!fault_.empty() ? fault_ : "the connection to another rank is broken: " + problem);
}

void StoreWatch::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool last = ending_;
    urgent_ = false;
    if (store_fault_.empty()) {
      const auto begin = Clock::now();
      try {
        publish(lock);
        if (!last) read_others(lock);
      } catch (const std::exception&) {  // exceptions of c10d; the lock is held again
        if (store_fault_.empty()) store_fault_ = store_fault(Clock::now() - begin < options_.silence / 2);
      }
    }
    if (last) {
      run_ended_ = true;
      changed_.notify_all();
      return;
    }
    find_fault();
    changed_.notify_all();
    const bool hurry = connection_lost_ || state_ == State::finished;
    changed_.wait_for(lock, hurry ? kUrgentBeat : kBeat, [&] { return ending_ || urgent_; });
  }
}

std::string StoreWatch::own_life() const {
  return fmt::format("{} {} {}\n{}\n{}", beats_, static_cast<int>(state_), ::getpid(), identity_, place_);
}

void StoreWatch::publish(std::unique_lock<std::mutex>& lock) {
  ++beats_;
  const std::string life = own_life();
  const std::string fault = found_.empty() ? why_ : found_;
  talk(lock, [&] {
    set_text(*store_, life_key(options_.rank), life);
    if (!fault.empty()) store_->compareSet(kFirstFault, kNoFault, fault);
  });
  if (!why_.empty() && !fault.empty()) why_published_ = true;
}

void StoreWatch::read_others(std::unique_lock<std::mutex>& lock) {
  std::vector<std::string> keys = {kFirstFault};
  for (int r = 0; r < options_.size; ++r) keys.push_back(life_key(r));
  std::vector<std::vector<uint8_t>> values;
  talk(lock, [&] { values = store_->multiGet(keys); });
  // At most two beats count: if this rank was stopped itself, the others need not have been silent.
  const auto now = Clock::now();
  const auto passed = std::min(std::chrono::duration_cast<milliseconds>(now - last_read_), 2 * kBeat);
  last_read_ = now;
  const std::string first(values[0].begin(), values[0].end());
  if (first != kNoFault && fault_.empty()) fault_ = first;
  for (size_t r = 0; r < lives_.size(); ++r) {
    std::istringstream text(std::string(values[r + 1].begin(), values[r + 1].end()));
    Life& life = lives_[r];
    int64_t beats = 0;
    int state = 0;
    text >> beats >> state >> life.pid;
    text.ignore();
    std::getline(text, life.identity);
    std::getline(text, life.place);
    life.state = state == 0 ? State::running : State::finished;
    life.silent = beats == life.beats ? life.silent + passed : milliseconds(0);
    life.beats = beats;
  }
}

// Looks for a fault only if the caller waits or watches: a rank that ends is no fault until another one needs it.
void StoreWatch::find_fault() {
  const bool waiting = current_ || connection_lost_ || on_loss_;
  if (waiting && fault_.empty() && found_.empty()) {
    for (int r = 0; r < options_.size && found_.empty(); ++r)
      if (r != options_.rank) found_ = fault_of(r);
    if (!found_.empty()) urgent_ = true;  // published and read again: another rank may have been first
    if (!store_fault_.empty()) fault_ = store_fault_;
  } else if (!found_.empty() && fault_.empty() && !store_fault_.empty()) {
    fault_ = found_;
  }
  if (current_ && !fault_.empty()) current_->abort();
}

std::string StoreWatch::fault_of(int rank) const {
  const Life& life = lives_[static_cast<size_t>(rank)];
  if (life.state == State::finished) {
    // A rank that has finished has sent everything that others wait for; otherwise the connection breaks.
    return connection_lost_ ? finished_text(place_of(rank), {options_.rank, "", place_}) : std::string();
  }
  if (life.identity == identity_ && process_is_gone(life.pid)) return ended_text(place_of(rank));
  if (connection_lost_ && life.silent >= kLostSilence) return ended_text(place_of(rank));
  return life.silent >= options_.silence ? silent_text(place_of(rank), options_.silence) : std::string();
}

RankPlace StoreWatch::place_of(int rank) const {
  return {rank, options_.hosts[static_cast<size_t>(rank)], lives_[static_cast<size_t>(rank)].place};
}

std::string StoreWatch::store_fault(bool at_once) const {
  const int rank = options_.store_rank;
  if (rank < 0 || rank == options_.rank) return "the store of the ranks does not answer any more; check the launcher";
  if (lives_[static_cast<size_t>(rank)].state == State::finished)
    return finished_text(place_of(rank), {options_.rank, "", place_});
  return at_once ? ended_text(place_of(rank)) : silent_text(place_of(rank), options_.silence);
}

}  // namespace plimsoll
