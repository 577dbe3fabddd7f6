// Starts the ranks of a training on this machine: one process of this program for each device.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// Settings of the processes of a run.
struct RankProcesses {
  int count = 1;
  std::string program = {};                 ///< path; empty: this program
  std::vector<std::string> arguments = {};  ///< the first is the program's name; empty: those of this process
  /// Time in which the other ranks end by themselves after the first has failed; then they get SIGTERM.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  std::chrono::milliseconds grace = std::chrono::seconds(5);  ///< time from SIGTERM to SIGKILL
  /// Time after which a rank that is stopped counts as lost, if others run.
  std::chrono::milliseconds silence = std::chrono::seconds(3);
};

/// Runs the processes and waits for all of them. Returns the exit code of the first that failed, 0 if none did.
///
/// Each process has PLIMSOLL_RANK, PLIMSOLL_RANKS and PLIMSOLL_STORE, a path in a private temporary folder that is
/// removed at the end. Rank 0 has standard input, output and error of this process. The standard output of the others
/// is discarded; the end of their standard error (16 KiB) is written to ours, with "rank 2: " before each line, if that
/// rank failed for a reason of its own: its lines name no other rank, and rank 0 did not refuse the same job.
///
/// All processes are in the process group of this one. They take SIGINT, SIGTERM and SIGHUP from this process alone,
/// which passes each on once; if all of them end by the signal, so does this process. They do not outlive it.
///
/// If a process fails or is stopped (SIGSTOP) for `silence`, the file PLIMSOLL_STORE + kStoreFaultSuffix says so to
/// ranks that have not met it yet; those that have notice it themselves. What the others say of rank 0 is shown if that
/// rank is killed or stopped, as rank 0 shows what it says of others.
///
/// Throws UserError (failure) if a process cannot be started, or if one is killed by a signal: it names the rank and
/// the signal.
int run_rank_processes(const RankProcesses& processes);

}  // namespace plimsoll::cli
