// Opens the c10d store that the ranks of a training share, with the errors of Plimsoll.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>

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

}  // namespace plimsoll
