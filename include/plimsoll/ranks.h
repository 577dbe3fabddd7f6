// Declares how the ranks of a training on several devices meet, and the environment variables of launchers.
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

/// A rank's number, and the store at which it meets the others.
struct Rendezvous {
  int rank = 0, size = 1;              ///< number of this rank, and of all ranks
  int local_rank = 0, local_size = 1;  ///< number of this rank on this host, and of the ranks on this host
  /// c10d's store: a TCPStore at `address`:`port`. If the address is empty, a FileStore at `file`, which must not exist
  /// before the first rank starts.
  std::string address;
  int port = 0;
  bool serves = false;  ///< true: this rank starts the TCPStore. false: another program has started it (torchrun), or
                        ///< another rank does
  std::filesystem::path file;
  std::string run_id;  ///< prefix of all keys, so that one store can serve several runs
  /// Longest wait for other ranks. Ranks that are missing after it are named in the error.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// Time without a sign of life after which a rank counts as hanging.
  std::chrono::milliseconds silence = std::chrono::seconds(3);
  /// Device of the tensors that the ranks exchange: "cpu" or "cuda", as in the job. It is the same for all ranks.
  std::string device = "cpu";
  /// Returns true if this rank shall not wait any longer; meet() then throws. Empty: never.
  std::function<bool()> is_stopped = {};
  /// Called with a message, from another thread, if a rank is lost and this one has not noticed it in an exchange
  /// within a second. A program prints the message and ends its process; hidden files that are being written are
  /// removed before. Empty: only exchanges throw.
  std::function<void(const std::string& message)> on_lost_rank = {};
  /// For tests: Gloo even if all ranks are on one host, and a group of devices even for one rank.
  bool through_network = false;
};

/// Connects this rank with the others. CPU ranks that are all on one host exchange through shared memory, other CPU
/// ranks through c10d's Gloo. Tensors of NVIDIA devices are exchanged through c10d's NCCL. A world of one rank needs no
/// store. Throws UserError (failure): the port is in use, the store does not answer, ranks are missing (with their
/// numbers and the seconds waited), a rank that has come ends or does not answer (within five seconds), two ranks have
/// the same number, the numbers of ranks or devices differ, or the device has no exchange.
std::shared_ptr<Exchange> meet(const Rendezvous& rendezvous);

/// Returns the value of an environment variable; nullptr: it is not set.
using VariableLookup = std::function<const char*(const char* name)>;

/// Returns the store at which this process meets the others of its run; nullopt if it was started alone. Reads, in this
/// order, the variables of `plimsoll train --devices`, torchrun (also Accelerate, DeepSpeed, PyTorchJob), Open MPI,
/// MPICH's Hydra, Slurm (within a step) and other programs with PMI. MASTER_ADDR and MASTER_PORT apply to all of them.
/// Throws UserError (usage) with the variable that is missing or wrong.
std::optional<Rendezvous> rendezvous_of(const VariableLookup& variable);

/// Returns rendezvous_of() for the environment of this process.
std::optional<Rendezvous> rendezvous_of_environment();

/// Returns the variable that holds the number of processes, as "WORLD_SIZE=8"; empty: no variable does.
std::string launcher_said(const VariableLookup& variable);

/// Returns the first host of a Slurm host list: "node03" for "node[03-07,9],login1". Throws UserError if there is none;
/// `variable` is the variable that holds the list.
std::string first_host_of(std::string_view hosts, std::string_view variable);

/// Returns the CPU threads of a rank: `asked` (key threads) if it is above 0, else OMP_NUM_THREADS, else `cores`
/// divided by the ranks on this host, at least 1. An OMP_NUM_THREADS of 1 together with torchrun's variables is
/// ignored: torchrun sets it for every program.
int64_t threads_of_rank(int64_t requested, const Rendezvous& rendezvous, int64_t cores, const VariableLookup& variable);

constexpr const char* kRankVariable = "PLIMSOLL_RANK";    ///< in [0, PLIMSOLL_RANKS)
constexpr const char* kRanksVariable = "PLIMSOLL_RANKS";  ///< number of ranks, all on this machine
constexpr const char* kStoreVariable = "PLIMSOLL_STORE";  ///< path of a FileStore
/// Ending of the file next to a FileStore in which the program that started the ranks says why they must end.
constexpr const char* kStoreFaultSuffix = ".fault";

}  // namespace plimsoll
