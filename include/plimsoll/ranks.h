// The ranks of a training on several devices: where they meet, and what launchers say of it in the environment.
//
//     plimsoll::TrainingOptions options;
//     if (const auto place = plimsoll::rendezvous_of_environment()) {  // started by torchrun, mpirun or srun
//       options.ranks = {.count = place->size, .rank = place->rank};
//       options.exchange = plimsoll::meet(*place);
//     }
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

/// Opaque: the connection of a rank with the others, as meet() makes it. It lives until the training has ended.
class Exchange;

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

/// Returns the value of an environment variable; nullptr: it is not set.
using VariableLookup = std::function<const char*(const char* name)>;

/// Returns the place at which this process meets the others of its run; nothing if it was started alone. Reads, in this
/// order, the variables of `plimsoll train --devices`, torchrun (also Accelerate, DeepSpeed, PyTorchJob), Open
/// MPI, MPICH's Hydra, Slurm (within a step) and other programs with PMI. MASTER_ADDR and MASTER_PORT hold for all of
/// them. Throws UserError (usage) that names a variable that is missing or wrong.
std::optional<Rendezvous> rendezvous_of(const VariableLookup& variable);

/// Returns rendezvous_of() for the environment of this process.
std::optional<Rendezvous> rendezvous_of_environment();

/// Returns the variable that holds the number of processes, as "WORLD_SIZE=8"; empty: there is none.
std::string launcher_said(const VariableLookup& variable);

/// Returns the first host of a list of Slurm's: "node03" of "node[03-07,9],login1". Throws UserError if there is none;
/// `variable` is the name of the list.
std::string first_host_of(std::string_view hosts, std::string_view variable);

/// Returns the CPU threads of a rank: `asked` (key threads) if it is above 0, else OMP_NUM_THREADS, else `cores`
/// divided by the ranks on this host, at least 1. An OMP_NUM_THREADS of 1 that comes with torchrun's variables is not
/// applied: torchrun sets it for every program.
int64_t threads_of_rank(int64_t asked, const Rendezvous& rendezvous, int64_t cores, const VariableLookup& variable);

constexpr const char* kRankVariable = "PLIMSOLL_RANK";    ///< in [0, PLIMSOLL_RANKS)
constexpr const char* kRanksVariable = "PLIMSOLL_RANKS";  ///< number of ranks, all on this machine
constexpr const char* kStoreVariable = "PLIMSOLL_STORE";  ///< path of a FileStore

}  // namespace plimsoll
