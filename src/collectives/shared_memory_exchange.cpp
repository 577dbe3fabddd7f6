#include "collectives/shared_memory_exchange.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "collectives/exchange_support.h"
#include "plimsoll/error.h"

namespace plimsoll {
// Every rank writes the parts of the next piece that the others need, waits for them, and adds. A buffer is written
// again two pieces later. All ranks have passed the barrier between the two, so they have read it.
void SharedMemoryExchange::reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) {
  begin(call_of(ExchangeKind::reduce_scatter, sum, source, first));
  check(can_sum(sum.scalar_type(), source.scalar_type()), "reduce_scatter: dtypes that cannot be summed");
  check(source.numel() <= sum.numel() * size(), "reduce_scatter: the source has more elements than all slices");
  const int64_t slice = sum.numel(), width = source.element_size(), ranks = size();
  const int64_t slot = kExchangeBuffer / std::max<int64_t>(ranks - 1, 1) / 64 * 64;  // bytes for one other rank
  const auto slot_of = [&](int owner, int writer) { return (owner - (owner > writer ? 1 : 0)) * slot; };
  const int64_t piece = slot / width;
  std::vector<const void*> terms(static_cast<size_t>(ranks));
  int64_t from = 0;
  do {
    for (int to = 0; to < ranks; ++to) {
      if (to == rank_) continue;
      const int64_t bytes = part_of_slice(source.numel(), to, slice, from, piece) * width;
      if (bytes == 0) continue;
      copy_bytes(next_buffer(rank_) + slot_of(to, rank_), bytes_of(source) + (to * slice + from) * width, bytes);
      bytes_sent_ += bytes;
    }
    barrier();
    const int64_t count = part_of_slice(source.numel(), rank_, slice, from, piece);
    for (int r = 0; r < ranks; ++r) {
      terms[static_cast<size_t>(r)] =
          r == rank_ ? bytes_of(source) + (rank_ * slice + from) * width : next_buffer(r) + slot_of(rank_, r);
    }
    std::byte* target = bytes_of(sum) + from * sum.element_size();
    if (count > 0) add_in_order(target, sum.scalar_type(), terms, source.scalar_type(), count, first);
    if (first) {
      const int64_t all = std::min(piece, slice - from);
      if (all > count)
        std::memset(target + count * sum.element_size(), 0, static_cast<size_t>(all - count) * sum.element_size());
    }
    which_ ^= 1;
    from += piece;
  } while (from < slice);
}

// A piece has a part for each rank. The first half of a buffer has the parts for the others, the second half the sum of
// the own part. Parts of the next piece are written before the barrier that makes the sums of this piece visible.
void SharedMemoryExchange::all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) {
  begin(call_of(ExchangeKind::all_reduce, sum, source, first));
  check(can_sum(sum.scalar_type(), source.scalar_type()), "all_reduce: dtypes that cannot be summed");
  check(source.numel() == sum.numel(), "all_reduce: the sum and the source differ in elements");
  const int64_t ranks = size(), from_width = source.element_size(), to_width = sum.element_size();
  const int64_t half = kExchangeBuffer / 2, slot = half / ranks / 64 * 64;
  const int64_t most = std::min(slot / from_width, half / to_width), whole = sum.numel();
  const int64_t part = std::min(most, (whole + ranks - 1) / ranks), piece = std::max<int64_t>(part * ranks, 1);
  const auto count_of = [&](int64_t from, int64_t r) { return std::clamp<int64_t>(whole - from - r * part, 0, part); };
  const auto write_parts = [&](int64_t from, int which) {
    for (int to = 0; to < ranks; ++to) {
      const int64_t bytes = count_of(from, to) * from_width;
      if (to == rank_ || bytes == 0) continue;
      copy_bytes(block_.buffer(rank_, which) + to * slot, bytes_of(source) + (from + to * part) * from_width, bytes);
      bytes_sent_ += bytes;
    }
  };
  std::vector<const void*> terms(static_cast<size_t>(ranks));
  write_parts(0, which_);
  barrier();
  for (int64_t from = 0; from < whole; from += piece) {
    const int64_t count = count_of(from, rank_), begin = from + rank_ * part;
    if (count > 0) {
      for (int r = 0; r < ranks; ++r)
        terms[static_cast<size_t>(r)] =
            r == rank_ ? bytes_of(source) + begin * from_width : next_buffer(r) + rank_ * slot;
      std::byte* target = bytes_of(sum) + begin * to_width;
      add_in_order(target, sum.scalar_type(), terms, source.scalar_type(), count, first);
      if (ranks > 1) copy_bytes(next_buffer(rank_) + half, target, count * to_width);
      bytes_sent_ += count * to_width * (ranks - 1);
    }
    if (from + piece < whole) write_parts(from + piece, which_ ^ 1);
    barrier();
    for (int r = 0; r < ranks; ++r) {
      const int64_t bytes = count_of(from, r) * to_width;
      if (r == rank_ || bytes == 0) continue;
      copy_bytes(bytes_of(sum) + (from + r * part) * to_width, next_buffer(r) + half, bytes);
    }
    which_ ^= 1;
  }
}

void SharedMemoryExchange::all_gather(const at::Tensor& whole) {
  begin(call_of(ExchangeKind::all_gather, whole, whole, 0));
  check(whole.numel() % size() == 0, "all_gather: the tensor does not have equal slices");
  const int64_t slice = static_cast<int64_t>(whole.nbytes()) / size();
  int64_t from = 0;
  do {
    const int64_t bytes = std::min(kExchangeBuffer, slice - from);
    if (size() > 1) copy_bytes(next_buffer(rank_), bytes_of(whole) + rank_ * slice + from, bytes);
    bytes_sent_ += bytes * (size() - 1);
    barrier();
    for (int k = 1; k < size(); ++k) {
      const int r = (rank_ + k) % size();
      copy_bytes(bytes_of(whole) + r * slice + from, next_buffer(r), bytes);
    }
    which_ ^= 1;
    from += kExchangeBuffer;
  } while (from < slice);
}

void SharedMemoryExchange::broadcast(const at::Tensor& tensor, int root) {
  begin(call_of(ExchangeKind::broadcast, tensor, tensor, root));
  check(root >= 0 && root < size(), "broadcast: no such rank");
  const auto whole = static_cast<int64_t>(tensor.nbytes());
  int64_t from = 0;
  do {
    const int64_t bytes = std::min(kExchangeBuffer, whole - from);
    if (rank_ == root && size() > 1) {
      copy_bytes(next_buffer(rank_), bytes_of(tensor) + from, bytes);
      bytes_sent_ += bytes * (size() - 1);
    }
    barrier();
    if (rank_ != root) copy_bytes(bytes_of(tensor) + from, next_buffer(root), bytes);
    which_ ^= 1;
    from += kExchangeBuffer;
  } while (from < whole);
}

std::vector<std::string> SharedMemoryExchange::gather_text(std::string_view text) {
  begin({ExchangeKind::gather_text});
  const auto length = static_cast<int64_t>(text.size());
  check(length + 8 <= kExchangeBuffer, "gather_text: the text has more than 1 MiB");
  std::memcpy(next_buffer(rank_), &length, sizeof(length));
  std::memcpy(next_buffer(rank_) + sizeof(length), text.data(), text.size());
  barrier();
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) {
    int64_t bytes = 0;
    std::memcpy(&bytes, next_buffer(r), sizeof(bytes));
    const char* begin = reinterpret_cast<const char*>(next_buffer(r)) + sizeof(bytes);
    texts.emplace_back(begin, static_cast<size_t>(bytes));
  }
  which_ ^= 1;
  return texts;
}

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kHeartbeat = milliseconds(250);
constexpr int kLookMilliseconds = 100;                 // interval in which a waiting rank checks the others
constexpr auto kSpin = std::chrono::microseconds(30);  // time before a rank sleeps, if every rank has a core

// Returns true if there is a core for each rank, so that no rank waits for another one's core. Threads of a rank are
// not known here.
bool has_core_for_each(int ranks) {
#ifdef __linux__
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores) >= ranks;
#endif
  return static_cast<int>(std::thread::hardware_concurrency()) >= ranks;
}

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

SharedMemoryExchange::SharedMemoryExchange(std::shared_ptr<void> block, int rank, int size,
                                           const SharedMemoryOptions& options)
    : memory_(std::move(block)),
      block_(memory_.get(), size),
      rank_(rank),
      options_(options),
      may_spin_(has_core_for_each(size)),
      watched_(static_cast<size_t>(size)) {
  check(size >= 1 && rank >= 0 && rank < size, "exchange: no such rank");
  RankRecord& own = block_.record(rank);
  own.pid = static_cast<int32_t>(::getpid());
  own.host.write(options_.host.empty() ? host_name() : options_.host);
  own.state.store(RankState::running, std::memory_order_release);
  // Signals must be handled by the threads of the program.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  heart_ = std::thread([this] { beat(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SharedMemoryExchange::~SharedMemoryExchange() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  heart_.join();
  RankState running = RankState::running;
  block_.record(rank_).state.compare_exchange_strong(running, RankState::finished);
  wake_all(block_.head().generation);
}

void SharedMemoryExchange::beat() {
  std::unique_lock lock(mutex_);
  auto looked = Clock::now();
  while (!ending_changed_.wait_for(lock, kHeartbeat, [&] { return ending_; })) {
    ++block_.record(rank_).heartbeat;
    const auto now = Clock::now();
    const auto passed = std::chrono::duration_cast<milliseconds>(now - std::exchange(looked, now));
    if (on_loss_) look_for_loss(std::min(passed, milliseconds(2 * kHeartbeat)));
  }
}

void SharedMemoryExchange::watch_others(std::function<void()> on_loss) {
  const std::lock_guard lock(mutex_);
  on_loss_ = std::move(on_loss);
  observed_.assign(static_cast<size_t>(size()), {});
}

void SharedMemoryExchange::look_for_loss(milliseconds passed) {
  const bool known = block_.head().fault.load(std::memory_order_acquire) == 2;
  if (loss_.empty()) loss_ = find_loss(passed);
  const auto failed = [&](int r) {
    return block_.record(r).state.load(std::memory_order_acquire) == RankState::failed;
  };
  bool any_failed = false;
  for (int r = 0; r < size(); ++r) any_failed |= r != rank_ && failed(r);
  const bool before = loss_timer_.is_lost();
  loss_timer_.add(passed, !loss_.empty(), any_failed || known);
  if (loss_timer_.is_lost() && !before) {
    for (int r = 0; r < size() && loss_.empty(); ++r)
      if (r != rank_ && failed(r)) loss_ = failed_text(place_of(r), block_.record(r).why.read());
    if (!loss_.empty()) publish_fault(loss_);
    on_loss_();
  }
  if (!loss_timer_.is_overdue() || !options_.on_lost_rank) return;
  remove_unfinished_files();
  const bool told = block_.head().fault.load(std::memory_order_acquire) == 2;
  options_.on_lost_rank(told ? block_.head().fault_text.read() : loss_);
}

// Returns the message for a rank that ended or does not answer; "": there is none. The process of a rank is looked at
// only if its heartbeat has not changed.
std::string SharedMemoryExchange::find_loss(milliseconds passed) {
  for (int r = 0; r < size(); ++r) {
    RankRecord& record = block_.record(r);
    if (r == rank_ || record.state.load(std::memory_order_acquire) != RankState::running) continue;
    Watched& observed = observed_[static_cast<size_t>(r)];
    const uint64_t heartbeat = record.heartbeat.load();
    if (heartbeat != observed.heartbeat) {
      observed = {heartbeat, milliseconds(0)};
      continue;
    }
    observed.silent += passed;
    const bool gone = process_is_gone(record.pid.load());
    // It may have said that it failed or finished just before it ended.
    if (record.state.load(std::memory_order_acquire) != RankState::running) continue;
    if (gone) return ended_text(place_of(r));
    if (observed.silent >= options_.silence) return silent_text(place_of(r), options_.silence);
  }
  return {};
}

void SharedMemoryExchange::require_others() {
  const auto now = Clock::now();
  if (now - looked_ < kHeartbeat) return;
  look_at_ranks(std::min(std::chrono::duration_cast<milliseconds>(now - looked_), milliseconds(2 * kHeartbeat)));
  looked_ = now;
}

void SharedMemoryExchange::note(std::string_view place) {
  const std::lock_guard lock(text_mutex_);
  block_.record(rank_).place.write(place);
}

void SharedMemoryExchange::fail(std::string_view why) noexcept {
  const std::lock_guard lock(text_mutex_);
  RankRecord& own = block_.record(rank_);
  if (own.state.load() == RankState::failed) return;  // the first reason counts
  own.why.write(why);
  own.state.store(RankState::failed, std::memory_order_release);
  wake_all(block_.head().generation);
}

void SharedMemoryExchange::begin(ExchangeCall call) {
  call.number = calls_++;
  block_.record(rank_).calls[call.number % 2] = call;
  calls_checked_ = false;
}

void SharedMemoryExchange::barrier() {
  BlockHead& head = block_.head();
  throw_known_fault();
  const uint32_t before = head.generation.load();
  if (head.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size())) {
    head.arrived.store(0);
    head.generation.fetch_add(1);
    if (head.sleepers.load() > 0) wake_all(head.generation);
    ++block_.record(rank_).arrivals;
  } else {
    ++block_.record(rank_).arrivals;
    wait_for_generation(before);
  }
  if (calls_checked_) return;
  calls_checked_ = true;
  std::vector<ExchangeCall> calls;
  for (int r = 0; r < size(); ++r) calls.push_back(block_.record(r).calls[(calls_ - 1) % 2]);
  check_calls(calls);
}

void SharedMemoryExchange::wait_for_generation(uint32_t before) {
  BlockHead& head = block_.head();
  const auto complete = [&] { return head.generation.load(std::memory_order_acquire) != before; };
  if (may_spin_) {
    const auto end = Clock::now() + kSpin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (complete()) return;
        pause_core();
      }
    } while (Clock::now() < end);
  }
  for (int i = 0; i < 2 && !complete(); ++i) ::sched_yield();
  for (int r = 0; r < size(); ++r)
    watched_[static_cast<size_t>(r)] = {block_.record(r).heartbeat.load(), milliseconds(0)};
  auto looked = Clock::now();
  while (!complete()) {
    ++head.sleepers;
    sleep_while(head.generation, before, kLookMilliseconds);
    --head.sleepers;
    if (complete()) return;
    const auto now = Clock::now();
    // At most two intervals count: if this rank was stopped itself, the others need not have been silent.
    look_at_ranks(
        std::min(std::chrono::duration_cast<milliseconds>(now - looked), milliseconds(2 * kLookMilliseconds)));
    looked = now;
  }
}

void SharedMemoryExchange::look_at_ranks(milliseconds since_last_look) {
  throw_known_fault();
  // A rank that failed may be the reason why others end, so it is named first.
  for (int r = 0; r < size(); ++r)
    if (block_.record(r).state.load(std::memory_order_acquire) == RankState::failed)
      throw_fault(failed_text(place_of(r), block_.record(r).why.read()));
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const std::string fault = fault_of(r, since_last_look);
    if (!fault.empty()) throw_fault(fault);
  }
}

std::string SharedMemoryExchange::fault_of(int rank, milliseconds since_last_look) {
  RankRecord& record = block_.record(rank);
  const RankState state = record.state.load(std::memory_order_acquire);
  if (state == RankState::finished) {
    // It may have been in this barrier before it ended.
    const bool missing = record.arrivals.load() < block_.record(rank_).arrivals.load();
    return missing ? finished_text(place_of(rank), place_of(rank_)) : std::string();
  }
  if (state == RankState::running && process_is_gone(record.pid.load())) return ended_text(place_of(rank));
  Watched& watched = watched_[static_cast<size_t>(rank)];
  const uint64_t heartbeat = record.heartbeat.load();
  if (heartbeat != watched.heartbeat) {
    watched = {heartbeat, milliseconds(0)};
    return {};
  }
  watched.silent += since_last_look;
  return watched.silent >= options_.silence ? silent_text(place_of(rank), options_.silence) : std::string();
}

RankPlace SharedMemoryExchange::place_of(int rank) const {
  return {rank, block_.record(rank).host.read(), block_.record(rank).place.read()};
}

void SharedMemoryExchange::throw_fault(const std::string& text) {
  publish_fault(text);
  throw_known_fault();
  throw UserError(text, UserError::Kind::failure);
}

void SharedMemoryExchange::publish_fault(const std::string& text) {
  BlockHead& head = block_.head();
  uint32_t none = 0;
  if (head.fault.compare_exchange_strong(none, 1)) {
    head.fault_text.write(text);
    head.fault.store(2, std::memory_order_release);
    wake_all(head.generation);
  }
}

void SharedMemoryExchange::throw_known_fault() const {
  const BlockHead& head = block_.head();
  if (head.fault.load(std::memory_order_acquire) == 2)
    throw UserError(head.fault_text.read(), UserError::Kind::failure);
}

}  // namespace plimsoll
