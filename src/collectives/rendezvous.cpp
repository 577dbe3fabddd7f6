#include "plimsoll/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device_exchange.h"
#include "collectives/meeting.h"
#include "collectives/process_group_exchange.h"
#include "collectives/rank_fault.h"
#include "collectives/shared_block.h"
#include "collectives/shared_memory_exchange.h"
#include "collectives/store.h"
#include "collectives/store_watch.h"
#include "device/backend.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

// Keys of the store.
const std::string kBlock = "block", kAttached = "attached";

std::string who_key(int rank) {
  return fmt::format("who/{}", rank);
}

std::string listed(const std::vector<int>& ranks) {
  constexpr size_t kMaxNamed = 8;
  std::vector<int> first(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMaxNamed)));
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(first, ", "));
  if (ranks.size() > kMaxNamed) text += fmt::format(" and {} more", ranks.size() - kMaxNamed);
  return text;
}

/// One rendezvous: the store, and the total time that this rank waits. It has a thread of its own.
class Meeting {
 public:
  explicit Meeting(const std::shared_ptr<MeetingState>& state)
      : rendezvous_(state->rendezvous()),
        end_(Clock::now() + rendezvous_.patience),
        state_(state),
        store_(open_store(rendezvous_, state->opening())),
        watch_(state, store_) {}

  std::shared_ptr<Exchange> run() {
    try {
      return exchange();
    } catch (const UserError& error) {
      leave(error.what());
      throw;
    }
  }

 private:
  std::shared_ptr<Exchange> exchange() {
    claim_rank();
    meet_others();
    if (rendezvous_.device != "cpu") return through_devices();
    const bool one_host = std::all_of(others_.begin(), others_.end(),
                                      [&](const Who& who) { return who.identity == others_[0].identity; });
    return one_host && !rendezvous_.through_network ? through_memory() : through_network();
  }

  void claim_rank() {
    const int rank = rendezvous_.rank;
    if (store_->add(fmt::format("claim/{}", rank), 1) > 1) {
      const std::string old =
          rendezvous_.address.empty() ? fmt::format(", or remove {} of an earlier run", rendezvous_.file.string()) : "";
      throw_failure(
          fmt::format("two processes are rank {} (one on {}): start every rank once{}", rank, host_name(), old));
    }
    set_text(*store_, who_key(rank),
             Who{.size = rendezvous_.size,
                 .serves = rendezvous_.serves,
                 .pid = static_cast<int>(::getpid()),
                 .host = host_name(),
                 .identity = host_identity(),
                 .device = rendezvous_.device}
                 .text());
  }

  void meet_others() {
    others_.resize(static_cast<size_t>(rendezvous_.size));
    std::vector<int> missing;
    for (int r = 0; r < rendezvous_.size; ++r) missing.push_back(r);
    wait_until(
        [&] {
          std::erase_if(missing, [&](int r) {
            if (!store_->check({who_key(r)})) return false;
            const Who who = Who::parsed(get_text(*store_, who_key(r)));
            if (who.size != rendezvous_.size) {
              throw_failure(
                  fmt::format("rank {} (host {}) is one of {} ranks, rank {} (host {}) one of {}: start all with the "
                              "same number of ranks",
                              r, who.host, who.size, rendezvous_.rank, host_name(), rendezvous_.size));
            }
            if (who.device != rendezvous_.device) {
              throw_failure(
                  fmt::format("rank {} (host {}) runs on device {}, rank {} (host {}) on {}: start all with the same "
                              "device",
                              r, who.host, who.device, rendezvous_.rank, host_name(), rendezvous_.device));
            }
            others_[static_cast<size_t>(r)] = who;
            watch_.watch(r, who);
            return true;
          });
          return missing.empty();
        },
        [&] {
          const bool one = missing.size() == 1;
          return fmt::format("{} of {} {} not come after {}: start {}, or start all with fewer ranks", listed(missing),
                             rendezvous_.size, one ? "has" : "have", seconds_text(rendezvous_.patience),
                             one ? "it" : "them");
        });
  }

  std::shared_ptr<Exchange> through_memory() {
    const int64_t bytes = SharedBlock::bytes(rendezvous_.size);
    std::unique_ptr<HostBlock> file;  // removed when all ranks have mapped it, or by any exception
    if (rendezvous_.rank == 0) {
      file = std::make_unique<HostBlock>(bytes);
      set_text(*store_, kBlock, file->path().string());
    }
    wait_until([&] { return store_->check({kBlock}); }, [&] { return late("rank 0 has not made the shared memory"); });
    auto block = map_block(get_text(*store_, kBlock), bytes);
    auto exchange = std::make_unique<SharedMemoryExchange>(
        std::move(block), rendezvous_.rank, rendezvous_.size,
        SharedMemoryOptions{rendezvous_.silence, host_name(), rendezvous_.on_lost_rank});
    attach();
    return kept(std::move(exchange));
  }

  std::shared_ptr<Exchange> through_network() {
    auto exchange = make_process_group_exchange(store_, options_of_group());
    attach();
    return kept(std::move(exchange));
  }

  /// Makes an exchange in which devices exchange tensors, and the hosts everything else.
  std::shared_ptr<Exchange> through_devices() {
    const ProcessGroupOptions options = options_of_group();
    DeviceExchangeParts parts;
    parts.group = make_device_group(rendezvous_.device, store_, {options.rank, options.size, options.patience});
    parts.device = backend_for(rendezvous_.device).device().type();
    const auto watch = std::make_shared<StoreWatch>(store_, options);
    parts.host = make_process_group_exchange(store_, options, watch);
    attach();
    parts.wait = [watch](const auto& work) { watch->wait(work); };
    parts.throw_broken = [watch](const std::string& problem) { watch->throw_broken(problem); };
    parts.patience = rendezvous_.patience;
    return kept(make_device_exchange(std::move(parts)));
  }

  ProcessGroupOptions options_of_group() const {
    ProcessGroupOptions options;
    options.rank = rendezvous_.rank;
    options.size = rendezvous_.size;
    for (size_t r = 0; r < others_.size(); ++r) {
      options.hosts.push_back(others_[r].host);
      if (others_[r].serves && !rendezvous_.address.empty()) options.store_rank = static_cast<int>(r);
    }
    if (!rendezvous_.address.empty()) options.address = address_towards(rendezvous_.address, rendezvous_.port);
    options.patience = rendezvous_.patience;
    options.silence = rendezvous_.silence;
    options.on_lost_rank = rendezvous_.on_lost_rank;
    return options;
  }

  /// Waits until every rank has its exchange. From then on every rank gives signs of life.
  void attach() {
    store_->add(kAttached, 1);
    wait_until([&] { return store_->add(kAttached, 0) >= rendezvous_.size; },
               [&] { return late("not all ranks have set up their exchange"); });
    watch_.end();
  }

  std::string late(std::string_view what) const {
    return fmt::format("{} after {}", what, seconds_text(rendezvous_.patience));
  }

  /// Returns the exchange with the store, which must live as long, because this process may serve it.
  std::shared_ptr<Exchange> kept(std::unique_ptr<Exchange> exchange) const {
    return {exchange.release(), [store = store_](Exchange* e) { delete e; }};
  }

  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& message) {
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
      if (store_->check({kMeetingFault})) {
        told_ = true;
        throw_failure(get_text(*store_, kMeetingFault));
      }
      state_->require_go_on();
      if (done()) return;
      if (Clock::now() >= end_) throw_failure(message());
      std::this_thread::sleep_for(pause);
    }
  }

  /// Publishes why this rank gives up. A rank that serves the store stays until the others have read it.
  void leave(const std::string& why) noexcept {
    try {
      if (!told_) set_text(*store_, kMeetingFault, why);
      if (rendezvous_.serves) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    } catch (const std::exception&) {  // the store has gone: nothing can be published
    }
  }

  const Rendezvous& rendezvous_;
  Clock::time_point end_;
  std::shared_ptr<MeetingState> state_;
  StorePointer store_;
  MeetingWatch watch_;
  std::vector<Who> others_;  // data of all ranks
  bool told_ = false;
};

std::shared_ptr<Exchange> met(const std::shared_ptr<MeetingState>& state) {
  const SigpipeBlocked blocked;
  try {
    return Meeting(state).run();
  } catch (const UserError&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {  // exceptions of c10d
    throw_failure(state->closed_text(first_line(error.what())));
  }
}

/// Runs the meeting on a thread of its own, which is abandoned if c10d waits without limit for an answer.
std::shared_ptr<Exchange> meet_others(const Rendezvous& rendezvous) {
  const auto state = std::make_shared<MeetingState>(rendezvous);
  sigset_t all, before;  // signals must be handled by the threads of the program
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([state] {
    try {
      state->finish(met(state));
    } catch (...) {
      state->finish(std::current_exception());
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  bool finished = true;
  try {
    std::shared_ptr<Exchange> exchange = state->wait(finished);
    thread.join();
    return exchange;
  } catch (...) {
    if (finished)
      thread.join();
    else
      thread.detach();
    throw;
  }
}

}  // namespace

std::shared_ptr<Exchange> meet(const Rendezvous& rendezvous) {
  if (rendezvous.size < 1 || rendezvous.rank < 0 || rendezvous.rank >= rendezvous.size) {
    throw_failure(
        fmt::format("rank {} of {} ranks: allowed are ranks from 0 to the number of ranks less one; check RANK and "
                    "WORLD_SIZE",
                    rendezvous.rank, rendezvous.size));
  }
  if (rendezvous.size > 1 && rendezvous.device != "cpu" && rendezvous.device != "cuda") {
    throw_failure(
        fmt::format("{} ranks on device {}: several ranks can run on cpu and cuda; set device: cpu or cuda, or "
                    "devices: 1",
                    rendezvous.size, rendezvous.device));
  }
  if (rendezvous.size > 1 || rendezvous.through_network) return meet_others(rendezvous);
  const auto bytes = static_cast<size_t>(SharedBlock::bytes(1));
  std::shared_ptr<void> block(std::aligned_alloc(4096, bytes), std::free);
  check(block != nullptr, "no memory for the exchange of one rank");
  std::fill_n(static_cast<std::byte*>(block.get()), bytes, std::byte{});
  return std::make_shared<SharedMemoryExchange>(std::move(block), 0, 1, SharedMemoryOptions{rendezvous.silence, {}});
}

}  // namespace plimsoll
