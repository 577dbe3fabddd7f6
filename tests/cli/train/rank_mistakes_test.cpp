// Tests runs of several ranks that cannot begin: each rank prints a line that names the error and the allowed values.
// Tests that a checkpoint continues with any other number of ranks.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A port of this host that is in use as long as the object exists.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 1) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port");
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  std::string port() const { return std::to_string(port_); }

 private:
  int socket_, port_ = 0;
};

std::string free_port() {
  return TakenPort().port();
}

class RankMistakes : public CliTest {
 protected:
  RankMistakes() { put_tiny_job(); }

  static void set(const Variables& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }

  Outcome train_with(const Variables& variables, const Arguments& more = {}) const {
    Arguments arguments = {"train", "job.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_with([&] { set(variables); }, arguments);
  }

  static Variables variables_of(int rank, const std::string& port) {
    return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  }

  /// Trains as two ranks with a setting each. Returns the outcome of rank 0.
  Outcome train_two(const std::string& of_first, const std::string& of_second) const {
    const std::string port = free_port();
    const pid_t second = start({"train", "job.yaml", of_second}, "out-1.txt", [&] {
      set(variables_of(1, port));
      open_as("err-1.txt", STDERR_FILENO);
    });
    Outcome first = train_with(variables_of(0, port), {of_first});
    int status = 0;
    ::waitpid(second, &status, 0);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, first.exit_code) << get("err-1.txt");
    return first;
  }
};

TEST_F(RankMistakes, NumbersOfDevicesAreRefusedByTheirLimits) {
  for (const Arguments& none : {Arguments{"--devices", "0"}, {"devices=0"}})
    expect_refusal(train_with({}, none), 2, HasSubstr("it must be at least 1"));
  expect_refusal(train_with({}, {"--devices", "4096", "batch_size=8192"}), 2,
                 AllOf(HasSubstr("4096 ranks on the CPU of this machine"), HasSubstr("set devices to at most ")));
}

TEST_F(RankMistakes, JobsThatDifferAreRefusedByTheKey) {
  const Outcome seeds = train_two("seed=3", "seed=4");
  EXPECT_EQ(seeds.exit_code, 2);
  EXPECT_THAT(seeds.err, HasSubstr("seed is 4 on rank 1 and 3 on rank 0; start all ranks with the same job file"));
  const Outcome steps = train_two("max_steps=2", "max_steps=3");
  EXPECT_THAT(steps.err, HasSubstr("max_steps is 3 on rank 1 and 2 on rank 0"));
}

TEST_F(RankMistakes, TheLeastBudgetCountsAndIsSaid) {
  const Outcome budgets = train_two("memory_budget=300MiB", "memory_budget=200MiB");
  ASSERT_EQ(budgets.exit_code, 0) << budgets.err;
  EXPECT_THAT(budgets.out + budgets.err,
              HasSubstr("memory_budget: 200 MiB: ranks have budgets from 200 MiB to 300 MiB; the least"));
}

// A rank that dies while it writes leaves a file of another name, which no run reads.
TEST_F(RankMistakes, ACheckpointThatIsHalfWrittenIsNamedOrLeftAlone) {
  const Arguments train = {"train", "job.yaml", "devices=2", "checkpoint.directory=run", "checkpoint.every_n_steps=2"};
  const auto up_to = [&](const std::string& steps) {
    Arguments arguments = train;
    arguments.push_back("max_steps=" + steps);
    return run(arguments);
  };
  ASSERT_EQ(up_to("2").exit_code, 0);
  const std::string whole = get("run/step-00000002.safetensors"), half = whole.substr(0, whole.size() / 2);
  put("run/.step-00000004.safetensors.17-0.tmp", half);
  const Outcome resumed = up_to("4");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resumed from run/step-00000002.safetensors at step 2"));
  put("run/step-00000006.safetensors", half);
  const Outcome refused = up_to("8");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("run/step-00000006.safetensors is truncated"),
                                 HasSubstr("to resume from run/step-00000004.safetensors, delete or move this file")));
}

TEST_F(RankMistakes, APortThatIsTakenIsNamed) {
  const TakenPort taken;
  expect_refusal(train_with(variables_of(0, taken.port())), 1,
                 AllOf(HasSubstr("port " + taken.port()), HasSubstr("choose another with MASTER_PORT")));
}

TEST_F(RankMistakes, AMissingDriverIsSaidOnce) {
  const Outcome cuda = train_with({}, {"devices=2", "device=cuda"});
  if (cuda.exit_code == 0) GTEST_SKIP() << "this machine has two NVIDIA devices";
  EXPECT_EQ(std::ranges::count(cuda.err, '\n'), 1) << cuda.err;
  EXPECT_THAT(cuda.err, ::testing::AnyOf(HasSubstr("device 'cuda' cannot be used"), HasSubstr("2 ranks on this host")));
}

TEST_F(RankMistakes, VariablesOfALauncherAreRefusedByName) {
  expect_refusal(train_with({{"RANK", "1"}}), 2, HasSubstr("RANK is '1', but WORLD_SIZE is not set"));
  Variables wrong = variables_of(2, "29500");
  expect_refusal(train_with(wrong), 2, HasSubstr("RANK is '2'; allowed: a whole number from 0 to 1"));
  wrong = variables_of(0, "29500");
  wrong.emplace_back("LOCAL_RANK", "gpu0");
  expect_refusal(train_with(wrong), 2, HasSubstr("LOCAL_RANK is 'gpu0'; allowed: a whole number from 0 to 1"));
}

class RanksResume : public CliTest {
 protected:
  RanksResume() {
    put_tiny_job();
    // Wide enough for slices on eight ranks: at least 4096 elements on each.
    put("wide.yaml",
        "seed: 4\nthreads: 1\nbatch_size: 8\nmicro_batch_size: 1\nstrategy: zero3\neval_batches: 1\n"
        "model: {hidden_size: 128, num_layers: 1, num_heads: 2, intermediate_size: 256, dropout: 0.1}\n"
        "scheduler: {name: constant}\n"
        "data: {files: [corpus.txt], tokenizer: bytes, sequence_length: 16, validation_fraction: 0.1}\n");
  }

  /// Trains up to step `steps` with this number of ranks; returns the losses of the steps of this run.
  std::vector<double> train(const std::string& directory, int ranks, int steps) const {
    const Outcome outcome =
        run({"train", "wide.yaml", "devices=" + std::to_string(ranks), "max_steps=" + std::to_string(steps),
             "checkpoint.directory=" + directory, "--json", "report.json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json::parse(get("report.json"))["losses"].get<std::vector<double>>()
                                  : std::vector<double>();
  }

  /// Returns the tensors of a checkpoint: the file without its header, whose length is its first eight bytes.
  std::string tensors_of(const std::string& file) const {
    const std::string bytes = get(file);
    uint64_t header = 0;
    if (bytes.size() < sizeof header) return "";
    std::copy_n(bytes.data(), sizeof header, reinterpret_cast<char*>(&header));
    return bytes.substr(sizeof header + header);
  }
};

TEST_F(RanksResume, FourRanksEightRanksAndOneMakeTheWeightsOfOne) {
  std::vector<double> losses = train("several", 4, 2);
  for (const auto& [ranks, steps] : {std::pair{8, 4}, {1, 6}}) {
    const std::vector<double> more = train("several", ranks, steps);
    losses.insert(losses.end(), more.begin(), more.end());
  }
  EXPECT_EQ(train("alone", 1, 6), losses);
  EXPECT_EQ(losses.size(), 6u);
  const std::string alone = tensors_of("alone/step-00000006.safetensors");
  EXPECT_GT(alone.size(), 100'000u);
  EXPECT_TRUE(tensors_of("several/step-00000006.safetensors") == alone);
}

// The first rank identifies the data, and all ranks compare its facts.
TEST_F(RanksResume, OtherDataAreRefusedOnceOrAllowed) {
  EXPECT_EQ(train("run", 2, 2).size(), 2u);
  put("corpus.txt", get("corpus.txt") + "more\n");
  const Arguments more = {"train", "wide.yaml", "devices=2", "max_steps=3", "checkpoint.directory=run"};
  const Outcome refused = run(more);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("data.files: corpus.txt had "),
                                 HasSubstr("checkpoint.allow_other_data: true"), ::testing::Not(HasSubstr("rank 1"))));
  Arguments allowed = more;
  allowed.push_back("checkpoint.allow_other_data=true");
  const Outcome gone_on = run(allowed);
  EXPECT_EQ(gone_on.exit_code, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, HasSubstr("the run goes on with other data"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
