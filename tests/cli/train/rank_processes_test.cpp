// Tests processes of the ranks of one machine, with a shell instead of the program.
#include "cli/train/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/cli_testing.h"
#include "cli/train/rank_device.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kThrew = 99;

class RankProcessesTest : public CliTest {
 protected:
  /// Runs `script` as each of `count` ranks, in a process of its own: its exit code, and what it wrote. 99: it threw,
  /// and the message is the last line of `err`.
  Outcome run_script(int count, const std::string& script, int patience = 10'000, int grace = 5'000) const {
    return finish(start_script(count, script, patience, grace));
  }

  pid_t start_script(int count, const std::string& script, int patience = 10'000, int grace = 5'000) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    limit_run();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    ::setpgid(0, 0);
    if (::chdir(folder().c_str()) != 0 || !open_as("out.txt", STDOUT_FILENO) || !open_as("err.txt", STDERR_FILENO))
      ::_exit(126);
    ::setenv("TMPDIR", folder().c_str(), 1);
    cli::RankProcesses processes;
    processes.count = count;
    processes.program = "/bin/sh";
    processes.arguments = {"sh", "-c", script};
    processes.patience = std::chrono::milliseconds(patience);
    processes.grace = std::chrono::milliseconds(grace);
    try {
      ::_exit(cli::run_rank_processes(processes));
    } catch (const UserError& error) {
      const std::string line = std::string(error.what()) + "\n";
      ::_exit(::write(STDERR_FILENO, line.data(), line.size()) > 0 ? kThrew : 126);
    }
  }

  int64_t lines_of(const std::string& name) const { return std::ranges::count(get(name), '\n'); }
};

TEST_F(RankProcessesTest, EachIsToldItsRankAndOnlyTheFirstIsHeard) {
  const Outcome outcome = run_script(
      3,
      "echo out $PLIMSOLL_RANK of $PLIMSOLL_RANKS; echo err $PLIMSOLL_RANK >&2; echo $PLIMSOLL_STORE >> stores; "
      "test -d $(dirname $PLIMSOLL_STORE) && test ! -e $PLIMSOLL_STORE");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "out 0 of 3\n");
  EXPECT_EQ(outcome.err, "err 0\n");
  EXPECT_EQ(lines_of("stores"), 3);
  const std::string store = get("stores").substr(0, get("stores").find('\n'));
  EXPECT_EQ(get("stores"), store + "\n" + store + "\n" + store + "\n");
  EXPECT_TRUE(store.starts_with(folder().string())) << store;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(store).parent_path()));
}

TEST_F(RankProcessesTest, TheCodeIsThatOfTheFirstToFailAndItsReasonIsShown) {
  const Outcome outcome =
      run_script(3,
                 "case $PLIMSOLL_RANK in 2) echo 'plimsoll: the disk is full' >&2; touch failed; exit 4;; esac; "
                 "until test -e failed; do sleep 0.01; done; sleep 0.3; "
                 "test $PLIMSOLL_RANK = 1 && echo 'plimsoll: rank 2 on host failed' >&2; exit 1");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.err, "rank 2: plimsoll: the disk is full\n");
}

TEST_F(RankProcessesTest, WhatAllRanksRefuseIsSaidOnce) {
  const Outcome outcome = run_script(3, "echo 'plimsoll: no such file' >&2; exit 2");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "plimsoll: no such file\n");
}

TEST_F(RankProcessesTest, OneThatIsKilledIsNamed) {
  const Outcome outcome =
      run_script(3,
                 "case $PLIMSOLL_RANK in 1) echo $$ > first.new; mv first.new first; kill -9 $$;; esac; "
                 "until test -e first; do sleep 0.01; done; while kill -0 $(cat first) 2>/dev/null; do sleep 0.01; "
                 "done; echo gone >&2; exit 1");
  EXPECT_EQ(outcome.exit_code, kThrew);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 of 3 was ended by signal 9 (Killed)"));
}

// A rank that waited for rank 0 says where rank 0 was, as rank 0 does for the others.
TEST_F(RankProcessesTest, WhereTheFirstWasWhenItWasKilledIsSaid) {
  const Outcome outcome = run_script(
      3,
      // The others end when the killed process is gone, so that its parent knows how it ended.
      "case $PLIMSOLL_RANK in 0) echo $$ > first.new; mv first.new first; kill -9 $$;; esac; "
      "until test -e first; do sleep 0.01; done; while kill -0 $(cat first) 2>/dev/null; do sleep 0.01; done; "
      "printf 'a note\\nplimsoll: rank 0 (host here) ended in step 5, plimsoll::all_reduce_\\n' >&2; exit 1");
  EXPECT_EQ(outcome.exit_code, kThrew);
  EXPECT_EQ(outcome.err,
            "plimsoll: rank 0 (host here) ended in step 5, plimsoll::all_reduce_\nrank 0 of 3 was ended by signal 9 "
            "(Killed)\n");
}

// Ranks that wait for one that has not come yet cannot find out by themselves that it is lost.
TEST_F(RankProcessesTest, RanksThatWaitAreToldOfOneThatIsKilled) {
  const Outcome outcome =
      run_script(2,
                 "case $PLIMSOLL_RANK in 1) kill -9 $$;; *) until test -e $PLIMSOLL_STORE.fault; do "
                 "sleep 0.02; done; cat $PLIMSOLL_STORE.fault; exit 1;; esac");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rank 1 (host "), HasSubstr(") ended before its first step")));
}

TEST_F(RankProcessesTest, RanksThatWaitAreToldOfOneThatIsStopped) {
  const Outcome outcome =
      run_script(2,
                 "case $PLIMSOLL_RANK in 1) kill -STOP $$;; *) until test -e $PLIMSOLL_STORE.fault; "
                 "do sleep 0.02; done; cat $PLIMSOLL_STORE.fault; exit 1;; esac");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr(") has not answered for 3 s; it was before its first step"));
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 did not run (SIGSTOP) and was terminated"));
}

TEST_F(RankProcessesTest, ThoseThatHangAfterAFailureAreTerminatedThenKilled) {
  const Outcome outcome = run_script(
      3, "case $PLIMSOLL_RANK in 0) exit 5;; 1) trap '' TERM;; esac; while true; do sleep 0.05; done", 200, 200);
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 failed; ranks 1, 2 did not end within 0.2 s and were terminated"));
}

TEST_F(RankProcessesTest, SignalsArePassedOnAndTheProcessEndsByThem) {
  // Each waits for its sleep, so that the trap runs immediately; then it ends by the signal, as a run does.
  const std::string script =
      "trap 'echo got >> signals; trap - TERM; kill -TERM $$' TERM; echo ready >> ready; "
      "while true; do sleep 0.05; done";
  const pid_t child = start_script(3, script);
  ASSERT_TRUE(wait_for(child, [&] { return lines_of("ready") == 3; }));
  ::kill(child, SIGTERM);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, SIGTERM) << outcome.exit_code << outcome.err;
  EXPECT_EQ(lines_of("signals"), 3);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(RankProcessesTest, OneThatStillSavesAfterASignalIsWaitedFor) {
  const std::string script =
      "if test $PLIMSOLL_RANK = 0; then trap 'sleep 0.6; echo saved; exit 0' TERM; else trap - TERM; fi; "
      "echo ready >> ready; while true; do sleep 0.05; done";
  const pid_t child = start_script(2, script, 100, 100);
  ASSERT_TRUE(wait_for(child, [&] { return lines_of("ready") == 2; }));
  ::kill(child, SIGTERM);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, SIGTERM) << outcome.exit_code << outcome.err;
  EXPECT_EQ(outcome.out, "saved\n");
}

TEST_F(RankProcessesTest, TheyDoNotOutliveTheProcess) {
  const pid_t child = start_script(2, "echo $$ >> ready; exec sleep 60");
  ASSERT_TRUE(wait_for(child, [&] { return lines_of("ready") == 2; }));
  ::kill(child, SIGKILL);
  finish(child);
  std::istringstream pids(get("ready"));
  for (pid_t pid = 0; pids >> pid;) {
    for (int i = 0; i < 500 && ::kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string state = get_file("/proc/" + std::to_string(pid) + "/stat");
    EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;  // gone, or waiting to be collected
  }
}

// Rank 0 has found it, and rank 1 was the first to end because of it.
TEST_F(RankProcessesTest, AWrongArgumentIsOneWhicheverRankEndsFirst) {
  const Outcome outcome = run_script(2,
                                     "if test $PLIMSOLL_RANK = 1; then echo $$ >new; mv new pid; exit 1; fi; "
                                     "while ! test -s pid; do :; done; "
                                     "while kill -0 $(cat pid) 2>/dev/null; do :; done; exit 2");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
}

TEST_F(RankProcessesTest, LongTextsAreCut) {
  const Outcome outcome = run_script(
      2,
      "test $PLIMSOLL_RANK = 0 && exit 0; i=0; while test $i -lt 4000; do echo line $i >&2; i=$((i+1)); done; exit 1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_LT(outcome.err.size(), 64u << 10);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 1: line 3999\n"), Not(HasSubstr("rank 1: line 10\n"))));
}

}  // namespace
}  // namespace plimsoll::cli_testing

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

TEST(RankDevice, IsTheOneOfItsNumberAmongThoseThatAreVisible) {
  EXPECT_EQ(visible_device_of(2, 4, "", 8, false), "2");
  EXPECT_EQ(visible_device_of(1, 2, "4,6,7", 8, false), "6");
  EXPECT_EQ(visible_device_of(1, 2, "GPU-a,GPU-b", 8, false), "GPU-b");
  EXPECT_EQ(visible_device_of(1, 2, "", 0, false), "1");  // the backend's error names the missing part
  EXPECT_EQ(visible_device_of(1, 2, "0", 8, true), std::nullopt);
  EXPECT_EQ(visible_device_of(1, 2, "0,1", 8, true), "1");
}

TEST(RankDevice, MoreRanksThanDevicesAreRefused) {
  const auto refusal = [](const char* visible, int64_t present) {
    return refusal_of([&] { visible_device_of(0, 4, visible, present, false); });
  };
  EXPECT_EQ(refusal("", 2), "4 ranks on this host, but 2 devices; start at most 2 here");
  EXPECT_EQ(refusal("3", 8), "4 ranks on this host, but 1 device visible (3); start at most 1 here");
  EXPECT_EQ(refusal("", 4), "accepted");
  EXPECT_THAT(refusal_of([] { require_devices("mps", 2); }), HasSubstr("one device of type mps"));
  EXPECT_NO_THROW(require_devices("cpu", 64));
  EXPECT_THAT(refusal_of([] { require_devices("cpu", 1 << 16); }),
              HasSubstr("65536 ranks on the CPU of this machine, which has "));
}

}  // namespace
}  // namespace plimsoll::cli
