// Declares the exchange between CPU ranks on several hosts, through c10d's Gloo.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/store.h"

namespace plimsoll {

/// Settings of a ProcessGroupExchange.
struct ProcessGroupOptions {
  int rank = 0, size = 1;
  std::vector<std::string> hosts;  ///< name of the host of each rank
  std::string address;             ///< address of this host for the other ranks; empty: that of its name
  int store_rank = -1;             ///< the rank whose process serves the store; -1: another program
  std::chrono::milliseconds patience = std::chrono::seconds(60);      ///< longest wait for connections
  std::chrono::milliseconds silence = std::chrono::seconds(3);        ///< Rendezvous::silence
  std::function<void(const std::string& message)> on_lost_rank = {};  ///< Rendezvous::on_lost_rank
};

/// Makes the exchange; every rank calls it. Sums are made on the owner of a slice in rank order, from pieces of at most
/// 1 MiB that are received in planned memory: the bits are those of SharedMemoryExchange. bytes_sent() counts tensors
/// only. If a rank's heartbeat in the store (every 0.5 s) stops, or its connection breaks, the other ranks name it; the
/// place in the message is at most 1 s old. Throws UserError (failure) if the ranks cannot connect.
std::unique_ptr<Exchange> make_process_group_exchange(const StorePointer& store, const ProcessGroupOptions& options);

class StoreWatch;
/// Makes the exchange with a watch that the caller uses too. The exchange starts and stops the watch.
std::unique_ptr<Exchange> make_process_group_exchange(const StorePointer& store, const ProcessGroupOptions& options,
                                                      std::shared_ptr<StoreWatch> watch);

}  // namespace plimsoll
