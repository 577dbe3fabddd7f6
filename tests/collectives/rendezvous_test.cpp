#include "plimsoll/ranks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "collectives/device_exchange.h"
#include "collectives/exchange_bits.h"
#include "collectives/ranks.h"
#include "collectives/shared_block.h"
#include "device/backend.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

/// A socket that listens on a port of 127.0.0.1 that the system chooses.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 1) != 0)
      throw std::runtime_error("no port");
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(socket_); }
  int port() const { return port_; }

 private:
  int socket_, port_ = 0;
};

int free_port() {
  return TakenPort().port();
}

Rendezvous at_port(int rank, int size, int port) {
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.size = size;
  rendezvous.address = "127.0.0.1";
  rendezvous.port = port;
  rendezvous.serves = rank == 0;
  return rendezvous;
}

Rendezvous at_file(int rank, int size, const std::filesystem::path& file) {
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.size = size;
  rendezvous.file = file;
  return rendezvous;
}

std::string work_together(Exchange& exchange) {
  check_sums(exchange, 1001, 1001, at::kFloat, at::kBFloat16, true);
  check_copies(exchange, 33, at::kInt);
  std::string text;
  for (const std::string& part : exchange.gather_text(std::to_string(exchange.rank()))) text += part;
  return text;
}

size_t blocks_left() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("plimsoll-" + std::to_string(::getpid()));
  return count;
}

TEST(Meet, ProcessesOfOneHostMeetAtAPort) {
  const int port = free_port();
  EXPECT_THAT(run_processes(3, [&](int rank) { return work_together(*meet(at_port(rank, 3, port))); }), Each("012"));
}

TEST(Meet, ProcessesOfOneHostMeetAtAFile) {
  const TempFolder folder;
  EXPECT_THAT(run_processes(2, [&](int rank) { return work_together(*meet(at_file(rank, 2, folder / "store"))); }),
              Each("01"));
  EXPECT_EQ(blocks_left(), 0u);
}

TEST(Meet, AWorldOfOneNeedsNoStore) {
  EXPECT_EQ(work_together(*meet(Rendezvous())), "0");
}

TEST(Meet, TheSharedFileHasNoNameAfterwards) {
  const TempFolder folder;
  std::filesystem::path path;
  std::shared_ptr<void> block;
  {
    HostBlock file(8192, folder.path());
    path = file.path();
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    block = map_block(path, 8192);
    EXPECT_THAT(user_error_of([&] { map_block(path, 4096); }), HasSubstr("does not have 4096 bytes"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  static_cast<char*>(block.get())[8191] = 1;  // still mapped
}

TEST(Meet, TooLittleSharedMemoryIsSaid) {
  const TempFolder folder;
  const std::string error = user_error_of([&] { HostBlock file(int64_t{1} << 60, folder.path()); });
  EXPECT_THAT(error,
              HasSubstr("MiB free, but the exchange between the ranks needs 1099511627776 MiB; free some, or give "
                        "the container more (docker: --shm-size)"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Meet, APortThatIsTakenIsNamed) {
  const TakenPort taken;
  const std::string error = user_error_of([&] { meet(at_port(0, 2, taken.port())); });
  EXPECT_THAT(error, HasSubstr("port " + std::to_string(taken.port()) + " on "));
  EXPECT_THAT(error, HasSubstr(" is taken: choose another with MASTER_PORT or --rdzv-endpoint"));
}

TEST(Meet, AStoreThatDoesNotAnswerIsNamed) {
  Rendezvous rendezvous = at_port(1, 2, free_port());
  rendezvous.patience = std::chrono::milliseconds(300);
  EXPECT_EQ(user_error_of([&] { meet(rendezvous); }),
            "the store at 127.0.0.1:" + std::to_string(rendezvous.port) +
                " does not answer after 0.3 s: Connection refused; check MASTER_ADDR and MASTER_PORT, and that rank 0 "
                "runs");
}

// It accepts connections, and never writes a byte.
TEST(Meet, AProgramThatListensAndIsSilentIsNoRank0) {
  const TakenPort foreign;
  Rendezvous rendezvous = at_port(1, 2, foreign.port());
  rendezvous.patience = std::chrono::milliseconds(300);
  const auto texts = run_processes(1, [&](int) { return user_error_of([&] { meet(rendezvous); }); });
  EXPECT_EQ(texts[0], "127.0.0.1:" + std::to_string(foreign.port()) +
                          " does not answer as rank 0 of a Plimsoll run within 0.3 s: another program seems to listen "
                          "there; choose a free port with MASTER_PORT or --rdzv-endpoint and start all ranks again");
}

/// Rank `lost` of three gets `signal` while it waits for rank 2, which never comes. Returns the error of the other
/// rank, which may wait for 60 s.
std::string lost_in_the_meeting(int signal, int lost, const std::function<Rendezvous(int rank)>& place) {
  const auto texts = run_processes(2, [&](int rank) {
    Rendezvous rendezvous = place(rank);
    StorePointer store;
    int calls = 0;
    const auto dies_when_both_have_come = [&] {
      if (!store) {
        Rendezvous client = place(rank);
        client.serves = false;
        store = open_store(client);
      }
      // The other rank also needs a moment to read that this one has come, if it is this one that serves the store.
      if (store->check({"who/0", "who/1"}) && ++calls == 20) ::raise(signal);
      return false;
    };
    if (rank == lost) rendezvous.is_stopped = dies_when_both_have_come;
    return user_error_of([&] { meet(rendezvous); });
  });
  return texts[static_cast<size_t>(1 - lost)];
}

TEST(Meet, ARankThatIsKilledDuringTheMeetingIsNamed) {
  const TempFolder folder;
  int port = free_port();
  const auto at_a_file = [&](int rank) { return at_file(rank, 3, folder / "store"); };
  const auto at_a_port = [&](int rank) { return at_port(rank, 3, port); };
  const std::string named = "rank {} (host " + host_name() + ") ended before its first step";
  EXPECT_EQ(lost_in_the_meeting(SIGKILL, 1, at_a_file), fmt::format(fmt::runtime(named), 1));
  EXPECT_EQ(lost_in_the_meeting(SIGKILL, 1, at_a_port), fmt::format(fmt::runtime(named), 1));
  port = free_port();
  EXPECT_THAT(lost_in_the_meeting(SIGKILL, 0, at_a_port),
              AnyOf(fmt::format(fmt::runtime(named), 0), HasSubstr("has closed or does not answer any more")));
}

TEST(Meet, ARankThatIsStoppedDuringTheMeetingIsNamed) {
  const TempFolder folder;
  int port = free_port();
  const auto at_a_file = [&](int rank) { return at_file(rank, 3, folder / "store"); };
  const auto at_a_port = [&](int rank) { return at_port(rank, 3, port); };
  const std::string named = "rank {} (host " + host_name() + ") has not answered for 3 s; it was before its first step";
  EXPECT_EQ(lost_in_the_meeting(SIGSTOP, 1, at_a_file), fmt::format(fmt::runtime(named), 1));
  EXPECT_THAT(lost_in_the_meeting(SIGSTOP, 0, at_a_port),
              AnyOf(fmt::format(fmt::runtime(named), 0), HasSubstr("has not answered for 3 s; check rank 0")));
}

TEST(Meet, TheProgramThatStartedTheRanksMayEndTheirWait) {
  const TempFolder folder;
  put_file(folder / ("store" + std::string(kStoreFaultSuffix)), "rank 1 (host here) ended before its first step");
  EXPECT_EQ(user_error_of([&] { meet(at_file(0, 2, folder / "store")); }),
            "rank 1 (host here) ended before its first step");
}

TEST(Meet, AStopEndsTheWait) {
  const TempFolder folder;
  Rendezvous rendezvous = at_file(0, 2, folder / "store");
  rendezvous.is_stopped = [] { return true; };
  EXPECT_THAT(user_error_of([&] { meet(rendezvous); }), HasSubstr("was asked to stop"));
  rendezvous = at_port(1, 2, free_port());  // nobody listens there
  rendezvous.is_stopped = [] { return true; };
  EXPECT_THAT(user_error_of([&] { meet(rendezvous); }), HasSubstr("was asked to stop"));
}

/// Returns whether each other thread of this process blocks SIGINT and SIGTERM; nullopt: there is no other thread.
std::optional<bool> other_threads_block_signals() {
  std::optional<bool> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16),
                     wanted = (1 << (SIGINT - 1)) | (1 << (SIGTERM - 1));
      all = all.value_or(true) && (blocked & wanted) == wanted;
    }
  }
  return all;
}

// The program handles a signal on a thread of its own.
TEST(Meet, SignalsAreForTheThreadsOfTheProgram) {
  const TempFolder folder;
  const auto texts = run_processes(1, [&](int) {
    std::optional<bool> blocked;
    Rendezvous rendezvous = at_file(0, 2, folder / "store");
    rendezvous.is_stopped = [&] { return (blocked = other_threads_block_signals()).has_value(); };
    user_error_of([&] { meet(rendezvous); });
    return std::string(*blocked ? "blocked" : "a thread of the meeting takes signals");
  });
  EXPECT_THAT(texts, Each("blocked"));
}

TEST(Meet, AFileThatCannotBeWrittenIsNamed) {
  const std::string error = user_error_of([&] { meet(at_file(0, 2, "/nonexistent/store")); });
  EXPECT_THAT(error, HasSubstr("cannot write /nonexistent/store: the folder /nonexistent does not exist"));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Meet, RanksThatDoNotComeAreNamed) {
  const TempFolder folder;
  const auto texts = run_processes(2, [&](int rank) {
    Rendezvous rendezvous = at_file(rank, 4, folder / "store");
    rendezvous.patience = std::chrono::seconds(1);
    return user_error_of([&] { meet(rendezvous); });
  });
  EXPECT_THAT(texts, Each("ranks 2, 3 of 4 have not come after 1 s: start them, or start all with fewer ranks"));
}

TEST(Meet, ARankThatDoesNotComeIsNamed) {
  const TempFolder folder;
  Rendezvous rendezvous = at_file(0, 2, folder / "store");
  rendezvous.patience = std::chrono::seconds(1);
  EXPECT_EQ(user_error_of([&] { meet(rendezvous); }),
            "rank 1 of 2 has not come after 1 s: start it, or start all with fewer ranks");
}

TEST(Meet, TwoProcessesWithTheSameNumberAreRefused) {
  const TempFolder folder;
  const auto texts =
      run_processes(2, [&](int) { return user_error_of([&] { meet(at_file(0, 2, folder / "store")); }); });
  EXPECT_THAT(texts, Each(HasSubstr("two processes are rank 0 (one on ")));
}

TEST(Meet, NumbersOfRanksThatDifferAreRefused) {
  const int port = free_port();
  const auto texts =
      run_processes(2, [&](int rank) { return user_error_of([&] { meet(at_port(rank, 2 + rank, port)); }); });
  for (const std::string& text : texts) {
    EXPECT_THAT(text, HasSubstr("is one of "));
    EXPECT_THAT(text, HasSubstr("start all with the same number of ranks"));
  }
}

TEST(Meet, DevicesThatDifferAreRefused) {
  const TempFolder folder;
  const auto texts = run_processes(2, [&](int rank) {
    Rendezvous rendezvous = at_file(rank, 2, folder / "store");
    if (rank == 1) rendezvous.device = "cuda";
    return user_error_of([&] { meet(rendezvous); });
  });
  for (const std::string& text : texts) EXPECT_THAT(text, HasSubstr("start all with the same device"));
}

TEST(Meet, SeveralRanksOnADeviceWithoutExchangesAreRefused) {
  Rendezvous rendezvous = at_port(0, 2, 29500);
  rendezvous.device = "mps";
  EXPECT_EQ(user_error_of([&] { meet(rendezvous); }),
            "2 ranks on device mps: several ranks can run on cpu and cuda; set device: cpu or cuda, or devices: 1");
}

/// A group of devices whose work never ends.
class EndlessGroup final : public DeviceGroup {
 public:
  void connect() override {}
  void send_and_receive(const std::vector<at::Tensor>&, const std::vector<at::Tensor>&) override {}
  void all_gather(const at::Tensor&, const at::Tensor&) override {}
  void broadcast(const at::Tensor&, int) override {}
  void mark() override {}
  bool reached_mark() override { return false; }
  void abort() noexcept override {}
};

// The device of a rank waits for a rank whose process is gone.
TEST(Meet, ARankThatEndsWhileADeviceWaitsIsNamed) {
  const TempFolder folder;
  const auto texts = run_processes(2, [&](int rank) {
    add_backend("cuda", backend_for("cpu"));
    set_device_group_factory(
        "cuda", [](const StorePointer&, const DeviceGroupOptions&) { return std::make_shared<EndlessGroup>(); });
    Rendezvous rendezvous = at_file(rank, 2, folder / "store");
    rendezvous.device = "cuda";
    const auto exchange = meet(rendezvous);
    exchange->note("step 7, plimsoll::broadcast_");
    exchange->gather_text("");
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // the note is published
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    return error_of([&] { exchange->broadcast(at::zeros({4}), 0); });
  });
  EXPECT_THAT(texts[0],
              testing::AllOf(HasSubstr("rank 1 (host "), HasSubstr(") ended in step 7, plimsoll::broadcast_")));
}

TEST(Meet, ARankOutsideOfTheWorldIsRefused) {
  EXPECT_THAT(user_error_of([] { meet(at_port(2, 2, 29500)); }), HasSubstr("rank 2 of 2 ranks"));
}

class Network : public ::testing::TestWithParam<int> {};

TEST_P(Network, HasTheBitsOfASerialLoop) {
  const int size = GetParam(), port = free_port();
  const auto texts = run_processes(size, [&](int rank) {
    Rendezvous rendezvous = at_port(rank, size, port);
    rendezvous.through_network = true;
    const auto exchange = meet(rendezvous);
    check_all_sums(*exchange, {0, 1, 2, 5, 1001});
    check_sums(*exchange, 600'011, 600'011, at::kFloat, at::kFloat, true);
    check_sums(*exchange, 1'600'011, 1'600'011 / size + 500, at::kFloat, at::kBFloat16, false);
    for (const at::ScalarType type : {at::kFloat, at::kBool, at::kLong})
      for (const int64_t slice : {0, 1, 300'001}) check_copies(*exchange, slice, type);
    for (int i = 0; i < 20; ++i) work_together(*exchange);
    check(exchange->held_bytes() <= (16 << 20), "landing places are larger than planned");
    return std::string("good");
  });
  EXPECT_THAT(texts, Each("good"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Network, testing::Values(2, 3, 4));

/// Three processes over the network; rank `culprit` does `misdeed` at exchange 5. Returns what the ranks threw.
std::vector<std::string> with_misdeed(int culprit, const std::function<void(Exchange&)>& misdeed) {
  const int port = free_port();
  return run_processes(3, [&](int rank) {
    Rendezvous rendezvous = at_port(rank, 3, port);
    rendezvous.through_network = true;
    auto exchange = meet(rendezvous);
    const at::Tensor sum = at::ones({10}), source = at::ones({30});
    std::string error;
    for (int step = 0; error.empty(); ++step) {
      exchange->note("step " + std::to_string(step));
      if (step == 5) ::usleep(1'300'000);  // its address has been published and read
      if (rank == culprit && step == 5) {
        misdeed(*exchange);
        exchange.reset();
        ::usleep(200'000);
        return std::string();
      }
      error = error_of([&] { exchange->reduce_scatter(sum, source, true); });
    }
    exchange->fail(error);
    return error;
  });
}

void expect_from_others(int culprit, const std::vector<std::string>& texts, const std::string& message) {
  for (int r = 0; r < 3; ++r)
    if (r != culprit) {
      EXPECT_THAT(texts[static_cast<size_t>(r)], HasSubstr(message)) << "rank " << r;
    }
}

TEST(NetworkFaults, ARankThatIsKilledIsNamed) {
  expect_from_others(2, with_misdeed(2, [](Exchange&) { ::raise(SIGKILL); }), ") ended in step 5");
}

TEST(NetworkFaults, TheRankWithTheStoreThatIsKilledIsNamed) {
  expect_from_others(0, with_misdeed(0, [](Exchange&) { ::raise(SIGKILL); }), "rank 0 (host ");
}

TEST(NetworkFaults, ARankThatIsStoppedIsNamed) {
  expect_from_others(1, with_misdeed(1, [](Exchange&) { ::raise(SIGSTOP); }),
                     ") has not answered for 3 s; it was at step 5");
}

TEST(NetworkFaults, TheRankWithTheStoreThatIsStoppedIsNamed) {
  expect_from_others(0, with_misdeed(0, [](Exchange&) { ::raise(SIGSTOP); }),
                     ") has not answered for 3 s; it was at step 5");
}

TEST(NetworkFaults, ARankThatFailsIsNamedWithItsReason) {
  expect_from_others(2, with_misdeed(2, [](Exchange& e) { e.fail("no space left"); }),
                     ") failed: no space left; it was at step 5");
}

TEST(NetworkFaults, ARankThatEndsItsRunTooEarlyIsNamed) {
  expect_from_others(2, with_misdeed(2, [](Exchange&) {}), ") has ended its run; rank ");
}

// It would wait for an hour for a rank that has not said that it ends.
TEST(NetworkFaults, TheRankWithTheStoreDoesNotWaitForALostOne) {
  const int port = free_port();
  const auto texts = run_processes(2, [&](int rank) {
    Rendezvous rendezvous = at_port(rank, 2, port);
    rendezvous.through_network = true;
    rendezvous.silence = std::chrono::hours(1);
    auto exchange = meet(rendezvous);
    exchange->gather_text("");
    if (rank == 1) ::raise(SIGKILL);
    const std::string error = error_of([&] { exchange->gather_text(""); });
    exchange->fail(error);
    exchange.reset();
    return error;
  });
  EXPECT_THAT(texts[0], HasSubstr("rank 1 (host " + host_name() + ") ended"));
}

/// Rank 0 computes for long and watches; rank 1 is lost. Returns the order of what rank 0 is told.
std::string told_by_the_network(int signal) {
  const int port = free_port();
  return run_processes(2, [&](int rank) {
    LossNotes notes;
    Rendezvous rendezvous = at_port(rank, 2, port);
    rendezvous.through_network = true;
    rendezvous.on_lost_rank = notes.on_lost_rank();
    const auto exchange = meet(rendezvous);
    exchange->note("the planning");
    exchange->gather_text("");
    if (rank == 1) {
      ::usleep(1'300'000);  // its address has been published and read
      ::raise(signal);
    }
    exchange->watch_others(notes.on_loss());
    return notes.wait();
  })[0];
}

TEST(NetworkFaults, ARankThatIsKilledIsNamedWhileAnotherComputes) {
  EXPECT_EQ(told_by_the_network(SIGKILL), "noticed; rank 1 (host " + host_name() + ") ended in the planning");
}

TEST(NetworkFaults, ARankThatIsStoppedIsNamedWhileAnotherComputes) {
  EXPECT_EQ(told_by_the_network(SIGSTOP),
            "noticed; rank 1 (host " + host_name() + ") has not answered for 3 s; it was at the planning");
}

TEST(NetworkFaults, CallsThatDifferAreNamed) {
  const int port = free_port();
  const auto texts = run_processes(2, [&](int rank) {
    Rendezvous rendezvous = at_port(rank, 2, port);
    rendezvous.through_network = true;
    const auto exchange = meet(rendezvous);
    try {
      exchange->broadcast(at::zeros({4 + rank}), 0);
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  EXPECT_THAT(texts, Each(HasSubstr("rank 1 calls broadcast of 5 Float from rank 0")));
}

}  // namespace
}  // namespace plimsoll
