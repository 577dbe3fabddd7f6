// Tests a rank's position, by the variables of each launcher.
#include "plimsoll/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

VariableLookup lookup_in(const Environment& environment) {
  return [environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Rendezvous> met(const Environment& environment) {
  return rendezvous_of(lookup_in(environment));
}

std::string launcher_refusal(const Environment& environment) {
  return refusal_of([&] { met(environment); }, UserError::Kind::usage);
}

Environment changed(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}
Environment lacking(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

void expect_ranks(const std::optional<Rendezvous>& found, int rank, int size, int local_rank, int local_size) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, rank);
  EXPECT_EQ(found->size, size);
  EXPECT_EQ(found->local_rank, local_rank);
  EXPECT_EQ(found->local_size, local_size);
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29400"},
                               {"TORCHELASTIC_RUN_ID", "abc"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"OMP_NUM_THREADS", "1"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_NAMESPACE", "prte:a/1@1"},    {"TMPDIR", "/scratch"}};
const Environment kSlurm = {{"SLURM_PROCID", "5"},      {"SLURM_NTASKS", "7"},  {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_LOCALID", "1"},     {"SLURM_NODEID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                            {"SLURM_JOB_ID", "123456"}, {"SLURM_STEP_ID", "2"}, {"SLURM_STEP_NODELIST", "node[03-04]"}};

TEST(Launcher, AProcessThatWasStartedAloneMeetsNobody) {
  EXPECT_FALSE(met({}));
  EXPECT_FALSE(met({{"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(met({{"WORLD_SIZE", ""}}));
  EXPECT_FALSE(met({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_TASK_PID", "77"}}));  // a batch script
  EXPECT_FALSE(met({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(met({{"PMI_SIZE", "1"}}));
}

TEST(Launcher, Torchrun) {
  const auto found = met(kTorchrun);
  expect_ranks(found, 5, 8, 1, 4);
  EXPECT_EQ(found->address, "node1");
  EXPECT_EQ(found->port, 29400);
  EXPECT_EQ(found->run_id, "abc/2");
  EXPECT_FALSE(met(changed(kTorchrun, "RANK", "0"))->serves);  // the agent does
  EXPECT_TRUE(met(changed(lacking(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"), "RANK", "0"))->serves);
  EXPECT_FALSE(met(lacking(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"))->serves);
  EXPECT_EQ(met(lacking(kTorchrun, "MASTER_PORT"))->port, 29500);
}

TEST(Launcher, PyTorchJobHasAProcessInEachContainer) {
  const Environment job = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}};
  expect_ranks(met(job), 0, 2, 0, 1);
  EXPECT_TRUE(met(job)->serves);
  expect_ranks(met(changed(changed(job, "MASTER_ADDR", "localhost"), "RANK", "1")), 1, 2, 1, 2);
}

TEST(Launcher, WrongNumbersOfTorchrunNameTheirVariable) {
  EXPECT_THAT(launcher_refusal({{"WORLD_SIZE", "8"}}), HasSubstr("variable RANK is not set"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "WORLD_SIZE", "many")), HasSubstr("WORLD_SIZE is 'many'; allowed"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "WORLD_SIZE", "0")), HasSubstr("WORLD_SIZE is '0'"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "RANK", "8")),
              AllOf(HasSubstr("RANK is '8'"), HasSubstr("from 0 to 7")));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "RANK", "-1")), HasSubstr("RANK is '-1'"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "LOCAL_RANK", "4")), HasSubstr("LOCAL_RANK is '4'"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "LOCAL_WORLD_SIZE", "9")), HasSubstr("LOCAL_WORLD_SIZE is '9'"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "MASTER_PORT", "70000")), HasSubstr("MASTER_PORT is '70000'"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "LOCAL_RANK", "first")),
              AllOf(HasSubstr("LOCAL_RANK is 'first'"), HasSubstr("a whole number from 0 to 3")));
  EXPECT_THAT(launcher_refusal({{"RANK", "1"}}),
              AllOf(HasSubstr("RANK is '1', but WORLD_SIZE is not set"), HasSubstr("number of processes")));
  EXPECT_FALSE(met({{"RANK", "1"}, {"WORLD_SIZE", "1"}}));
  EXPECT_THAT(launcher_refusal(lacking(kTorchrun, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(launcher_refusal(changed(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "x")),
              HasSubstr("TORCHELASTIC_RESTART_COUNT is 'x'"));
}

TEST(Launcher, OpenMpi) {
  const auto found = met(kOpenMpi);
  expect_ranks(found, 3, 4, 3, 4);
  EXPECT_EQ(found->address, "");
  EXPECT_EQ(found->file, "/scratch/plimsoll-prte_a_1_1");
  const Environment addressed = changed(changed(kOpenMpi, "MASTER_ADDR", "node1"), "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  EXPECT_THAT(launcher_refusal(addressed), HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is '3'"));
  const auto over_hosts = met(changed(addressed, "OMPI_COMM_WORLD_LOCAL_RANK", "1"));
  expect_ranks(over_hosts, 3, 4, 1, 2);
  EXPECT_EQ(over_hosts->address, "node1");
  EXPECT_EQ(over_hosts->port, 29500);
  EXPECT_TRUE(met(changed(changed(kOpenMpi, "MASTER_ADDR", "node1"), "OMPI_COMM_WORLD_RANK", "0"))->serves);
  EXPECT_THAT(launcher_refusal(
                  changed(changed(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"), "OMPI_COMM_WORLD_LOCAL_RANK", "1")),
              HasSubstr("mpirun -x MASTER_ADDR=HOST"));
}

// Ranks of one host that have OMPI_COMM_WORLD_* alone meet at a file that is named by the process that started them.
TEST(Launcher, OpenMpiWithoutTheNameOfItsRun) {
  const Environment bare = lacking(kOpenMpi, "PMIX_NAMESPACE");
  const auto found = met(bare),
             other = met(changed(changed(bare, "OMPI_COMM_WORLD_RANK", "0"), "OMPI_COMM_WORLD_LOCAL_RANK", "0"));
  expect_ranks(found, 3, 4, 3, 4);
  EXPECT_EQ(found->file, other->file);
  EXPECT_EQ(found->run_id, other->run_id);
  EXPECT_THAT(found->file.string(), HasSubstr("/scratch/plimsoll-started-by-"));
  EXPECT_EQ(met(changed(bare, "OMPI_MCA_ess_base_jobid", "4711"))->file, "/scratch/plimsoll-4711");
}

// Each task would train alone and end with exit code 0.
TEST(Launcher, TasksOfSlurmWithoutTheirStepAreRefused) {
  for (const char* task : {"0", "1"})
    EXPECT_THAT(
        launcher_refusal({{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", task}}),
        HasSubstr("SLURM_STEP_NUM_TASKS is not set, so each task would train alone; start the tasks with srun"));
  EXPECT_THAT(launcher_refusal({{"SLURM_PROCID", "3"}, {"SLURM_TASK_PID", "77"}}), HasSubstr("would train alone"));
  EXPECT_FALSE(met({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}));
}

TEST(Launcher, MpichNeedsAnAddress) {
  const Environment hydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_THAT(launcher_refusal(hydra), HasSubstr("mpiexec -genv MASTER_ADDR HOST"));
  expect_ranks(met(changed(hydra, "MASTER_ADDR", "127.0.0.1")), 1, 2, 1, 2);
}

TEST(Launcher, SlurmWithinAStep) {
  const auto found = met(kSlurm);
  expect_ranks(found, 5, 7, 1, 3);
  EXPECT_EQ(found->address, "node03");
  EXPECT_EQ(found->run_id, "slurm-123456.2/0");
  EXPECT_GE(found->port, 20000);
  EXPECT_LT(found->port, 32000);
  EXPECT_EQ(met(changed(kSlurm, "SLURM_PROCID", "0"))->port, found->port);
  EXPECT_TRUE(met(changed(kSlurm, "SLURM_PROCID", "0"))->serves);
  EXPECT_NE(met(changed(kSlurm, "SLURM_STEP_ID", "3"))->port, found->port);
  EXPECT_EQ(met(changed(kSlurm, "MASTER_PORT", "4000"))->port, 4000);
  EXPECT_EQ(met(changed(kSlurm, "MASTER_ADDR", "10.0.0.1"))->address, "10.0.0.1");
  // srun --mpi=pmi2 sets PMI's variables too.
  EXPECT_EQ(met(changed(changed(kSlurm, "PMI_SIZE", "7"), "PMI_RANK", "5"))->address, "node03");
  expect_ranks(met(changed(lacking(kSlurm, "SLURM_STEP_TASKS_PER_NODE"), "SLURM_STEP_NUM_NODES", "1")), 5, 7, 1, 7);
  expect_ranks(met(changed(changed(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "1,2(x3)"), "SLURM_NODEID", "3")), 5, 7, 1, 2);
  EXPECT_THAT(launcher_refusal(changed(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2(x")), HasSubstr("TASKS_PER_NODE is"));
  EXPECT_THAT(launcher_refusal(changed(kSlurm, "SLURM_PROCID", "seven")), HasSubstr("SLURM_PROCID is 'seven'"));
  EXPECT_THAT(launcher_refusal(lacking(kSlurm, "SLURM_STEP_NODELIST")), HasSubstr("SLURM_STEP_NODELIST is ''"));
}

TEST(Launcher, TheInnermostLauncherCounts) {
  Environment torchrun_in_slurm = kSlurm;
  torchrun_in_slurm.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(met(torchrun_in_slurm)->size, 8);
  Environment mpirun_in_slurm = kSlurm;
  mpirun_in_slurm.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(met(mpirun_in_slurm)->size, 4);
  EXPECT_EQ(launcher_said(lookup_in(torchrun_in_slurm)), "WORLD_SIZE=8");
  EXPECT_EQ(launcher_said(lookup_in({})), "");
  Environment own = torchrun_in_slurm;
  own.insert({{kRankVariable, "1"}, {kRanksVariable, "2"}, {kStoreVariable, "/tmp/x/store"}});
  expect_ranks(met(own), 1, 2, 1, 2);
  EXPECT_EQ(met(own)->file, "/tmp/x/store");
  EXPECT_THAT(launcher_refusal({{kRankVariable, "1"}, {kRanksVariable, "2"}}), HasSubstr(kStoreVariable));
}

TEST(Launcher, TheFirstHostOfAList) {
  EXPECT_EQ(first_host_of("node[03-07,9]", "HOSTS"), "node03");
  EXPECT_EQ(first_host_of("login1,node[1-2]", "HOSTS"), "login1");
  EXPECT_EQ(first_host_of("gpu[2,4]-ib[0-1],x", "HOSTS"), "gpu2-ib0");
  EXPECT_EQ(first_host_of("a.b.example.org", "HOSTS"), "a.b.example.org");
  for (const char* wrong : {"", ",a", "node[03-07", "node[]", "node[-3]", "node]"})
    EXPECT_THROW(first_host_of(wrong, "HOSTS"), UserError) << wrong;
}

TEST(Launcher, CoresAreSharedByTheRanksOfAHost) {
  Rendezvous four;
  four.local_size = 4;
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in({})), 4);
  EXPECT_EQ(threads_of_rank(0, four, 2, lookup_in({})), 1);
  EXPECT_EQ(threads_of_rank(3, four, 16, lookup_in({{"OMP_NUM_THREADS", "2"}})), 3);
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in({{"OMP_NUM_THREADS", "2"}})), 2);
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in({{"OMP_NUM_THREADS", "2,1"}})), 2);
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in({{"OMP_NUM_THREADS", "1"}})), 1);
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in({{"OMP_NUM_THREADS", "many"}})), 4);
  EXPECT_EQ(threads_of_rank(0, four, 16, lookup_in(kTorchrun)), 4);
}

}  // namespace
}  // namespace plimsoll
