// Opens the c10d store that the ranks of a training share, with the errors of Plimsoll. Finds the address by which
// other hosts reach this one, and blocks SIGPIPE.
#pragma once

#include <signal.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/ranks.h"

namespace plimsoll {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// The progress of open_store(), for another thread.
struct StoreOpening {
  std::function<void()> require_go_on;   ///< called during waits; throws to end them. Empty: nothing is called
  std::atomic<bool> connecting = false;  ///< c10d waits, without a limit, for the first answer of the address
};

/// Opens the store of `rendezvous`; all keys begin with its run_id. Throws UserError: the port is taken, the
/// address is unknown, the store does not answer within rendezvous.patience, the file cannot be written.
StorePointer open_store(const Rendezvous& rendezvous, StoreOpening& opening);
StorePointer open_store(const Rendezvous& rendezvous);

/// Returns the message for an address at which a program listens that is no store of ranks.
std::string no_rank_0_text(const Rendezvous& rendezvous);

/// Returns "the store at HOST:PORT" or "the store FILE", for messages.
std::string store_name(const Rendezvous& rendezvous);

/// Sets the value of a key.
void set_text(c10d::Store& store, const std::string& key, std::string_view text);
/// Returns the value of a key; waits for the key, at most for the timeout of the store.
std::string get_text(c10d::Store& store, const std::string& key);

/// Returns the first line of a message of c10d, without its stack trace; at most 300 bytes.
std::string first_line(std::string_view message);

/// Returns the address of this host on the route to `host`:`port`, in numbers: "10.0.0.3", or "127.0.0.1" if the name
/// is that of this host. Returns an empty text if there is no route. Sends nothing.
std::string address_towards(const std::string& host, int port);

/// A scope that blocks SIGPIPE on this thread, and on threads that start during it. A write to a closed connection is
/// an error then, and does not end the process: Gloo and c10d write without MSG_NOSIGNAL.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (::sigismember(&before_, SIGPIPE)) return;
#ifdef __linux__
    const timespec now{};
    ::sigtimedwait(&pipe_, nullptr, &now);  // consumes a signal that arrived in the scope
#endif
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace plimsoll
