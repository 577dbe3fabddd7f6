#include "cli/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include "base/process.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class RunStatusTest : public ::testing::Test {
 protected:
  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

std::vector<RunStatus> runs_in(const std::vector<std::filesystem::path>& folders) {
  return listed_runs(folders, seconds_since_1970());
}

RunStatus mine() {
  RunStatus status;
  status.pid = ::getpid();
  status.process_start = process_start_of(status.pid).value();
  status.job = "job \"one\".yaml";
  status.step = 7;
  status.loss = 2.5;
  status.roles = {{"parameters", 100}, {"activations", 50}};
  status.updated = seconds_since_1970();
  return status;
}

TEST_F(RunStatusTest, IsReadAsItWasWrittenAndGoesWithItsWriter) {
  {
    RunStatusFile file(folder_);
    file.write(mine());
    const auto runs = runs_in({folder_});
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].job, "job \"one\".yaml");
    EXPECT_EQ(runs[0].step, 7);
    EXPECT_EQ(runs[0].loss, 2.5);
    ASSERT_EQ(runs[0].roles.size(), 2u);
    EXPECT_EQ(runs[0].roles[1].planned, 50);
  }
  EXPECT_TRUE(runs_in({folder_}).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RunStatusTest, NumbersThatAreNotFiniteDoNotSpoilIt) {
  RunStatusFile file(folder_);
  RunStatus status = mine();
  status.loss = std::numeric_limits<double>::quiet_NaN();
  file.write(status);
  EXPECT_EQ(runs_in({folder_}).size(), 1u);
}

TEST_F(RunStatusTest, HasARowForEachRank) {
  RunStatusFile file(folder_);
  RunStatus status = mine();
  for (int64_t rank = 0; rank < 1030; ++rank)
    status.ranks.push_back({.host = "node\"" + std::to_string(rank),
                            .pid = 100 + rank,
                            .planned_bytes = 2000,
                            .used_bytes = 1000 + rank,
                            .exchange_seconds = 1.5,
                            .train_seconds = 6});
  status.ranks[1].exchange_seconds = std::numeric_limits<double>::infinity();
  file.write(status);
  const auto runs = runs_in({folder_});
  ASSERT_EQ(runs.size(), 1u);
  ASSERT_EQ(runs[0].ranks.size(), 1024u);
  const RankStatus& last = runs[0].ranks.back();
  EXPECT_EQ(last.host, "node\"1023");
  EXPECT_EQ(last.pid, 1123);
  EXPECT_EQ(last.planned_bytes, 2000);
  EXPECT_EQ(last.used_bytes, 2023);
  EXPECT_EQ(last.exchange_seconds, 1.5);
  EXPECT_EQ(last.train_seconds, 6);
  EXPECT_EQ(runs[0].ranks[1].exchange_seconds, 0);
}

// An earlier or a later version of the program wrote the file.
TEST_F(RunStatusTest, MissingAndUnknownFieldsAreNoFault) {
  const std::string pid = std::to_string(::getpid());
  const std::string known = "{\"pid\": " + pid +
                            ", \"process_start\": " + std::to_string(process_start_of(::getpid()).value()) +
                            ", \"step\": 4";
  for (const std::string& more :
       {std::string("}"),
        std::string(", \"later\": {\"x\": [1]}, \"ranks\": [{\"host\": \"a\", \"later\": 2}, {}]}")}) {
    std::ofstream(folder_ / (pid + ".json")) << known << more;
    const auto runs = runs_in({folder_});
    ASSERT_EQ(runs.size(), 1u) << more;
    EXPECT_EQ(runs[0].step, 4);
    EXPECT_EQ(runs[0].budget_bytes, 0);
    EXPECT_EQ(runs[0].ranks.size(), more.size() > 1 ? 2u : 0u);
  }
  for (const char* wrong :
       {", \"ranks\": [{\"host\": 1}]}", ", \"ranks\": [{\"pid\": \"x\"}]}", ", \"loss\": \"x\"}"}) {
    std::ofstream(folder_ / (pid + ".json")) << known << wrong;
    EXPECT_TRUE(runs_in({folder_}).empty()) << wrong;
  }
}

TEST_F(RunStatusTest, OfAProcessThatIsGoneIsRemovedIfItTookNoStep) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::filesystem::path left = folder_ / (std::to_string(child) + ".json");
  const int64_t start = process_start_of(child).value();
  const auto put = [&](int64_t later, int64_t step) {
    RunStatusFile file(folder_);
    RunStatus status = mine();
    status.pid = child;
    status.process_start = start - later;
    status.step = step;
    file.write(status);
    std::filesystem::rename(folder_ / (std::to_string(::getpid()) + ".json"), left);
  };
  const auto expect_removed_or_failed = [&](int64_t later) {
    put(later, 0);
    EXPECT_TRUE(runs_in({folder_}).empty());
    EXPECT_FALSE(std::filesystem::exists(left));
    put(later, 7);
    const auto runs = runs_in({folder_});
    ASSERT_EQ(runs.size(), 1u) << "it was killed, which a person who watches wants to know";
    EXPECT_EQ(runs[0].state, "failed");
    EXPECT_EQ(runs[0].step, 7);
    EXPECT_EQ(runs[0].loss, 2.5);
  };
  put(0, 0);
  EXPECT_EQ(runs_in({folder_}).size(), 1u);
  // A later process has the number of the one that wrote the file.
  expect_removed_or_failed(1);
  put(0, 0);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // its number is kept, the process is gone
  EXPECT_FALSE(process_start_of(child));
  expect_removed_or_failed(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_start_of(child));
  EXPECT_EQ(runs_in({folder_}).size(), 1u);
}

TEST_F(RunStatusTest, AnEndIsListedForTenMinutes) {
  for (const char* state : {"finished", "stopped", "failed"}) {
    RunStatus status = mine();
    status.process_start += 1;  // the process is gone
    status.state = state;
    status.updated = 1e9;
    const auto put = [&] {
      RunStatusFile file(folder_);
      file.write(status);
      file.keep();
    };
    const auto at = [&](double now) { return listed_runs({folder_}, now); };
    put();
    ASSERT_EQ(at(1e9 + 600).size(), 1u);
    EXPECT_EQ(at(1e9 + 600)[0].state, state);
    EXPECT_TRUE(at(1e9 + 601).empty());
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    put();
    EXPECT_TRUE(at(1e9 - 601).empty()) << "the clock was set back";
    put();
    const RunStatusFile next(folder_);  // a later run removes the file, also if no monitor is used
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
}

TEST_F(RunStatusTest, RunsThatAreAliveComeFirst) {
  for (int i = 0; i < 120; ++i) {
    RunStatus status = mine();
    status.pid = 4000000 + i;
    status.process_start = 1;
    status.state = "finished";
    status.updated += i * 0.001;
    RunStatusFile file(folder_);
    file.write(status);
    const auto name = [&](int64_t pid) { return folder_ / (std::to_string(pid) + ".json"); };
    std::filesystem::rename(name(::getpid()), name(status.pid));
  }
  RunStatusFile file(folder_);
  file.write(mine());
  const auto runs = runs_in({folder_});
  ASSERT_EQ(runs.size(), 101u);
  EXPECT_EQ(runs[0].pid, ::getpid());
  EXPECT_EQ(runs[1].pid, 4000119) << "the last one that ended";
  EXPECT_EQ(runs[100].pid, 4000020);
}

TEST_F(RunStatusTest, WhatIsNoneIsPassedOver) {
  const std::string own = std::to_string(::getpid()) + ".json";
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{\"pid\": 1}"),
                                  std::string(1 << 17, ' '), std::string("{\"pid\": \"x\"}"), std::string(5000, '[')}) {
    std::ofstream(folder_ / own) << text;
    EXPECT_TRUE(runs_in({folder_}).empty()) << text.substr(0, 40);
  }
  std::filesystem::create_directory(folder_ / "1.json");
  EXPECT_TRUE(runs_in({folder_}).empty());
  EXPECT_TRUE(runs_in({folder_ / "nowhere"}).empty());
}

TEST_F(RunStatusTest, WithoutAFolderNothingIsWritten) {
  RunStatusFile file(std::nullopt);
  file.write(mine());
  RunStatusFile gone(folder_ / "nowhere");
  gone.write(mine());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

/// A variable of the environment until the test ends.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(RunStatusTest, TheFolderIsTheUsersAlone) {
  const Variable chosen("PLIMSOLL_RUNTIME_DIR", nullptr), runtime("XDG_RUNTIME_DIR", folder_.c_str());
  const auto folder = runtime_folder();
  ASSERT_TRUE(folder);
  EXPECT_EQ(*folder, folder_ / "plimsoll");
  EXPECT_EQ(std::filesystem::status(*folder).permissions() & std::filesystem::perms(077), std::filesystem::perms::none);
  ::chmod(folder->c_str(), 0777);
  EXPECT_NE(runtime_folder(), folder);
  EXPECT_THAT(runtime_folders(), Not(Contains(*folder)));
}

// A run of a service has no XDG_RUNTIME_DIR, and the monitoring user has one.
TEST_F(RunStatusTest, RunsOfAnotherEnvironmentAreFound) {
  const std::filesystem::path fallback = "/tmp/plimsoll-" + std::to_string(::geteuid());
  const Variable chosen("PLIMSOLL_RUNTIME_DIR", nullptr);
  {
    const Variable runtime("XDG_RUNTIME_DIR", nullptr);
    ASSERT_EQ(runtime_folder(), fallback);
  }
  {
    const Variable runtime("XDG_RUNTIME_DIR", (folder_ / "nowhere").c_str());
    EXPECT_EQ(runtime_folder(), fallback);  // instead of a folder that cannot be made
  }
  const Variable runtime("XDG_RUNTIME_DIR", folder_.c_str());
  ASSERT_EQ(runtime_folder(), folder_ / "plimsoll");
  EXPECT_THAT(runtime_folders(), AllOf(Contains(folder_ / "plimsoll"), Contains(fallback)));
  const std::filesystem::path other = folder_ / "other";
  std::filesystem::create_directory(other);
  RunStatusFile one(*runtime_folder());
  one.write(mine());
  RunStatusFile two(other);
  two.write(mine());
  EXPECT_EQ(runs_in({*runtime_folder(), other}).size(), 2u);
}

TEST_F(RunStatusTest, AFolderOfOnesOwnChoiceIsTheOnlyOne) {
  const Variable chosen("PLIMSOLL_RUNTIME_DIR", (folder_ / "chosen").c_str());
  EXPECT_EQ(runtime_folder(), folder_ / "chosen");
  EXPECT_THAT(runtime_folders(), ElementsAre(folder_ / "chosen"));
}

}  // namespace
}  // namespace plimsoll
