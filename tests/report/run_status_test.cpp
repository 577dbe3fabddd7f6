#include "report/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>

namespace plimsoll {
namespace {

class RunStatusTest : public ::testing::Test {
 protected:
  RunStatusTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-status-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RunStatusTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

RunStatus mine() {
  RunStatus status;
  status.pid = ::getpid();
  status.job = "job \"one\".yaml";
  status.step = 7;
  status.loss = 2.5;
  status.roles = {{"parameters", 100}, {"activations", 50}};
  return status;
}

TEST_F(RunStatusTest, IsReadAsItWasWrittenAndGoesWithItsWriter) {
  {
    RunStatusFile file(folder_);
    file.write(mine());
    const auto runs = live_runs(folder_);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].job, "job \"one\".yaml");
    EXPECT_EQ(runs[0].step, 7);
    EXPECT_EQ(runs[0].loss, 2.5);
    ASSERT_EQ(runs[0].roles.size(), 2u);
    EXPECT_EQ(runs[0].roles[1].planned, 50);
  }
  EXPECT_TRUE(live_runs(folder_).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RunStatusTest, NumbersThatAreNotFiniteDoNotSpoilIt) {
  RunStatusFile file(folder_);
  RunStatus status = mine();
  status.loss = std::numeric_limits<double>::quiet_NaN();
  file.write(status);
  EXPECT_EQ(live_runs(folder_).size(), 1u);
}

TEST_F(RunStatusTest, OfAProcessThatIsGoneIsRemoved) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::filesystem::path left = folder_ / (std::to_string(child) + ".json");
  {
    RunStatusFile file(folder_);
    RunStatus status = mine();
    status.pid = child;
    file.write(status);
    std::filesystem::rename(folder_ / (std::to_string(::getpid()) + ".json"), left);
  }
  EXPECT_TRUE(live_runs(folder_).empty());
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(RunStatusTest, WhatIsNoneIsPassedOver) {
  const std::string own = std::to_string(::getpid()) + ".json";
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{\"pid\": 1}"),
                                  std::string(1 << 17, ' '), std::string("{\"pid\": \"x\"}"), std::string(5000, '[')}) {
    std::ofstream(folder_ / own) << text;
    EXPECT_TRUE(live_runs(folder_).empty()) << text.substr(0, 40);
  }
  std::filesystem::create_directory(folder_ / "1.json");
  EXPECT_TRUE(live_runs(folder_).empty());
  EXPECT_TRUE(live_runs(folder_ / "nowhere").empty());
}

TEST_F(RunStatusTest, WithoutAFolderNothingIsWritten) {
  RunStatusFile file(std::nullopt);
  file.write(mine());
  RunStatusFile gone(folder_ / "nowhere");
  gone.write(mine());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RunStatusTest, TheFolderIsTheUsersAlone) {
  ASSERT_EQ(::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1), 0);
  const auto folder = runtime_folder();
  ASSERT_TRUE(folder);
  EXPECT_EQ(*folder, folder_ / "plimsoll");
  EXPECT_EQ(std::filesystem::status(*folder).permissions() & std::filesystem::perms(077), std::filesystem::perms::none);
  ::chmod(folder->c_str(), 0777);
  EXPECT_FALSE(runtime_folder());
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace plimsoll
