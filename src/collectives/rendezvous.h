// Meeting of the ranks of a training, which find each other at a store.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "collectives/exchange.h"

namespace plimsoll {

/// The number of a rank, and the place at which it meets the others.
struct Rendezvous {
  int rank = 0, size = 1;              ///< number of this rank, and of all ranks
  int local_rank = 0, local_size = 1;  ///< number of this rank on this host, and of the ranks on this host
  /// The store of c10d: a TCPStore at `address`:`port`, or with an empty address a FileStore at `file`, which must not
  /// exist before the first rank comes.
  std::string address;
  int port = 0;
  bool serves = false;  ///< this rank starts the TCPStore; false: another program has started it (torchrun), or a rank
  std::filesystem::path file;
  std::string run_id;  ///< a prefix of all keys: one store may serve several runs
  /// Longest wait for other ranks. Ranks that have not come by then are named.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// A rank that gives no sign of life for this time counts as hanging.
  std::chrono::milliseconds silence = std::chrono::seconds(3);
  /// Device of the tensors that the ranks exchange: "cpu" or "cuda", as in the job. All ranks have the same.
  std::string device = "cpu";
  bool through_network =
      false;  ///< Gloo even if all ranks are on one host, and a group of devices even for one rank: for tests
};

/// Meets the other ranks. Ranks that are all on one host and run on the CPU exchange through shared memory; others on
/// the CPU through c10d's Gloo. Tensors of NVIDIA devices are exchanged through c10d's NCCL. Throws UserError
/// (failure): a port that is taken, a store that does not answer, ranks that did not come (which, after how many
/// seconds), two ranks with the same number, numbers of ranks or devices that differ, a device that has no exchange. A
/// world of one needs no store.
std::shared_ptr<Exchange> meet(const Rendezvous& rendezvous);

}  // namespace plimsoll
