#include "plimsoll/ranks.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/process.h"
#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr int kDefaultPort = 29500;  // torch.distributed's
// Ports of Slurm steps without MASTER_PORT: below those that Linux gives to clients (from 32768 on).
constexpr int kFirstSlurmPort = 20000, kSlurmPorts = 12000;

std::optional<int64_t> whole_number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The variables of a launcher, parsed as text or numbers.
class Variables {
 public:
  explicit Variables(const VariableLookup& lookup) : lookup_(lookup) {}

  /// Returns the text; empty if the variable is not set.
  std::string text(const char* name) const {
    const char* const value = lookup_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  /// Returns a number in [min, max]. Throws UserError that names the variable if it is missing or invalid.
  int number(const char* name, int min, int max) const {
    const std::string value = text(name);
    const std::string allowed =
        min == max ? fmt::format("{}", min) : fmt::format("a whole number from {} to {}", min, max);
    if (value.empty())
      throw UserError(
          fmt::format("the environment variable {} is not set; a launcher sets it to {}, or start the "
                      "program without one: plimsoll train JOB.yaml --devices N",
                      name, allowed));
    const auto number = whole_number_in(value);
    if (!number || *number < min || *number > max)
      throw UserError(fmt::format("the environment variable {} is {}; allowed: {}", name, in_quotes(value), allowed));
    return static_cast<int>(*number);
  }
  int number_or(const char* name, int min, int max, int otherwise) const {
    return has(name) ? number(name, min, max) : otherwise;
  }

 private:
  const VariableLookup& lookup_;
};

/// Fills in the ranks from four variables; `local_size_unknown` is used if the fourth is not set.
Rendezvous ranks_of(const Variables& variables, const char* rank, const char* size, const char* local_rank,
                    const char* local_size, int local_size_unknown) {
  Rendezvous found;
  found.size = variables.number(size, 1, kMaxRanks);
  found.rank = variables.number(rank, 0, found.size - 1);
  found.local_size = variables.number_or(local_size, 1, found.size, local_size_unknown);
  found.local_rank =
      variables.number_or(local_rank, 0, found.local_size - 1, found.local_size == found.size ? found.rank : 0);
  return found;
}

/// Reads MASTER_ADDR and MASTER_PORT; returns true if there is an address.
bool take_address(const Variables& variables, Rendezvous& found, int port = kDefaultPort) {
  if (!variables.has("MASTER_ADDR")) return false;
  found.address = variables.text("MASTER_ADDR");
  found.port = variables.number_or("MASTER_PORT", 1, 65535, port);
  found.serves = found.rank == 0;
  return true;
}

Rendezvous of_own_processes(const Variables& variables) {
  Rendezvous found;
  found.size = variables.number(kRanksVariable, 1, kMaxRanks);
  found.rank = variables.number(kRankVariable, 0, found.size - 1);
  found.local_rank = found.rank;
  found.local_size = found.size;
  found.file = variables.text(kStoreVariable);
  if (found.file.empty())
    throw UserError(fmt::format("the environment variable {} is not set; unset {} and {}", kStoreVariable,
                                kRankVariable, kRanksVariable));
  return found;
}

bool is_this_host(std::string_view address) {
  return address == "localhost" || address == "127.0.0.1" || address == "::1";
}

Rendezvous of_torchrun(const Variables& variables) {
  const int size = variables.number("WORLD_SIZE", 1, kMaxRanks);
  // PyTorchJob has one process in each container, and does not count containers on the same host.
  const int local = is_this_host(variables.text("MASTER_ADDR")) ? size : 1;
  Rendezvous found = ranks_of(variables, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", local);
  if (!take_address(variables, found))
    throw UserError(
        "the environment variable MASTER_ADDR is not set; a launcher sets it to the host of rank 0, or start the "
        "program without one: plimsoll train JOB.yaml --devices N");
  const std::string agent = variables.text("TORCHELASTIC_USE_AGENT_STORE");
  if (agent == "True" || agent == "true" || agent == "1") found.serves = false;
  found.run_id = variables.text("TORCHELASTIC_RUN_ID");
  if (variables.has("TORCHELASTIC_RESTART_COUNT"))
    found.run_id +=
        fmt::format("/{}", variables.number("TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<int>::max()));
  return found;
}

/// Returns a store file for ranks of one host that know the same name of their run.
std::filesystem::path store_of(const Variables& variables, std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  for (const char* folder : {"XDG_RUNTIME_DIR", "TMPDIR"})
    if (variables.has(folder)) return std::filesystem::path(variables.text(folder)) / ("plimsoll-" + name);
  return std::filesystem::path("/tmp") / ("plimsoll-" + name);
}

/// Returns the name of a run of mpirun that the ranks of one host have in common. Some wrappers and containers pass
/// OMPI_COMM_WORLD_* on and nothing else; then it is the process that started the ranks.
std::string open_mpi_run(const Variables& variables) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"})
    if (variables.has(name)) return variables.text(name);
  // A container with processes of its own has no such parent.
  const pid_t parent = ::getppid();
  const std::optional<int64_t> start = process_start_of(parent);
  if (parent <= 1 || !start)
    throw UserError(
        "mpirun passes no name of its run on (PMIX_NAMESPACE); say where the ranks meet: mpirun -x "
        "MASTER_ADDR=127.0.0.1 -x "
        "MASTER_PORT=29500 ... plimsoll train JOB.yaml");
  return fmt::format("started-by-{}-{}", parent, *start);
}

Rendezvous of_open_mpi(const Variables& variables) {
  Rendezvous found = ranks_of(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                              "OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  found.run_id = variables.text("PMIX_NAMESPACE");
  if (take_address(variables, found)) return found;
  if (found.local_size < found.size)
    throw UserError(
        "mpirun says no address at which ranks on several hosts meet; name the host of rank 0: mpirun -x "
        "MASTER_ADDR=HOST -x MASTER_PORT=29500 ... plimsoll train JOB.yaml");
  const std::string name = open_mpi_run(variables);
  found.run_id = name;
  found.file = store_of(variables, name);
  return found;
}

Rendezvous of_pmi(const Variables& variables) {
  Rendezvous found = ranks_of(variables, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", 1);
  if (!take_address(variables, found))
    throw UserError(
        "mpiexec says no address at which ranks meet; name the host of rank 0: mpiexec -genv MASTER_ADDR HOST -genv "
        "MASTER_PORT 29500 ... plimsoll train JOB.yaml");
  return found;
}

/// Returns the number of tasks on node `node` from "4(x2),3": four on the first two, three on the third.
int tasks_on_node(const Variables& variables, int node, int size) {
  constexpr const char* kName = "SLURM_STEP_TASKS_PER_NODE";
  const std::string list = variables.text(kName);
  const auto refuse = [&]() -> int {
    throw UserError(fmt::format("the environment variable {} is {}; allowed: numbers of tasks such as 4(x2),3", kName,
                                in_quotes(list)));
  };
  std::string_view left = list;
  while (!left.empty()) {
    const std::string_view item = left.substr(0, left.find(','));
    left.remove_prefix(std::min(item.size() + 1, left.size()));
    const size_t bracket = item.find("(x");
    const auto tasks = whole_number_in(item.substr(0, bracket));
    std::optional<int64_t> nodes = 1;
    if (bracket != std::string_view::npos) {
      if (!item.ends_with(')')) return refuse();
      nodes = whole_number_in(item.substr(bracket + 2, item.size() - bracket - 3));
    }
    if (!tasks || !nodes || *tasks < 1 || *tasks > size || *nodes < 1) return refuse();
    if (node < *nodes) return static_cast<int>(*tasks);
    node -= static_cast<int>(std::min<int64_t>(*nodes, kMaxRanks));
  }
  return refuse();
}

Rendezvous of_slurm(const Variables& variables) {
  Rendezvous found;
  found.size = variables.number("SLURM_STEP_NUM_TASKS", 1, kMaxRanks);
  found.rank = variables.number("SLURM_PROCID", 0, found.size - 1);
  if (variables.has("SLURM_STEP_TASKS_PER_NODE"))
    found.local_size = tasks_on_node(variables, variables.number_or("SLURM_NODEID", 0, kMaxRanks, 0), found.size);
  else
    found.local_size = variables.number_or("SLURM_STEP_NUM_NODES", 1, kMaxRanks, 0) == 1 ? found.size : 1;
  // SLURM_LOCALID is valid even if the number of local ranks is not known.
  const int local_ranks = variables.has("SLURM_STEP_TASKS_PER_NODE") ? found.local_size : found.size;
  found.local_rank = variables.number("SLURM_LOCALID", 0, local_ranks - 1);
  constexpr int kMaxId = std::numeric_limits<int>::max();
  const int job = variables.number("SLURM_JOB_ID", 0, kMaxId);
  // Steps that srun did not number have ids beyond an int (batch, interactive): all of them count as one.
  const int step = static_cast<int>(whole_number_in(variables.text("SLURM_STEP_ID")).value_or(0) % kSlurmPorts);
  found.run_id = fmt::format("slurm-{}.{}/{}", job, step, variables.number_or("SLURM_RESTART_COUNT", 0, kMaxId, 0));
  const int port = kFirstSlurmPort + (job % kSlurmPorts + step) % kSlurmPorts;
  if (take_address(variables, found, port)) return found;
  constexpr const char* kHosts = "SLURM_STEP_NODELIST";
  found.address = first_host_of(variables.text(kHosts), kHosts);
  found.port = variables.number_or("MASTER_PORT", 1, 65535, port);
  found.serves = found.rank == 0;
  return found;
}

constexpr const char* kSlurmSize = "SLURM_STEP_NUM_TASKS";

/// Throws for a rank whose launcher did not set the number of ranks: each process would train alone.
void require_size(const Variables& variables) {
  // A batch script of Slurm has the number of tasks of its allocation, and is started once, as task 0. Slurm itself
  // says its process ID to every process.
  const auto number_of = [&](const char* name) { return whole_number_in(variables.text(name)).value_or(0); };
  if (number_of("SLURM_PROCID") > 0 ||
      (variables.has("SLURM_PROCID") && number_of("SLURM_NTASKS") > 1 && !variables.has("SLURM_TASK_PID")))
    throw UserError(fmt::format(
        "the environment variable SLURM_PROCID is {}{}, but {} is not set, so each task would train alone; start the "
        "tasks "
        "with srun and keep its variables, or unset SLURM_PROCID to train with one process",
        in_quotes(variables.text("SLURM_PROCID")),
        variables.has("SLURM_NTASKS") ? fmt::format(" of {} tasks", in_quotes(variables.text("SLURM_NTASKS"))) : "",
        kSlurmSize));
  if (!variables.has("RANK")) return;
  throw UserError(fmt::format(
      "the environment variable RANK is {}, but WORLD_SIZE is not set; set WORLD_SIZE to the number of processes, or "
      "unset RANK to train with one process",
      in_quotes(variables.text("RANK"))));
}

enum class Launcher : uint8_t { none, own, torchrun, open_mpi, pmi, slurm };

/// Returns the launcher of these processes, and the variable with their number. Launchers may be nested (torchrun and
/// mpirun within a step of Slurm), so the inner ones come first. SLURM_NTASKS belongs to a whole allocation, in which a
/// program may be started only once.
std::pair<Launcher, const char*> launcher_of(const Variables& variables) {
  if (variables.has(kRanksVariable)) return {Launcher::own, kRanksVariable};
  if (variables.has("WORLD_SIZE")) return {Launcher::torchrun, "WORLD_SIZE"};
  if (variables.has("OMPI_COMM_WORLD_SIZE")) return {Launcher::open_mpi, "OMPI_COMM_WORLD_SIZE"};
  if (variables.has("PMI_SIZE") && variables.has("MPI_LOCALRANKID")) return {Launcher::pmi, "PMI_SIZE"};  // Hydra
  if (variables.has(kSlurmSize)) return {Launcher::slurm, kSlurmSize};
  if (variables.has("PMI_SIZE")) return {Launcher::pmi, "PMI_SIZE"};
  return {Launcher::none, nullptr};
}

}  // namespace

std::optional<Rendezvous> rendezvous_of(const VariableLookup& lookup) {
  const Variables variables(lookup);
  const auto [launcher, size] = launcher_of(variables);
  if (launcher == Launcher::none) require_size(variables);
  // One process needs no other rank, whatever else its launcher omits.
  if (launcher == Launcher::none || variables.number(size, 1, kMaxRanks) == 1) return std::nullopt;
  switch (launcher) {
    case Launcher::own:
      return of_own_processes(variables);
    case Launcher::torchrun:
      return of_torchrun(variables);
    case Launcher::open_mpi:
      return of_open_mpi(variables);
    case Launcher::pmi:
      return of_pmi(variables);
    case Launcher::slurm:
      return of_slurm(variables);
    case Launcher::none:
      break;
  }
  return std::nullopt;
}

std::optional<Rendezvous> rendezvous_of_environment() {
  return rendezvous_of([](const char* name) -> const char* { return ::getenv(name); });
}

std::string launcher_said(const VariableLookup& lookup) {
  const Variables variables(lookup);
  const char* const size = launcher_of(variables).second;
  return size == nullptr ? "" : fmt::format("{}={}", size, variables.text(size));
}

std::string first_host_of(std::string_view hosts, std::string_view variable) {
  const auto refuse = [&]() -> std::string {
    throw UserError(
        fmt::format("the environment variable {} is {}; allowed: hosts such as node[03-07,9],login1; or "
                    "set MASTER_ADDR to the host of rank 0",
                    variable, in_quotes(hosts)));
  };
  std::string host;
  for (size_t at = 0; at < hosts.size() && hosts[at] != ','; ++at) {
    if (hosts[at] != '[') {
      host += hosts[at];
      continue;
    }
    const size_t end = hosts.find(']', at);
    if (end == std::string_view::npos) return refuse();
    const std::string_view ranges = hosts.substr(at + 1, end - at - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of("-,"));
    if (first.empty()) return refuse();
    host += first;
    at = end;
  }
  return host.empty() || host.find(']') != std::string::npos ? refuse() : host;
}

int64_t threads_of_rank(int64_t requested, const Rendezvous& rendezvous, int64_t cores, const VariableLookup& lookup) {
  if (requested > 0) return requested;
  const Variables variables(lookup);
  // "4,2" is for nested teams; the first number is ours.
  const std::string text = variables.text("OMP_NUM_THREADS");
  const auto stated = whole_number_in(std::string_view(text).substr(0, text.find(',')));
  const bool by_torchrun = stated == 1 && variables.has("TORCHELASTIC_RUN_ID");
  if (stated && *stated > 0 && !by_torchrun) return std::min<int64_t>(*stated, 1024);
  return std::max<int64_t>(1, cores / std::max(1, rendezvous.local_size));
}

}  // namespace plimsoll
