// Reads the environment variables of launchers: the rank of this process, the number of ranks and their meeting place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/rendezvous.h"
#include "train/rank_variables.h"

namespace plimsoll {

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

}  // namespace plimsoll
