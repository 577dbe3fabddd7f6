#include "report/run_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunLockTest : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / ".lock"; }
  RunLock taken() const { return RunLock("run", file(), "job.yaml"); }

  std::string refusal() const {
    return refusal_of([&] { const RunLock lock = taken(); }, UserError::Kind::usage);
  }

  void write(const std::string& text) const { std::ofstream(file(), std::ios::trunc) << text; }

  const TempFolder folder_;
};

TEST_F(RunLockTest, IsHeldByOneAndSaysByWhom) {
  {
    const RunLock lock = taken();
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr("run is in use by another run (process " + std::to_string(::getpid()) + " on "),
                      HasSubstr(" UTC, job.yaml)")));
    const auto holder = nlohmann::json::parse(std::ifstream(file()));
    EXPECT_EQ(holder["pid"], ::getpid());
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(RunLockTest, MovesWithItsHolder) {
  std::optional<RunLock> first(taken());
  std::optional<RunLock> second(std::move(first));
  first.reset();
  EXPECT_NE(refusal(), "accepted");
  second.reset();
  EXPECT_EQ(refusal(), "accepted");
}

// With any content, the file is not locked.
TEST_F(RunLockTest, AFileThatNobodyLocksIsInNobodysWay) {
  for (const std::string text :
       {std::string(), std::string("{"), std::string(100000, '['), std::string("{\"pid\":1}"),
        std::string(R"({"host":"elsewhere","pid":1,"process_start":0,"since":"2026","job":""})")}) {
    write(text);
    EXPECT_EQ(refusal(), "accepted") << text.substr(0, 100);
  }
}

// Other programs may write into the folder: their content is not trusted, and not shown unescaped.
TEST_F(RunLockTest, AHolderThatCannotBeReadIsNoLessAHolder) {
  for (const std::string text : {std::string(), std::string("[]"), std::string(R"({"host":7})")}) {
    const RunLock lock = taken();
    write(text);
    EXPECT_THAT(refusal(), HasSubstr("its process is not known"));
  }
}

TEST_F(RunLockTest, EndsWithTheProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock = taken();
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal(), HasSubstr("process " + std::to_string(child) + " on "));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_EQ(refusal(), "accepted");
}

// Each tries to lock when the other unlocks and removes the file: never do both hold one.
TEST_F(RunLockTest, NeverHasTwoHolders) {
  constexpr int kProcesses = 4, kRounds = 300;
  const std::filesystem::path witness = folder_ / "witness";
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int held = 0;
    for (int round = 0; round < 100 * kRounds && held < kRounds; ++round) {
      try {
        const RunLock lock = taken();
        if (::mkdir(witness.c_str(), 0700) != 0) ::_exit(1);  // another is inside
        if (::rmdir(witness.c_str()) != 0) ::_exit(1);
        ++held;
      } catch (const UserError&) {
      }
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST_F(RunLockTest, AFolderThatIsMissingIsSaid) {
  EXPECT_THAT([&] { RunLock("run", folder_ / "none" / ".lock", "job.yaml"); },
              ::testing::ThrowsMessage<UserError>(HasSubstr("does not exist")));
}

// No lock file is there yet, and none can be made.
TEST_F(RunLockTest, AFolderWithoutPermissionIsNamed) {
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  const uid_t user = ::geteuid();
  // Root may write everywhere.
  ASSERT_TRUE(user != 0 || ::seteuid(65534) == 0);
  std::string message;
  try {
    taken();
  } catch (const UserError& error) {
    message = error.what();
  }
  ASSERT_TRUE(user != 0 || ::seteuid(0) == 0);
  EXPECT_THAT(message, HasSubstr("cannot write into the folder " + folder_.path().string() + ": Permission denied"));
}

}  // namespace
}  // namespace plimsoll
